"""How each command begins and ends: its help, its errors in one line, its status, and no traceback."""

import errno
import io
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from snn.errors import ConfigError, SnnError, one_line
from snn.files.outputs import drop, say

ROOT = Path(__file__).resolve().parents[1]

WRONG = 2
"""The status where a user's input is wrong."""

EXIT_CODES: Mapping[int, str] = {
    0: "done",
    WRONG: "refused or failed: one line says what, and what would be right",
    130: "interrupted",
    141: "the reader of the output, such as head, has gone",
}

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)

Main = Callable[[list[str]], int]


def answered(
    arguments: list[str],
    doc: str | None,
    work: Main,
    codes: Mapping[int, str] | None = None,
    more: Callable[[], str] | None = None,
) -> int:
    """The status of a command's work: 0 with its help printed where that is asked for, 2 for an SnnError.

    ``doc`` is the docstring of its module, ``codes`` are exit codes of its own, ``more`` adds to the help.
    """
    if {"-h", "--help"} & set(arguments):
        print(helped(doc or "", codes or {}, more() if more else ""))
        return 0
    try:
        return work(arguments)
    except SnnError as error:
        print(f"snn: {one_line(error)}", file=sys.stderr)
        return WRONG


def entry(
    doc: str | None,
    least: int = 0,
    most: int | None = None,
    codes: Mapping[int, str] | None = None,
    more: Callable[[], str] | None = None,
) -> Callable[[Main], Main]:
    """The decorator of a command's ``main``, which then ends as ``answered`` says.

    It gets ``least`` to ``most`` arguments, or there is an error with the usage in ``doc``.
    """
    usage = (doc or "").split("``")[1]
    name, _, takes = re.sub("^(snn|python -m) ", "", usage).partition(" ")

    def decorate(work: Main) -> Main:
        def counted_work(arguments: list[str]) -> int:
            counted(arguments, name, takes, least, most)
            return work(arguments)

        return lambda arguments: answered(arguments, doc, counted_work, codes, more)

    return decorate


def helped(doc: str, codes: Mapping[int, str], more: str = "") -> str:
    """The help of a command: of a docstring, usage, a colon and what it does, then its exit codes.

    A text that begins with ``usage:`` is the help of options, and stays as it is.
    """
    usage, _, text = doc.strip().removeprefix("``").partition("``")
    text = text.lstrip(": ").strip().replace("``", "`")
    all_codes = sorted({**EXIT_CODES, **codes}.items())
    options = doc.startswith("usage:")
    parts = [
        doc.strip() if options else f"usage: {usage}",
        "" if options else text[:1].upper() + text[1:],
        more,
        "\n".join(["exit codes:", *(f"{code:5}  {meaning}" for code, meaning in all_codes)]),
    ]
    return "\n\n".join(filter(None, parts))


def counted(arguments: list[str], name: str, usage: str, least: int, most: int | None = None) -> None:
    """Raise ConfigError unless a command got as many arguments as its usage says."""
    if len(arguments) < least or (most is not None and len(arguments) > most):
        raise ConfigError(
            f"{name} takes {usage}, and {len(arguments)} arguments are given; --help says what they are"
        )


def run(main: Main) -> int:
    """The status of a command line, its output written out: 141 where its reader, such as ``head``, has gone.

    That is the status of a program that ends by SIGPIPE. 2: what it printed could not be written, or the
    current folder is gone. 130: it was interrupted.
    """
    replace_unprintable()
    try:
        Path.cwd()
    except OSError as error:
        print(f"snn: the current folder cannot be used: {error.strerror}", file=sys.stderr)
        return WRONG
    if not (ROOT / "config/config.yaml").is_file():
        print(
            f"snn: {ROOT} has no config/, kernels/ and workflow/, which stay in the clone: "
            "install it in place, with make env, or with pip install -e . (not without -e)",
            file=sys.stderr,
        )
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
        if error.filename is not None or error.errno not in _FULL:  # not of what is printed
            raise
        drop(sys.stdout)
        say(f"snn: the output cannot be written: {error.strerror}", sys.stderr)
        return WRONG
    except (KeyboardInterrupt, RuntimeError) as error:
        # Python 3.11 raises a RuntimeError from what it was interrupted in, if that is the making of a class.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        say("snn: interrupted before its end", sys.stderr)
        return 128 + signal.SIGINT
    return status


def replace_unprintable() -> None:
    """Print a letter that the encoding of the output lacks as ``?``, and on standard error as its code."""
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):  # None where it is closed
            stream.reconfigure(errors=errors)


def refuse_plainly() -> None:
    """Let an SnnError that ends this process be one line, not a traceback: for scripts of a workflow."""
    replace_unprintable()
    sys.excepthook = _shown


def _shown(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, SnnError):
        print(f"snn: {one_line(error)}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)
