"""Tries mutants in copies of the checkout: on each, the quick tests that run its line, until one fails."""

import multiprocessing
import multiprocessing.connection
import os
import resource
import shutil
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest
from covering import Covering
from forks import Fork, run_tests
from mutants import Mutant

IGNORED = shutil.ignore_patterns(
    ".git", ".venv", ".snakemake", ".hypothesis", ".mutation", ".*_cache", "__pycache__", "cells"
)


def copied(root: Path, folder: Path) -> Path:
    """A copy of the checkout, for mutants."""
    shutil.copytree(root, folder, ignore=IGNORED)
    return folder


class Trials:
    """Copies of the checkout, in each of which one mutant at a time is tried."""

    def __init__(self, copies: list[Path], covering: Covering) -> None:
        self._copies, self._covering = copies, covering

    def of(self, mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, int, bool]]:
        """Each mutant with the number of tests that it was to face, and whether one of them killed it."""
        waiting = iter(mutants)
        trials = dict.fromkeys(self._copies)
        while True:
            for copy, trial in trials.items():
                if trial is None and (mutant := next(waiting, None)) is not None:
                    trials[copy] = _Trial(copy, mutant, self._covering)
            running = {copy: trial for copy, trial in trials.items() if trial is not None}
            if not running:
                return
            first = min(trial.left() for trial in running.values())
            multiprocessing.connection.wait([trial.fork.answer for trial in running.values()], first)
            for copy, trial in running.items():
                if trial.fork.answer.poll() or trial.left() == 0.0:
                    trials[copy] = None
                    yield trial.mutant, len(trial.tests), trial.killed()


class _Trial:
    """One mutant in one copy, and the quick tests of it, in a process.

    Its file has a time of its own: Python takes a compiled file for that of any source of the same second and
    size, and so for that of the mutant before.
    """

    _number = count(1)

    def __init__(self, copy: Path, mutant: Mutant, covering: Covering) -> None:
        self.mutant, self.tests = mutant, covering.tests(mutant)
        self._path = copy / mutant.file
        self._original, self._written = self._path.read_bytes(), int(self._path.stat().st_mtime)
        self._path.write_text(mutant.code, "utf-8")
        self._dated(self._written + next(self._number))
        seconds = sum(covering.seconds[one] for one in self.tests)
        self._ends = time.monotonic() + 60.0 + 20.0 * seconds
        self.fork = Fork(copy, _passes, self.tests, 10 + round(3 * seconds))

    def left(self) -> float:
        """Seconds that it still has."""
        return max(0.0, self._ends - time.monotonic())

    def killed(self) -> bool:
        """Whether one of the tests fails, or hangs; the copy is as it was then."""
        try:
            return self.fork.result(0.0) is not True
        finally:
            self._path.write_bytes(self._original)
            self._dated(self._written)

    def _dated(self, second: int) -> None:
        os.utime(self._path, (second, second))


class _Chosen:
    """Leaves only the chosen tests."""

    def __init__(self, tests: Iterable[str]) -> None:
        self._tests = set(tests)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._tests]


def _passes(tests: list[str], most_seconds: int) -> bool:
    """Whether all these tests pass, file by file; more seconds of a processor end the process."""
    resource.setrlimit(resource.RLIMIT_CPU, (most_seconds, most_seconds))
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    return all(run_tests([file], _Chosen(tests)) == pytest.ExitCode.OK for file in files)
