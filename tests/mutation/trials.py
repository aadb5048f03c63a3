"""Tries mutants in a copy of the checkout: on each, the quick tests that run its line, until one fails.

Every trial is a forked process, so that the libraries are imported once.
"""

import hashlib
import multiprocessing
import os
import pickle
import re
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coverage
import hypothesis
import pytest
from mutants import Mutant

SLOW = (
    *("test_workflow", "test_survival", "test_reruns", "test_retabulate", "test_docs", "test_headline"),
    *("test_kernels", "test_kernels_on_cpu", "test_elementwise_on_cpu", "test_persistent_on_cpu"),
    *("test_ensemble_on_cpu", "test_cuda_on_cpu", "test_cublas", "test_compile", "test_new_layer"),
)
"""Test files that run the pipeline, compile kernels, or read what is published: not for every mutant."""

IGNORED = shutil.ignore_patterns(
    ".git", ".venv", ".snakemake", ".hypothesis", ".mutation", "*cache*", "__pycache__", "cells"
)
SECONDS = 120.0
"""Of tests for a mutant, at most: the quickest come first."""

Tests = dict[str, float]
"""Seconds of each test by its identifier."""


@dataclass
class Covering:
    """Which tests run a line of a file; and any of the file, for lines that are compiled or run at import."""

    seconds: Tests = field(default_factory=dict)
    by_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    by_file: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    by_word: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The tests of the files that name a module, which may read its constants and run nothing of it."""

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests for a mutant, the quickest first, within the limit."""
        lines = {} if mutant.at_import else self.by_line
        found = lines.get((mutant.file, mutant.line)) or self.by_file[mutant.file]
        if mutant.at_import:
            found = found | self.by_word[Path(mutant.file).stem]
        chosen, total = [], 0.0
        for test in sorted(found, key=lambda test: self.seconds.get(test, 0.0)):
            total += self.seconds.get(test, 0.0)
            if total > SECONDS:
                break
            chosen.append(test)
        return chosen


class Trials:
    """A copy of the checkout, and the tests that there are in it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.copy = folder / "checkout"
        shutil.copytree(root, self.copy, ignore=IGNORED)
        self._fork = multiprocessing.get_context("fork")

    def cover(self, memory: Path, say: Callable[[str], None]) -> Covering:
        """Run every quick test once, and note which lines it runs; not those that ``memory`` still knows."""
        found = Covering()
        for path in sorted((self.copy / "tests").glob("test_*.py")):
            file = path.relative_to(self.copy).as_posix()
            if path.stem not in SLOW:
                kept = memory / f"{path.stem}-{self._digest(path)}.pickle"
                if not kept.exists():
                    say(f"which lines does {file} run?")
                    memory.mkdir(exist_ok=True)
                    kept.write_bytes(pickle.dumps(self._in_a_fork(_covered, 1800.0, file)))
                answer = pickle.loads(kept.read_bytes())
                if answer is None:
                    say(f"{file} fails without any mutant: left out")
                    continue
                seconds, lines = answer
                found.seconds |= seconds
                for word in set(re.findall(r"\w+", path.read_text("utf-8"))):
                    found.by_word[word] |= seconds.keys()
                for place, tests in lines.items():
                    found.by_line[place] |= tests
                    found.by_file[place[0]] |= tests
        return found

    def _digest(self, test: Path) -> str:
        """Of all that decides which lines a test file runs, other test files aside."""
        sources = {*self.copy.glob("snn/**/*.py"), *self.copy.glob("config/**/*.yaml"), test}
        helpers = {path for path in self.copy.glob("tests/*.py") if not path.name.startswith("test_")}
        sha = hashlib.sha256()
        for path in sorted(sources | helpers):
            sha.update(path.as_posix().removeprefix(self.copy.as_posix()).encode() + path.read_bytes())
        return sha.hexdigest()[:16]

    def kills(self, mutant: Mutant, tests: list[str], seconds: float) -> bool:
        """Whether one of the tests fails, or hangs, on the mutant."""
        path = self.copy / mutant.file
        original = path.read_bytes()
        try:
            path.write_text(mutant.code, "utf-8")
            return self._in_a_fork(_passes, 30.0 + 10.0 * seconds, tests) is not True
        finally:
            path.write_bytes(original)

    def _in_a_fork(self, do: Callable[..., Any], seconds: float, *arguments: Any) -> Any:
        """What a function returns in a process of its own; None where it fails or takes too long."""
        ours, its = self._fork.Pipe(duplex=False)
        process = self._fork.Process(target=_child, args=(its, self.copy, do, arguments))
        process.start()
        its.close()
        try:
            return ours.recv() if ours.poll(seconds) else None
        except EOFError:
            return None
        finally:
            process.kill()
            process.join()


def _child(pipe: Any, folder: Path, do: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True  # a mutant of the same second and size would be taken for the original
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


def _passes(tests: list[str]) -> bool:
    """Whether all these tests pass, file by file; the one with the quickest test first."""
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
        started = time.perf_counter()
        result = yield
        self.seconds[item.nodeid] = time.perf_counter() - started
        return result


def _covered(file: str) -> tuple[Tests, dict[tuple[str, int], set[str]]] | None:
    """Seconds of each test of a file, and the tests that run each line of ``snn``; None where one fails."""
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
