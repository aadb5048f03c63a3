"""The first page of the report: the answer, what failed and why, the device, and the state of the machine."""

import math
from pathlib import Path

import pytest
from overview_points import FAST, FASTER, SLOW, THRESHOLDS, UNSURE, cells_of, opening_of, origins, points_of
from records_of import QUIET, record, write_all

from snn.records.store import read, write
from snn.report import summary
from snn.tables import overview, overview_text, recommendation


def test_what_did_not_end_well_is_named_with_its_reason(tmp_path):
    settings = {"strategy": ["reference", "combined", "pinned"], "network.hidden": [1024]}
    cells = cells_of(tmp_path, settings)
    expected = write_all(tmp_path, cells, [SLOW, FAST, FASTER])
    for path in map(Path, expected):
        found = read(path)
        cell, number = found["cell"], found["round"]
        if cell["strategy"]["name"] == "combined":
            write(path, record(cell, [1.0, 1.0], math.nan, number=number))
        if cell["strategy"]["name"] == "pinned":
            write(path, record(cell, [], number=number, ended=("out_of_memory", "12 bytes")))
    points = overview.load(expected, THRESHOLDS)
    table = overview.build(points, THRESHOLDS)
    assert table["failed"][0] == "combined, pinned"
    assert table["status"][0] == "diverged, out_of_memory"
    assert table["runner_up"][0] != "pinned"  # it has no time
    assert overview_text.failures(points, table) == [
        ("combined on small, 1024", "diverged", "the loss is not finite"),
        ("pinned on small, 1024", "out_of_memory", "12 bytes"),
    ]
    page = opening_of(points, table)
    assert "combined on small, 1024" in page
    assert '<span class="word bad">diverged</span> the loss is not finite' in page


def test_of_one_case_the_opening_begins_with_its_answer_as_the_terminal_has_it(tmp_path):
    points = points_of(tmp_path, {"strategy": ["reference", "combined"]}, [SLOW, FAST])
    once = [
        cells.assign(rounds=[[of[0]] for of in cells["rounds"]], test_r2=0.94, test_r2_std=0.01)
        for cells in points
    ]
    table = overview.build(once, THRESHOLDS)
    answer = recommendation.build(once, table)["answer"].item()
    said = opening_of(once)
    preliminary = (
        "Preliminary: measured in one round only, so the variation between rounds is unknown, and a ratio is "
        "only significant beyond a factor of 2."
    )
    assert f'<p class="headline">{answer} {preliminary}</p>' in said
    assert "On held-out rows, after the epochs that were timed: R² 0.94 ± 0.01" in said
    assert "Preliminary" not in opening_of(points)


def test_no_strategy_finished(tmp_path):
    points = points_of(tmp_path, {"strategy": ["reference", "combined"]}, [SLOW, FAST])
    lost = [cells.assign(mean_s=None, std_s=None, status="out_of_memory") for cells in points]
    table = overview.build(lost, THRESHOLDS)
    assert overview_text.sentence(table.iloc[0]) == "No strategy finished."
    assert "Nothing to compare" in opening_of(lost, table)


def test_the_device_is_said_and_a_cpu_is_called_one():
    (said,) = overview_text.of_devices(origins())
    assert said == "Measured on one NVIDIA H200, driver 580.1, CUDA runtime 13.2, CuPy 14.2."
    (said,) = overview_text.of_devices(origins(backend="cpu", device="Abacus"))
    assert "on the CPU, Abacus" in said
    assert "no GPU was used" in said


def test_the_machines_words_are_counted_by_cell(tmp_path):
    settings = {"strategy": ["reference", "combined"]}
    loaded = QUIET | {"readings": [{"seconds": 1.0, "other_cores": 4.0, "stolen_cores": 0.0}]}
    points = points_of(tmp_path, settings, [FASTER, UNSURE], machine=loaded)
    assert overview_text.of_machine(points) == {"shared": 2, "noisy": 1}
    quiet = points_of(tmp_path, settings, [FASTER, FAST])
    assert overview_text.of_machine(quiet) == {"quiet": 2}


def test_the_opening_shows_the_first_of_many_cases_and_says_so(tmp_path):
    settings = {"strategy": ["reference", "combined"], "training.batch_size": list(range(10, 37))}
    points = points_of(tmp_path, settings, [SLOW] * 27 + [FAST] * 27)
    page = opening_of(points)
    assert page.count("</b> <small>(kernel naive)</small></td><td>2.002 s</td>") == 24
    assert "The table overview shows 3 more cases." in page
    assert "54 cells were measured: 54 quiet" in page


@pytest.mark.parametrize(("count", "listed", "more"), [(5, 5, ""), (6, 6, ""), (7, 6, "and 1 more,")])
def test_of_many_failures_the_first_six_are_listed(count, listed, more):
    """And how many more there are, where there are more."""
    failures = summary._failures([(f"cell {i}", "diverged", "at once") for i in range(count)])
    unsupported = summary._unsupported([(f"cell {i}", "no such kernel") for i in range(count)])
    for said in (failures, unsupported):
        assert [f"cell {i}:" in said for i in range(count)] == [i < listed for i in range(count)]
        assert more in said and ("more," in said) == bool(more)
