"""The user's cache: files that can be made again at any time, each under a digest of all that decided it."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from snn.errors import OutputError
from snn.files.outputs import replaced

PROJECT = "snn-memory-strategies"
VARIABLE = "SNN_CACHE"  # a variable of the environment: another folder for the cache
_UNUSED_SECONDS = 90 * 24 * 3600  # after which a file is removed, when another one of its kind is made


def folder(kind: str) -> Path:
    """Where the cache has its files of a kind; on Linux ~/.cache/snn-memory-strategies/KIND. Raises
    OutputError for a user without a home."""
    named, of_user = os.environ.get(VARIABLE), os.environ.get("XDG_CACHE_HOME", "").strip()
    path = Path(named) if named else Path(of_user or "~/.cache") / PROJECT
    try:
        return path.expanduser() / kind
    except RuntimeError as error:
        raise OutputError(f"{path}: {error}: name another folder in the variable {VARIABLE}") from error


def kept(kind: str, suffix: str, decided_by: Iterable[str], make: Callable[[], bytes]) -> Path:
    """The file with what ``make`` returns, or returned in an earlier process where the same decided it.

    ``decided_by`` is all that the content depends on, with the version of what makes it. A damaged file is
    made again. Raises OutputError where the system refuses to write, and what ``make`` raises.
    """
    parts = (part.encode() for part in decided_by)
    name = _digest(b"".join(b"%d:%b" % (len(part), part) for part in parts))
    place = folder(kind)
    for path in place.glob(f"{name}-*{suffix}"):
        with suppress(OSError):  # another process may remove it
            if path.name == f"{name}-{_digest(path.read_bytes())}{suffix}":
                with suppress(PermissionError):  # a cache that others have filled
                    os.utime(path)
                return path
            path.unlink()
    content = make()
    made = place / f"{name}-{_digest(content)}{suffix}"
    with replaced(made) as file:
        file.write(content)
    _tidy(place)
    return made


def lend(kind: str, variable: str) -> None:
    """Name the cache's folder of a kind to a library, by the variable of the environment that it reads. What
    the user has set stays. Where nothing can be written, the library keeps a place of its own."""
    if place := writable(kind):
        os.environ.setdefault(variable, str(place))


def writable(kind: str) -> Path | None:
    """The cache's folder of a kind, which is there; None where nothing can be written."""
    try:
        place = folder(kind)
        place.mkdir(parents=True, exist_ok=True)
    except (OSError, OutputError):
        return None
    return place if os.access(place, os.W_OK) else None


def of_snakemake(clone: Path) -> dict[str, str]:
    """The variable of the environment for Snakemake's cache: in the clone if the user's cannot be written.
    Empty if it can. Snakemake does not start without a cache."""
    try:
        place = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        place.mkdir(parents=True, exist_ok=True)
        if os.access(place, os.W_OK):
            return {}
    except (OSError, RuntimeError):
        pass
    return {"XDG_CACHE_HOME": str(clone / ".snakemake/cache")}


def _tidy(place: Path) -> None:
    """Remove what nobody has used for long, and what a killed process had begun."""
    oldest = time.time() - _UNUSED_SECONDS
    for path in place.iterdir():
        with suppress(OSError):
            if path.is_file() and path.stat().st_mtime < oldest:
                path.unlink()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
