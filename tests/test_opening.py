"""The first page of the report: the answer and its rankings, what failed and why, the device, the machine."""

import math
import re
from pathlib import Path

import pandas as pd
import pytest
from overview_points import (
    FAST,
    FASTER,
    SLOW,
    THREE,
    THRESHOLDS,
    UNSURE,
    answers_of,
    cells_of,
    opening_of,
    origins,
    points_of,
    text_of,
)
from records_of import ON_ITS_HOST, QUIET, record, write_all

from snn.analysis import frame
from snn.hardware.devices import Device
from snn.records.store import read, write
from snn.report import opening
from snn.report.opening import duration
from snn.tables import overview, recommend

TWO = {"strategy": ["reference", "combined"]}


@pytest.mark.parametrize(
    ("settings", "seconds", "said", "unsure"),
    [
        (
            THREE,
            (SLOW, FASTER, FAST),
            "small, 256 combined (kernel naive) 1.002 s {speedup} {lead} runner-up: pinned significant",
            False,
        ),
        (
            THREE,
            (SLOW, FASTER, UNSURE),
            "no single one: combined (kernel naive) has the shortest mean time",
            True,
        ),
        (THREE, (SLOW, FASTER, FASTER), "combined (kernel naive) equally fast: pinned", False),
        (THREE, (FASTER, FAST, SLOW), "reference (kernel naive) 1.002 s it is the reference {lead}", False),
        (TWO, (UNSURE, FASTER), " {speedup} not significant {lead}", True),
        (
            {"strategy": "pinned"},
            [FAST],
            "pinned (kernel naive) there is nothing to compare it with 2.002 s – –",
            0,
        ),
    ],
)
def test_no_strategy_is_called_faster_than_its_verdict(tmp_path, settings, seconds, said, unsure):
    points = points_of(tmp_path, settings, seconds)
    (row,) = answers_of(points)[1].to_dict("records")
    ratios = {
        name: f"{row[name]:.2f} ({row[f'{name}_ci_low']:.2f} to {row[f'{name}_ci_high']:.2f})"
        for name in ("speedup", "lead")
    }
    page = text_of(opening_of(points)).partition("Lead over every other")[2].partition("all ")[0]
    assert said.format(**ratios) in page
    assert ("not significant" in page) == ("no single one" in page) == unsure


def test_a_baseline_on_the_cpu_is_named_without_a_kernel(tmp_path):
    settings = {"strategy": ["reference", "blas"], "protocol.runs": 6}
    points = points_of(tmp_path, settings, (SLOW, FASTER), Device("cpu", "AMD EPYC"), **ON_ITS_HOST)
    assert answers_of(points)[1]["kernel"].item() == ""
    assert "small, 256 blas 1.002 s" in text_of(opening_of(points))


def test_what_diverged_is_not_the_winner(tmp_path):
    settings = THREE | {"network.hidden": [1024]}
    points = points_of(tmp_path, settings, (SLOW, FASTER, FAST), mse=float("nan"))
    said = text_of(opening_of(points))
    assert "none: every training diverged ; the shortest time has combined" in said
    assert "In 1 case no training ended well" in said
    assert "significant" not in said.partition("all 3")[0]  # nor has it a lead


def test_of_one_case_the_strategies_are_unfolded_and_of_several_folded(tmp_path):
    for count, unfolded in ((1, 1), (2, 0)):
        settings = TWO | {"training.batch_size": [64, 128][:count]}
        page = opening_of(points_of(tmp_path, settings, [SLOW] * count + [FASTER] * count))
        assert (page.count("<details"), page.count("<details open>")) == (count, unfolded)
        assert "<br><br>" not in page and "<br></small>" not in page


def test_the_kernel_is_what_the_strategy_used(tmp_path):
    points = points_of(tmp_path, THREE, (SLOW, FASTER, FAST))
    planned = answers_of(points)[1].assign(kernel="one_layer", plan="one cluster of 16 blocks")
    assert "(kernel one_layer, one cluster of 16 blocks)" in opening_of(points, planned)


def test_the_ranking_has_every_strategy_with_its_distance_to_the_first(tmp_path):
    page = text_of(opening_of(points_of(tmp_path, THREE, (SLOW, FASTER, UNSURE))))
    first, second, third = re.findall(
        r"(\w+) \(kernel naive\) ([\d.]+ s) ± ([\d.]+ m?s)(.*?) ok, 6 runs", page.partition("all 3 strat")[2]
    )
    assert first == ("combined", "1.002 s", "1.871 ms", " shortest mean")
    assert second[0] == "pinned" and re.fullmatch(r" 1\.23 \([\d.]+ to [\d.]+\) not significant", second[3])
    assert third[0] == "reference" and re.fullmatch(r" 3\.99 \([\d.]+ to [\d.]+\) slower", third[3])


def test_every_table_of_the_answer_has_a_name_and_no_cell_is_empty(tmp_path):
    page = opening_of(points_of(tmp_path, THREE, (SLOW, FASTER, FAST)))
    assert re.findall(r"<table.*?>", page) == [
        '<table aria-label="What to use for each data set and network">',
        '<table aria-label="Strategies, the shortest mean time first: small, 256">',
    ]
    answered = page.partition("<details")[0]
    assert "<td></td>" not in answered
    assert '<th scope="row" rowspan="2">small, 256</th>' in answered and '<tr><td class="why"' in answered


def test_strategies_that_stand_twice_are_told_apart(tmp_path):
    points = points_of(tmp_path, {"strategy": "combined", "strategy.tile_rows": [32, 128]}, (FAST, FASTER))
    assert "combined (kernel naive, tile_rows 128) 1.002 s" in text_of(opening_of(points))


def test_the_ranking_ends_with_what_failed(tmp_path):
    (cells,) = points_of(tmp_path, THREE, (SLOW, FASTER, FAST))
    lost = {"mean_s": None, "std_s": None, "status": "unsupported", "reason": "no <b>such</b> device"}
    failed = cells["strategy"] == "combined"
    cells = cells.assign(**{key: cells[key].mask(failed, value) for key, value in lost.items()})
    said = text_of(opening_of([cells])).partition("all 3 strat")[2].partition("State of the machine")[0]
    assert said.endswith("combined (kernel naive) – unsupported no &lt;b&gt;such&lt;/b&gt; device ")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(2.0, "2 s"), (0.0247234, "24.72 ms"), (2.33e-6, "2.33 µs"), (float("nan"), "–"), (0.0, "0 µs")],
)
def test_durations_have_the_unit_that_suits_them(seconds, said):
    assert duration(seconds) == said


def test_what_did_not_end_well_is_named_with_its_reason(tmp_path):
    cells = cells_of(tmp_path, THREE | {"network.hidden": [1024]})
    expected = write_all(tmp_path, cells, [SLOW, FAST, FASTER])
    for path in map(Path, expected):
        found = read(path)
        cell, number = found["cell"], found["round"]
        if cell["strategy"]["name"] == "combined":
            write(path, record(cell, [1.0, 1.0], math.nan, number=number))
        if cell["strategy"]["name"] == "pinned":
            write(path, record(cell, [], number=number, ended=("out_of_memory", "12 bytes")))
    points = overview.points_of(frame.checked(expected), THRESHOLDS)
    table, _ = answers_of(points)
    assert table["failed"][0] == "combined, pinned"
    assert table["status"][0] == "diverged, out_of_memory"
    assert table["runner_up"][0] != "pinned"  # it has no time
    assert opening.failures(points, table) == [
        ("combined on small, 1024", "diverged", "the loss is not finite"),
        ("pinned on small, 1024", "out_of_memory", "12 bytes"),
    ]
    page = opening_of(points)
    assert 'combined on small, 1024: <span class="word bad">diverged</span> the loss is not finite' in page


def test_of_one_case_the_opening_begins_with_its_answer_as_the_terminal_has_it(tmp_path):
    points = points_of(tmp_path, TWO, [SLOW, FAST])
    once = [
        cells.assign(rounds=[[of[0]] for of in cells["rounds"]], test_r2=0.94, test_r2_std=0.01)
        for cells in points
    ]
    said = opening_of(once)
    preliminary = recommend.preliminary(recommend.build(once[0], {}, THRESHOLDS), THRESHOLDS)
    assert preliminary.startswith("Preliminary: measured in one round only")
    assert f'<p class="headline">{answers_of(once)[1]["answer"].item()} {preliminary}</p>' in said
    assert "On held-out rows, after the epochs that were timed: R² 0.94 ± 0.01" in said
    assert "Preliminary" not in opening_of(points)


def test_no_strategy_finished(tmp_path):
    points = points_of(tmp_path, TWO, [SLOW, FAST])
    lost = [cells.assign(mean_s=None, std_s=None, status="out_of_memory") for cells in points]
    assert answers_of(lost)[1]["answer"].item() == "No strategy finished."
    assert "Nothing to compare" in opening_of(lost)


def test_the_device_is_said_and_a_cpu_is_called_one():
    (said,) = opening.devices(origins())
    assert said == "Measured on one NVIDIA H200, driver 580.1, CUDA runtime 13.2, CuPy 14.2."
    (said,) = opening.devices(origins(backend="cpu", device="Abacus"))
    assert "on the CPU, Abacus" in said and "no GPU was used" in said
    both = pd.concat([origins(), origins(backend="cpu", device="Abacus")])
    assert opening.devices(both)[1] == "CPU baselines were measured on its host: Abacus, NumPy 2.5."


def test_the_machines_words_are_counted_by_cell(tmp_path):
    loaded = QUIET | {"readings": [{"seconds": 1.0, "other_cores": 4.0, "stolen_cores": 0.0}]}
    points = points_of(tmp_path, TWO, [FASTER, UNSURE], machine=loaded)
    assert opening.machine_states(points) == {"shared": 2, "noisy": 1}
    assert opening.machine_states(points_of(tmp_path, TWO, [FASTER, FAST])) == {"quiet": 2}


def test_the_opening_shows_the_first_of_many_cases_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "_MOST_CASES", 2)
    settings = TWO | {"training.batch_size": [10, 11, 12, 13, 14]}
    page = opening_of(points_of(tmp_path, settings, [SLOW] * 5 + [FAST] * 5))
    assert page.count("</b> <small>(kernel naive)</small></td><td>2.002 s</td>") == 2
    assert "The table overview shows 3 more cases." in page
    assert "10 cells were measured: 10 quiet" in text_of(page)


@pytest.mark.parametrize(("count", "listed", "more"), [(5, 5, ""), (6, 6, ""), (7, 6, "and 1 more,")])
@pytest.mark.parametrize("status", ["diverged", "unsupported"])
def test_of_many_failures_the_first_six_are_listed(tmp_path, status, count, listed, more):
    """And how many more there are, if there are more."""
    points = points_of(tmp_path, TWO, [SLOW, FAST])
    row = points[0].iloc[:1]
    lost = [row.assign(cell=str(i), status=status, reason=f"reason {i}.", mean_s=None) for i in range(count)]
    said = opening_of([pd.concat([points[0], *lost], ignore_index=True)]).partition("</table>")[2]
    said = said.rpartition("</table>")[2]
    assert [f"reason {i}." in said for i in range(count)] == [i < listed for i in range(count)]
    assert more in said and ("more," in said) == bool(more)
