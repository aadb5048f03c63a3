"""Runs tests in copies of the checkout: which quick tests run a line, and whether one of them kills a mutant.

Tests run in forks of a process that has imported the libraries, and nothing of ``snn``, which is mutated.
"""

import contextlib
import hashlib
import math
import multiprocessing
import os
import pickle
import queue
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from unittest import mock

import coverage
import hypothesis
import pytest
from mutants import Mutant

SLOW = (
    *("test_workflow", "test_workflow_additions", "test_survival", "test_reruns", "test_retabulate"),
    *("test_docs", "test_headline", "test_threads"),
    *("test_kernels", "test_kernels_on_cpu", "test_persistent_on_cpu"),
    *("test_ensemble_on_cpu", "test_cuda_on_cpu", "test_cublas", "test_compile"),
    *("test_new_layer", "test_launched_training"),
)
"""Test files that run the pipeline, compile kernels, or read what is published: not for every mutant."""
SECONDS = 60.0
"""Of tests for a mutant, at most: the quickest come first."""

_COPIED = shutil.ignore_patterns(
    *(".git", ".venv", ".snakemake", ".hypothesis", ".mutation", ".*_cache", "__pycache__", "cells")
)
_LIBRARIES = (
    *("hydra", "jsonschema", "matplotlib.pyplot", "numba", "numpy", "omegaconf", "pandas", "psutil"),
    *("threadpoolctl", "yaml"),
)

Covered = tuple[dict[str, float], dict[tuple[str, int], set[str]]]
"""What one test file runs: the seconds of its tests, and the tests that run each line of ``snn``."""


@dataclass
class Covering:
    """Which tests run a line of a file; and any of the file, for lines that are compiled or run at import."""

    seconds: dict[str, float] = field(default_factory=dict)
    by_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    by_file: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    by_word: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The tests of the files that name a module, which may read its constants and run nothing of it."""
    failing: list[str] = field(default_factory=list)
    """Files of tests that fail without any mutant, and so are left out."""

    def add(self, path: Path, covered: Covered | None) -> None:
        """What one test file runs; None if one of its tests fails."""
        if covered is None:
            self.failing.append(f"tests/{path.name}")
            return
        seconds, lines = covered
        self.seconds |= seconds
        for word in set(re.findall(r"\w+", path.read_text("utf-8"))):
            self.by_word[word] |= seconds.keys()
        for place, tests in lines.items():
            self.by_line[place] |= tests
            self.by_file[place[0]] |= tests

    def tests(self, mutant: Mutant) -> list[str]:
        """The quickest tests for a mutant, within the limit: file by file, and what takes least first."""
        found = self.by_file[mutant.file]
        if mutant.at_import:
            found = found | self.by_word[Path(mutant.file).stem]
        else:
            found = self.by_line.get((mutant.file, mutant.line)) or found
        chosen: dict[str, list[str]] = defaultdict(list)
        total = 0.0
        for test in sorted(found, key=lambda test: self.seconds.get(test, 0.0)):
            total += self.seconds.get(test, 0.0)
            if total > SECONDS:
                break
            chosen[test.partition("::")[0]].append(test)
        files = sorted(chosen.values(), key=lambda tests: sum(self.seconds.get(one, 0.0) for one in tests))
        return [test for tests in files for test in tests]


class Copies:
    """Copies of the checkout, in each of which one process at a time runs tests."""

    def __init__(self, root: Path, folder: Path, jobs: int) -> None:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the tests have it
        self._forking = multiprocessing.get_context("forkserver")
        self._forking.set_forkserver_preload([*_LIBRARIES, __name__])
        with mock.patch.dict(os.environ, PYTHONPATH=str(Path(__file__).parent)):  # needed before Python 3.12
            forkserver.ensure_running()
        self._number, self._over = 0, False
        self._threads = ThreadPoolExecutor(jobs)
        self._free: queue.Queue[Path] = queue.Queue()
        for number in range(jobs):
            self.first = folder / str(number)
            self._free.put(shutil.copytree(root, self.first, ignore=_COPIED))

    def cover(self, memory: Path, say: Callable[[str], None]) -> Covering:
        """Run every quick test once, and note which lines it runs; not those that ``memory`` still knows."""
        memory.mkdir(exist_ok=True)
        files = [path for path in sorted((self.first / "tests").glob("test_*.py")) if path.stem not in SLOW]
        answers = {path: _known(self.first, memory, path) for path in files}
        new = [path for path, answer in answers.items() if answer is None]
        for path, answer in self._each(new, self._covered, lambda path: say(f"tests/{path.name} was run")):
            answers[path] = answer
            kept = pickle.dumps((_digest(self.first, path, answer), answer))
            (memory / f"{path.stem}.pickle").write_bytes(kept)
        found = Covering()
        for path, answer in answers.items():
            found.add(path, answer)
        return found

    def killed(self, mutants: Iterable[Mutant], covering: Covering) -> Iterator[tuple[Mutant, bool]]:
        """Each mutant with whether one of the quick tests of its line fails, or hangs."""
        return self._each(mutants, lambda copy, mutant: self._is_killed(copy, mutant, covering))

    def _each(
        self,
        many: Iterable[Any],
        do: Callable[[Path, Any], Any],
        say: Callable[[Any], None] = lambda one: None,
    ) -> Iterator[tuple[Any, Any]]:
        """What a function of a copy and of one of many returns for each."""

        def in_copy(one: Any) -> tuple[Any, Any]:
            copy = self._free.get()
            try:
                return one, do(copy, one)
            finally:
                self._free.put(copy)

        running = [self._threads.submit(in_copy, one) for one in many]
        try:
            for done in as_completed(running):
                say(done.result()[0])
                yield done.result()
        except BaseException:  # as by Ctrl-C
            self._over = True
            self._threads.shutdown(cancel_futures=True)
            raise

    def _covered(self, copy: Path, path: Path) -> Covered | None:
        return self._forked(copy, math.inf, _covered, f"tests/{path.name}")

    def _is_killed(self, copy: Path, mutant: Mutant, covering: Covering) -> bool:
        """Whether a test fails. The copy is as it was then.

        The mutant's file has a time of its own: Python takes a compiled file for that of any source of the
        same second and size, and so for that of the mutant before.
        """
        tests = covering.tests(mutant)
        seconds = sum(covering.seconds[one] for one in tests)
        path = copy / mutant.file
        original, written = path.read_bytes(), int(path.stat().st_mtime)
        self._number += 1
        path.write_text(mutant.code, "utf-8")
        os.utime(path, (written + self._number,) * 2)
        try:
            passes = self._forked(copy, 60.0 + 20.0 * seconds, _passes, tests, 10 + round(3 * seconds))
            return passes is not True
        finally:
            path.write_bytes(original)
            os.utime(path, (written, written))

    def _forked(self, copy: Path, seconds: float, do: Callable[..., Any], *arguments: Any) -> Any:
        """What a function returns in a process of its own; None where it fails or takes longer."""
        answer, its = self._forking.Pipe(duplex=False)
        process = self._forking.Process(target=_child, args=(its, copy, do, arguments))
        process.start()
        its.close()
        ends = time.monotonic() + seconds
        try:
            while not answer.poll(1.0):
                if self._over or time.monotonic() > ends:
                    return None
            return answer.recv()
        except EOFError:
            return None
        finally:
            if process.pid is not None:  # with whatever its tests have started
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()
            answer.close()


def _known(copy: Path, memory: Path, path: Path) -> Covered | None:
    """What a test file ran before, where nothing that it runs has changed."""
    kept = memory / f"{path.stem}.pickle"
    digest, answer = pickle.loads(kept.read_bytes()) if kept.exists() else (None, None)
    return answer if digest is not None and digest == _digest(copy, path, answer) else None


def _digest(copy: Path, test: Path, answer: Covered | None) -> str:
    """Of all that decides which lines a test file runs: the files with these lines, it and its helpers.

    All files of ``snn`` where there is no ``answer``, since the tests failed.
    """
    of_answer = {copy / file for (file, _), tests in answer[1].items() if tests} if answer else None
    helpers = {path for path in copy.glob("tests/*.py") if not path.name.startswith("test_")}
    sources = {*(of_answer or copy.glob("snn/**/*.py")), *copy.glob("config/**/*.yaml"), test, *helpers}
    sha = hashlib.sha256()
    for path in sorted(sources):
        sha.update(path.relative_to(copy).as_posix().encode())
        sha.update(path.read_bytes() if path.exists() else b"")
    return sha.hexdigest()


# ---- in the new process


def _child(pipe: Any, folder: Path, do: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.setsid()
    os.environ.pop("PYTHONPATH", None)
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


def _run(files: Iterable[str], plugin: Any) -> int:
    options = ("-n", "0", "-x", "-q", "-p", "no:cacheprovider", "-m", "not gpu and not alone")
    return pytest.main([*options, *files], plugins=[plugin])


def _passes(tests: list[str], most_seconds: int) -> bool:
    """Whether all these tests pass, file by file; more seconds of a processor end the process."""

    class Chosen:
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            items[:] = [item for item in items if item.nodeid in tests]

    resource.setrlimit(resource.RLIMIT_CPU, (most_seconds, most_seconds))
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    return all(_run([file], Chosen()) == pytest.ExitCode.OK for file in files)


def _covered(file: str) -> Covered | None:
    """What a test file runs; None where one of its tests fails."""
    measuring = coverage.Coverage(data_file=None, source=["snn"], config_file=False)
    seconds: dict[str, float] = {}

    class Contexts:
        """Names each test as the context of what it runs, and keeps its seconds."""

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
            measuring.switch_context(item.nodeid)
            started = sum(os.times()[:4])  # of the processor, which does not depend on what else runs
            result = yield
            seconds[item.nodeid] = sum(os.times()[:4]) - started
            return result

    measuring.start()
    code = _run([file], Contexts())
    measuring.stop()
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return None
    data, lines = measuring.get_data(), {}
    for path in data.measured_files():
        name = Path(path).relative_to(Path.cwd()).as_posix()
        for line, tests in data.contexts_by_lineno(path).items():
            lines[name, line] = {test for test in tests if test in seconds}
    return seconds, lines
