"""Numbers on a benchmark's command line, checked by argparse, and a user's error as one line."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from snn.errors import SnnError


def whole(least: int) -> Callable[[str], int]:
    """A whole number of at least ``least``."""

    def check(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"it is {text!r}: it must be a whole number, at least {least}")
        return value

    return check


def seconds(text: str) -> float:
    """A time of 1 ms to an hour."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.001 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"it is {text!r}: it must be a number of seconds from 0.001 to 3600")
    return value


@contextmanager
def refused() -> Iterator[None]:
    """A context whose SnnError ends the program with its message and status 2."""
    try:
        yield
    except SnnError as error:
        print(f"{sys.argv[0].rpartition('/')[2].removesuffix('.py')}: {error}", file=sys.stderr)
        sys.exit(2)
