"""What fits into a budget: the pilot's epoch, the length of the runs, who gets how many more rounds."""

import json
import math
import re
import shlex
from math import ceil, floor
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from recommend_calls import ASKED, ask, work_in
from records_of import COSTS, QUIET, record

from snn.analysis import frame
from snn.analysis.speedups import next_look
from snn.config.groups import read_yaml
from snn.errors import ConfigError
from snn.grid import sweeps
from snn.hardware import locks
from snn.hardware.devices import Device
from snn.hardware.locks import WAITING
from snn.recommending import FOLDER, budget, candidates
from snn.recommending.budget import LEAST, MOST, Pilot, length_that_fits, rounds_that_fit, wanted_rounds

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
GPU, HOST = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")
CONTENDER, FIRST = 2, 5
ROUND = {"runs": 3, "share": 0.5, "most": 0.8}

# ---- the pilot


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a pilot writes, in a folder instead of the checkout's results."""
    work_in(tmp_path, monkeypatch)
    (tmp_path / FOLDER).mkdir(parents=True)
    return tmp_path / FOLDER


def test_of_an_epoch_that_takes_too_long_a_few_batches_are_timed(folder, monkeypatch):
    """And the time of all rows is as many times as long; 20 s are a tenth of the budget."""
    cell = candidates.write(ask([*ASKED[:2], "--dataset", "large", "training.epochs=3"]), "cpu").training
    asked, files = [], [folder / f"pilot.{suffix}" for suffix in ("json", "log", "waits")]

    def ends_if_short(command, log, waits, most):
        assert not any(path.exists() for path in files)  # a cell replaces only records
        settings = dict(one.partition("=")[::2] for one in command[3:])
        asked.append((most, settings.get("dataset.rows", "25600")))
        if most < 80.0:
            return None, most, 3.0
        record = {"runs": [{"seconds": 0.5}], "provenance": {"elapsed_seconds": 2.0}}
        Path(shlex.split(settings["output"])[0]).write_text(json.dumps(record))
        return 0, 4.0, 1.0

    monkeypatch.setattr(budget, "_run", ends_if_short)
    for path in files:
        path.write_text("of a pilot that was killed")
    assert budget.run_pilot(cell, 200.0) == Pilot(0.5 * 25_600 / 512, job=3.0, outside=2.0, waited=4.0)
    assert asked == [(20.0, "25600"), (80.0, "512")]
    small = candidates.write(ask(ASKED), "cpu").training  # of whose rows there are no fewer
    with pytest.raises(
        ConfigError, match="half of the budget of 20 s: give a larger --budget, or train on few"
    ):
        budget.run_pilot(small, 20.0)
    assert asked[2:] == [(10.0, "25600")]


@pytest.mark.parametrize(("rest", "most", "status"), [(0, 60.0, 0), (60, 0.9, None)])
def test_a_pilot_that_waits_for_another_measurement_says_so_and_has_all_its_time(
    tmp_path, capsys, rest, most, status
):
    waits = f'printf "wait " >> ${locks.WAITS}; sleep 0.4; echo 0.4 >> ${locks.WAITS}; exec sleep {rest}'
    found, _, waited = budget._run(["sh", "-c", waits], tmp_path / "log", tmp_path / "waits", most)
    assert found == status and waited > 0.3
    assert capsys.readouterr().err == f"{WAITING}; the budget does not count this\n"


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        (-9, "", "ended with signal SIGKILL, so that nothing was measured"),
        (1, "Traceback\n  x\nKeyError: 3\n", "with status 1, so that nothing was measured: KeyError: 3"),
        (2, "snn: warning: rounded\nsnn: t.csv: no rows\n", "t.csv: no rows"),
        (2, "snn: t.csv: no rows\nsnn: warning: rounded\n", "t.csv: no rows"),
    ],
)
def test_a_pilot_that_fails_says_why_in_one_line(status, said, why):
    found = budget._why(status, said)
    assert found.endswith(why) and "\n" not in found and "Traceback" not in found


# ---- the length of the runs


@given(
    *(st.floats(1e-3, 100), st.floats(0.1, 5), st.integers(1, 1000), st.integers(2, 20), st.floats(10, 1000)),
    *(st.integers(1, 300), st.none() | st.integers(1, 10**5), st.integers(1, 20_000)),
)
def test_the_length_of_a_run_is_what_fits(epoch, job, epochs, count, seconds, batch, rows, test_rows):
    """Epochs, or of one that is too long the rows, if there are so many: a number of one digit and zeros."""
    dataset = {"rows": rows, "test_rows": test_rows} if rows else {}
    cell = {"training": {"epochs": epochs, "batch_size": batch}, "dataset": dataset}

    def fits(work, share):
        return count * (job + 5 * epoch * work) <= share * seconds

    def fit(budget, slower=1.0):
        return length_that_fits(Pilot(slower * epoch, slower * job, 0.0), cell, count, ROUND, budget)

    try:
        found = fit(seconds)
    except ConfigError as error:
        assert not fits(min(2 * batch / rows, 1) if rows else 1, 0.8 * (1 - 1e-9))
        needed = count * (job + 5 * epoch * (min(2 * batch / rows, 1) if rows else 1))
        assert f"about {ceil(needed)} s, and of the budget {floor(0.8 * seconds)} s are for it" in str(error)
        advised = int(re.search(r"give --budget (\d+)s, enough on a machine as busy as now$", str(error))[1])
        assert fit(advised) and fit(advised, slower=1.18)
        with pytest.raises(ConfigError):
            fit((advised - 1) / 1.25)
        return
    assert 1 <= found.epochs <= epochs and fits(found.work(cell), 0.8 * (1 + 1e-9))
    if found.rows is None:
        assert fits(found.epochs, 0.5 * (1 + 1e-9)) or found.epochs == 1
        if found.epochs < epochs:
            assert not str(found.epochs)[1:].strip("0")
            assert not fits(2 * found.epochs, 0.5) or found.epochs > epochs / 2
        return
    batches = found.rows // batch
    assert found.epochs == 1 and found.rows == batches * batch < rows and not str(batches)[1:].strip("0")
    assert batches == 2 or fits(found.rows / rows, 0.5 * (1 + 1e-9))
    assert 2 * found.rows > rows or not fits(2 * found.rows / rows, 0.5 * (1 - 1e-9))
    assert 1 <= found.test_rows == max(test_rows * found.rows // rows, 1)
    assert found.work(cell) == pytest.approx(found.rows / rows)


# ---- more rounds


@pytest.fixture
def asked(tmp_path):
    """The rounds wanted by strategy, where the runs of each round took these seconds."""
    (tmp_path / "grid.yaml").write_text(
        "sweeps: {mine: {strategy: [reference, combined, pinned, graph], protocol: glance}}\n"
    )
    cells = sweeps.read(tmp_path / "grid.yaml", GPU, HOST)["mine"].named
    name_of = {cell["strategy"]["name"]: name for name, cell in cells.items()}

    def ask(mse=41.0, drifted=(), later=(), contender=CONTENDER, **seconds):
        slow = {moment: {key: 3 * cost for key, cost in COSTS.items()} for moment in ("before", "after")}
        machine = {True: QUIET | {"probe": slow}, False: QUIET}
        records = {
            f"{strategy} {number}": record(
                cells[name_of[strategy]],
                runs,
                number=number,
                mse=mse,
                machine=machine[strategy in drifted],
                started=f"2026-02-{12 if strategy in later else 11}T10:00:00+00:00",
            )
            for strategy, rounds in seconds.items()
            for number, runs in enumerate(rounds, 1)
        }
        found = wanted_rounds(frame.tabulate(records, THRESHOLDS), contender, FIRST, THRESHOLDS)
        return {strategy: found[name] for strategy, name in name_of.items() if name in found}

    return ask


def times(factor, rounds=1, noise=0.0):
    return [[factor * s * (1 + noise * (-1) ** i) for s in (0.99, 1.0, 1.01)] for i in range(rounds)]


CLEAR = {"reference": times(4, 5), "combined": times(1.2, 5), "graph": times(1, 5)}
ONCE = {name: rounds[:1] for name, rounds in CLEAR.items()}
MANY = times(1, MOST, 0.3)


@pytest.mark.parametrize(
    ("given", "wants"),
    [
        (  # who is far behind after a round gets no other, but for the reference: every speedup is over it
            {"reference": times(9), "combined": times(3), "pinned": times(1.1), "graph": times(1)},
            {"reference": FIRST, "pinned": FIRST, "graph": FIRST},
        ),
        (  # far behind is what the interval agrees with: here with a mean of 1.6
            {"reference": times(1), "combined": [[0.4, 1.6, 2.8]]},
            {"reference": FIRST, "combined": FIRST},
        ),
        (  # without an interval there is a second round
            {"reference": times(1), "combined": [[7.0]]},
            {"reference": 2, "combined": 2},
        ),
        (  # if contenders are fewer than what one round tells apart
            {"reference": times(9), "combined": times(1.7), "pinned": times(2.1), "contender": 1.3}
            | {"graph": times(1)},
            dict.fromkeys(("reference", "combined", "graph"), FIRST),
        ),
        # The machine changed between pinned and the others; more rounds may show that it is the fastest.
        (CLEAR | {"pinned": times(0.9), "drifted": ["pinned"]}, {"pinned": FIRST}),
        (CLEAR | {"pinned": times(2.1), "drifted": ["pinned"]}, {}),
        (CLEAR | {"pinned": times(0.9, 5), "drifted": ["pinned"]}, {}),
        (
            ONCE | {"pinned": times(1.1), "drifted": ["pinned"]},
            dict.fromkeys(("reference", "combined", "pinned", "graph"), FIRST),
        ),
        (CLEAR, {}),
        # On another day than the others.
        (CLEAR | {"later": ["combined"]}, {"combined": 2 * FIRST, "graph": 2 * FIRST}),
        ({"reference": times(1), "combined": times(1), "mse": math.inf}, {}),  # all diverged
        ({"reference": MANY, "combined": times(1.01, MOST, 0.2)}, {}),  # no more than the most
    ],
)
def test_who_gets_how_many_rounds(asked, given, wants):
    assert asked(**given) == wants


def test_contenders_keep_the_same_rounds(asked):
    """All of the field get what the least clear comparison asks for, so that their means are comparable."""
    got = asked(reference=times(4, 5), combined=times(1.02, 5, 0.1), pinned=times(1.3, 5), graph=times(1, 5))
    assert got == dict.fromkeys(("combined", "pinned", "graph"), got["graph"]) and 5 < got["graph"] <= 10


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30), min_size=1), st.data(), st.floats(0, 200)
)
def test_rounds_fit_and_are_cut_alike(wants, data, left):
    has = {name: data.draw(st.integers(0, count)) for name, count in wants.items()}
    wants = {name: count for name, count in wants.items() if count > has[name]}
    seconds = {name: data.draw(st.floats(0.1, 20)) for name in has}
    found = rounds_that_fit(wants, has, seconds, left, FIRST)
    assert sum((found[name] - has[name]) * seconds[name] for name in found) <= left
    assert all(has[name] < found[name] <= wants[name] for name in found)
    most = max(found.values(), default=0)
    assert all(found.get(name, has[name]) >= min(count, most) for name, count in wants.items())
    if not found and wants:  # not even the least that is of use
        least = max(next_look(has[name], FIRST) if has[name] > 1 else LEAST for name in wants)
        most = max(min(least, max(wants.values())), 1 + min(has[name] for name in wants))
        lacking = {name: max(min(count, most) - has[name], 0) for name, count in wants.items()}
        assert sum(lack * seconds[name] for name, lack in lacking.items()) > left
