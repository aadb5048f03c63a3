"""How often a cell trains and when it stops: the rules of one round, a job with a share of a cell's runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean, stdev
from typing import Any

from snn.measurement.student_t import student_quantile

_STEADY = 0.02
_WINDOWS = 4


@dataclass(frozen=True)
class Round:
    """The rules of one job. Its runs continue the cell's random stream after ``first_run`` runs of others."""

    runs: int
    min_runs: int = 1
    max_seconds: float | None = None
    relative_error: float | None = None
    warmup_seconds: float = 0.0
    max_warmup_seconds: float = 0.0
    first_run: int = 0

    def stop(self, seconds: Sequence[float]) -> str | None:
        """Why no run follows these: ``runs``, ``precision`` or ``max_seconds``; None where one does.

        ``precision``: the 95% interval of the mean, Student's, is within that share of it on either side.
        ``max_seconds``: the next run would probably end after the limit.
        """
        if len(seconds) >= self.runs:
            return "runs"
        if len(seconds) < self.min_runs:
            return None
        if self.relative_error is not None and relative_error(seconds) <= self.relative_error:
            return "relative_error"
        if self.max_seconds is not None and sum(seconds) + fmean(seconds) > self.max_seconds:
            return "max_seconds"
        return None


def of_round(protocol: Mapping[str, Any], number: int) -> Round:
    """The share of round ``number``, from 1, of a cell's protocol: runs, minimum and time limit divided."""
    rounds = protocol["rounds"]
    first, after = (protocol["runs"] * n // rounds for n in (number - 1, number))
    limit = protocol["max_seconds"]
    return Round(
        runs=after - first,
        min_runs=min(ceil(protocol["min_runs"] / rounds), after - first),
        max_seconds=None if limit is None else limit / rounds,
        relative_error=protocol["relative_error"],
        warmup_seconds=protocol["warmup_seconds"],
        max_warmup_seconds=protocol["max_warmup_seconds"],
        first_run=first,
    )


def relative_error(seconds: Sequence[float]) -> float:
    """Half the width of the 95% interval of the mean, over the mean; infinite under three runs."""
    if len(seconds) < 3:
        return float("inf")
    return student_quantile(len(seconds) - 1) * stdev(seconds) / sqrt(len(seconds)) / fmean(seconds)


class Steadiness:
    """Whether epochs have stopped getting faster or slower, told as they are made.

    Epochs are gathered in windows of a quarter of the least time. They are steady when the mean epoch of the
    last two windows is within 2% of that of the two before.
    """

    def __init__(self, least_seconds: float) -> None:
        self._window = least_seconds / _WINDOWS
        self._means: list[float] = []
        self._epochs, self._seconds = 0, 0.0

    def add(self, seconds: float) -> None:
        """Take note of one epoch."""
        self._epochs += 1
        self._seconds += seconds
        if self._seconds >= self._window:
            self._means.append(self._seconds / self._epochs)
            self._epochs, self._seconds = 0, 0.0

    @property
    def reached(self) -> bool:
        if len(self._means) < _WINDOWS:
            return False
        before, last = fmean(self._means[-4:-2]), fmean(self._means[-2:])
        return abs(last / before - 1) <= _STEADY
