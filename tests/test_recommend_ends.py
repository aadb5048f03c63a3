"""How `snn recommend` ends before its end: by a signal, with its workflow, and if nobody reads it."""

import os
import signal
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
from conftest import ROOT
from processes import end_in_time

from snn.recommending import workflow

_SLEEPING = """
import subprocess, sys
from snn.workflow.signals import ending_at_once
with ending_at_once():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    print(child.pid, flush=True)
    child.wait()
"""


@pytest.mark.parametrize(
    ("number", "is_gone"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGHUP, True)]
)
def test_a_signal_ends_what_was_started(number, is_gone):
    """Its children have sessions of their own, so that a terminal's Ctrl-C reaches this process alone.

    As when its window was closed, nothing may be said any more, which stops nothing.
    """
    reader, writer = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", _SLEEPING],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=writer,
        text=True,
        preexec_fn=partial(signal.signal, number, signal.SIG_DFL),  # a shell's `&` lets it ignore SIGINT
    ) as run:
        os.close(writer)
        child = int(run.stdout.readline())
        if is_gone:
            os.close(reader)
        run.send_signal(number)
    assert run.returncode == 128 + number
    assert end_in_time(child)
    if not is_gone:
        with os.fdopen(reader) as said:
            assert (
                said.read() == f"ended by {number.name}: the same command continues where this one stopped\n"
            )


def test_what_a_signal_says_is_in_no_file_that_has_the_number_of_a_closed_standard_error(tmp_path):
    opens = f"import os; assert os.open({str(tmp_path / 'file')!r}, os.O_CREAT | os.O_WRONLY) == 2\n"
    code = opens + "import os, signal\nfrom snn.workflow.signals import end_at_once\nend_at_once()\n"
    code += "os.kill(os.getpid(), signal.SIGTERM)"
    done = subprocess.run(["bash", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, code], cwd=ROOT)
    assert done.returncode == 128 + signal.SIGTERM
    assert (tmp_path / "file").read_text() == ""


# ---- the workflow

_JOBS = {
    "good": "echo wait 3 >> $SNN_WAITS; echo wait 0.5 >> $SNN_WAITS; echo notes: $SNN_NOTES >&2; touch good",
    "bad": "echo the reason >&2; exit 2",
    "killed": "kill -9 $$",
}


@pytest.fixture
def run_rules(tmp_path, monkeypatch):
    """A function that runs a workflow of these rules as `snn recommend` does its own."""
    monkeypatch.setattr(workflow, "PROJECT", tmp_path)
    (tmp_path / workflow.FOLDER).mkdir(parents=True)
    grid = SimpleNamespace(plan=SimpleNamespace(device=SimpleNamespace(backend="cpu")), path="grid.yaml")

    def run(rules):
        (tmp_path / "Snakefile").write_text(rules)
        return workflow._snakemake(grid, ["--keep-going"])

    return run


def test_a_workflow_whose_jobs_fail_shows_the_reasons_and_makes_the_rest(run_rules, capfd, tmp_path):
    """Only then are their candidates left out and the others compared. A job that was killed says nothing."""
    (tmp_path / "table.py").write_text("import sys; sys.exit('no table')")
    rules = f"rule all:\n    input: {[*_JOBS, 'table']}\n"
    rules += "".join(
        f"rule {name}:\n    output: '{name}'\n    shell: '{job}'\n" for name, job in _JOBS.items()
    )
    with pytest.raises(workflow.WorkflowError, match=f"ended with status {workflow.JOBS_FAILED}") as error:
        run_rules(f"{rules}rule table:\n    output: 'table'\n    script: 'table.py'\n")
    assert (error.value.of_jobs, error.value.waited) == (True, 3.5)
    said = ["failed: bad", "failed: killed", "failed: table", "no table", "notes: no", "the reason"]
    assert sorted(capfd.readouterr().err.splitlines()) == said
    assert (tmp_path / "good").exists()


def test_a_workflow_that_cannot_begin_says_why(run_rules, capfd):
    with pytest.raises(workflow.WorkflowError, match="ended with status 1") as error:
        run_rules('rule all:\n    input: "nothing"\n')
    assert (error.value.of_jobs, error.value.waited) == (False, 0.0)
    assert "nothing" in capfd.readouterr().err


def test_if_nobody_reads_its_progress_the_workflow_ends(run_rules, monkeypatch):
    """As behind `head`, which has gone: its jobs would go on, and it would wait for them."""
    said = []

    class Gone:
        def write(self, line):
            said.append(line)
            raise BrokenPipeError

        def flush(self):
            raise AssertionError("nothing was written")

    monkeypatch.setattr(sys, "stderr", Gone())
    with pytest.raises(BrokenPipeError):
        run_rules('rule all:\n    shell: "echo $PPID $$ >&2; exec sleep 60"\n')
    assert all(end_in_time(int(pid)) for pid in said[0].split())
