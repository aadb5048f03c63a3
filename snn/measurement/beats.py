"""How far a process that trains without end has come: a file that it writes and another process reads."""

import os
import struct
import time
from dataclasses import dataclass

_HEAD = struct.Struct("=qdd128s")
_PAUSE = struct.Struct("=dd")
_MOST = 1 << 20

LONG = 0.5
"""Seconds from which on an epoch is noted with the moments between which it ran."""


@dataclass(frozen=True)
class Beats:
    """``epochs`` were finished between the moments ``first`` and ``last``, on the GPU of this UUID, or none.

    ``long`` has the two moments of each epoch that took long. Moments are those of ``time.monotonic``, which
    all processes of a machine share.
    """

    epochs: int
    first: float
    last: float
    uuid: str
    long: tuple[tuple[float, float], ...]

    def longest_since(self, moment: float) -> float:
        """The seconds of the longest epoch after a moment, of which the last one is not finished: 0 if none
        took long."""
        epochs = [*self.long, (self.last, time.monotonic())]
        return max((end - max(begin, moment) for begin, end in epochs if end > moment), default=0.0)


class Writer:
    """Notes every epoch from now on in a file, which costs a microsecond."""

    def __init__(self, descriptor: int, uuid: str) -> None:
        self._descriptor, self._uuid = descriptor, uuid.encode()
        self._epochs, self._end = 0, _HEAD.size
        self._first = self._last = time.monotonic()

    def beat(self) -> None:
        """One more epoch has finished."""
        now = time.monotonic()
        self._epochs += 1
        if now - self._last >= LONG:
            self._end += os.pwrite(self._descriptor, _PAUSE.pack(self._last, now), self._end)
        self._last = now
        head = _HEAD.pack(self._epochs, self._first, self._last, self._uuid)
        os.pwrite(self._descriptor, head, 0)


def read(descriptor: int) -> Beats | None:
    """What was written last; None before the first epoch has finished."""
    content = os.pread(descriptor, _MOST, 0)
    if len(content) < _HEAD.size:
        return None
    epochs, first, last, uuid = _HEAD.unpack_from(content)
    pauses = content[_HEAD.size :]
    long = tuple(_PAUSE.iter_unpack(pauses[: len(pauses) // _PAUSE.size * _PAUSE.size]))
    return Beats(epochs, first, last, uuid.rstrip(b"\0").decode(), long) if epochs else None
