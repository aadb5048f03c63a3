"""What a workflow survives: being killed, and a second one beside it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from conftest import ROOT
from processes import has_ended, running
from project import ROUNDS, TINY

KILLS = (
    (signal.SIGKILL, "workflow", -signal.SIGKILL),
    (signal.SIGKILL, "cell", 1),
    (signal.SIGINT, "workflow", 128 + signal.SIGINT),
)
"""Of the other signals, whose handler is the same, see below."""

LONG_CELL = (
    *("device=cpu", "dataset=small", "training.epochs=100", "protocol.rounds=1", "protocol.runs=10000"),
    *("protocol.max_seconds=20", "protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0"),
)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells a process of its parent's death")
def test_a_kill_in_a_cell_and_the_same_command_carries_on(project):
    """Killed in every way, one after the other: each time a cell is done and the next one is at work.

    Another workflow in the folder is refused meanwhile.
    """
    shutil.rmtree(project.folder / "results/cells")
    sweep = {"strategy": ["reference", "combined", "pinned"], "training.epochs": 60, "protocol.runs": 4}
    project.write_grid(TINY | {"sweeps": {"slow": sweep}})
    command, log, kept = project.command("results/tables/slow.csv"), project.folder / "log", {}
    for number, victim, status in KILLS:
        with log.open("w") as file:
            started = subprocess.Popen(
                command, cwd=project.folder, stdout=file, stderr=file, preexec_fn=_hear_every_signal
            )
        if not kept:
            _wait_for(lambda parent=started.pid: _cell_process(parent))
            said = project.snakemake("results/tables/slow.csv", fails=True)
            assert f"another snakemake (process {started.pid}) is running in this folder" in said
        # The data set and the limits are there.
        cell = _wait_for(
            lambda parent=started.pid: log.read_text().count("Finished jobid") and _cell_process(parent)
        )
        os.kill(started.pid if victim == "workflow" else cell, number)
        assert started.wait(timeout=30) == status, (number, victim)
        said = log.read_text()
        assert "Traceback" not in said, (number, victim)
        assert said.count(f"ended by {number.name}: ") == (status > 128), (number, victim)
        _wait_for(lambda process=cell: has_ended(process))
        before, kept = kept, {path: path.stat().st_mtime_ns for path in project.records()}
        assert len(kept) > len(before) and before.items() <= kept.items(), (number, victim)
        assert not list(project.folder.glob("results/cells/**/.*")), (number, victim)
    found = project.jobs("results/tables/slow.csv")
    assert found == {"train": 3 * ROUNDS - len(kept), "build_sweep": 1}
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


ENDING = """
import os, signal, sys
from snn.workflow.signals import end_at_once
signal.signal(signal.SIGTERM, lambda *_: sys.exit("by Snakemake's own handler"))
end_at_once()
for name in sys.argv[1:]:
    os.kill(os.getpid(), signal.Signals[name])
print("goes on")
"""


@pytest.mark.parametrize(
    ("names", "how", "ended"),
    [
        (["SIGTERM"], signal.SIG_DFL, (143, "")),
        (["SIGHUP"], signal.SIG_DFL, (129, "")),
        (["SIGTERM", "SIGINT", "SIGHUP"], signal.SIG_IGN, (0, "goes on\n")),  # as under nohup
    ],
)
def test_a_signal_ends_a_workflow_unless_it_is_to_ignore_it(names, how, ended):
    """Also where Snakemake has set a handler."""
    command = [sys.executable, "-c", ENDING, *names]
    heard = partial(_hear_every_signal, how)
    done = subprocess.run(command, cwd=ROOT, preexec_fn=heard, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == ended, done.stderr
    assert f"ended by {names[0]}: " in done.stderr or not done.returncode


def test_a_cell_that_ends_by_a_signal_leaves_no_record(tmp_path):
    """Also by SIGINT, which a workflow's jobs ignore until they are cells. Both at once."""
    cells = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        folder = tmp_path / str(number)
        folder.mkdir()
        cells[number] = subprocess.Popen(
            [sys.executable, "-m", "snn", *LONG_CELL, f"output={folder}/results/cell.json"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},  # its lock is its own
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(_hear_every_signal, of_ctrl_c=signal.SIG_IGN),
        )
    for number, cell in cells.items():
        assert " of 10000" in cell.stderr.readline()  # it is being timed
        cell.send_signal(number)
        assert "Traceback" not in cell.communicate(timeout=30)[1]
        assert cell.returncode == (130 if number == signal.SIGINT else -number)
        assert not list((tmp_path / str(number) / "results").iterdir())


def _hear_every_signal(how=signal.SIG_DFL, of_ctrl_c=None):
    """Under nohup, or in the background of a script, tests ignore some, and so would what they start."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, how)
    signal.signal(signal.SIGINT, how if of_ctrl_c is None else of_ctrl_c)


def _wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    pytest.fail("waited in vain")


def _cell_process(parent):
    """The process id of the cell that a workflow is running, if it is."""
    return next((process.pid for process in running("snn", parent)), None)
