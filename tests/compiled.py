"""What a compiler made of a kernel, kept in the user's cache: a text is compiled once for every clone."""

import functools
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

from snn.files import cache

_number = count()


def kept(name: str, decided_by: object, make: Callable[[Path], None]) -> Path:
    """The file that ``make`` writes, or wrote in an earlier run if the same decided it.

    ``decided_by`` is all that the content depends on, with the compiler's version, as its repr says it. What
    ``make`` raises is raised, and nothing is kept; nor is it where the user's cache cannot be written.
    """
    made = Path(_folder().name) / f"{next(_number)}-{name}"
    if cache.writable("tests") is None:
        make(made)
        return made

    def content() -> bytes:
        make(made)
        return made.read_bytes()

    try:
        return cache.kept("tests", f".{name}", (repr(decided_by),), content)
    finally:
        made.unlink(missing_ok=True)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="compiled-")
