"""Checks a command's output file before any work, replaces it atomically, and names it if writing fails.

A broken pipe or closed terminal must not cost the result.
"""

import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from snn.errors import ConfigError, OutputError

_MOST_LINKS = 40


def checked(output: str | None, inputs: Iterable[str | Path | None] = (), key: str = "output") -> Path:
    """The path of the file to write: a new file, or a regular one to be replaced. Creates its folder.

    A link is kept, and its target is written. Raises ConfigError for anything else, for one of the
    ``inputs``, and if no file can be created there.
    """
    import tempfile  # which imports random, perhaps a user's own before the paths are in order

    problem = None
    if not output or output.endswith(("/", "/.", "/..")) or output in (".", ".."):
        problem = "it must name a file, such as results/cell.json"
    else:
        try:
            path = _followed(Path(output).absolute())
            problem = _why_not(path, inputs)
            if problem is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.").close()
        except (FileExistsError, NotADirectoryError):
            problem = "no file can be written there: part of its path is a file, not a folder"
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: the link points to itself
            problem = f"no file can be written there: {getattr(error, 'strerror', None) or error}"
    if problem:
        raise ConfigError(f"{key} is {output!r}: {problem}")
    return path


@contextmanager
def reported(path: Path, lost: str = "; its content is lost") -> Iterator[None]:
    """A context in which ``path`` is written. Raises OutputError, naming it, if writing fails."""
    try:
        yield
    except BrokenPipeError:  # standard output, not ``path``
        raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}{lost}") from error


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that is renamed to ``path`` at the end. Creates its folder. Raises OutputError.
    ``path`` is either complete or unchanged, even if the process is killed."""
    with reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _new_beside(path)
        temporary = Path(file.name)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with suppress(OSError):  # on a read-only disk, which the error above reports
                temporary.unlink(missing_ok=True)


def _new_beside(path: Path) -> BinaryIO:
    """A hidden file that this call creates: never an existing one, nor the target of an existing link."""
    usual = f".{path.name}.{os.getpid()}"
    try:
        return path.with_name(usual).open("xb")
    except FileExistsError:  # from a killed process with this number, or from somebody else
        import secrets  # which imports random, perhaps a user's own before the paths are in order

        return path.with_name(f"{usual}.{secrets.token_hex(8)}").open("xb")


@contextmanager
def replaced_folder(path: Path, names: Collection[str]) -> Iterator[Path]:
    """A new folder that replaces ``path`` at the end: with all files of these names, or not at all.

    ``path`` may be a folder with files of these names only. If the process is killed, the old folder is still
    there, or in the hidden folder next to it. Raises OutputError; if ``path`` is anything else, before the
    block is entered.
    """
    with reported(path, lost=""):
        others = sorted({other.name for other in path.iterdir()} - {*names}) if path.is_dir() else []
        if others:
            raise OutputError(
                f"{path}: cannot be written: it holds {others[0]}, which is not one of "
                f"{', '.join(names)}: give a new name"
            )
        if not path.is_dir() and (path.exists() or path.is_symlink()):
            raise OutputError(f"{path}: cannot be written: it is not a folder: give a new name")
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()  # keeps a link
        import tempfile

        scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    made, old = scratch / "new", scratch / "old"
    with reported(path, lost=""):
        try:
            made.mkdir()
            yield made
            if target.is_dir():
                target.rename(old)
            made.rename(target)
        finally:
            if old.is_dir() and not target.exists():  # the new folder was not moved there
                old.rename(target)
            import shutil  # only here, since every command imports this module

            shutil.rmtree(scratch, ignore_errors=True)


def _leads_to(given: Path, path: Path) -> bool:
    """Whether a name is this path, or a link to it; not if no file can have the name."""
    try:
        return _followed(given.absolute()) == path
    except OSError:
        return False


def _followed(path: Path) -> Path:
    """The target of a link, followed at most to a system folder, such as /dev/stdout."""
    for _ in range(_MOST_LINKS):
        path = path.parent.resolve() / path.name
        if _is_of_the_system(path) or not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return path


def _is_of_the_system(path: Path) -> bool:
    return path.parent == Path("/dev") or path.is_relative_to("/proc") or path.is_relative_to("/sys")


def _why_not(path: Path, inputs: Iterable[str | Path | None]) -> str | None:
    """Error text for a path that cannot be an output; None if it can. Its links have been followed."""
    if _is_of_the_system(path):
        return "it must not be in a system folder"
    if path.exists() or path.is_symlink():
        if not stat.S_ISREG(path.stat().st_mode):
            return f"{path} is not a regular file; only those are replaced"
        if any(given and Path(given).exists() and path.samefile(given) for given in inputs):
            return "this file is an input, which would be overwritten"
    elif any(given and _leads_to(Path(given), path) for given in inputs):
        return "another setting has the same path: choose another"
    return None


def say(line: str, file: TextIO | None) -> None:
    """Print a line at once. Does nothing if the file is closed, its reader has gone or its disk is full."""
    if file is None:
        return
    try:
        print(line, file=file, flush=True)
    except (OSError, ValueError):  # ValueError: the file is closed
        drop(file)


NOTES = "SNN_NOTES"
"""The environment variable that is `no` in processes whose notes the user has already read."""


def note(text: str) -> None:
    """Print a note to standard error about something that the user may not have meant."""
    if os.environ.get(NOTES) != "no":
        say(f"snn: note: {text}", sys.stderr)


def drop(file: TextIO | None) -> None:
    """Discard buffered output, which the interpreter would try to print again on exit."""
    with suppress(OSError, ValueError):  # the file has no descriptor
        if file is not None:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), file.fileno())
