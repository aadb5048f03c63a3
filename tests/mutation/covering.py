"""Which quick tests run a line: found once, and kept until what a file of tests runs changes."""

import hashlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coverage
import pytest
from forks import Fork, run_tests
from mutants import Mutant

SLOW = (
    *("test_workflow", "test_workflow_additions", "test_survival", "test_reruns", "test_retabulate"),
    *("test_docs", "test_headline", "test_threads"),
    *("test_kernels", "test_kernels_on_cpu", "test_elementwise_on_cpu", "test_persistent_on_cpu"),
    *("test_ensemble_on_cpu", "test_cuda_on_cpu", "test_warps_on_cpu", "test_cublas", "test_compile"),
    *("test_new_layer", "test_launched_training"),
)
"""Test files that run the pipeline, compile kernels, or read what is published: not for every mutant."""
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


def cover(copies: list[Path], memory: Path, say: Callable[[str], None]) -> Covering:
    """Run every quick test once, and note which lines it runs; not those that ``memory`` still knows."""
    memory.mkdir(exist_ok=True)
    files = [path for path in sorted((copies[0] / "tests").glob("test_*.py")) if path.stem not in SLOW]
    answers = {path: _known(copies[0], memory, path) for path in files}
    waiting = iter([path for path, answer in answers.items() if answer is None])
    running: dict[Path, tuple[Path, Fork]] = {}
    while True:
        for copy in copies:
            if copy not in running and (path := next(waiting, None)) is not None:
                say(f"which lines does tests/{path.name} run?")
                running[copy] = path, Fork(copy, _covered, f"tests/{path.name}")
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


def _known(copy: Path, memory: Path, path: Path) -> Covered | None:
    """What a test file ran before, where nothing that it runs has changed."""
    kept = memory / f"{path.stem}.pickle"
    digest, answer = pickle.loads(kept.read_bytes()) if kept.exists() else (None, None)
    return answer if digest is not None and digest == _digest(copy, path, answer) else None


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
    code = run_tests([file], contexts)
    measuring.stop()
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return None
    data, lines = measuring.get_data(), {}
    for path in data.measured_files():
        name = Path(path).relative_to(Path.cwd()).as_posix()
        for line, tests in data.contexts_by_lineno(path).items():
            lines[name, line] = {test for test in tests if test in contexts.seconds}
    return contexts.seconds, lines
