"""What a compiler made of a kernel, kept between runs of the tests: a text is compiled once.

The folder ``.compiler_cache/`` may be deleted at any time.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".compiler_cache"
UNUSED_SECONDS = 14 * 24 * 3600
"""After which a file is removed."""


def kept(name: str, decided_by: object, make: Callable[[Path], None]) -> Path:
    """The file that ``make`` writes, or wrote in an earlier run if the same decided it.

    ``decided_by`` is all that the content depends on, with the compiler's version, as its repr says it. What
    ``make`` raises is raised, and nothing is kept.
    """
    digest = hashlib.sha256(repr(decided_by).encode()).hexdigest()
    path = FOLDER / f"{digest[:32]}-{name}"
    with suppress(FileNotFoundError):
        os.utime(path)
        return path
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:  # another process may make the same one
        made = Path(folder) / name
        make(made)
        made.replace(path)
    for old in FOLDER.glob("*-*"):
        with suppress(FileNotFoundError):
            if old.stat().st_mtime < time.time() - UNUSED_SECONDS:
                old.unlink()
    return path
