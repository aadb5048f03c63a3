"""Tries mutants in copies of the checkout: on each, the quick tests that run its line, until one fails.

Every trial is a forked process, so that the libraries are imported once.
"""

import contextlib
import hashlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import coverage
import hypothesis
import pytest
from mutants import Mutant

SLOW = (
    *("test_workflow", "test_survival", "test_reruns", "test_retabulate", "test_docs", "test_headline"),
    "test_threads",
    *("test_kernels", "test_kernels_on_cpu", "test_elementwise_on_cpu", "test_persistent_on_cpu"),
    *("test_ensemble_on_cpu", "test_cuda_on_cpu", "test_warps_on_cpu", "test_cublas", "test_compile"),
    "test_new_layer",
)
"""Test files that run the pipeline, compile kernels, or read what is published: not for every mutant."""

IGNORED = shutil.ignore_patterns(
    ".git", ".venv", ".snakemake", ".hypothesis", ".mutation", ".*_cache", "__pycache__", "cells"
)
SECONDS = 60.0
"""Of tests for a mutant, at most: the quickest come first."""

Tests = dict[str, float]
"""Seconds of each test by its identifier."""

Covered = tuple[Tests, dict[tuple[str, int], set[str]]]
"""What one test file runs: the seconds of its tests, and the tests that run each line of ``snn``."""


@dataclass
class Covering:
    """Which tests run a line of a file; and any of the file, for lines that are compiled or run at import."""

    seconds: Tests = field(default_factory=dict)
    by_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    by_file: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    by_word: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The tests of the files that name a module, which may read its constants and run nothing of it."""
    failing: list[str] = field(default_factory=list)
    """Files of tests that fail without any mutant, and so are left out."""

    def add(self, path: Path, seconds: Tests, lines: dict[tuple[str, int], set[str]]) -> None:
        """What one test file runs."""
        self.seconds |= seconds
        for word in set(re.findall(r"\w+", path.read_text("utf-8"))):
            self.by_word[word] |= seconds.keys()
        for place, tests in lines.items():
            self.by_line[place] |= tests
            self.by_file[place[0]] |= tests

    def tests(self, mutant: Mutant) -> list[str]:
        """The quickest tests for a mutant, within the limit: file by file, and what takes least first."""
        lines = {} if mutant.at_import else self.by_line
        found = lines.get((mutant.file, mutant.line)) or self.by_file[mutant.file]
        if mutant.at_import:
            found = found | self.by_word[Path(mutant.file).stem]
        chosen: dict[str, list[str]] = defaultdict(list)
        total = 0.0
        for test in sorted(found, key=lambda test: self.seconds.get(test, 0.0)):
            total += self.seconds.get(test, 0.0)
            if total > SECONDS:
                break
            chosen[test.partition("::")[0]].append(test)
        files = sorted(chosen.values(), key=lambda tests: sum(self.seconds.get(one, 0.0) for one in tests))
        return [test for tests in files for test in tests]


def copied(root: Path, folder: Path) -> Path:
    """A copy of the checkout, for mutants."""
    shutil.copytree(root, folder, ignore=IGNORED)
    return folder


class Trials:
    """Copies of the checkout, in each of which one mutant at a time is tried."""

    def __init__(self, copies: list[Path], memory: Path, say: Callable[[str], None]) -> None:
        self._copies = copies
        self._covering = self._cover(copies, memory, say)
        self.failing = self._covering.failing

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

    def _cover(self, copies: list[Path], memory: Path, say: Callable[[str], None]) -> Covering:
        """Run every quick test once, and note which lines it runs; not those that ``memory`` still knows."""
        memory.mkdir(exist_ok=True)
        files = [path for path in sorted((copies[0] / "tests").glob("test_*.py")) if path.stem not in SLOW]
        answers = {path: self._known(copies[0], memory, path) for path in files}
        waiting = iter([path for path, answer in answers.items() if answer is None])
        running: dict[Path, tuple[Path, _Fork]] = {}
        while True:
            for copy in copies:
                if copy not in running and (path := next(waiting, None)) is not None:
                    say(f"which lines does tests/{path.name} run?")
                    running[copy] = path, _Fork(copy, _covered, f"tests/{path.name}")
            if not running:
                break
            multiprocessing.connection.wait([fork.answer for _, fork in running.values()])
            for copy, (path, fork) in list(running.items()):
                if fork.answer.poll():
                    del running[copy]
                    answers[path] = answer = fork.result(0.0)
                    kept = _digest(copies[0], path, answer), answer
                    (memory / f"{path.stem}.pickle").write_bytes(pickle.dumps(kept))
        found = Covering()
        for path, answer in answers.items():
            if answer is None:
                found.failing.append(f"tests/{path.name}")
            else:
                found.add(path, *answer)
        return found

    @staticmethod
    def _known(copy: Path, memory: Path, path: Path) -> Covered | None:
        """What a test file ran before, where nothing that it runs has changed."""
        kept = memory / f"{path.stem}.pickle"
        digest, answer = pickle.loads(kept.read_bytes()) if kept.exists() else (None, None)
        return answer if digest is not None and digest == _digest(copy, path, answer) else None


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
        self.fork = _Fork(copy, _passes, self.tests, 10 + round(3 * seconds))

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


def _digest(copy: Path, test: Path, answer: Covered | None) -> str:
    """Of all that decides which lines a test file runs: the files with these lines, it and its helpers.

    All files of ``snn`` where there is no ``answer``, since the tests failed.
    """
    ran = (
        {copy / file for (file, _), tests in answer[1].items() if tests}
        if answer
        else copy.glob("snn/**/*.py")
    )
    sources = {*ran, *copy.glob("config/**/*.yaml"), test}
    helpers = {path for path in copy.glob("tests/*.py") if not path.name.startswith("test_")}
    sha = hashlib.sha256()
    for path in sorted(sources | helpers):
        sha.update(path.relative_to(copy).as_posix().encode())
        sha.update(path.read_bytes() if path.exists() else b"")
    return sha.hexdigest()


class _Fork:
    """A function that runs in a process of its own."""

    def __init__(self, folder: Path, do: Callable[..., Any], *arguments: Any) -> None:
        fork = multiprocessing.get_context("fork")
        self.answer, its = fork.Pipe(duplex=False)
        self._process = fork.Process(target=_child, args=(its, folder, do, arguments))
        self._process.start()
        its.close()

    def result(self, seconds: float) -> Any:
        """What it returns; None where it fails or takes longer."""
        try:
            return self.answer.recv() if self.answer.poll(seconds) else None
        except EOFError:
            return None
        finally:
            if self._process.pid is not None:  # with whatever its tests have started
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()
            self.answer.close()


def _child(pipe: Any, folder: Path, do: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.setsid()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    temporary = folder.with_name(f"{folder.name}-temporary")  # where devices are locked: in no other's way
    temporary.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silent, stream)
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # what fails need not be made smaller
    usual = {"database": None, "derandomize": True, "deadline": None}
    hypothesis.settings.register_profile("mutants", phases=phases, **usual)
    hypothesis.settings.load_profile("mutants")
    pipe.send(do(*arguments))


def _pytest(files: Iterable[str], plugin: Any) -> int:
    options = ("-n", "0", "-x", "-q", "-p", "no:cacheprovider", "-m", "not gpu and not alone")
    return pytest.main([*options, *files], plugins=[plugin])


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
    return all(_pytest([file], _Chosen(tests)) == pytest.ExitCode.OK for file in files)


class _Contexts:
    """Names each test as the context of what it runs, and keeps its seconds."""

    def __init__(self, measuring: coverage.Coverage) -> None:
        self._measuring = measuring
        self.seconds: Tests = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._measuring.switch_context(item.nodeid)
        started = sum(os.times()[:4])  # of the processor, which does not depend on what else runs
        result = yield
        self.seconds[item.nodeid] = sum(os.times()[:4]) - started
        return result


def _covered(file: str) -> Covered | None:
    """What a test file runs; None where one of its tests fails."""
    measuring = coverage.Coverage(data_file=None, source=["snn"], config_file=False)
    contexts = _Contexts(measuring)
    measuring.start()
    code = _pytest([file], contexts)
    measuring.stop()
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return None
    data, lines = measuring.get_data(), {}
    for path in data.measured_files():
        name = Path(path).relative_to(Path.cwd()).as_posix()
        for line, tests in data.contexts_by_lineno(path).items():
            lines[name, line] = {test for test in tests if test in contexts.seconds}
    return contexts.seconds, lines
