"""Snakemake in a process of its own, forked from one that has imported it, which is most of a dry run's time.

The forking process has imported nothing of this project: a copy of the checkout is imported as it is by then.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from functools import partial
from multiprocessing.context import BaseContext
from pathlib import Path

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["snakemake.cli", "snakemake.api", "snakemake.persistence", "pandas"])


def run(folder: Path, arguments: tuple[str, ...]) -> tuple[int, str]:
    """The exit status of ``snakemake ARGUMENTS``, started in this folder, and all that it printed."""
    with tempfile.NamedTemporaryFile("r", prefix="snakemake-", suffix=".log") as log:
        started = _FORKING.Process(target=_main, args=(folder, arguments, log.name, dict(os.environ)))
        started.start()
        started.join()
        return started.exitcode, Path(log.name).read_text()


def _main(folder: Path, arguments: tuple[str, ...], log: str, environment: dict[str, str]) -> None:
    """In the new process: what ``python -m snakemake`` would do there."""
    printed = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(printed, stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what many short jobs import is compiled once
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [str(folder), *(path for path in sys.path if path and not here.startswith(path))]
    sys.argv = ["snakemake", *arguments]

    from snakemake import cli, script

    only_tables = any(argument.startswith("results/tables/") for argument in arguments)
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(_OF_SCRIPTS[: 2 if only_tables else 3])
    script.PythonScript.execute_script = partial(_execute, forking)
    cli.main()


_OF_SCRIPTS = ["pandas", "snakemake.script", "matplotlib.pyplot"]
"""What takes most of the time of a table, and with the last that of a figure."""

_SCRIPT = """
import runpy, sys
try:
    runpy.run_path(file, run_name="__main__")
except SystemExit:
    raise
except BaseException:
    sys.excepthook(*sys.exc_info())
    sys.exit(1)
"""


_ONE = threading.Lock()
"""Jobs are threads, and one that starts a process takes the exit status of another's."""


def _execute(forking: BaseContext, file: str, edit: bool = False) -> None:
    """A rule's script in a process of its own, forked from one that the first script of a run makes."""
    started = forking.Process(target=exec, args=(_SCRIPT, {"file": file}))
    with _ONE:
        started.start()
        started.join()
    if started.exitcode:
        raise subprocess.CalledProcessError(started.exitcode, file)
