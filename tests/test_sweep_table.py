"""The baselines of a sweep, the CPU beside the GPU of its host, reasons, and the ranking."""

import pytest
import yaml
from conftest import ROOT
from records_of import record

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.errors import RecordError
from snn.figures import draw
from snn.figures import sweep as sweep_figure
from snn.figures.style import look
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.tables import overview, recommendation
from snn.tables.cpu import cpu
from snn.tables.sweep import sweep

GPU, HOST = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")
THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")


@pytest.fixture
def read(tmp_path):
    """The one sweep of a grid, each cell of which is one round; a list is a union."""

    def sweep_of(settings, name="mine"):
        path = tmp_path / "grid.yaml"
        settings = {"union": settings} if isinstance(settings, list) else settings
        text = {"defaults": {"protocol.rounds": 1}, "sweeps": {name: settings}}
        path.write_text(yaml.safe_dump(text))
        return sweeps.read(path, GPU, HOST)[name]

    return sweep_of


def frame_of(cells, seconds, changed=()):
    """The rows of these cells; ``changed`` are values of a record by the number of its cell."""
    records = {
        str(i): record(cell, times) for i, (cell, times) in enumerate(zip(cells, seconds, strict=True))
    }
    for i, values in dict(changed).items():
        records[str(i)] |= values
    return frame.tabulate(records, THRESHOLDS)


UNSUPPORTED = {"status": "unsupported", "reason": "there is none", "runs": [], "explanation": None}
UNSUPPORTED |= {"ledger": {}, "memory": {}, "stopped": None}


WIDE = "wide interval, above a factor of 1.5; snn more-rounds adds rounds"
ONE_ROUND = (
    "one round: how much rounds differ is unknown, so only a factor beyond 2 is significant; "
    "snn more-rounds adds rounds"
)


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
def test_a_note_warns_of_an_interval_that_says_little(read, rounds, verdict, note):
    reference, pinned = read({"strategy": ["reference", "pinned"]}).cells
    reference_rounds = [[1.0, 1.001]] * len(rounds)
    records = {
        f"{name}{number}": record(cell, times, number=number)
        for name, cell, of_cell in (("a", reference, reference_rounds), ("b", pinned, rounds))
        for number, times in enumerate(of_cell, 1)
    }
    table = sweep.build(frame.tabulate(records, THRESHOLDS), ["strategy"], THRESHOLDS)
    assert table["verdict"].tolist() == ["reference", verdict]
    assert table["note"].tolist() == ["", note]


def test_the_cpu_table_warns_as_well(read):
    cells = read({"strategy": ["reference", "sequential"]}, "cpu").cells
    table = cpu.build(frame_of(cells, [[1.0, 1.1], [2.0, 2.1]]), {}, THRESHOLDS).set_index("strategy")
    assert table["note"].to_dict() == {"reference": ONE_ROUND, "sequential": ""}
    assert table.loc["sequential", "speedup_over_sequential_ci_high"] == 1
    words = [table[f"verdict_over_{name}"].to_dict() for name in ("sequential", "fastest_cpu")]
    assert words == [{"reference": "not significant", "sequential": ""}] * 2


@pytest.mark.parametrize(
    ("settings", "baselines"),
    [
        ({"strategy": ["reference", "pinned"]}, ["reference"] * 2),
        ({"strategy": "resident", "kernel": ["naive", "tiled"]}, ["kernel naive"] * 2),
        ({"strategy": "combined", "strategy.tile_rows": [32, 128]}, ["tile rows 128"] * 2),
        (
            {"strategy": "resident", "kernel.block": [[8, 8], [16, 16]], "kernel": ["naive", "tiled"]},
            ["kernel naive, block 16-16"] * 4,
        ),
        ({"strategy": ["streams", "pinned"]}, None),
        ({"strategy": "resident", "training.batch_size": [64, 128]}, None),
        (
            [{"strategy": "reference"}, {"strategy": "resident", "kernel": "tiled"}],
            ["reference, kernel naive"] * 2,
        ),
        (
            [
                {"strategy": ["reference", "pinned", "sequential"]},
                {"strategy": "threads", "strategy.threads": 2},
            ],
            ["reference", "reference", "sequential", "sequential"],
        ),
    ],
)
def test_the_baseline_of_a_row_has_the_most_basic_choices_at_its_point(read, settings, baselines):
    found = read(settings)
    table = sweep.build(frame_of(found.cells, [[1.0, 1.0]] * len(found.cells)), found.axes, THRESHOLDS)
    assert (table["baseline"].tolist() if baselines else "speedup" not in table) == (baselines or True)


def test_a_row_that_is_alone_at_its_point_is_compared_to_nothing_not_even_itself(read):
    found = read(
        [
            {"strategy": ["reference", "pinned"]},
            {"strategy": "streams", "network.hidden": [512]},
            {"strategy": "reference", "network.hidden": [64]},
        ]
    )
    table = sweep.build(frame_of(found.cells, [[2.0, 2.0]] * 4), found.axes, THRESHOLDS)
    assert table["baseline"].tolist() == ["reference", "reference", "", ""]
    assert table["speedup"].tolist() == pytest.approx([1.0, 1.0, float("nan"), float("nan")], nan_ok=True)
    assert table["verdict"].tolist() == ["reference", "not significant", "", ""]


def test_a_row_without_a_time_says_why_and_is_compared_to_nothing(read):
    found = read({"strategy": ["reference", "graph", "pinned"]})
    rows = frame_of(found.cells, [[2.0, 2.0], [1.0], [1.0, 1.0]], {1: UNSUPPORTED})
    table = sweep.build(rows, found.axes, THRESHOLDS)
    assert table["status"].tolist() == ["ok", "unsupported", "ok"]
    assert table["reason"].tolist() == ["", "there is none", ""]
    assert table["verdict"].tolist() == ["reference", "", "faster"]
    assert table["machine"].tolist()[1] == ""
    axes = sweep_figure.draw(table, found.axes, "mine").axes[0]
    assert [text.get_text() for text in axes.texts] == ["unsupported"]
    (axes,) = draw("ranking", table.assign(dataset="small"), "Tesla T4").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["pinned", "reference", "graph"]


def test_the_ranking_names_kernels_and_options_and_says_speedups(read):
    found = read(
        [
            {"strategy": ["reference", "pinned", "combined"]},
            {"strategy": "graph", "kernel": "tiled_fused"},
            {"strategy": "threads", "strategy.threads": 4},
        ]
    )
    rows = frame_of(found.cells, [[8.0, 8.0], [4.0, 4.0], [2.0, 2.0], [1.0, 1.0], [16.0, 16.0]])
    (axes,) = draw("ranking", sweep.build(rows, found.axes, THRESHOLDS), "Tesla T4").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [
        *("graph, tiled_fused", "combined", "pinned", "reference", "threads, 4 threads")
    ]
    said = [text.get_text() for text in axes.texts]
    assert said == ["2.00×", "4.00×", "8.00×"]
    assert not any("16" in text for text in said)  # nothing of the host is divided by the GPU's reference


def test_every_strategy_has_a_look_of_its_own_and_so_has_a_new_one():
    names = [path.stem for path in (ROOT / "config/strategy").glob("*.yaml")]
    assert len({look(name) for name in [*names, "mine"]}) == len(names) + 1


HOST_SETTINGS = [
    {"strategy": ["sequential", "reference", "graph"]},
    {"strategy": ["threads", "blas"], "strategy.threads": [1, 4]},
]


def test_a_gpu_is_divided_by_the_processor_of_its_own_host_in_the_cpu_table_alone(read):
    found = read(HOST_SETTINGS, "cpu")
    seconds = [[8.0, 8.0], [4.0, 4.0], [1.0, 1.0], [8.0, 8.0], [2.0, 2.0], [4.0, 4.0], [3.0, 3.0]]
    rows = frame_of(found.cells, seconds)
    table = cpu.build(rows, {}, THRESHOLDS)
    assert table["ran_on"].tolist() == ["host", "device", "device", *["host"] * 4]
    assert table["options"].tolist() == ["", "", "", *["threads 1", "threads 4"] * 2]
    assert table["speedup_over_sequential"].tolist() == pytest.approx([8 / one for one, _ in seconds])
    assert table["speedup_over_fastest_cpu"].tolist() == pytest.approx([2 / one for one, _ in seconds])
    assert set(table["fastest_cpu"]) == {"threads (threads 4)"}
    assert table["device"].tolist() == ["AMD EPYC", "NVIDIA H200", "NVIDIA H200", *["AMD EPYC"] * 4]
    assert len(draw("cpu", table, "Tesla T4").axes[0].get_yticklabels()) == 7
    elsewhere = sweep.build(rows, found.axes, THRESHOLDS)
    assert elsewhere["baseline"].tolist() == ["sequential", "reference", "reference", *["sequential"] * 4]


def test_of_a_baseline_in_threads_the_cpu_table_says_how_many_also_where_all_have_as_many(read):
    found = read([{"strategy": ["sequential", "reference"]}, {"strategy": "threads", "strategy.threads": 4}])
    table = cpu.build(frame_of(found.cells, [[4.0, 4.0], [1.0, 1.0], [2.0, 2.0]]), {}, THRESHOLDS)
    assert table["options"].tolist() == ["", "", "threads 4"]
    assert set(table["fastest_cpu"]) == {"threads (threads 4)"}
    drawn = draw("cpu", table, "Tesla T4")
    assert "threads, 4 threads" in [tick.get_text() for tick in drawn.axes[0].get_yticklabels()]
    (key,) = drawn.legends
    said = [text.get_text() for text in key.get_texts()]
    assert set(said) == {"on the GPU", "on the CPU of the same host", "fastest CPU baseline"}


def test_a_cpu_table_without_its_baselines_is_made(read):
    cells = read({"strategy": ["reference", "graph"]}, "cpu").cells
    table = cpu.build(frame_of(cells, [[1.0, 1.0]] * 2), {}, THRESHOLDS)
    assert table["speedup_over_sequential"].isna().all() and table["speedup_over_fastest_cpu"].isna().all()
    assert "no time of one core" in draw("cpu", table, "Tesla T4").axes[0].texts[0].get_text()


def test_a_gpu_is_not_divided_by_another_host(read):
    cells = read({"strategy": ["sequential", "reference"]}, "cpu").cells
    records = {
        "a": record(cells[0], [1.0], host={"system": "Linux", "cpu": "AMD EPYC", "cpus": 16}),
        "b": record(cells[1], [1.0], host={"system": "Linux", "cpu": "Intel", "cpus": 16}),
    }
    with pytest.raises(RecordError, match="of another host"):
        frame.tabulate(records, THRESHOLDS)


def test_the_host_is_no_recommendation_beside_its_gpu(read):
    found = read([{"strategy": ["reference", "graph"]}, {"strategy": ["sequential", "blas"]}])
    records = {str(i): record(cell, [1.0 + i, 1.0 + i]) for i, cell in enumerate(found.cells)}
    points = overview.points_of(records, THRESHOLDS)
    table = overview.build(points, THRESHOLDS)
    assert table["backend"].tolist() == ["cuda", "cpu"]
    assert recommendation.build(points, table)["strategy"].tolist() == ["reference"]


def test_a_recommendation_gives_winner_margins_and_the_reason(read):
    cells = read({"strategy": ["reference", "graph"], "kernel": ["naive", "tiled_fused"]}).cells
    times = {
        "reference naive": 4.0,
        "graph naive": 2.5,
        "reference tiled_fused": 3.0,
        "graph tiled_fused": 1.0,
    }
    records = {}
    for i, cell in enumerate(cells):
        name = f"{cell['strategy']['name']} {cell['kernel']['name']}"
        one = record(cell, [times[name], times[name] + 0.001])
        host_driven = name.startswith("reference")
        counts = {"mallocs": 1500, "h2d_copies": 1000, "graph_launches": 0}
        one["ledger"] = counts if host_driven else {"mallocs": 12, "h2d_copies": 4, "graph_launches": 100}
        records[str(i)] = one
    points = overview.points_of(records, THRESHOLDS)
    row = recommendation.build(points, overview.build(points, THRESHOLDS)).iloc[0]
    assert (row["strategy"], row["kernel"], row["lead_verdict"]) == ("graph", "tiled_fused", "significant")
    assert row["speedup"] == pytest.approx(4.0, rel=0.01)
    assert row["lead"] == pytest.approx(2.5, rel=0.01)
    assert row["reason"] == (
        "It uses the kernel tiled_fused instead of naive. "
        "Per training it makes 1,488 fewer device allocations and 996 fewer host-to-device copies, "
        "but 100 more graph launches. "
        "It spends about 1.5 s less on device allocation and free and 1.5 s less on host arithmetic."
    )


def test_without_a_reference_the_reason_is_read_beside_the_runner_up(read):
    cells = read({"strategy": ["resident", "graph"], "kernel": ["naive", "tiled_fused"]}).cells
    records = {}
    for i, cell in enumerate(cells):
        graph, tiled = cell["strategy"]["name"] == "graph", cell["kernel"]["name"] == "tiled_fused"
        seconds = 3.0 - graph - 0.5 * tiled
        one = records[str(i)] = record(cell, [seconds, seconds + 0.001])
        one["ledger"] = {"launches": 0 if graph else 50_000, "graph_launches": 100 if graph else 0}
    points = overview.points_of(records, THRESHOLDS)
    row = recommendation.build(points, overview.build(points, THRESHOLDS)).iloc[0]
    assert row["reason"].startswith(
        "Compared with graph (kernel naive), as there is no reference: "
        "It uses the kernel tiled_fused instead of naive. It spends"
    )


def test_seeds_of_one_work_are_one_case(read):
    cells = read({"strategy": ["reference", "resident"], "network.seed": [1, 2]}).cells
    records = {str(i): record(cell, [1.0, 1.1]) for i, cell in enumerate(cells)}
    points = overview.points_of(records, THRESHOLDS)
    assert [len(cells) for cells in points] == [2]
    assert "network.seed" not in overview.build(points, THRESHOLDS)
