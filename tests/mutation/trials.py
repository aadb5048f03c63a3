"""Which quick tests run a line, and whether one of them kills a mutant: cosmic-ray runs them in copies."""

import contextlib
import hashlib
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import coverage
from cosmic_ray.mutating import mutate_and_test
from mutants import Mutant

SLOW = (
    *("test_workflow", "test_survival", "test_reruns", "test_retabulate"),
    *("test_docs", "test_benchmarks", "test_environment"),
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
PYTEST = ("-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", "-m", "not gpu and not alone")
PYTEST += ("--hypothesis-profile", "ci")
_DYNAMIC = "[run]\nsource = snn\ndynamic_context = test_function\n"


@dataclass
class Covering:
    """Which tests run a line of a file; and any of the file, for lines that are compiled or run at import."""

    seconds: dict[str, float] = field(default_factory=dict)
    by_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    by_file: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    by_word: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The tests of the files that name a module, which may read its constants and run nothing of it."""

    def add(self, test: Path, kept: Path, root: Path) -> None:
        """What one test file ran: coverage's data and the report of pytest."""
        seconds: dict[str, float] = defaultdict(float)
        for case in ElementTree.parse(kept.with_suffix(".xml")).iter("testcase"):
            name = f"tests/{test.name}::{case.attrib['name'].partition('[')[0]}"
            seconds[name] += float(case.attrib["time"])
        self.seconds |= seconds
        for word in set(re.findall(r"\w+", test.read_text("utf-8"))):
            self.by_word[word] |= seconds.keys()
        data = coverage.CoverageData(str(kept))
        data.read()
        for path in data.measured_files():
            file = Path(path).relative_to(root).as_posix()
            for line, contexts in data.contexts_by_lineno(path).items():
                ran = {f"tests/{test.name}::{one.rpartition('.')[2]}" for one in contexts} & seconds.keys()
                self.by_line[file, line] |= ran
                self.by_file[file] |= ran

    def tests(self, mutant: Mutant, at_import: bool) -> list[str]:
        """The quickest tests for a mutant, within the limit."""
        found = self.by_file[mutant.file]
        if at_import:
            found = found | self.by_word[Path(mutant.file).stem]
        else:
            found = self.by_line.get((mutant.file, mutant.line)) or found
        chosen, total = [], 0.0
        for test in sorted(found, key=lambda test: self.seconds[test]):
            total += self.seconds[test]
            if total > SECONDS:
                break
            chosen.append(test)
        return chosen


class Copies:
    """Copies of the checkout, in each of which one process at a time runs tests."""

    def __init__(self, root: Path, folder: Path, jobs: int) -> None:
        copies: Any = multiprocessing.Queue()
        for number in range(jobs):
            self.first = shutil.copytree(root, folder / str(number), ignore=_COPIED)
            copies.put(self.first)
        self._pool = ProcessPoolExecutor(jobs, initializer=_work_in, initargs=(copies,))

    def cover(self, memory: Path) -> tuple[Covering, list[str]]:
        """What each quick test runs, now or when nothing was different; and the files whose tests fail."""
        files = [path for path in sorted((self.first / "tests").glob("test_*.py")) if path.stem not in SLOW]
        kept = {path: memory / f"{path.stem}-{_digest(self.first, path)}" for path in files}
        new = [path for path in files if not kept[path].exists()]
        (memory / "coveragerc").write_text(_DYNAMIC)
        for path in new:
            for old in memory.glob(f"{path.stem}-*"):
                old.unlink()
        failing = [
            one for one, passes in self._each(_cover, [(path.name, kept[path]) for path in new]) if not passes
        ]
        found = Covering()
        for path in files:
            if kept[path].exists():
                found.add(path, kept[path], self.first)
        return found, [f"tests/{name}" for name, _ in failing]

    def killed(self, mutants: Iterable[tuple[Mutant, list[str], float]]) -> Iterator[tuple[Mutant, bool]]:
        """Each mutant, its tests and their seconds: whether one of the tests fails, or hangs."""
        for (mutant, *_), killed in self._each(kills, mutants):
            yield mutant, killed

    def _each(self, do: Any, many: Iterable[tuple]) -> Iterator[tuple[Any, Any]]:
        running = {self._pool.submit(do, *one): one for one in many}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        finally:  # also by Ctrl-C
            for one in running:
                one.cancel()


def _digest(root: Path, test: Path) -> str:
    """Of all that decides which lines a test file runs."""
    helpers = {path for path in root.glob("tests/*.py") if not path.name.startswith("test_")}
    sha = hashlib.sha256()
    for path in sorted({*root.glob("snn/**/*.py"), *root.glob("config/**/*.yaml"), test, *helpers}):
        sha.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return sha.hexdigest()[:16]


# ---- in a process of the pool


def _work_in(copies: Any) -> None:
    copy = copies.get()
    os.chdir(copy)
    temporary = copy.with_name(f"{copy.name}-temporary")  # where devices are locked: in no other's way
    temporary.mkdir(exist_ok=True)
    os.environ |= {"TMPDIR": str(temporary), "OPENBLAS_NUM_THREADS": "1"}
    tempfile.tempdir = None


def _cover(name: str, kept: Path) -> bool:
    """Keep what a test file runs; False if one of its tests fails."""
    report, data = kept.with_suffix(".xml"), kept.with_suffix(".data")
    measured = ("-m", "coverage", "run", f"--rcfile={kept.parent / 'coveragerc'}", f"--data-file={data}")
    command = (sys.executable, *measured, *PYTEST, f"--junitxml={report}", f"tests/{name}")
    status = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    if status in (0, 5):  # 5: no test was chosen
        data.rename(kept)
    return status in (0, 5)


def kills(mutant: Mutant, tests: list[str], seconds: float, python: tuple[str, ...] = PYTEST) -> bool:
    """Whether a test fails with a mutant in the current folder, which is as it was afterwards."""
    command = shlex.join((sys.executable, *python, *tests))
    with contextlib.redirect_stderr(None):
        return bool(mutate_and_test([mutant.spec], command, 60 + 20 * seconds).is_killed)
