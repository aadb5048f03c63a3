"""The pilot of `snn recommend`: the time of an epoch, and what is said where it is too long, or fails."""

import json
import re
import shlex
from math import ceil
from pathlib import Path

import pytest
from recommend_calls import ASKED

from snn.errors import ConfigError
from snn.hardware import locks
from snn.hardware.locks import WAITING
from snn.recommending import FOLDER, grid_file, pilot
from snn.recommending.length import that_fits
from snn.recommending.pilot import Pilot
from snn.recommending.settings import parsed


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where a pilot writes, in a folder in place of the checkout's results."""
    for module in (grid_file, pilot):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / FOLDER).mkdir(parents=True)
    return tmp_path / FOLDER


def test_an_epoch_that_takes_too_long_names_the_settings_that_make_it_shorter(monkeypatch):
    cell = grid_file.training_of(grid_file.write(parsed(ASKED), "cpu").plan)

    asked = []

    def takes_long(command, errors, most):
        asked.append(most)
        return pilot._Ended(None, "", most, 0.0)

    monkeypatch.setattr(pilot, "_ended", takes_long)
    with pytest.raises(
        ConfigError, match="half of the budget of 20 s: give a larger --budget, or train on few"
    ):
        pilot.run(cell, 20.0)
    assert asked == [10.0]


def test_of_an_epoch_that_takes_too_long_a_few_batches_are_timed(folder, monkeypatch):
    """And the time of all rows is as many times as long; 20 s are a tenth of the budget."""
    given = parsed(["--dataset", "large", "--device", "cpu", "--epochs", "3"])
    cell = grid_file.training_of(grid_file.write(given, "cpu").plan)
    asked = []

    def ends_if_short(command, errors, most):
        assert not any((folder / name).exists() for name in pilot._FILES)  # a cell replaces only records
        settings = dict(one.partition("=")[::2] for one in command[3:])
        asked.append((most, settings.get("dataset.rows", "25600")))
        if asked[-1][1] == "25600":
            return pilot._Ended(None, "", most, 3.0)
        record = {"runs": [{"seconds": 0.5}], "provenance": {"elapsed_seconds": 2.0}}
        Path(shlex.split(settings["output"])[0]).write_text(json.dumps(record))
        return pilot._Ended(0, "", 4.0, 1.0)

    monkeypatch.setattr(pilot, "_ended", ends_if_short)
    for name in pilot._FILES:
        (folder / name).write_text("of a pilot that was killed")
    assert pilot.run(cell, 200.0) == Pilot(0.5 * 25_600 / 512, job=3.0, outside=2.0, waited=4.0)
    assert asked == [(20.0, "25600"), (80.0, "512")]


@pytest.mark.parametrize(("rest", "most", "status"), [(0, 60.0, 0), (60, 0.9, None)])
def test_a_pilot_that_waits_for_another_measurement_says_so_and_has_all_its_time(
    tmp_path, capsys, rest, most, status
):
    says = 'echo "$0" >&2; sleep 0.4; echo "$1" >&2; exec sleep "$2"'
    command = ["sh", "-c", says, WAITING, locks._WAITED.format(0.4), str(rest)]
    ended = pilot._ended(command, tmp_path / "said", most)
    assert ended.status == status and ended.waited > 0.3
    assert capsys.readouterr().err == f"{WAITING}; the budget does not count this\n"


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        (
            -9,
            "",
            "ended with signal SIGKILL, so that nothing was measured",
        ),
        (
            1,
            "Traceback\n  x\nKeyError: 3\n",
            "with status 1, so that nothing was measured: KeyError: 3",
        ),
        (2, "snn: warning: rounded\nsnn: t.csv: no rows\n", "t.csv: no rows"),
        (2, "snn: t.csv: no rows\nsnn: warning: rounded\n", "t.csv: no rows"),
    ],
)
def test_a_pilot_that_fails_says_why_in_one_line(status, said, why):
    found = pilot._why(status, said)
    assert found.endswith(why) and "\n" not in found and "Traceback" not in found


@pytest.mark.parametrize(
    ("epoch", "job", "rows"), [(2.0, 0.5, None), (0.02, 5.8, None), (40.0, 3.0, None), (40.0, 3.0, 60_000)]
)
def test_a_budget_that_is_too_short_names_what_takes_the_time_and_the_least_that_is_enough(epoch, job, rows):
    cell = {"training": {"epochs": 100, "batch_size": 64}, "dataset": {"rows": rows} if rows else {}}
    first, of_pilot = {"runs": 3, "share": 0.5, "most": 0.8}, Pilot(epoch, job, 0.2)
    shortest = epoch * (128 / rows if rows else 1)
    needed = 9 * (job + 5 * shortest)
    with pytest.raises(
        ConfigError, match=rf"about {ceil(needed)} s, and of the budget 16 s are for it: .* per 1 epoch"
    ) as said:
        that_fits(of_pilot, cell, 9, first, 20.0)
    advised = int(re.search(r"give --budget (\d+)s, enough on a machine as busy as now$", str(said.value))[1])
    assert that_fits(of_pilot, cell, 9, first, advised)
    assert that_fits(Pilot(1.18 * epoch, 1.18 * job, 0.2), cell, 9, first, advised)
    with pytest.raises(ConfigError):
        that_fits(of_pilot, cell, 9, first, advised / 1.25)
