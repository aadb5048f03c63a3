"""How `snn recommend` ends before its end: by a signal, with its workflow, and where nobody reads it."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from types import SimpleNamespace

import psutil
import pytest
from conftest import ROOT
from processes import end_in_time

from snn.grid.sweeps import SHORTENED, check_keys
from snn.recommending import workflow

_SLEEPING = """
import subprocess, sys
from snn.workflow.signals import ending_at_once
with ending_at_once():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    print(child.pid, flush=True)
    child.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_was_started(number):
    """Its children have sessions of their own, so that a terminal's Ctrl-C reaches this process alone."""
    here = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", _SLEEPING],
        env=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, number, signal.SIG_DFL),  # a shell's `&` lets it ignore SIGINT
    ) as run:
        child = psutil.Process(int(run.stdout.readline()))
        run.send_signal(number)
        said = run.stderr.read()
    assert run.returncode == 128 + number
    assert said.splitlines() == [f"ended by {number.name}: the same command continues where this one stopped"]
    until = time.monotonic() + 60
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_signal_ends_what_was_started_though_the_terminal_is_gone():
    """As where its window was closed: nothing can be said any more, which stops nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, "-c", _SLEEPING],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=writer,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
    ) as run:
        os.close(writer)
        child = int(run.stdout.readline())
        run.send_signal(signal.SIGHUP)
    assert run.returncode == 128 + signal.SIGHUP
    assert end_in_time(child)


def test_what_a_signal_says_is_in_no_file_that_has_the_number_of_a_closed_standard_error(tmp_path):
    opens = f"import os; assert os.open({str(tmp_path / 'file')!r}, os.O_CREAT | os.O_WRONLY) == 2\n"
    code = opens + "import os, signal\nfrom snn.workflow.signals import end_at_once\nend_at_once()\n"
    code += "os.kill(os.getpid(), signal.SIGTERM)"
    done = subprocess.run(["bash", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, code], cwd=ROOT)
    assert done.returncode == 128 + signal.SIGTERM
    assert (tmp_path / "file").read_text() == ""


_GRID = SimpleNamespace(plan=SimpleNamespace(device=SimpleNamespace(backend="cpu")), path="grid.yaml")

_SAID = """Building DAG of jobs...

out of memory: 3 GB
waited 1.5 s for another measurement on this machine
waited 2.0 s for another measurement on this machine
"""


def _saying(lines, status, folder, monkeypatch):
    """In place of Snakemake, a process that says these lines and ends with this status."""
    (folder / "snakemake.py").write_text(f"import sys\nprint({lines!r}, end='')\nsys.exit({status})")
    monkeypatch.setattr(workflow, "ROOT", folder)


def test_of_a_workflow_that_ends_well_the_seconds_of_waiting_are_known(tmp_path, monkeypatch, capfd):
    _saying(_SAID, 0, tmp_path, monkeypatch)
    assert workflow._snakemake(_GRID, []) == 3.5
    assert capfd.readouterr().err.splitlines() == _SAID.splitlines()[2:]


@pytest.mark.parametrize(
    ("lines", "of_jobs"),
    [
        (_SAID, False),
        (f"{_SAID}Exiting because a job execution failed. See below for error messages\n{_SAID}", True),
    ],
)
def test_a_workflow_that_fails_says_whether_a_measurement_did(lines, of_jobs, tmp_path, monkeypatch, capfd):
    """Only where one did are its candidates left out and the others compared."""
    _saying(lines, 7, tmp_path, monkeypatch)
    with pytest.raises(workflow.WorkflowError, match="ended with status 7") as error:
        workflow._snakemake(_GRID, [])
    assert error.value.of_jobs is of_jobs
    assert error.value.waited == lines.count("waited 1.5") * 3.5
    assert "Exiting" not in capfd.readouterr().err


_FAKE_SNAKEMAKE = """
import os, subprocess, sys, time
job = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(os.getpid(), job.pid, flush=True)
time.sleep(60)
"""


def test_where_nobody_reads_its_progress_the_workflow_ends(tmp_path, monkeypatch):
    """As behind `head`, which has gone: its jobs would go on, and it would wait for them."""
    (tmp_path / "snakemake.py").write_text(_FAKE_SNAKEMAKE)
    said = []

    class Gone:
        def write(self, line):
            said.append(line)
            raise BrokenPipeError

        def flush(self):
            raise AssertionError("nothing was written")

    monkeypatch.setattr(workflow, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "stderr", Gone())
    with pytest.raises(BrokenPipeError):
        workflow._snakemake(_GRID, [])
    assert all(end_in_time(int(pid)) for pid in said[0].split())


@pytest.mark.parametrize("part", ["", "1 of the 100 epochs, on 2,560 of the 60,000 rows"])
def test_the_report_is_told_what_part_of_a_training_was_measured(part, monkeypatch):
    asked = []
    monkeypatch.setattr(workflow, "_again", lambda *_: None)
    monkeypatch.setattr(
        workflow, "_snakemake", lambda _, arguments, *config: asked.append((arguments, config))
    )
    workflow.report(_GRID, part)
    (_, of_figure), (of_page, config) = asked
    assert "--report" in of_page and of_figure == ()
    assert config == ((f"{SHORTENED}={part}",) if part else ())
    check_keys({one.partition("=")[0]: part for one in config})
