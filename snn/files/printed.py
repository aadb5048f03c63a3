"""What is said beside a result: that nobody can read it must not cost the result."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TextIO


def say(line: str, file: TextIO | None) -> None:
    """Print a line at once; where its reader has gone, its disk is full or it is closed, say nothing."""
    if file is None:
        return
    try:
        print(line, file=file, flush=True)
    except (OSError, ValueError):  # ValueError: it is closed
        drop(file)


def drop(file: TextIO | None) -> None:
    """Discard what is still to be printed, which the interpreter would try again at its end."""
    with suppress(OSError, ValueError):  # where there is nothing behind it
        if file is not None:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), file.fileno())
