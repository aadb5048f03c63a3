"""How each command ends: its errors in one line, its status, and no traceback."""

import errno
import io
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from snn.errors import SnnError, one_line
from snn.files.outputs import drop, say

WRONG = 2
"""The status if a user's input is wrong."""

EXIT_CODES: Mapping[int, str] = {
    0: "done",
    WRONG: "an error; one line names the mistake and the fix",
    130: "interrupted",
    141: "the reader of the output, such as head, has gone",
}

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)

Main = Callable[[list[str]], int]


def answer(work: Callable[[], int | None]) -> int:
    """Do a command's work; return the exit status, 0 for None. An SnnError is printed, with status 2."""
    try:
        return work() or 0
    except SnnError as error:
        print(f"snn: {one_line(error)}", file=sys.stderr)
        return WRONG


def run(main: Main) -> int:
    """Run a command line and flush its output; return the exit status.

    141, as for a program that ends by SIGPIPE: the reader of the output, such as ``head``, has gone. 2: the
    output could not be written, or the current folder is gone. 130: it was interrupted.
    """
    replace_unprintable()
    try:
        Path.cwd()
    except OSError as error:
        print(f"snn: the current folder cannot be used: {error.strerror}", file=sys.stderr)
        return WRONG
    try:
        status = main(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        drop(sys.stdout)
        drop(sys.stderr)
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:  # not an error of the output
            raise
        drop(sys.stdout)
        say(f"snn: the output cannot be written: {error.strerror}", sys.stderr)
        return WRONG
    except (KeyboardInterrupt, RuntimeError) as error:
        # If Python 3.11 is interrupted while it creates a class, it raises a RuntimeError from the interrupt.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        say("snn: interrupted before its end", sys.stderr)
        return 128 + signal.SIGINT
    return status


def replace_unprintable() -> None:
    """Print characters that the output's encoding lacks as ``?``; on standard error, as escape codes."""
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):  # None if it is closed
            stream.reconfigure(errors=errors)


def refuse_plainly() -> None:
    """Let an SnnError that ends this process be one line, not a traceback: for scripts of a workflow."""
    replace_unprintable()
    sys.excepthook = _print_error


def _print_error(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, SnnError):
        print(f"snn: {one_line(error)}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)
