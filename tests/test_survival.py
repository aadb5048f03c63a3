"""What a workflow survives: being killed, and a second one beside it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from project import ROUNDS, TINY

KILLS = (
    (signal.SIGKILL, "workflow", -signal.SIGKILL),
    (signal.SIGKILL, "cell", 1),
    (signal.SIGTERM, "workflow", 128 + signal.SIGTERM),
    (signal.SIGINT, "workflow", 128 + signal.SIGINT),
    (signal.SIGHUP, "workflow", 128 + signal.SIGHUP),
)


def slow(*strategies, runs=20):
    sweep = {"strategy": list(strategies), "training.epochs": 60, "protocol.runs": runs}
    return TINY | {"sweeps": {"slow": sweep}}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells a process of its parent's death")
def test_a_kill_in_a_cell_and_the_same_command_carries_on(project):
    """Killed in every way, one after the other: each time a cell is done and the next one is at work."""
    shutil.rmtree(project.folder / "results/cells")
    project.write_grid(slow("reference", "combined", "pinned", runs=4))
    command, log, kept = project.command("results/tables/slow.csv"), project.folder / "log", {}
    for number, victim, status in KILLS:
        with log.open("w") as file:
            started = subprocess.Popen(
                command, cwd=project.folder, stdout=file, stderr=file, preexec_fn=_hear_every_signal
            )
        # The data set and the limits are there.
        cell = _wait_for(
            lambda parent=started.pid: log.read_text().count("Finished jobid") == 1 and _cell_process(parent)
        )
        os.kill(started.pid if victim == "workflow" else cell, number)
        assert started.wait(timeout=30) == status, (number, victim)
        assert "Traceback" not in log.read_text(), (number, victim)
        _wait_for(lambda process=Path(f"/proc/{cell}"): not process.exists())
        before, kept = kept, {path: path.stat().st_mtime_ns for path in project.records()}
        assert len(kept) > len(before) and before.items() <= kept.items(), (number, victim)
        assert not list(project.folder.glob("results/cells/**/.*")), (number, victim)
    found = project.jobs("results/tables/slow.csv")
    assert found == {"train": 3 * ROUNDS - len(kept), "build_sweep": 1}
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_second_workflow_in_the_folder_is_refused(project):
    shutil.rmtree(project.folder / "results")
    project.write_grid(slow("reference", "pinned", "combined"))
    with (project.folder / "log").open("w") as log:
        first = subprocess.Popen(
            project.command("results/tables/slow.csv"), cwd=project.folder, stdout=log, stderr=log
        )
    try:
        _wait_for(lambda: _cell_process(first.pid))
        printed = project.snakemake("results/tables/slow.csv", fails=True)
        assert f"another snakemake (process {first.pid}) is running in this folder" in printed
    finally:
        first.terminate()
        first.wait()


def _hear_every_signal():
    """Under nohup, or in the background of a script, tests ignore some, and so would what they start."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    pytest.fail("waited in vain")


def _cell_process(parent):
    """The process id of the cell that a workflow is running, if it is."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if int(fields[1]) == parent and "snn" in command:
            return int(entry.name)
    return None
