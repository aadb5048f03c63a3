"""Snakemake in a process of its own, forked from one that has imported it, which is most of a dry run's time.

So are the processes that it starts. The first one has imported nothing of this project: a copy of the
checkout is imported as it is by then.
"""

import fcntl
import functools
import multiprocessing
import os
import pickle
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from functools import partial
from multiprocessing import connection, forkserver
from multiprocessing import util as of_multiprocessing
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from unittest import mock


@functools.cache
def _forking() -> BaseContext:
    """What forks snakemakes: it looks for what it imports where a new Python would, before Python 3.12."""
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(["packages_of_jobs"])
    with mock.patch.dict(os.environ, PYTHONPATH=str(Path(__file__).parent)):
        forkserver.ensure_running()
    return forking


def run(folder: Path, arguments: tuple[str, ...]) -> tuple[int, str]:
    """The exit status of ``snakemake ARGUMENTS``, started in this folder, and all that it printed."""
    with tempfile.NamedTemporaryFile("r", prefix="snakemake-", suffix=".log") as log:
        started = _forking().Process(target=_main, args=(folder, arguments, log.name, dict(os.environ)))
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
    sys.dont_write_bytecode = False  # which this process has inherited as an option
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [str(folder), *(path for path in sys.path if path and not here.startswith(path))]
    sys.argv = ["snakemake", *arguments]
    _fork_server_from_here()

    from snakemake import cli, script

    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload([*_OF_CELLS, *_OF_TABLES])
    script.PythonScript.execute_script = partial(_execute, forking)
    of_commands = ModuleType("subprocess")
    of_commands.__dict__.update(vars(subprocess), Popen=partial(_started, forking))
    sys.modules["snakemake.shell"].sp = of_commands
    threading.Timer = _Timer
    cli.main()


class _Timer(threading.Timer):
    """One that does not hold up the end: Snakemake's scheduler waits a second after the last job."""

    daemon = True


def _fork_server_from_here() -> None:
    """Make the process that forks jobs a fork of this one, which has no threads yet, and not a new Python."""
    ours, others = socket.socketpair()
    pid = os.fork()
    if not pid:
        ours.close()
        try:
            _become_server(others)
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)
    others.close()

    start_anew = of_multiprocessing.spawnv_passfds

    def start(program: bytes, arguments: list[str], descriptors: list[int]) -> int:
        code = arguments[-1]
        if "multiprocessing.forkserver" not in code:
            return start_anew(program, arguments, descriptors)
        with ours:
            socket.send_fds(ours, [pickle.dumps((code, descriptors))], descriptors)
        return pid

    of_multiprocessing.spawnv_passfds = start


def _become_server(asked: socket.socket) -> None:
    """Run the code that is sent, with the file descriptors that it names; nothing where no job is started."""
    with asked:
        message, received, *_ = socket.recv_fds(asked, 1 << 16, 8)
    if message:
        code, named = pickle.loads(message)
        aside = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 100) for one in received]
        for one, number in zip(aside, named, strict=True):
            os.dup2(one, number, inheritable=False)
        for one in {*received, *aside} - set(named):
            os.close(one)
        exec(code, {})


_OF_CELLS = ["snn.run", "snn.config.compose", "snn.grid.naming", "snn.measurement.cell"]
_OF_TABLES = ["snn.analysis.frame", "snn.report.write"]
"""What takes most of the time of a cell and of a table, beside ``packages_of_jobs``."""

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
    rf"(?:(\w+)=(\w+) )?\bexec {re.escape(shlex.quote(sys.executable))} -m (snn|snn\.prepare) (.*)", re.DOTALL
)


def _started(forking: BaseContext, command: str, **options) -> "subprocess.Popen | _Command":
    """What ``Popen`` returns. A cell, or a data set, is made in a fork of that process, too."""
    found = _FORKED.search(command)
    if found is None:
        return subprocess.Popen(command, **options)
    environment = {key: value for key, value in options["env"].items() if key != "SNN_END_WITH_PARENT"}
    environment |= {found[1]: found[2]} if found[1] else {}
    given = {"module": found[3], "arguments": shlex.split(found[4]), "environment": environment}
    return _Command(forking.Process(target=exec, args=(_COMMAND, given)))


class _Command:
    """What Snakemake uses of a started process: it waits, at once."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process

    def wait(self) -> int:
        return _status(self._process)
