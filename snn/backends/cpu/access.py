"""Patterns of memory access on a CPU: copies by NumPy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from snn.backends.access import AOS, FIELDS, LINE, OFFSET, SOA, STRIDE, Access
from snn.backends.cpu.limits import seconds_of
from snn.errors import Unsupported

SECTOR = 64
"""Bytes that move at a time: a cache line."""

TOGETHER = 1024
"""Neighbouring elements that count a line once: NumPy visits them one after the other."""


@contextmanager
def timed(nbytes: int, root: Path) -> Iterator[Callable[[Access, int], list[float]]]:
    """A function that returns ``samples`` times, in seconds per copy, of an access over ``nbytes``.

    It raises Unsupported for reading only, and for vectors, whose width NumPy chooses itself.
    """
    source, target = np.ones(nbytes // 4, np.float32), np.zeros(nbytes // 4, np.float32)

    def seconds(access: Access, samples: int) -> list[float]:
        return seconds_of(_copy(access, source, target), samples)

    yield seconds


def _copy(access: Access, source: np.ndarray, target: np.ndarray) -> Callable[[], None]:
    """A function that copies the elements of a pass."""
    if not access.copies:
        raise Unsupported("NumPy does not read without computing or writing: only copies are measured")
    parts: list[Any]
    whole = source.size // FIELDS * FIELDS
    if access.pattern == STRIDE:
        parts = [np.s_[start :: access.value] for start in range(0, min(access.value, source.size), LINE)]
    elif access.pattern == OFFSET:
        parts = [np.s_[access.value :]]
    elif access.pattern == AOS:
        source, target = (each[:whole].reshape(-1, FIELDS) for each in (source, target))
        parts = [np.s_[:, : access.value]]
    elif access.pattern == SOA:
        parts = [np.s_[: whole // FIELDS * access.value]]
    else:
        raise Unsupported("NumPy chooses the width of its loads itself")

    def copy() -> None:
        for part in parts:
            target[part] = source[part]

    return copy
