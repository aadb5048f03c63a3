"""What the samples of a machine warn of: memory nearly full, heat, drops of utilisation, irregular power.

The thresholds are in ``config/verdicts.yaml``. Memory and heat count at any time. Utilisation and power count
during the timed runs alone, because between them a device rests for good reasons, and only where there are
enough samples.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from snn.analysis.verdicts import HOT, IDLE_DROPS, IRREGULAR_POWER, MEMORY_FULL

_ENOUGH = 5
"""Samples of timed runs from which a median says what is usual."""

_SHOWN = 3
"""Warnings of a kind that a note has one by one."""

Samples = Mapping[str, Any]
"""``machine.samples`` of a record."""

Thresholds = Mapping[str, float]


@dataclass(frozen=True)
class Warning:
    """A stretch of samples beyond a threshold, in seconds since the start of the round."""

    word: str
    start_s: float
    end_s: float
    text: str


def warnings(samples: Samples, thresholds: Thresholds) -> list[Warning]:
    """All warnings of a round's samples, by kind and then by time."""
    return [
        *_full(samples, thresholds["memory_full"]),
        *_hot(samples, thresholds),
        *_idle(samples, thresholds),
        *_irregular(samples, thresholds),
    ]


def watched(record: Mapping[str, Any], thresholds: Thresholds) -> dict[str, str]:
    """By word, what the samples of a record warn of; nothing of one from before there were samples."""
    samples = record["machine"].get("samples")
    return note(warnings(samples, thresholds)) if samples else {}


def note(found: Sequence[Warning]) -> dict[str, str]:
    """By word, the warnings of it with their times: ``93% of the memory in use from 12 to 15 s``."""
    notes = {}
    for word, of_word in groupby(found, key=lambda warning: warning.word):
        texts = [f"{one.text} {_when(one)}" for one in of_word]
        more = [f"and {len(texts) - _SHOWN} more times"] if len(texts) > _SHOWN else []
        notes[word] = ", ".join([*texts[:_SHOWN], *more])
    return notes


# ---- at any time


def _full(samples: Samples, most: float) -> Iterator[Warning]:
    capacity, used = samples["limits"].get("memory_bytes"), _column(samples, "memory_used_bytes")
    if not capacity:
        return
    for rows in _stretches([value is not None and value > most * capacity for value in used]):
        share = max(used[i] for i in rows) / capacity
        yield Warning(MEMORY_FULL, *_moments(samples, rows), f"{share:.0%} of the memory in use")


def _hot(samples: Samples, thresholds: Thresholds) -> Iterator[Warning]:
    """Samples near where the device slows down, or if that is unknown, above a fixed temperature."""
    slows, degrees = samples["limits"].get("temperature_c"), _column(samples, "temperature_c")
    limit = slows - thresholds["hot_margin_c"] if slows else thresholds["hot_c"]
    said = f", it slows down at {slows:.0f} C," if slows else ""
    for rows in _stretches([value is not None and value > limit for value in degrees]):
        yield Warning(HOT, *_moments(samples, rows), f"{max(degrees[i] for i in rows):.0f} C{said}")


# ---- during timed runs


def _idle(samples: Samples, thresholds: Thresholds) -> Iterator[Warning]:
    usual = _usual(samples, "utilisation")
    if usual >= thresholds["least_busy"]:
        least = (1 - thresholds["idle_drop"]) * usual
        for start, end, values in _lasting(samples, "utilisation", lambda value: value < least, thresholds):
            yield Warning(IDLE_DROPS, start, end, f"{min(values):.0f}% busy, usually {usual:.0f}%,")


def _irregular(samples: Samples, thresholds: Thresholds) -> Iterator[Warning]:
    usual = _usual(samples, "power_w")
    allowed = thresholds["irregular_power"] * usual
    for start, end, values in _lasting(
        samples, "power_w", lambda value: abs(value - usual) > allowed, thresholds
    ):
        worst = max(values, key=lambda value: abs(value - usual))
        yield Warning(IRREGULAR_POWER, start, end, f"{worst:.0f} W, usually {usual:.0f} W,")


def _usual(samples: Samples, key: str) -> float:
    """The median of a column over the timed runs; 0 where there are too few samples."""
    pairs = zip(_column(samples, key), samples["columns"]["timed"], strict=True)
    values = [value for value, timed in pairs if timed and value is not None]
    return median(values) if len(values) >= _ENOUGH else 0.0


def _lasting(
    samples: Samples, key: str, is_beyond: Callable[[float], bool], thresholds: Thresholds
) -> Iterator[tuple[float, float, list[float]]]:
    """Start, end and values of the stretches of timed samples that are beyond what is usual long enough."""
    if not _usual(samples, key):
        return
    values, timed = _column(samples, key), samples["columns"]["timed"]
    beyond = [
        bool(now) and one is not None and is_beyond(one) for one, now in zip(values, timed, strict=True)
    ]
    for rows in _stretches(beyond):
        start, end = _span(samples, rows)
        if end - start >= thresholds["lasting_s"]:
            yield start, end, [values[i] for i in rows]


# ---- rows of samples


def _column(samples: Samples, key: str) -> list[Any]:
    columns = samples["columns"]
    return columns.get(key) or [None] * len(columns["t_s"])


def _stretches(beyond: Sequence[bool]) -> list[list[int]]:
    """The numbers of the rows that are beyond a threshold, those that follow each other together."""
    return [[i for i, _ in rows] for is_so, rows in groupby(enumerate(beyond), lambda one: one[1]) if is_so]


def _moments(samples: Samples, rows: Sequence[int]) -> tuple[float, float]:
    """From the first of these rows to the next one after them: what they hold is of moments."""
    times = samples["columns"]["t_s"]
    return times[rows[0]], times[min(rows[-1] + 1, len(times) - 1)]


def _span(samples: Samples, rows: Sequence[int]) -> tuple[float, float]:
    """The time that these rows are of: a sample's utilisation is that since the sample before it."""
    times, per_row = samples["columns"]["t_s"], samples["samples_per_row"]

    def before(row: int) -> float:
        """When the sample before a row's first one was taken."""
        return times[row] - (times[row] - times[row - 1]) / per_row if row else times[0]

    last = rows[-1] + 1
    return before(rows[0]), before(last) if last < len(times) else times[-1]


def _when(warning: Warning) -> str:
    start, end = f"{warning.start_s:.0f}", f"{warning.end_s:.0f}"
    return f"at {start} s" if start == end else f"from {start} to {end} s"
