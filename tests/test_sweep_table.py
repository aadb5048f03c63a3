"""The table of any sweep, the CPU beside the GPU of its host, reasons, and the ranking."""

import pytest
from conftest import ROOT
from records_of import HOST, PROVENANCE, THRESHOLDS, frame_of, frame_of_cells, record, sweep_of

from snn.errors import RecordError
from snn.figures import draw
from snn.figures import sweep as sweep_figure
from snn.figures.style import look
from snn.tables import overview, recommendation
from snn.tables.cpu import cpu
from snn.tables.sweep import sweep

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


def test_a_gpu_is_divided_by_the_processor_of_its_own_host_in_the_cpu_table_alone():
    settings = [
        {"strategy": ["sequential", "reference", "graph"]},
        {"strategy": ["threads", "blas"], "strategy.threads": [1, 4]},
    ]
    seconds = [8.0, 4.0, 1.0, 8.0, 2.0, 4.0, 3.0]
    table = cpu_table_of(settings, *seconds)
    assert table["ran_on"].tolist() == ["host", "device", "device", *["host"] * 4]
    assert table["options"].tolist() == ["", "", "", *["threads 1", "threads 4"] * 2]
    for name, time in (("sequential", 8), ("fastest_cpu", 2)):
        assert table[f"speedup_over_{name}"].tolist() == pytest.approx([time / one for one in seconds])
    assert set(table["fastest_cpu"]) == {"threads (threads 4)"}
    assert table["device"].tolist() == ["AMD EPYC", "NVIDIA H200", "NVIDIA H200", *["AMD EPYC"] * 4]
    assert len(draw("cpu", table, "Tesla T4").axes[0].get_yticklabels()) == 7
    elsewhere, _ = table_of(settings, *seconds)
    assert elsewhere["baseline"].tolist() == ["sequential", "reference", "reference", *["sequential"] * 4]


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
