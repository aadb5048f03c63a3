"""What a compiler made of a kernel, kept between runs of the tests: a text is compiled once.

The folder ``.compiler_cache/`` may be deleted at any time.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".compiler_cache"
_UNUSED_SECONDS = 14 * 24 * 3600


def kept(name: str, decided_by: object, make: Callable[[Path], None]) -> Path:
    """The file that ``make`` writes, or wrote in an earlier run if the same decided it.

    ``decided_by`` is all that the content depends on, with the compiler's version, as its repr says it. What
    ``make`` raises is raised, and nothing is kept.
    """
    digest = hashlib.sha256(repr(decided_by).encode()).hexdigest()
    path = FOLDER / f"{digest[:32]}-{name}"
    if path.is_file():
        path.touch()
        return path
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:  # another process may make the same one
        made = Path(folder) / name
        make(made)
        made.replace(path)
    for old in FOLDER.glob("*-*"):
        if old.stat().st_mtime < time.time() - _UNUSED_SECONDS:
            old.unlink(missing_ok=True)
    return path
