"""Stopping rules: how often a cell trains in one round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean, stdev
from typing import Any

from snn.measurement.student import student_quantile

_STEADY = 0.02
_WINDOWS = 4


@dataclass(frozen=True)
class Round:
    """The rules of one job; ``first_run`` is the number of the cell's runs that belong to earlier rounds, and
    ``energy`` whether the energy of a run is measured."""

    runs: int
    min_runs: int = 1
    max_seconds: float | None = None
    relative_error: float | None = None
    warmup_seconds: float = 0.0
    max_warmup_seconds: float = 0.0
    first_run: int = 0
    energy: bool = False

    def stop(self, seconds: Sequence[float], comparable: Sequence[float] | None = None) -> str | None:
        """The rule that ends the round after these runs, or None if another run follows.

        ``comparable``: the seconds of training as many epochs, if ``seconds`` include more or are of fewer.
        ``runs``: all are done. ``relative_error``: the half-width of the mean's 95% confidence interval is at
        most this fraction of it. ``max_seconds``: the next run would probably exceed the limit.
        """
        if len(seconds) >= self.runs:
            return "runs"
        if len(seconds) < self.min_runs:
            return None
        if self.relative_error is not None and relative_error(comparable or seconds) <= self.relative_error:
            return "relative_error"
        if self.max_seconds is not None and sum(seconds) + fmean(seconds) > self.max_seconds:
            return "max_seconds"
        return None


def of_round(protocol: Mapping[str, Any], number: int) -> Round:
    """The rules of round ``number``, from 1: the protocol's runs and time limit divided among its rounds.
    Rounds beyond those go on in the same way, with the runs that follow."""
    rounds = protocol["rounds"]
    first, after = (first_run(protocol, n) for n in (number, number + 1))
    limit = protocol["max_seconds"]
    return Round(
        runs=after - first,
        min_runs=min(ceil(protocol["min_runs"] / rounds), after - first),
        max_seconds=None if limit is None else limit / rounds,
        relative_error=protocol["relative_error"],
        warmup_seconds=protocol["warmup_seconds"],
        max_warmup_seconds=protocol["max_warmup_seconds"],
        first_run=first,
        energy=protocol.get("energy", False),
    )


def first_run(protocol: Mapping[str, Any], number: int) -> int:
    """Number of a cell's runs in the rounds before round ``number``, which counts from 1."""
    return protocol["runs"] * (number - 1) // protocol["rounds"]


def relative_error(seconds: Sequence[float]) -> float:
    """Half-width of the mean's 95% confidence interval over the mean; infinite for fewer than three runs."""
    if len(seconds) < 3:
        return float("inf")
    return student_quantile(len(seconds) - 1) * stdev(seconds) / sqrt(len(seconds)) / fmean(seconds)


class Steadiness:
    """Detects the end of the warm-up: whether the time of an epoch has become steady.

    Epochs are grouped in windows of a quarter of ``least_seconds``. They are steady when the mean epoch of
    the last two windows is within 2% of that of the two before.
    """

    def __init__(self, least_seconds: float) -> None:
        self._window = least_seconds / _WINDOWS
        self._means: list[float] = []
        self._epochs, self._seconds = 0, 0.0

    def add(self, seconds: float) -> None:
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
