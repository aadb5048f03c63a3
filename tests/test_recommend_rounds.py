"""Which candidates of a recommendation get more rounds, and how many fit into the time left."""

import math

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from records_of import COSTS, QUIET, record

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.errors import ConfigError
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.recommending.length import that_fits
from snn.recommending.more_time import LEAST, MOST, fitting, wanted
from snn.recommending.pilot import Pilot

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
GPU, HOST = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")
CONTENDER, FIRST = 2, 5
ROUND = {"runs": 3, "share": 0.5, "most": 0.8}


@pytest.fixture
def asked(tmp_path):
    """The rounds wanted by strategy, where the runs of each round took these seconds."""
    (tmp_path / "grid.yaml").write_text(
        "sweeps: {mine: {strategy: [reference, combined, pinned, graph], protocol: glance}}\n"
    )
    cells = sweeps.read(tmp_path / "grid.yaml", GPU, HOST)["mine"].named
    name_of = {cell["strategy"]["name"]: name for name, cell in cells.items()}

    def ask(mse=41.0, drifted=(), **seconds):
        slow = {moment: {key: 3 * cost for key, cost in COSTS.items()} for moment in ("before", "after")}
        machine = {True: QUIET | {"probe": slow}, False: QUIET}
        records = {
            f"{strategy} {number}": record(
                cells[name_of[strategy]], runs, number=number, mse=mse, machine=machine[strategy in drifted]
            )
            for strategy, rounds in seconds.items()
            for number, runs in enumerate(rounds, 1)
        }
        found = wanted(frame.tabulate(records, THRESHOLDS), CONTENDER, FIRST, THRESHOLDS)
        return {strategy: found[name] for strategy, name in name_of.items() if name in found}

    return ask


ONCE = [0.99, 1.0, 1.01]


def times(factor, rounds=1, noise=0.0):
    return [[factor * s * (1 + noise * (-1) ** i) for s in ONCE] for i in range(rounds)]


def test_who_is_far_behind_after_a_round_gets_no_other(asked):
    assert asked(reference=times(9), combined=times(3), pinned=times(1.1), graph=times(1)) == {
        "reference": FIRST,  # every speedup is over it
        "pinned": FIRST,
        "graph": FIRST,
    }


def test_after_a_round_nobody_is_far_behind_whom_it_cannot_tell_apart(asked, monkeypatch):
    """Where contenders are fewer than what one round tells apart."""
    monkeypatch.setattr("test_recommend_rounds.CONTENDER", 1.3)
    wants = asked(reference=times(9), combined=times(1.7), pinned=times(2.1), graph=times(1))
    assert "combined" in wants and "pinned" not in wants


def test_far_behind_is_what_the_interval_agrees_with(asked):
    wide = [[0.4, 1.6, 2.8]]  # mean 1.6
    assert asked(reference=times(1), combined=wide) == {"reference": FIRST, "combined": FIRST}


def test_without_an_interval_there_is_a_second_round(asked):
    assert asked(reference=times(1), combined=[[7.0]]) == {"reference": 2, "combined": 2}


def test_contenders_keep_the_same_rounds(asked):
    """All of the field get what the least clear comparison asks for, so that their means are comparable."""
    got = asked(reference=times(4, 5), combined=times(1.02, 5, 0.1), pinned=times(1.3, 5), graph=times(1, 5))
    assert got == dict.fromkeys(("combined", "pinned", "graph"), got["graph"]) and 5 < got["graph"] <= 10


def test_what_may_not_be_compared_yet_gets_the_rounds_of_contenders(asked):
    """The machine changed between it and the others; more rounds may show that it is the fastest."""
    clear = {"reference": times(4, 5), "combined": times(1.2, 5), "graph": times(1, 5)}
    assert asked(**clear, pinned=times(0.9), drifted=["pinned"]) == {"pinned": FIRST}
    assert asked(**clear, pinned=times(2.1), drifted=["pinned"]) == {}
    assert asked(**clear, pinned=times(0.9, 5), drifted=["pinned"]) == {}
    once = {name: rounds[:1] for name, rounds in clear.items()}
    assert asked(**once, pinned=times(1.1), drifted=["pinned"])["pinned"] == FIRST


def test_what_is_clear_ends(asked):
    assert asked(reference=times(4, 5), combined=times(1.2, 5), graph=times(1, 5)) == {}


def test_where_all_diverged_no_time_is_spent(asked):
    assert asked(mse=math.inf, reference=times(1), combined=times(1)) == {}


def test_no_candidate_gets_more_than_the_most(asked):
    many = times(1, MOST, 0.3)
    assert asked(reference=many, combined=times(1.01, MOST, 0.2)) == {}


counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30), min_size=1)


@given(counts, st.data(), st.floats(0, 200))
def test_rounds_fit_and_are_cut_alike(wants, data, left):
    has = {name: data.draw(st.integers(0, count)) for name, count in wants.items()}
    wants = {name: count for name, count in wants.items() if count > has[name]}
    seconds = {name: data.draw(st.floats(0.1, 20)) for name in has}
    found = fitting(wants, has, seconds, left)
    assert sum((found[name] - has[name]) * seconds[name] for name in found) <= left
    assert all(has[name] < found[name] <= wants[name] for name in found)
    most = max(found.values(), default=0)
    assert all(found.get(name, has[name]) >= min(count, most) for name, count in wants.items())
    if not found and wants:  # not even the least that is of use
        most = max(min(LEAST, max(wants.values())), 1 + min(has[name] for name in wants))
        lacking = {name: max(min(count, most) - has[name], 0) for name, count in wants.items()}
        assert sum(lack * seconds[name] for name, lack in lacking.items()) > left


@given(st.floats(1e-4, 10), st.floats(0.1, 5), st.integers(1, 1000), st.integers(2, 20), st.floats(10, 1000))
def test_the_epochs_of_a_run_are_those_that_fit(epoch, job, epochs, candidates, seconds):
    cell = {"training": {"epochs": epochs, "batch_size": 64}, "dataset": {}}

    def cost(count):
        return candidates * (job + 5 * count * epoch)

    try:
        found, *rows = that_fits(Pilot(epoch, job, 0.0), cell, candidates, ROUND, seconds)
    except ConfigError as error:
        assert cost(1) > 0.8 * seconds * (1 - 1e-9) and "--budget" in str(error)
        return
    assert 1 <= found <= epochs and rows == [None, None]
    assert cost(found) <= (0.5 if found > 1 else 0.8) * seconds * (1 + 1e-9)
    if found < epochs:
        assert has_one_digit(found)
        assert cost(2 * found) > 0.5 * seconds or found > epochs / 2


@given(
    *(st.floats(1e-2, 100), st.floats(0.1, 5), st.integers(1, 300), st.integers(1, 10**5)),
    *(st.integers(1, 20_000), st.floats(10, 1000)),
)
def test_of_an_epoch_that_is_too_long_a_run_has_the_rows_that_fit(
    epoch, job, batch, rows, test_rows, seconds
):
    dataset = {"rows": rows, "test_rows": test_rows}
    cell = {"training": {"epochs": 9, "batch_size": batch}, "dataset": dataset}

    def cost(some):
        return 8 * (job + 5 * epoch * some / rows)

    try:
        found = that_fits(Pilot(epoch, job, 0.0), cell, 8, ROUND, seconds)
    except ConfigError as error:
        assert cost(min(2 * batch, rows)) > 0.8 * seconds * (1 - 1e-9) and "--budget" in str(error)
        return
    if found.rows is None:
        assert cost(rows * found.epochs) <= (0.5 if found.epochs > 1 else 0.8) * seconds * (1 + 1e-9)
        return
    batches = found.rows // batch
    assert found.epochs == 1 and found.rows == batches * batch < rows and has_one_digit(batches)
    assert batches == 2 or cost(found.rows) <= 0.5 * seconds * (1 + 1e-9)
    assert cost(found.rows) <= 0.8 * seconds * (1 + 1e-9)
    assert 2 * found.rows > rows or cost(2 * found.rows) > 0.5 * seconds * (1 - 1e-9)
    assert 1 <= found.test_rows == max(test_rows * found.rows // rows, 1)
    assert found.work(cell) == pytest.approx(found.rows / rows)


def has_one_digit(count):
    return not str(count)[1:].strip("0")
