"""Start and watch the workflow of scripts/slurm_check in its cluster, and note what happens.

Every wait checks for records that were written a second time or have disappeared.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from one_node_slurm import Cluster

TABLE = "results/tables/faults.csv"
COMMAND = (
    *(sys.executable, "-m", "snakemake", TABLE, "--profile", "profiles/slurm"),
    # CPU cells ask for a GPU, as those of a GPU do by themselves; logs elsewhere; Slurm is asked more often.
    *("--set-resources", "train:gpu=1", "--slurm-logdir", "logs"),
    *("--slurm-init-seconds-before-status-checks", "3", "--seconds-between-status-checks", "3"),
)


class WaitedInVainError(Exception):
    """Something that a fault needs, or that must follow it, did not happen in time."""


@dataclass
class Check:
    """A project in a cluster, the faults planted in it, and the observations meanwhile."""

    cluster: Cluster
    project: Path
    environment: dict[str, str]
    rows: list[tuple[str, str, list[str]]] = field(default_factory=list)
    victims: set[str] = field(default_factory=set)
    gpus: set[str] = field(default_factory=set)
    kept: str = ""  # output of a job whose record must be kept
    first_seen: dict[Path, bytes] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    workflow: Any = None

    # ---- the workflow

    def start(self) -> None:
        """Start the workflow, always by the same command."""
        with (self.project / "log").open("a") as log:
            self.workflow = subprocess.Popen(
                COMMAND,
                cwd=self.project,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log(self) -> str:
        """Output of the workflows so far."""
        return (self.project / "log").read_text(errors="replace")

    def jobs(self, *states: str) -> dict[str, str]:
        """Outputs of the jobs in these states, by job number; of all jobs without states."""
        asked = f"--states={','.join(states) if states else 'all'}"
        lines = self.cluster.ask("squeue", "--noheader", asked, "--format=%i|%k").splitlines()
        return dict(line.split("|", 1) for line in lines if "|rule_" in line)

    def cells(self) -> dict[str, psutil.Process]:
        """The processes of cells, by the number of their job, except those of victims."""
        found = {}
        for process in self.cluster.processes():
            try:
                line, environment = process.cmdline(), process.environ()
            except psutil.Error:
                continue
            is_cell = line[1:3] == ["-m", "snn"] and "=" in line[3]  # else it is another command
            if is_cell and "SLURM_JOB_ID" in environment:
                found[environment["SLURM_JOB_ID"]] = process
                self.gpus.add(environment.get("CUDA_VISIBLE_DEVICES", "none"))
        return {number: process for number, process in found.items() if number not in self.victims}

    def await_(self, what: str, condition: Callable[[], Any], seconds: float = 100) -> Any:
        """The condition's value when it is true, records watched meanwhile. Raises WaitedInVainError."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.watch()
            if found := condition():
                return found
            time.sleep(0.1)
        raise WaitedInVainError(f"{what} did not come within {seconds:.0f} s")

    def watch(self) -> None:
        """Notice a record that is measured a second time, or that goes."""
        for path in (self.project / "results/cells").rglob("[!.]*.json"):
            self.first_seen.setdefault(path, path.read_bytes())
        for path, content in self.first_seen.items():
            now = path.read_bytes() if path.exists() else b""
            if now != content:
                self.wrong.append(f"{path.name} was {'measured again' if now else 'removed'}")
                self.first_seen[path] = now

    def states(self) -> dict[str, str]:
        """Final states of ended jobs, from Slurm's own list."""
        return {number: job["JobState"] for number, job in self.cluster.completed().items()}

    def await_ends(self, numbers: list[str]) -> list[str]:
        """Final states of these jobs."""
        what = f"the end of jobs {', '.join(numbers)}"
        states = self.await_(what, lambda: (found := self.states()).keys() >= set(numbers) and found)
        return [states[number] for number in numbers]

    def hit(self, fault: str, numbers: list[str]) -> list[str]:
        """Row of the table with the final states of a fault's jobs."""
        states = self.await_ends(numbers)
        ends = ", ".join(f"{number} {state}" for number, state in zip(numbers, states, strict=True))
        self.rows.append((fault, ends, numbers))
        return states

    def table(self) -> str:
        """Each fault, how its jobs ended, and which jobs completed their work in the end."""
        jobs = self.jobs()
        done = {jobs[number]: number for number, state in self.states().items() if state == "COMPLETED"}
        lines = [("fault", "jobs", "completed by")]
        for fault, happened, numbers in self.rows:
            # A job may be ended when its record is written: then no other one needs to complete.
            completed = [done.get(jobs[number], "record kept") for number in numbers]
            lines.append((fault, happened, ", ".join(completed)))
        widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
        return "\n".join(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in lines)
