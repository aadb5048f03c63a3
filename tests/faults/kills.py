"""Kill a workflow at random moments, start it again, and count what was lost, half-written or done twice."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil
from project import TINY, Project

from snn.errors import SnnError
from snn.records import store

GRID = TINY | {
    "sweeps": {"killed": {"strategy": ["reference", "combined"], "training.epochs": 30, "protocol.runs": 6}}
}
RECORDS = 2 * TINY["defaults"]["protocol.rounds"]
TARGETS = ("results/tables/killed.csv", "results/figures/killed.svg")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
VICTIMS = ("workflow", "cell", "group")

ENDS_WITHIN = 10.0  # seconds: a workflow after a signal, with all its processes

FAULTS = ("lost", "half-written", "measured twice", "hang", "false success", "traceback", "left behind")


class Torture:
    """One project that is killed again and again; ``counts`` holds what happened, faults among it.

    ``tell`` is called with each fault that is seen, and the work goes on.
    """

    def __init__(self, project: Project, seed: int, tell: Callable[[str], object]) -> None:
        self.project, self._tell = project, tell
        self.counts: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._finished: dict[Path, int] = {}
        self._longest = 12.0
        # If this process ignores it, as in the background of a script, so would the workflows.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        project.write_grid(GRID)
        (project.folder / "locks").mkdir(exist_ok=True)

    def kill(self) -> None:
        """Start the workflow, kill it or its cell at some moment, and look at what is there."""
        number, victim = self._random.choice(SIGNALS), self._random.choice(VICTIMS)
        delay = self._random.uniform(0.3, self._longest)
        what = f"{number.name} to {victim} after {delay:.2f} s"
        second = self._start() if self._random.random() < 0.1 else None
        workflow = self._start()
        started = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            workflow.wait(timeout=delay)
        family = _family(workflow.pid)
        while victim == "cell" and workflow.poll() is None and not any(map(_is_cell, family)):
            time.sleep(0.05)
            family = _family(workflow.pid)
        hit = workflow.poll() is None
        if hit:
            self._send(number, victim, workflow, family)
        ended = self._ended(workflow, 6 * ENDS_WITHIN if victim == "cell" else ENDS_WITHIN)
        self.counts["kills" if hit else "completed before"] += 1
        if second:
            self.counts["second workflows"] += 1
            if not self._ended(second, 10 * ENDS_WITHIN):
                self._fault("hang", f"the second workflow beside {what}")
        if not ended:
            self._fault("hang", what)
        _, alive = psutil.wait_procs(family, timeout=ENDS_WITHIN)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                self._fault("left behind", f"{what}: {' '.join(process.cmdline())[:300]}")
                process.kill()
        self._check_files(what)
        if hit and "Traceback" in (said := self._said(workflow)):
            if "Building DAG" in said or not said.rstrip().endswith("KeyboardInterrupt"):
                self._fault("traceback", f"{what}: {said[said.index('Traceback') :][:4000]}")
            else:  # Ctrl-C while Python loads Snakemake itself, before any code of ours
                self.counts["interrupted before the Snakefile"] += 1
        if 0 in [each.returncode for each in (workflow, second) if each]:
            if not hit:
                self._longest = 0.9 * self._longest + 0.1 * (time.monotonic() - started)
            self._check_success(what)
            self._begin_again()

    def finish(self) -> None:
        """Let the workflow run to its end, and look at what is there."""
        workflow = self._start()
        if not self._ended(workflow, 60 * ENDS_WITHIN) or workflow.returncode:
            self._fault("hang", f"the last run: {self._said(workflow)[-2000:]}")
        self._check_files("the last run")
        self._check_success("the last run")

    def _start(self) -> subprocess.Popen:
        log = self.project.folder / f"log-{time.monotonic_ns()}"
        environment = {**os.environ, "TMPDIR": str(self.project.folder / "locks")}
        options = {"cwd": self.project.folder, "env": environment, "start_new_session": True}
        with log.open("w") as file:
            started = subprocess.Popen(self.project.command(*TARGETS), stdout=file, stderr=file, **options)
        started.log = log  # type: ignore[attr-defined]
        return started

    def _said(self, workflow: subprocess.Popen) -> str:
        return workflow.log.read_text(errors="replace")  # type: ignore[attr-defined]

    def _send(self, number: int, victim: str, workflow: subprocess.Popen, family: list) -> None:
        cell = next((one for one in family if _is_cell(one)), None)
        if victim == "group":
            os.killpg(workflow.pid, number)
        elif victim == "cell" and cell:
            self.counts["cells killed"] += 1
            with suppress(psutil.NoSuchProcess):
                cell.send_signal(number)
        else:
            workflow.send_signal(number)

    def _ended(self, workflow: subprocess.Popen, seconds: float) -> bool:
        try:
            workflow.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(workflow.pid, signal.SIGKILL)
            workflow.wait()
            return False
        return True

    def _check_files(self, what: str) -> None:
        """Every record is whole, and the earlier ones are there untouched."""
        records = {path: path.stat().st_mtime_ns for path in self._folder("cells").rglob("*.json")}
        for path in records:
            try:
                store.read(path)
            except SnnError as error:
                self._fault("half-written", f"{what}: {error}")
        for path, written in self._finished.items():
            if path not in records:
                self._fault("lost", f"{what}: {path.name}")
            elif records[path] != written:
                self._fault("measured twice", f"{what}: {path.name}")
        self._finished = records
        for path in self._folder("tables").glob("*.csv"):
            with suppress(pd.errors.EmptyDataError):
                pd.read_csv(path)

    def _check_success(self, what: str) -> None:
        """A run that ends with 0 has made all that was asked for."""
        missing = [target for target in TARGETS if not (self.project.folder / target).stat().st_size]
        rows = len(self.project.table("killed"))
        if missing or rows != 2 or len(self._finished) < RECORDS:
            self._fault("false success", f"{what}: {missing}, {rows} rows, {len(self._finished)} records")
        self.counts["completed"] += 1

    def _begin_again(self) -> None:
        """Delete all results, or a part of them, so that there is something to do."""
        choice = self._random.choice(("all", "tables", "some", "data"))
        taken = {"all": ("",), "data": ("datasets", "tables", "figures")}
        for folder in taken.get(choice, ("tables", "figures")):
            shutil.rmtree(self._folder(folder), ignore_errors=True)
        for path in list(self._finished):
            if choice in ("some", "data") and self._random.random() < 0.5:
                path.unlink()
            if not path.exists():
                del self._finished[path]

    def _folder(self, name: str) -> Path:
        return self.project.folder / "results" / name

    def _fault(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        self._tell(f"{kind}: {what}")


def _family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_cell(process: psutil.Process) -> bool:
    try:
        return "snn" in process.cmdline()
    except psutil.Error:
        return False
