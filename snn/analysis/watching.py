"""What the samples of a machine warn of: memory nearly full, heat, drops of utilisation, irregular power.

The thresholds are in ``config/verdicts.yaml``. Memory and heat count at any time. Utilisation and power count
during the timed runs alone, because between them a device rests for good reasons, and only where there are
enough samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from snn.analysis.verdicts import HOT, IDLE_DROPS, IRREGULAR_POWER, MEMORY_FULL

_ENOUGH = 5
"""Samples of timed runs from which a median says what is usual."""

_SHOWN = 3
"""Warnings of a kind that a note has one by one."""

Thresholds = Mapping[str, float]


@dataclass(frozen=True)
class Warning:
    """A stretch of samples beyond a threshold: seconds since the start of the round, and the worst value.

    ``memory full``: the share of the memory; ``hot``: degrees Celsius; the others: the ratio to the median of
    the timed runs.
    """

    word: str
    start_s: float
    end_s: float
    worst: float
    text: str


def warnings(samples: Mapping[str, Any], thresholds: Thresholds) -> list[Warning]:
    """All warnings of a round's samples (``machine.samples`` of a record), by kind and then by time."""
    columns, limits = samples["columns"], samples["limits"]
    found = []
    if limits.get("memory_bytes"):
        shares = _ratios(columns.get("memory_used_bytes"), limits["memory_bytes"])
        for rows in _stretches(columns, [x is not None and x > thresholds["memory_full"] for x in shares]):
            worst = max(shares[i] for i in rows)
            found.append(_warning(MEMORY_FULL, columns, rows, worst, f"{worst:.0%} of the memory in use"))
    found += _hot(columns, limits, thresholds)
    for key, word, low, high, form in (
        (
            "utilisation",
            IDLE_DROPS,
            1 - thresholds["idle_drop"],
            float("inf"),
            "{:.0f}% busy, usually {:.0f}%",
        ),
        (
            "power_w",
            IRREGULAR_POWER,
            1 - thresholds["irregular_power"],
            1 + thresholds["irregular_power"],
            "{:.0f} W, usually {:.0f} W",
        ),
    ):
        usual = _usual(columns, key)
        if not usual or (word == IDLE_DROPS and usual < thresholds["least_busy"]):
            continue
        ratios = _ratios(columns[key], usual)
        beyond = [
            bool(timed) and ratio is not None and not low <= ratio <= high
            for timed, ratio in zip(columns["timed"], ratios, strict=True)
        ]
        for rows in _stretches(columns, beyond):
            worst = max((ratios[i] for i in rows), key=lambda ratio: abs(ratio - 1))
            warning = _warning(word, columns, rows, worst, form.format(worst * usual, usual))
            if warning.end_s - warning.start_s >= thresholds["lasting_s"]:
                found.append(warning)
    return found


def watched(record: Mapping[str, Any], thresholds: Thresholds) -> dict[str, str]:
    """By word, what the samples of a record warn of; nothing of one from before there were samples."""
    samples = record["machine"].get("samples")
    return note(warnings(samples, thresholds)) if samples else {}


def note(found: Sequence[Warning]) -> dict[str, str]:
    """By word, the warnings of it with their times: ``93% of the memory in use at 12 s``."""
    notes = {}
    for word, of_word in groupby(found, key=lambda warning: warning.word):
        texts = [f"{one.text} {_when(one)}" for one in of_word]
        more = [f"and {len(texts) - _SHOWN} more times"] if len(texts) > _SHOWN else []
        notes[word] = ", ".join([*texts[:_SHOWN], *more])
    return notes


def _hot(columns: Mapping[str, Any], limits: Mapping[str, Any], thresholds: Thresholds) -> list[Warning]:
    """Samples near where the device slows down, or if that is unknown, above a fixed temperature."""
    slows = limits.get("temperature_c")
    limit = slows - thresholds["hot_margin_c"] if slows else thresholds["hot_c"]
    degrees = columns.get("temperature_c") or [None] * len(columns["t_s"])
    found = []
    for rows in _stretches(columns, [value is not None and value > limit for value in degrees]):
        worst = max(degrees[i] for i in rows)
        of = f", it slows down at {slows:.0f} C" if slows else ""
        found.append(_warning(HOT, columns, rows, worst, f"{worst:.0f} C{of},"))
    return found


def _ratios(values: Sequence[float | None] | None, to: float) -> list[Any]:
    return [None if value is None else value / to for value in values or ()]


def _usual(columns: Mapping[str, Any], key: str) -> float:
    """The median of the samples of timed runs; 0 where there are too few."""
    values = [
        value
        for value, timed in zip(columns.get(key, ()), columns["timed"], strict=False)
        if timed and value is not None
    ]
    return median(values) if len(values) >= _ENOUGH else 0.0


def _stretches(columns: Mapping[str, Any], beyond: Sequence[bool]) -> list[list[int]]:
    """The numbers of the rows beyond a threshold, those that follow each other together."""
    return [
        [i for i, _ in rows]
        for is_beyond, rows in groupby(enumerate(beyond), lambda one: one[1])
        if is_beyond
    ]


def _warning(word: str, columns: Mapping[str, Any], rows: Sequence[int], worst: float, text: str) -> Warning:
    """A row lasts until the next one begins; the last one is a moment."""
    times = columns["t_s"]
    end = times[min(rows[-1] + 1, len(times) - 1)]
    return Warning(word, times[rows[0]], end, worst, text)


def _when(warning: Warning) -> str:
    start, end = f"{warning.start_s:.0f}", f"{warning.end_s:.0f}"
    return f"at {start} s" if start == end else f"from {start} to {end} s"
