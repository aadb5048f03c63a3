"""Snakemake in a process of its own, forked from one that has imported it, which is most of a dry run's time.

The forking process has imported nothing of this project: a copy of the checkout is imported as it is by then.
"""

import multiprocessing
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
from functools import partial
from multiprocessing import connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

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

    forking = multiprocessing.get_context("forkserver")
    drawn = [] if any(argument.startswith("results/tables/") for argument in arguments) else _OF_FIGURES
    forking.set_forkserver_preload([*_OF_CELLS, *_OF_TABLES, *drawn])
    os.environ["PYTHONPATH"] = str(folder)  # for the process that forks
    script.PythonScript.execute_script = partial(_execute, forking)
    of_commands = ModuleType("subprocess")
    of_commands.__dict__.update(vars(subprocess), Popen=partial(_started, forking))
    sys.modules["snakemake.shell"].sp = of_commands
    cli.main()


# The first sets the threads before NumPy is imported.
_OF_CELLS = ["snn.run", "snn.config.compose", "snn.grid.naming", "snn.measurement.cell"]
_OF_TABLES = ["pandas", "snakemake.script"]
_OF_FIGURES = ["matplotlib.pyplot"]
"""What takes most of the time of a cell, a table and a figure."""

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
    status = _status(forking.Process(target=exec, args=(_SCRIPT, {"file": file})))
    if status:
        raise subprocess.CalledProcessError(status, file)


def _status(process: BaseProcess) -> int:
    """Its exit status, once it has been started and has ended."""
    with _ONE:
        process.start()
    connection.wait([process.sentinel])
    with _ONE:
        process.join()
    return process.exitcode


_COMMAND = """
import os, runpy, sys
os.environ.clear()
os.environ.update(environment)
sys.argv = [module, *arguments]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""

_FORKED = re.compile(
    rf"\bexec {re.escape(shlex.quote(sys.executable))} -m (snn|snn\.prepare) (.*)", re.DOTALL
)


def _started(forking: BaseContext, command: str, **options) -> "subprocess.Popen | _Command":
    """What ``Popen`` returns. A cell, or a data set, is made in a fork of that process, too."""
    found = _FORKED.search(command)
    if found is None:
        return subprocess.Popen(command, **options)
    environment = {key: value for key, value in options["env"].items() if key != "SNN_END_WITH_PARENT"}
    given = {"module": found[1], "arguments": shlex.split(found[2]), "environment": environment}
    return _Command(forking.Process(target=exec, args=(_COMMAND, given)))


class _Command:
    """What Snakemake uses of a started process: it waits, at once."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process

    def wait(self) -> int:
        return _status(self._process)
