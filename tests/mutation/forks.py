"""Functions and tests that run in processes of their own: forks, so that the libraries are imported once."""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import hypothesis
import pytest


class Fork:
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


def run_tests(files: Iterable[str], plugin: Any) -> int:
    options = ("-n", "0", "-x", "-q", "-p", "no:cacheprovider", "-m", "not gpu and not alone")
    return pytest.main([*options, *files], plugins=[plugin])
