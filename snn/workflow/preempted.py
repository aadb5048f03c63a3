"""Slurm jobs that were preempted: Snakemake waits for ever for one that Slurm does not start again.

The executor takes a preempted job for one that Slurm will resume. With ``slurm-no-requeue``, and on a cluster
that cancels what it preempts, it never does.
"""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from snn.workflow import slurm


class Preempted:
    """The preempted jobs of a workflow, as it learns of them from the states of all jobs of its folder."""

    def __init__(self, before: Mapping[str, str]) -> None:
        """``before``: the states before the workflow has submitted any job."""
        self._earlier = frozenset(before)
        self._jobs = set[str]()
        self._was_idle = False

    def alone(self, states: Mapping[str, str]) -> list[str]:
        """The preempted jobs, if for the second time in turn no job is left but these; else none."""
        own = {number: state for number, state in states.items() if number not in self._earlier}
        for number, state in own.items():
            (self._jobs.add if state == slurm.PREEMPTED else self._jobs.discard)(number)
        was_idle, self._was_idle = self._was_idle, not any(map(slurm.is_at_work, own.values()))
        return sorted(self._jobs) if was_idle and self._was_idle else []


def watch(folder: Path, seconds: float, then: Callable[[list[str]], None]) -> None:
    """Call ``then`` from a thread, once, with the preempted jobs of a folder when no other job is left.

    Slurm is asked every so many seconds. It forgets a job some minutes after its end; the thread does not.
    Where it does not answer, it is asked again later. Raises SlurmError if it cannot be asked at the start.
    """
    preempted = Preempted(slurm.states_of(folder))

    def ask() -> None:
        while True:
            time.sleep(seconds)
            try:
                jobs = preempted.alone(slurm.states_of(folder))
            except slurm.SlurmError:
                continue
            if jobs:
                then(jobs)
                return

    threading.Thread(target=ask, daemon=True, name="preempted").start()
