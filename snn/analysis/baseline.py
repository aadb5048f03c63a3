"""The baseline of each row of a sweep: the row with the most basic choices at the same point of the grid."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from snn.analysis.grouping import is_empty, setting
from snn.config import groups

CHOICES = ("strategy", "kernel", "precision")
"""What is chosen; every other axis is part of the point that a row is at."""

_BASIC = {"kernel": ("naive",), "precision": ("fp32",)}

_OWN = 9
"""The distance of a choice that is not a basic one: a row's baseline may only share it with the row."""

Row = Mapping[str, Any]


def baselines(frame: pd.DataFrame, axes: Sequence[str]) -> tuple[list[int], list[str]]:
    """The number and the name of each row's baseline; -1 and an empty name where there is none.

    A baseline has the same data set, network and whatever else the sweep varies except choices. Its strategy
    is ``reference`` (``sequential`` for strategies on the host), its kernel ``naive``, its precision fp32 and
    its options those of the choices' files; where the sweep has no such row, it shares some of them with the
    row. A row that has no other baseline and is the baseline of no other row has none.
    """
    chosen = [*CHOICES, *(axis for axis in axes if axis in frame and axis.split(".")[0] in CHOICES[:2])]
    chosen = list(dict.fromkeys(chosen))
    point = ["dataset", "network", *(axis for axis in axes if axis in frame and axis not in chosen)]
    rows = frame.to_dict("records")
    numbers = [_baseline(i, rows, chosen, point) for i in range(len(rows))]
    used = {number for i, number in enumerate(numbers) if number != i}
    numbers = [number if number != i or i in used else -1 for i, number in enumerate(numbers)]
    varied = [axis for axis in chosen if frame[axis].astype(str).nunique() > 1]
    names = ["" if n < 0 else _name(rows[n], rows[i], varied) for i, n in enumerate(numbers)]
    return numbers, names


def _baseline(i: int, rows: Sequence[Row], chosen: Sequence[str], point: Sequence[str]) -> int:
    """The row at the same point with the most basic choices, where each is basic or the row's own."""
    row = rows[i]
    best, shortest = i, [_distance(axis, row, row) for axis in chosen]
    for j, other in enumerate(rows):
        if any(not _same(other[axis], row[axis]) for axis in point):
            continue
        distances = [_distance(axis, other, row) for axis in chosen]
        eligible = all(
            distance < _OWN or _same(other[axis], row[axis])
            for distance, axis in zip(distances, chosen, strict=True)
        )
        if eligible and distances < shortest:
            best, shortest = j, distances
    return best


def _distance(axis: str, other: Row, row: Row) -> int:
    """How far the other row's choice is from the most basic one that ``row`` can be compared with."""
    if axis == "strategy":
        basic: Sequence[Any] = ("sequential", "reference") if row["on_host"] else ("reference",)
    elif axis in _BASIC:
        basic = _BASIC[axis]
    else:
        default = (None, _default(axis, other))
        return 0 if any(_same(other[axis], value) for value in default) else _OWN
    return basic.index(other[axis]) if other[axis] in basic else _OWN


def _default(axis: str, row: Row) -> Any:
    """The value of an option in the file of the row's choice, as ``snn.analysis.frame`` shows it."""
    group, _, option = axis.partition(".")
    if row[group] not in groups.names(group):
        return None
    return setting(groups.load(group, row[group]).get(option))


def _same(a: Any, b: Any) -> bool:
    return (is_empty(a) and is_empty(b)) or (not is_empty(a) and not is_empty(b) and bool(a == b))


def _name(baseline: Row, row: Row, varied: Sequence[str]) -> str:
    """The basic choices of the baseline, of those that differ in the sweep: ``reference, kernel naive``."""
    choices = []
    for axis in varied:
        if is_empty(baseline[axis]) or _distance(axis, baseline, row) == _OWN:
            continue
        name = axis.partition(".")[2].replace("_", " ") or axis
        choices.append(str(baseline[axis]) if axis == "strategy" else f"{name} {baseline[axis]}")
    return ", ".join(choices)
