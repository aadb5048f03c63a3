"""What each row of a sweep is held against: the row that has made the plainest choices at the same point."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.config import groups
from snn.models.network import label

CHOICES = ("strategy", "kernel", "precision")
"""What is chosen; every other axis is part of the point that a row is at."""

_PLAINEST = {"kernel": ("naive",), "precision": ("fp32",)}

Row = Mapping[str, Any]


def bases(frame: pd.DataFrame, axes: Sequence[str]) -> tuple[list[int], list[str]]:
    """For each row of a sweep the number of its base, and how that is called; -1 and no name without one.

    A base is at the same data set, network and whatever else the sweep varies but choices. Its strategy is
    the reference (of a strategy on the host: ``sequential``), its kernel ``naive``, its precision fp32, its
    options those of the choices' files; where the sweep has no such row, some of them are the row's own.
    A row that is held against nothing, and nothing against it, has no base.
    """
    chosen = [*CHOICES, *(axis for axis in axes if axis in frame and axis.split(".")[0] in CHOICES[:2])]
    chosen = list(dict.fromkeys(chosen))
    point = ["dataset", "network", *(axis for axis in axes if axis in frame and axis not in chosen)]
    rows = frame.to_dict("records")
    found = [_base(i, rows, chosen, point) for i in range(len(rows))]
    used = {base for i, base in enumerate(found) if base != i}
    found = [base if base != i or i in used else -1 for i, base in enumerate(found)]
    varied = [axis for axis in chosen if frame[axis].astype(str).nunique() > 1]
    return found, ["" if base < 0 else _called(rows[base], rows[i], varied) for i, base in enumerate(found)]


def _base(i: int, rows: Sequence[Row], chosen: Sequence[str], point: Sequence[str]) -> int:
    """The row at the same point whose choices are each its own or plainer, and of those the plainest."""
    row = rows[i]
    best, least = i, [_distance(axis, row, row) for axis in chosen]
    for j, other in enumerate(rows):
        if any(not _same(other[axis], row[axis]) for axis in point):
            continue
        distance = [_distance(axis, other, row) for axis in chosen]
        own = all(d < _OWN or _same(other[axis], row[axis]) for d, axis in zip(distance, chosen, strict=True))
        if own and distance < least:
            best, least = j, distance
    return best


_OWN = 9


def _distance(axis: str, other: Row, row: Row) -> int:
    """0 where a row's value on this axis is the plainest that one can be held against, else more."""
    if axis == "strategy":
        plainest: Sequence[Any] = ("sequential", "reference") if row["on_host"] else ("reference",)
    elif axis in _PLAINEST:
        plainest = _PLAINEST[axis]
    else:
        plainest = (None, _usual(axis, other))
        return 0 if any(_same(other[axis], value) for value in plainest) else _OWN
    return plainest.index(other[axis]) if other[axis] in plainest else _OWN


def _usual(axis: str, row: Row) -> Any:
    """What the file of a row's choice has for an option, as ``snn.analysis.frame`` shows it."""
    group, _, option = axis.partition(".")
    if row[group] not in groups.names(group):
        return None
    value = groups.load(group, row[group]).get(option)
    return label(value) if isinstance(value, list) else value


def _same(a: Any, b: Any) -> bool:
    return (is_empty(a) and is_empty(b)) or (not is_empty(a) and not is_empty(b) and bool(a == b))


def _called(base: Row, row: Row, varied: Sequence[str]) -> str:
    """The plainest choices that the base has made, of those that differ in the sweep."""
    said = []
    for axis in varied:
        if is_empty(base[axis]) or _distance(axis, base, row) == _OWN:
            continue
        name = axis.partition(".")[2].replace("_", " ") or axis
        said.append(str(base[axis]) if axis == "strategy" else f"{name} {base[axis]}")
    return ", ".join(said)
