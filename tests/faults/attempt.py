"""One input given to one of our programs, in this process, and what was wrong with the response."""

import contextlib
import io
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from unittest import mock

from snn import __main__ as train
from snn import cli
from snn.datasets import idx_images, quadratic
from snn.errors import SnnError
from snn.grid import more_rounds as planned_rounds
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.measurement import cell, provenance
from snn.recommending import budget, candidates, workflow

FAULTS = ("traceback", "hang", "accepted", "not named", "written elsewhere")
HANGS_AFTER = 10.0  # seconds
HERE = "<here>"
"""In arguments and names, the folder of an input's files."""

CPU = Device("cpu", "Abacus")
_QUICKLY_MADE = 10**6  # values of a data set


@dataclass(frozen=True, repr=False)
class Input:
    """A command line and the files it reads, made from valid ones by breaking something.

    ``files`` maps a path in the folder to its content, or to a kind of file of ``KINDS``. If ``is_wrong``,
    the input is known to be malformed: the program must reject it in one line that contains ``names``.
    Otherwise it may accept the input, if that is ``really_valid``.
    """

    command: str
    arguments: tuple[str, ...]
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    names: str = ""
    is_wrong: bool = True
    really_valid: Callable[[Path], bool] | None = None

    def __repr__(self) -> str:
        files = {name: content[:500] for name, content in self.files.items()}
        return f"{self.command} {[each[:200] for each in self.arguments]}, {files}"

    def of_kinds(self, name: str, names: str = "", but: tuple[str, ...] = ()) -> Iterator["Input"]:
        """The input with each kind of file as the file ``name``."""
        for kind in KINDS:
            if kind not in but:
                yield replace(self, files={**self.files, name: kind}, names=names or name)


class Hang(BaseException):
    """The time is over. No handler of errors catches it."""


class Accepted(BaseException):
    """An input got as far as the work."""


def met(one: Input, folder: Path) -> tuple[str, str]:
    """The response to an input: refused, valid, or one of ``FAULTS``, then with what was seen of it.

    ``folder`` is an empty one; files may be left in it.
    """
    here = folder / "of/this/input"
    here.mkdir(parents=True)
    for name, content in one.files.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content) if isinstance(content, bytes) else KINDS[content](path)
    started = time.monotonic()
    ended, said = _run(one.command, [argument.replace(HERE, str(here)) for argument in one.arguments], here)
    if ended == "hang" or time.monotonic() - started > HANGS_AFTER:
        return "hang", said or "it ended late"
    if ended == "traceback" or "Traceback (most recent" in said:
        return "traceback", said
    elsewhere = [str(path) for path in folder.rglob("*") if path.is_file() and here not in path.parents]
    if elsewhere:
        return "written elsewhere", ", ".join(elsewhere)
    if ended == "0":
        is_valid = not one.is_wrong and (one.really_valid is None or one.really_valid(here))
        return ("valid", "") if is_valid else ("accepted", said or "it said nothing")
    is_one_line = said.count("\n") == 1 and said.endswith("\n") and said.startswith("snn: ")
    if ended != "2" or not is_one_line or one.names.replace(HERE, str(here)) not in said:
        return "not named", f"status {ended}, {said!r} without {one.names!r}"
    return "refused", ""


def _run(command: str, arguments: list[str], here: Path) -> tuple[str, str]:
    """The status of a program, 0 once its work would have begun, or how else it ended; what it printed."""
    errors = io.StringIO()
    try:
        with (
            contextlib.chdir(here),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(errors),
            _without_work(),
            _alarm(),
        ):
            ended = str(COMMANDS[command](arguments))
    except Accepted:
        ended = "0"
    except Hang:
        return "hang", traceback.format_exc()
    except (Exception, SystemExit):
        return "traceback", traceback.format_exc()
    return ended, errors.getvalue()


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def over(number: int, frame: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, HANGS_AFTER)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _without_work() -> Iterator[None]:
    """Nothing is measured or downloaded, and no large data set made: to come so far is to be accepted."""
    make = quadratic.make

    def make_small(rows: int, features: int = 32, **others: float) -> object:
        if rows * features > _QUICKLY_MADE:
            raise Accepted
        return make(rows, features, **others)  # type: ignore[arg-type]

    work = ((cell, "device_lock"), (provenance, "device_lock"), (idx_images.Published, "_found"))
    with contextlib.ExitStack() as patches:
        for where, name in (*work, (budget, "run_pilot")):
            patches.enter_context(mock.patch.object(where, name, side_effect=Accepted))
        patches.enter_context(mock.patch.object(quadratic, "make", make_small))
        for module in (candidates, workflow):
            patches.enter_context(mock.patch.object(module, "PROJECT", Path.cwd()))
        yield


def _socket(path: Path) -> None:
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as one:  # its name has to be short
        one.bind(path.name)


def _zeros(path: Path) -> None:
    path.touch()
    with contextlib.suppress(OSError):  # the largest that the file system has
        for size in (1 << 34, 1 << 38, 1 << 43):
            os.truncate(path, size)


KINDS: Mapping[str, Callable[[Path], object]] = {
    "no file": lambda path: None,
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "device": lambda path: path.symlink_to("/dev/null"),
    "socket": _socket,
    "unreadable": lambda path: path.symlink_to("/proc/self/mem"),
    "size that is not said": lambda path: path.symlink_to("/proc/self/cmdline"),
    "zeros": _zeros,
    "nothing": Path.touch,
}
"""What may be found instead of a file that is read: none of them holds what is wanted."""

LIKE_NONE = ("no file", "dangling link", "link to itself")
"""Kinds that look as if there were no file."""


def _run_command(name: str, arguments: list[str]) -> int:
    return cli.main([name, *arguments])


def _read_grid(arguments: list[str]) -> None:
    """Read a grid as a workflow does."""
    path = Path(arguments[0])
    sweeps.check_sizes(path, sweeps.read(path, CPU))


def _as_command(read: Callable[[list[str]], object]) -> Callable[[list[str]], int]:
    def main(arguments: list[str]) -> int:
        try:
            read(arguments)
        except SnnError as error:
            print(f"snn: {error}", file=sys.stderr)
            return 2
        return 0

    return main


_NAMES = "run prepare perfetto compare merge retabulate more-rounds measure-limits microbenchmark recommend"
COMMANDS: dict[str, Callable[[list[str]], int]] = {
    **{"cli": cli.main, "snn": train.main, "grid": _as_command(_read_grid)},
    "plan": _as_command(lambda arguments: planned_rounds.read(Path(arguments[0]))),
    **{f"snn {name}": partial(_run_command, name) for name in _NAMES.split()},
}
"""The programs; ``grid`` and ``plan`` (of further rounds) are files that a workflow reads by itself."""
