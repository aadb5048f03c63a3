"""The file that a command writes: checked before any work, replaced atomically, named if writing fails.

That nobody can read what is printed must not cost the result.
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
    """The path of the file to write: a new file, or a regular one to be replaced. Its folder is created.

    A link is kept, and its target is written. Raises ConfigError for anything else, for one of the
    ``inputs``, and if no file can be created there.
    """
    import tempfile  # which imports random, perhaps a user's own before the paths are in order

    problem = None
    if not output or output.endswith(("/", "/.", "/..")) or output in (".", ".."):
        problem = "it must name a file, as results/cell.json"
    else:
        try:
            path = _followed(Path(output).absolute())
            problem = _why_not(path, inputs)
            if problem is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.").close()
        except (FileExistsError, NotADirectoryError):
            problem = "no file can be written there: a part of its path is a file, not a folder"
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a link to itself
            problem = f"no file can be written there: {getattr(error, 'strerror', None) or error}"
    if problem:
        raise ConfigError(f"{key} is {output!r}: {problem}")
    return path


@contextmanager
def reported(path: Path, lost: str = "; what it would hold is lost") -> Iterator[None]:
    """A context in which ``path`` is written. Raises OutputError with it if the system refuses that."""
    try:
        yield
    except BrokenPipeError:  # of what is printed meanwhile
        raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}{lost}") from error


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that is renamed to ``path`` at the end; its folder is created. Raises OutputError.
    ``path`` is complete or as it was before, even if the process is killed."""
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
    """A hidden file that this call creates: never one that is there, nor what a link there points to."""
    usual = f".{path.name}.{os.getpid()}"
    try:
        return path.with_name(usual).open("xb")
    except FileExistsError:  # left by a killed process with this number, or put there by somebody
        import secrets  # which imports random, perhaps a user's own before the paths are in order

        return path.with_name(f"{usual}.{secrets.token_hex(8)}").open("xb")


@contextmanager
def replaced_folder(path: Path, names: Collection[str]) -> Iterator[Path]:
    """A new folder, which at the end becomes ``path`` with the files of these names: all of them, or none.

    ``path`` may be a folder with such files and no others, which they replace; a kill leaves it there, or in
    the hidden folder beside it. Raises OutputError, before the block is entered if it is something else.
    """
    with reported(path, lost=""):
        others = sorted({other.name for other in path.iterdir()} - {*names}) if path.is_dir() else []
        if others:
            raise OutputError(
                f"{path}: cannot be written: it holds {others[0]}, which is none of {', '.join(names)}: "
                "give a new name"
            )
        if not path.is_dir() and (path.exists() or path.is_symlink()):
            raise OutputError(f"{path}: cannot be written: it is no folder: give a new name")
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()  # a link stays
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
            if old.is_dir() and not target.exists():  # nothing came in its place
                old.rename(target)
            import shutil  # only here, since every command imports this module

            shutil.rmtree(scratch, ignore_errors=True)


def _followed(path: Path) -> Path:
    """The path behind links, followed no further than into a folder of the system, such as /dev/stdout."""
    for _ in range(_MOST_LINKS):
        path = path.parent.resolve() / path.name
        if _is_of_the_system(path) or not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return path


def _is_of_the_system(path: Path) -> bool:
    return path.parent == Path("/dev") or path.is_relative_to("/proc") or path.is_relative_to("/sys")


def _why_not(path: Path, inputs: Iterable[str | Path | None]) -> str | None:
    """Why this path, whose links were followed, cannot be an output; None if it can."""
    if _is_of_the_system(path):
        return "a folder of the system is no place for it"
    if path.exists() or path.is_symlink():
        if not stat.S_ISREG(path.stat().st_mode):
            return f"{path} is no regular file, which alone is replaced"
        if any(given and Path(given).exists() and path.samefile(given) for given in inputs):
            return "this file is an input, which would be lost"
    return None


def say(line: str, file: TextIO | None) -> None:
    """Print a line at once; where its reader has gone, its disk is full or it is closed, say nothing."""
    if file is None:
        return
    try:
        print(line, file=file, flush=True)
    except (OSError, ValueError):  # ValueError: it is closed
        drop(file)


NOTES = "SNN_NOTES"
"""The variable of the environment that is `no` in processes whose notes their user has already read."""


def note(text: str) -> None:
    """Tell the user what may not be as meant, on standard error."""
    if os.environ.get(NOTES) != "no":
        say(f"snn: note: {text}", sys.stderr)


def drop(file: TextIO | None) -> None:
    """Discard what is still to be printed, which the interpreter would try again at its end."""
    with suppress(OSError, ValueError):  # where there is nothing behind it
        if file is not None:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), file.fileno())
