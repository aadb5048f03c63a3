"""The user's cache: files that can be rebuilt at any time, each named by a digest of its inputs."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from snn.errors import OutputError
from snn.files.outputs import replaced

PROJECT = "snn-memory-strategies"
VARIABLE = "SNN_CACHE"  # the environment variable that sets another cache folder
_UNUSED_SECONDS = 90 * 24 * 3600  # an older file is removed when another one of its kind is written


def folder(kind: str) -> Path:
    """The cache's folder for one kind of file; on Linux ~/.cache/snn-memory-strategies/KIND. Raises
    OutputError if the user has no home."""
    named, of_user = os.environ.get(VARIABLE), os.environ.get("XDG_CACHE_HOME", "").strip()
    path = Path(named) if named else Path(of_user or "~/.cache") / PROJECT
    try:
        return path.expanduser() / kind
    except RuntimeError as error:
        raise OutputError(f"{path}: {error}: set the variable {VARIABLE} to another folder") from error


def kept(kind: str, suffix: str, decided_by: Iterable[str], make: Callable[[], bytes]) -> Path:
    """The file with the result of ``make``, from this or an earlier process with the same inputs.

    ``decided_by`` lists all inputs of the content, including the version of its generator. A damaged file is
    rebuilt. Raises OutputError if the file cannot be written, and whatever ``make`` raises.
    """
    parts = (part.encode() for part in decided_by)
    name = _digest(b"".join(b"%d:%b" % (len(part), part) for part in parts))
    place = folder(kind)
    for path in place.glob(f"{name}-*{suffix}"):
        with suppress(OSError):  # another process may remove it
            if path.name == f"{name}-{_digest(path.read_bytes())}{suffix}":
                with suppress(PermissionError):  # a file of another user
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
    """Point a library to the cache's folder of a kind through the environment variable that it reads. A
    variable that the user has set stays. If the cache cannot be written, the library keeps its default."""
    if place := writable(kind):
        os.environ.setdefault(variable, str(place))


def writable(kind: str) -> Path | None:
    """The cache's folder of a kind, created if needed; None if it cannot be written."""
    try:
        place = folder(kind)
        place.mkdir(parents=True, exist_ok=True)
    except (OSError, OutputError):
        return None
    return place if os.access(place, os.W_OK) else None


def of_snakemake(clone: Path) -> dict[str, str]:
    """The environment variable that moves Snakemake's cache into the clone, if the user's cannot be written;
    else empty. Snakemake does not start without a cache."""
    try:
        place = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        place.mkdir(parents=True, exist_ok=True)
        if os.access(place, os.W_OK):
            return {}
    except (OSError, RuntimeError):
        pass
    return {"XDG_CACHE_HOME": str(clone / ".snakemake/cache")}


def _tidy(place: Path) -> None:
    """Remove files that nobody has used for long, and the partial files of killed processes."""
    oldest = time.time() - _UNUSED_SECONDS
    for path in place.iterdir():
        with suppress(OSError):
            if path.is_file() and path.stat().st_mtime < oldest:
                path.unlink()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
