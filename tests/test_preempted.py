"""What a workflow does about preempted jobs. scripts/slurm_check shows it on a real cluster."""

import queue
import threading

import pytest

from snn.workflow import preempted, slurm


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
    jobs = preempted.Preempted(before)
    for letters in seen:
        found = jobs.alone(before | {str(number): states[one] for number, one in enumerate(letters, 2)})
    assert found == alone


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
    preempted.watch(tmp_path, 0, told.put)
    assert told.get(timeout=60) == ["2"]
    assert not list(answers)
    assert all(thread.daemon for thread in asking[1:]) and asking[0] is threading.main_thread()
