"""How each ``python -m snn...`` ends: its status, and no traceback where nobody reads what it prints."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from snn.errors import SnnError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def run(main: Callable[[list[str]], int]) -> int:
    """The status of a command line, its output written out: 141 where its reader, such as ``head``, has gone.

    That is the status of a program that ends by SIGPIPE. 2: what it printed could not be written, or the
    current folder is gone. 130: it was interrupted.
    """
    try:
        Path.cwd()
    except OSError as error:
        print(f"snn: the current folder cannot be used: {error.strerror}", file=sys.stderr)
        return 2
    try:
        status = main(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:  # not of what is printed
            raise
        _drop_output()
        print(f"snn: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, RuntimeError) as error:
        # Python 3.11 raises a RuntimeError from what it was interrupted in, if that is the making of a class.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        print("snn: interrupted before its end", file=sys.stderr)
        return 128 + signal.SIGINT
    return status


def refuse_plainly() -> None:
    """Let an SnnError that ends this process be one line, not a traceback: for scripts of a workflow."""
    sys.excepthook = _shown


def _shown(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, SnnError):
        print(f"snn: {error}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


def _drop_output() -> None:
    """Discard what is still to be printed, which the interpreter would try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
