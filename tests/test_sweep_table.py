"""The table of any sweep, the CPU beside the GPU of its host, the ranking, precisions, and peers."""

import math

import numpy as np
import pytest
from conftest import ROOT
from records_of import HOST, PROVENANCE, THRESHOLDS, frame_of, frame_of_cells, limits_of, record, sweep_of

from snn.analysis import frame
from snn.analysis.roofline import with_floors
from snn.errors import RecordError
from snn.figures import draw
from snn.figures import sweep as sweep_figure
from snn.figures.style import look
from snn.measurement.student import student_quantile
from snn.tables import overview, recommendation
from snn.tables.cpu import cpu
from snn.tables.sweep import convergence, peers, precision, sweep

WIDE, ONE_ROUND = "wide interval", "one round"


def table_of(settings, *seconds, **changed):
    """The table of a sweep whose cells took so many seconds in two runs each, and its axes."""
    found = sweep_of(settings)
    rows = frame_of_cells(found.cells, [[one] * 2 for one in seconds], **changed)
    return sweep.build(rows, found.axes, THRESHOLDS), found.axes


def cpu_table_of(settings, *seconds):
    cells = sweep_of(settings, "cpu").cells
    return cpu.build(frame_of_cells(cells, [[one] * 2 for one in seconds]), {}, THRESHOLDS)


def ticks(drawn):
    return [tick.get_text() for tick in drawn.axes[0].get_yticklabels()]


@pytest.mark.parametrize(
    ("rounds", "verdict", "note"),
    [
        ([[0.5], [0.501], [0.5]], "faster", ""),
        ([[0.5], [0.52], [0.62]], "faster", WIDE),
        ([[0.9], [1.2], [0.8]], "not significant", WIDE),
        ([[0.4, 0.401, 0.4]], "faster", ONE_ROUND),
        ([[0.6, 0.601, 0.6]], "not significant", ONE_ROUND),
        ([[0.5]], "not significant", ONE_ROUND),
    ],
)
def test_a_note_warns_of_an_interval_that_says_little(rounds, verdict, note):
    cells = zip(
        sweep_of({"strategy": ["reference", "pinned"]}).cells, ([[1.0, 1.001]] * 3, rounds), strict=True
    )
    records = [record(cell, times, number=i) for cell, found in cells for i, times in enumerate(found, 1)]
    table = sweep.build(frame_of(*records), ["strategy"], THRESHOLDS)
    assert table["verdict"].tolist() == ["reference", verdict]
    said = table["note"].tolist()
    assert said[0] == "" and said[1].startswith(note) and bool(said[1]) == bool(note)


def test_a_sweep_without_a_baseline_is_not_compared_nor_is_a_row_without_one():
    alone, _ = table_of({"strategy": ["streams", "pinned"]}, 1.0, 2.0)
    assert "speedup" not in alone and "plan" not in alone
    settings = [{"strategy": ["reference", "pinned"]}, {"strategy": "streams", "network.hidden": [512]}]
    table, _ = table_of(settings, 2.0, 2.0, 2.0)
    assert table["baseline"].tolist() == ["reference", "reference", ""]
    assert table["speedup"].isna().tolist() == [False, False, True]


def test_a_row_without_a_time_says_why_and_is_compared_to_nothing():
    ended = [None, ("unsupported", "there is none"), None]
    table, axes = table_of({"strategy": ["reference", "graph", "pinned"]}, 2.0, 1.0, 1.0, ended=ended)
    expected = {"status": "ok unsupported ok", "verdict": "reference  faster"}
    assert {name: " ".join(table[name]) for name in expected} == expected
    assert table["reason"].tolist() == ["", "there is none", ""] and table["machine"].tolist()[1] == ""
    drawn = sweep_figure.draw(table, axes, "mine").axes[0]
    assert [text.get_text() for text in drawn.texts] == ["unsupported"]
    drawn = draw("ranking", table.assign(dataset="small"), "Tesla T4")
    assert ticks(drawn) == ["pinned", "reference", "graph"]


def test_the_ranking_names_kernels_and_options_and_says_speedups():
    settings = [
        {"strategy": ["reference", "pinned", "combined"]},
        {"strategy": "graph", "kernel": "tiled_fused"},
        {"strategy": "threads", "strategy.threads": 4},
    ]
    table, _ = table_of(settings, 8.0, 4.0, 2.0, 1.0, 16.0)
    drawn = draw("ranking", table, "Tesla T4")
    assert ticks(drawn) == ["graph, tiled_fused", "combined", "pinned", "reference", "threads, 4 threads"]
    # Nothing of the host is divided by the GPU's reference.
    assert [text.get_text() for text in drawn.axes[0].texts] == ["2.00×", "4.00×", "8.00×"]


def test_every_strategy_has_a_look_of_its_own_and_so_has_a_new_one():
    names = [path.stem for path in (ROOT / "config/strategy").glob("*.yaml")]
    assert len({look(name) for name in [*names, "mine"]}) == len(names) + 1


# ---- the CPU beside the GPU of its host


def test_the_cpu_table_warns_and_says_how_many_threads_also_where_all_have_as_many():
    table = cpu_table_of(
        [{"strategy": ["sequential", "reference"]}, {"strategy": "threads", "strategy.threads": 4}],
        4.0,
        3.0,
        2.5,
    )
    notes, options = table["note"].tolist(), table["options"].tolist()
    assert notes[0].startswith(ONE_ROUND) and all(note.count(ONE_ROUND) == 1 for note in notes)
    assert options == ["", "", "threads 4"] and set(table["fastest_cpu"]) == {"threads (threads 4)"}
    words = [table[f"verdict_over_{name}"].tolist() for name in ("sequential", "fastest_cpu")]
    assert words == [["", *["not significant"] * 2], [*["not significant"] * 2, ""]]
    assert table["speedup_over_sequential_ci_high"][0] == table["speedup_over_fastest_cpu_ci_low"][2] == 1
    drawn = draw("cpu", table, "Tesla T4")
    assert "threads, 4 threads" in ticks(drawn)
    said = {text.get_text() for text in drawn.legends[0].get_texts()}
    assert said == {"on the GPU", "on the CPU of the same host", "fastest CPU baseline"}

    alone = cpu_table_of({"strategy": ["reference", "graph"]}, 1.0, 1.0)
    assert alone["speedup_over_sequential"].isna().all() and alone["speedup_over_fastest_cpu"].isna().all()
    assert set(alone["note"]) == {""}
    assert "no row has a value" in draw("cpu", alone, "Tesla T4").axes[0].texts[0].get_text()


def test_a_gpu_is_not_divided_by_another_host():
    cells = sweep_of({"strategy": ["sequential", "reference"]}, "cpu").cells
    hosts = [PROVENANCE["host"] | {"cpu": name} for name in (HOST.name, "Intel")]
    with pytest.raises(RecordError, match="of another host"):
        frame_of_cells(cells, [[1.0]] * 2, host=hosts)


# ---- what is recommended


def answer_of(*records):
    points = overview.points_of({str(i): one for i, one in enumerate(records)}, THRESHOLDS)
    table = overview.build(points, THRESHOLDS)
    return points, table, recommendation.build(points, table)


@pytest.mark.parametrize("slowest", ["reference", "resident"])
def test_a_recommendation_gives_winner_margins_and_the_reason(slowest):
    """Read beside the runner-up if there is no reference."""
    times = {(slowest, "naive"): 4.0, ("graph", "naive"): 2.5, (slowest, "tiled_fused"): 3.0}
    few, many = {"mallocs": 12, "graph_launches": 100}, {"mallocs": 1500, "graph_launches": 0}
    records = []
    for cell in sweep_of({"strategy": [slowest, "graph"], "kernel": ["naive", "tiled_fused"]}).cells:
        seconds = times.get((cell.strategy, cell.kernel), 1.0)
        ledger = {"ledger": many if cell.strategy == slowest else few}
        records.append(record(cell, [seconds, seconds + 0.001]) | ledger)
    row = answer_of(*records)[2].iloc[0]
    assert (row["strategy"], row["kernel"], row["lead_verdict"]) == ("graph", "tiled_fused", "significant")
    assert row["lead"] == pytest.approx(2.5, rel=0.01)
    if slowest == "reference":
        assert row["speedup"] == pytest.approx(4.0, rel=0.01)
        assert "1,488 fewer device allocations, but 100 more graph launches" in row["reason"]
    else:
        assert row["reason"].startswith("Compared with graph (kernel naive), as there is no reference: ")


def test_the_host_is_no_recommendation_beside_its_gpu_and_seeds_of_one_work_are_one_case():
    found = sweep_of([{"strategy": ["reference", "graph"], "network.seed": [1, 2]}, {"strategy": "blas"}])
    points, table, recommended = answer_of(*(record(cell, [1.0, 1.1]) for cell in found.cells))
    assert "network.seed" not in table and sorted(map(len, points)) == [1, 2]
    assert table["backend"].tolist() == ["cuda", "cpu"]
    assert recommended["strategy"].tolist() == ["reference"]


# ---- whether reduced precision trains to fp32's loss

FP32 = {1: 0.80, 2: 0.77, 3: 0.79, 4: 0.70, 5: 0.77}
REACH = student_quantile(2) * 0.01 / math.sqrt(3)


def times(factors):
    return {seed: loss * factor for (seed, loss), factor in zip(FP32.items(), factors, strict=True)}


@pytest.mark.parametrize(
    ("fp32", "other", "verdict"),
    [
        (FP32, times([0.999, 0.999, 0.998, 0.999, 1.000]), "converges"),
        (FP32, times([1.05, 1.04, 1.06, 1.05, 1.05]), "differs"),
        (FP32, times([0.95, 0.96, 0.94, 0.95, 0.95]), "differs"),  # a lower loss is another one too
        (FP32, times([1.013, 1.010, 1.006, 0.990, 1.009]), "inconclusive"),
        (FP32, FP32 | {3: None}, "differs"),
        (FP32, {1: FP32[1]}, "inconclusive"),
        (FP32, {}, "inconclusive"),
        (FP32 | {1: None}, FP32 | {1: None}, "converges"),  # fp32 is not finite either: it says nothing
        ({1: 1.0}, {1: None}, "differs"),
    ],
)
def test_the_rule(fp32, other, verdict):
    assert convergence(fp32, other, 0.01)["convergence"] == verdict


@pytest.mark.parametrize(
    ("fp32", "other", "expected"),
    [
        # The seeds' losses differ by 5%; a difference of half a percent in each is found all the same.
        (FP32, times([1.005] * 5), (0.005, 0.005, 0.005, "converges")),
        (
            {1: 1.0, 2: 1.0, 3: 2.0, 4: None},
            {1: 1.02, 2: 1.0, 3: 2.02, 4: 5.0, 5: 1.0},
            (0.01, 0.01 - REACH, 0.01 + REACH, "inconclusive"),
        ),
        ({1: 1.0}, {1: 1.0}, (0.0, None, None, "inconclusive")),
        ({1: 1.0, 2: 1.0}, {1: 1.5, 2: None}, (0.5, None, None, "differs")),
    ],
    ids=["pair by pair", "Student's over seeds", "one seed", "a lost loss"],
)
def test_the_difference_and_its_interval(fp32, other, expected):
    assert tuple(convergence(fp32, other, 0.01).values()) == pytest.approx(expected)


def test_the_word_at_the_margins():
    one = {1: 1.0, 2: 1.0}

    def word(first, second, margin):
        return convergence(one, {1: first, 2: second}, margin)["convergence"]

    for both in (0.75, 1.25):
        assert [word(both, both, margin) for margin in (0.25, 0.125)] == ["converges", "differs"]
    for first, second, margin in ((0.75, 1.25, 0.25), (1.0, 1.5, 0.25), (0.5, 1.0, 3.2), (1.0, 1.5, 3.2)):
        assert word(first, second, margin) == "inconclusive"
    for pair, end in (((3.0, 3.002), "low"), ((0.5, 0.49975), "high")):
        margin = abs(convergence(one, {1: pair[0], 2: pair[1]}, 9)[f"relative_difference_ci_{end}"])
        assert [word(*pair, margin * factor) for factor in (1, 0.999)] == ["inconclusive", "differs"]


def precisions(**settings):
    return sweep_of(
        [
            {"kernel": "cublas", "precision": ["fp32", "tf32", "bf16"]},
            {"kernel": "tensor_core", "precision": "tf32"},
        ],
        "precision",
        defaults={"strategy": "resident", "network.seed": [1, 2, 3], "protocol.rounds": 1, **settings},
    ).cells


def test_rounds_and_losses_are_compared_with_those_of_their_own_seed_where_some_are_missing():
    """A slow round of fp32 is one of the others too, and each draw of weights has a loss of its own."""
    measured = {"fp32": {1: 1, 2: 3, 3: 3}, "tf32": {1: 3, 2: 1, 3: 3}, "bf16": {1: 3, 2: 3, 3: 3}}
    factor = {"fp32": (1.0, 1.0), "tf32": (0.5, 1.001), "bf16": (0.25, 1.2)}
    records = []
    for cell in precisions(**{"protocol.rounds": 3, "protocol.runs": 3}):
        seed, name = cell["network"]["seed"], cell.precision
        for number in range(1, measured[name][seed] + 1):
            seconds, loss = (one * (10 * seed + number) for one in factor[name])
            records.append(record(cell, [seconds], mse=loss, number=number))
    table = precision.build(frame_of(*records), {}, THRESHOLDS)
    assert table["speedup"].tolist() == pytest.approx([1.0, 2.0, 4.0, 2.0])
    assert (table["speedup_ci_high"] / table["speedup_ci_low"]).tolist() == pytest.approx([1.0] * 4)
    assert table["relative_difference"].tolist() == pytest.approx([0.0, 0.001, 0.2, 0.001])
    assert table["convergence"].tolist() == ["", "converges", "differs", "converges"]


def test_a_seed_of_another_driver_is_not_compared():
    cells = precisions()
    newer = [(cell.precision, cell["network"]["seed"]) == ("bf16", 3) for cell in cells]
    drivers = ["999.1" if one else "580.1" for one in newer]
    table = precision.build(frame_of_cells(cells, [[1.0, 1.1]] * len(cells), driver=drivers), {}, THRESHOLDS)
    assert [verdict == "not comparable" for verdict in table["verdict"]] == [False, False, True, False]
    assert table["note"][2].startswith("different drivers: ") and "999.1" in table["note"][2]


def test_the_figure_says_the_words_and_stands_without_any_time():
    factor, cells = {"fp32": 1.0, "tf32": 1.001, "bf16": 1.2}, precisions()
    losses = [factor[cell.precision] * (1 + cell["network"]["seed"] / 10) for cell in cells]
    ended = [("unsupported", "no such unit") if cell.kernel == "tensor_core" else None for cell in cells]
    times = [[] if one else [4.0, 4.2] for one in ended]
    table = precision.build(frame_of_cells(cells, times, mse=losses, ended=ended), {}, THRESHOLDS)
    assert table["convergence"].tolist() == ["", "converges", "differs", ""]
    drawn = draw("precision", table, "Tesla T4")
    said = {text.get_text() for text in drawn.axes[1].texts}
    assert {"converges", "differs"} <= said
    nothing = table.assign(mean_s=float("nan"), status="unsupported")
    assert "no row has a value" in draw("precision", nothing, "Tesla T4").axes[0].texts[0].get_text()


# ---- peers: time of a step, the best peer of each network, and their figure

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


def test_a_row_whose_time_is_below_its_floor_has_a_note(records):
    """Of the wider network, that one multiprocessor computes in some microseconds."""
    fast = {"runs": [{"seconds": 1e-6, "final_loss": 41.0}] * 2}
    rows = with_floors(
        frame.tabulate({key: one | fast for key, one in records.items()}, THRESHOLDS), limits_of()
    )
    for table in (peers.build(rows, {}, THRESHOLDS), sweep.build(rows, ["strategy"], THRESHOLDS)):
        below = table["fraction_of_limit"] > 1
        assert below.any() and (table["note"].str.contains("below the floor") == below).all()


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
