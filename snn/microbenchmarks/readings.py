"""Readings of microbenchmarks: seconds at one point, or the reason why there are none."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from snn.errors import OutOfMemory, Unsupported

Point = dict[str, Any]
"""The coordinates of a reading: names and numbers by key."""

LEAST_SAMPLES = 6
"""The fewest samples whose range is a 95% interval of their median."""

_LEAST_SECONDS = 5e-4  # per sample, so that the clock and the last wait do not matter

_Sample = TypeVar("_Sample")

OK, UNSUPPORTED, OUT_OF_MEMORY = "ok", "unsupported", "out_of_memory"


@dataclass(frozen=True)
class Reading:
    """The samples at one ``point``, in seconds; without any there is a ``reason``, and the ``status``.

    ``series``: lists of integers of equal length, instead of samples.
    """

    point: Point
    seconds: tuple[float, ...] = ()
    status: str = OK
    reason: str = ""
    series: Mapping[str, list[int]] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        return {**vars(self), "seconds": list(self.seconds)}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Reading":
        return cls(**{**plain, "seconds": tuple(plain["seconds"])})


def reading(point: Point, take: Callable[[], Iterable[float]]) -> Reading:
    """The reading at a point; its status tells if the device does not support or hold it."""
    try:
        return Reading(point, tuple(take()))
    except (Unsupported, OutOfMemory) as error:
        return refused(point, error)


def refused(point: Point, error: Unsupported | OutOfMemory) -> Reading:
    """The reading at a point that the device does not support or hold."""
    status = UNSUPPORTED if isinstance(error, Unsupported) else OUT_OF_MEMORY
    return Reading(point, status=status, reason=str(error))


@dataclass(frozen=True)
class Effort:
    """Limits on the samples and seconds of a reading; ``LEAST_SAMPLES`` are always taken."""

    samples: int
    seconds: float

    def repeated(self, call: Callable[[], object], wait: Callable[[], object] = lambda: None) -> list[float]:
        """Seconds per call: each sample times many consecutive calls, and one ``wait`` for the last."""
        call()  # loading and growing at the first call are not timed
        wait()
        calls, seconds = 1, _timed(call, wait)
        while seconds < _LEAST_SECONDS:
            calls *= min(16, max(2, math.ceil(_LEAST_SECONDS / max(seconds, 1e-9))))
            seconds = _timed(call, wait, calls)
        return self._taken(lambda: _timed(call, wait, calls) / calls)

    def prepared(
        self,
        call: Callable[[], object],
        before: Callable[[], object],
        after: Callable[[], object] = lambda: None,
    ) -> list[float]:
        """Seconds of one call per sample; the work before and after it is not timed."""

        def take() -> float:
            before()
            try:
                return _timed(call)
            finally:
                after()

        take()
        return self._taken(take)

    def together(self, calls: Sequence[Callable[[], object]]) -> list[list[float]]:
        """Seconds of several calls, sampled in turn; the calls wait for their work."""

        def take() -> list[float]:
            return [_timed(call) for call in calls]

        take()
        return [list(of_call) for of_call in zip(*self._taken(take), strict=True)]

    def _taken(self, take: Callable[[], _Sample]) -> list[_Sample]:
        until = time.perf_counter() + self.seconds
        found: list[_Sample] = []
        while len(found) < LEAST_SAMPLES or (len(found) < self.samples and time.perf_counter() < until):
            found.append(take())
        return found


def _timed(call: Callable[[], object], wait: Callable[[], object] = lambda: None, calls: int = 1) -> float:
    started = time.perf_counter()
    for _ in range(calls):
        call()
    wait()
    return time.perf_counter() - started
