"""The table of peers: time of a step, the best peer of each network, and its figure."""

import numpy as np
import pytest
from records_of import THRESHOLDS, frame_of, frame_of_cells, limits_of, record, sweep_of

from snn.analysis import frame
from snn.analysis.roofline import with_floors
from snn.errors import MeasurementError
from snn.figures import draw
from snn.tables import overview, recommendation
from snn.tables.sweep import peers, sweep

SECONDS = {"persistent": 0.1, "graph": 0.4, "torch_eager": 0.8, "jax_scan": 0.2}
VERSIONS = {"torch": "2.11.0", "jax": "0.11.1", "cupy": "14.2.0"}
ENDED = ("unsupported", "torch cannot be imported")


@pytest.fixture
def records():
    """Two networks of ``medium``, the wider one twice as slow, by four strategies and one without PyTorch."""
    settings = {
        "dataset": "medium",
        "network.hidden": [[128], [256]],
        "strategy": [*SECONDS, "torch_compile"],
        "training.epochs": 10,
    }
    found = {}
    for i, cell in enumerate(sweep_of(settings, "peers", defaults={"protocol.rounds": 2}).cells):
        slower, ended = cell["network"]["hidden"][0] // 128, None if cell.strategy in SECONDS else ENDED
        for number, apart in ((1, 0.9999 - 1e-4 * i), (2, 1.0001 + 1e-4 * i)):
            usual = SECONDS.get(cell.strategy, 1.0)
            seconds = [slower * apart * one for one in (usual, usual + 0.002)]
            found[f"{i}, {number}"] = record(cell, seconds, number=number, versions=VERSIONS, ended=ended)
    return found


@pytest.fixture
def table(records):
    return build(records)


def build(records):
    return peers.build(frame_of(*records.values()), {}, THRESHOLDS)


def test_peers_that_differ_in_an_option_are_told_apart():
    settings = {"dataset": "medium", "strategy": "torch_graph", "strategy.channels_last": [True, False]}
    cells = sweep_of([settings, {"dataset": "medium", "strategy": "graph"}], "peers").cells
    rows = frame_of_cells(cells, [[2.0, 2.1], [1.0, 1.1], [0.5, 0.6]], versions=[VERSIONS] * 3)
    table = peers.build(rows, {}, THRESHOLDS)
    assert set(table["best_peer"]) == {"torch_graph (channels_last False)"}
    ticks = [text.get_text() for text in draw("peers", table, "T4").axes[0].get_yticklabels()]
    assert ticks == ["graph", "torch_graph, channels_last False", "torch_graph, channels_last True"]
    alone = peers.build(rows[rows["strategy"] == "graph"], {}, THRESHOLDS)
    assert alone["speedup_over_best_peer"].isna().all() and set(alone["best_peer"]) == {""}


def test_a_time_stands_beside_its_floor_and_the_share_of_it(records, table):
    """100 multiprocessors of 1 TFLOP/s compute a step in far less time than they wait for each other."""
    assert table["floor_us"].isna().all() and table["fraction_of_limit"].isna().all()
    plain = frame.tabulate(records, THRESHOLDS)
    rows = with_floors(plain, limits_of(seconds=2e-6))
    found = peers.build(rows, {}, THRESHOLDS)
    timed = found[found["step_us"].notna()]
    assert timed["floor_us"].tolist() == pytest.approx([2.0] * len(timed))
    assert timed["fraction_of_limit"].tolist() == pytest.approx((2.0 / timed["step_us"]).tolist())
    assert found["fraction_of_limit"].isna().sum() == len(found) - len(timed) == 2
    assert "fraction_of_limit" not in sweep.build(plain, ["strategy"], THRESHOLDS)
    assert sweep.build(rows, ["strategy"], THRESHOLDS)["fraction_of_limit"].dropna().between(0, 1).all()


def test_a_time_below_its_floor_is_refused(records):
    """Of the wider network, that one multiprocessor computes in some microseconds."""
    fast = {"runs": [{"seconds": 1e-6, "final_loss": 41.0}] * 2}
    rows = frame.tabulate({key: one | fast for key, one in records.items()}, THRESHOLDS)
    with pytest.raises(MeasurementError, match=r"medium, 128, .*, fp32: .* 0.01 us, .* floor of \d"):
        peers.build(with_floors(rows, limits_of()), {}, THRESHOLDS)


def test_a_network_of_layers_is_named_by_them_and_has_no_floor(records):
    """A direct convolution's operations are no lower bound: Winograd's has fewer."""
    record = next(iter(records.values()))
    network = {key: value for key, value in record["cell"]["network"].items() if key != "hidden"}
    network["layers"] = ["conv2d 16 3", "relu", "linear 10"]
    records["cnn"] = record | {"cell": record["cell"] | {"network": network}}
    rows = with_floors(frame.tabulate(records, THRESHOLDS), limits_of())
    assert rows["network"].iloc[-1] == "conv16x3-relu-linear10"
    assert rows["floor_s"].isna().sum() == (rows["mean_s"].isna().sum() + 1)
    assert peers.build(rows, {}, THRESHOLDS)["fraction_of_limit"].isna().iloc[-1]


def test_the_figure_says_times_ratios_and_what_has_none(table):
    axes = draw("peers", table, "Tesla T4").axes
    assert [one.get_title() for one in axes] == ["128", "256"]
    names = [tick.get_text() for tick in axes[0].get_yticklabels()]
    assert names == ["persistent", "jax_scan", "graph", "torch_eager", "torch_compile"]
    said = {text.get_text() for text in axes[0].texts}
    assert {"1010 µs, 1.99×", "2010 µs, 1.00×", "unsupported"} <= said
    low, high = axes[0].get_xlim()
    assert low < 1010 < 8010 < high
    some = draw("peers", table.assign(step_us=table["step_us"].where(table["network"] == "128")), "Tesla T4")
    assert sorted(text.get_text() for text in some.axes[1].texts) == ["ok"] * 4 + ["unsupported"]
    nothing = draw("peers", table.assign(step_us=np.nan), "Tesla T4")
    assert "no row has a value" in nothing.axes[0].texts[0].get_text()


def test_a_peer_is_not_recommended_unless_there_is_nothing_else(records):
    points = overview.points_of(records, THRESHOLDS)
    found = recommendation.build(points, overview.build(points, THRESHOLDS))
    assert found["strategy"].tolist() == ["persistent"] * 2
    alone = {key: one for key, one in records.items() if one["explanation"] is None}
    points = overview.points_of(alone, THRESHOLDS)
    assert overview.build(points, THRESHOLDS)["fastest"].tolist() == ["jax_scan"] * 2
