"""What a workflow does about Slurm's jobs in its folder. scripts/slurm_check shows it on a real cluster."""

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from conftest import ROOT

from snn.workflow import slurm

RUN_ID = "7f0c2f5e-4d1a-4c8e-9b6f-0123456789ab"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A folder with jobs, and commands that answer from a file and write down what they are asked."""
    (tmp_path / "folder" / slurm.MARK).parent.mkdir(parents=True)
    (tmp_path / "folder" / slurm.MARK).touch()
    programs = {
        "squeue": """echo asked >> "$CLUSTER/asked"; cat "$CLUSTER/queue" || exit 1
                     [ ! -e "$CLUSTER/next" ] || mv "$CLUSTER/next" "$CLUSTER/queue" """,
        "scancel": 'echo "$@" >> "$CLUSTER/cancelled"',
    }
    (tmp_path / "bin").mkdir()
    for name, does in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("CLUSTER", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "_POLL_SECONDS", 0.01)
    return tmp_path


def job(number, state, name=RUN_ID, folder="folder", root=None):
    return f"{number}|{state}|{name}|{root}/{folder}\n"


def test_the_jobs_of_a_folder_are_those_of_workflows_that_have_not_ended(cluster):
    (cluster / "queue").write_text(
        job(1, "RUNNING", root=cluster)
        + job(2, "PENDING", f"mine_{RUN_ID}", root=cluster)
        + job(3, "COMPLETED", root=cluster)
        + job(4, "CANCELLED", root=cluster)
        + job(5, "RUNNING", "my own|shell", root=cluster)
        + job(6, "RUNNING", folder="elsewhere", root=cluster)
        + job(7, "COMPLETING", root=cluster)
    )
    found = slurm.jobs_of(cluster / "folder")
    assert found == [slurm.Job("1", False), slurm.Job("2", True), slurm.Job("7", False)]


def test_slurm_is_not_asked_about_a_folder_that_never_had_jobs(cluster):
    (cluster / "queue").write_text(job(1, "RUNNING", root=cluster))
    (cluster / "folder" / slurm.MARK).unlink()
    assert slurm.jobs_of(cluster / "folder") == []
    assert not (cluster / "asked").exists()


@pytest.mark.parametrize("installed", [True, False])
def test_it_is_said_where_slurm_does_not_answer(cluster, monkeypatch, installed):
    if not installed:
        monkeypatch.setenv("PATH", str(cluster / "empty"))
    with pytest.raises(
        slurm.SlurmError, match=r"may still be at work in .*folder, but squeue fails: .*queue"
    ):
        slurm.await_end(cluster / "folder")


def test_waiting_jobs_are_cancelled_and_running_ones_awaited(cluster, capsys):
    (cluster / "queue").write_text(job(1, "RUNNING", root=cluster) + job(2, "PENDING", root=cluster))
    (cluster / "next").write_text(job(1, "COMPLETED", root=cluster) + job(2, "CANCELLED", root=cluster))
    slurm.await_end(cluster / "folder")
    assert (cluster / "cancelled").read_text() == "--state=PENDING 2\n"
    assert "to give them up: scancel 1" in capsys.readouterr().err


def test_all_jobs_are_cancelled_with_the_workflow(cluster):
    (cluster / "queue").write_text(job(1, "RUNNING", root=cluster) + job(2, "PENDING", root=cluster))
    slurm.cancel_all(cluster / "folder")
    assert (cluster / "cancelled").read_text() == "1 2\n"


@pytest.mark.parametrize(("does", "printed"), [("print('cancelled')", "cancelled"), ("1 / 0", "division by")])
def test_a_signal_ends_what_is_elsewhere_too(does, printed):
    program = (
        "import os, signal; from snn.workflow.signals import end_at_once;"
        f"end_at_once(lambda: {does.replace(')', ', flush=True)')}); os.kill(os.getpid(), signal.SIGTERM)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGTERM
    assert printed in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_it_is_said_where_slurm_does_not_cancel_a_job(cluster):
    """Not at the first time: the job may just have begun."""
    (cluster / "queue").write_text(job(2, "PENDING", root=cluster))
    (cluster / "bin/scancel").write_text("#!/bin/sh\necho Access denied >&2; exit 1\n")
    with pytest.raises(slurm.SlurmError, match=r"scancel says Access denied\. .* when they have gone: 2$"):
        slurm.await_end(cluster / "folder")
    assert (cluster / "asked").read_text().count("asked") == 2
    with pytest.raises(slurm.SlurmError, match=r"scancel says Access denied\. .* when they have gone: 2$"):
        slurm.cancel_all(cluster / "folder")


def test_a_job_that_ended_before_it_was_cancelled_is_no_error(cluster):
    (cluster / "queue").write_text(job(2, "RUNNING", root=cluster))
    (cluster / "next").write_text(job(2, "COMPLETED", root=cluster) + job(3, "COMPLETING", root=cluster))
    (cluster / "bin/scancel").write_text('#!/bin/sh\n[ "$*" = 3 ] || { echo Invalid job id >&2; exit 1; }\n')
    slurm.cancel_all(cluster / "folder")  # the other one is about to end


@pytest.mark.parametrize("cancel", [slurm.await_end, slurm.cancel_all])
def test_it_is_said_where_there_is_no_scancel(cluster, cancel, monkeypatch):
    (cluster / "queue").write_text(job(2, "PENDING", root=cluster))
    (cluster / "bin/scancel").unlink()
    for name in ("cat", "mv"):  # of squeue; a machine with Slurm has a scancel beside them
        (cluster / "bin" / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(cluster / "bin"))
    with pytest.raises(slurm.SlurmError, match=r"scancel fails: .*; jobs .* are still there: 2$"):
        cancel(cluster / "folder")


# ---- preempted jobs


@pytest.mark.parametrize(
    ("seen", "alone"),
    [
        (["P", "P"], ["2"]),  # nothing else is left
        (["P", "", ""], ["2"]),  # Slurm has forgotten it
        (["PR", "PR", "PP", "PP"], ["2", "3"]),
        (["P"], []),  # a job may be about to be submitted
        (["PR", "PR", "PC"], []),
        (["PW", "PW"], []),
        (["P", "W", "R", "C", "C"], []),  # Slurm has started it again
        (["C", "C"], []),
        (["", ""], []),
    ],
)
def test_preempted_jobs_are_told_of_when_no_other_is_left(seen, alone):
    states = {"P": "PREEMPTED", "R": "RUNNING", "W": "PENDING", "C": "COMPLETED"}
    before = {"1": "PREEMPTED"}
    later = [{str(number): states[one] for number, one in enumerate(letters, 2)} for letters in seen]
    assert slurm.preempted_alone([before, *(before | one for one in later)]) == alone


def test_slurm_is_asked_until_it_is_so_also_where_it_does_not_answer_once(tmp_path, monkeypatch):
    """From a thread for which no process stays."""
    answers = iter([{}, None, {"2": "RUNNING"}, None, {"2": "PREEMPTED"}, {"2": "PREEMPTED"}])

    def states_of(folder):
        assert folder == tmp_path
        asking.append(threading.current_thread())
        if (answer := next(answers)) is None:
            raise slurm.SlurmError("squeue fails")
        return answer

    monkeypatch.setattr(slurm, "states_of", states_of)
    told, asking = queue.Queue(), []
    slurm.watch_for_preemption(tmp_path, 0, told.put)
    assert told.get(timeout=60) == ["2"]
    assert not list(answers)
    assert all(thread.daemon for thread in asking[1:]) and asking[0] is threading.main_thread()
