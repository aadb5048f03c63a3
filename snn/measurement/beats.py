"""How far a process that trains without end has come: a file that it writes and another process reads."""

import os
import struct
import time
from dataclasses import dataclass

_FORM = struct.Struct("=qddd")
_MOST_NAME = 200


@dataclass(frozen=True)
class Beats:
    """``epochs`` finished between the moments ``first`` and ``last``, of which the longest took ``longest``
    seconds; moments are those of ``time.monotonic``, which all processes of a machine share. ``uuid`` is that
    of the GPU, or empty."""

    epochs: int
    first: float
    last: float
    longest: float
    uuid: str


class Writer:
    """Notes every epoch in a file, which costs a microsecond."""

    def __init__(self, descriptor: int, uuid: str) -> None:
        self._descriptor = descriptor
        self._epochs, self._longest = 0, 0.0
        self._first = self._last = time.monotonic()
        os.pwrite(descriptor, uuid.encode(), _FORM.size)

    def beat(self) -> None:
        """One more epoch has finished."""
        now = time.monotonic()
        self._epochs += 1
        self._longest = max(self._longest, now - self._last)
        self._last = now
        os.pwrite(self._descriptor, _FORM.pack(self._epochs, self._first, self._last, self._longest), 0)


def read(descriptor: int) -> Beats | None:
    """What was written last; None before the first epoch has finished."""
    content = os.pread(descriptor, _FORM.size + _MOST_NAME, 0)
    if len(content) < _FORM.size:
        return None
    epochs, first, last, longest = _FORM.unpack(content[: _FORM.size])
    return Beats(epochs, first, last, longest, content[_FORM.size :].decode()) if epochs else None
