"""Groups the rows of a table: settings as text, the settings that differ, and each row's baseline."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from snn.config import groups

OF_KERNEL = ("kernel.name", "kernel.block", "kernel.work")
"""The settings that change a kernel's work."""


def texts(frame: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """The values of these columns joined to one text per row; an empty value counts as a value."""
    rows = frame[list(names)].itertuples(index=False, name=None)
    joined = ["|".join("" if pd.isna(value) else str(value) for value in row) for row in rows]
    return pd.Series(joined, frame.index)


def first_at(points: Sequence[Any], chosen: Iterable[int]) -> list[int]:
    """For each row, the number of the first ``chosen`` row at the same point; -1 if there is none."""
    listed, first = list(points), dict[Any, int]()
    for number in chosen:
        first.setdefault(listed[number], int(number))
    return [first.get(point, -1) for point in listed]


def settings(frame: pd.DataFrame, sections: Sequence[str]) -> list[str]:
    """The columns of these sections of a cell, for example ``training.epochs``."""
    return [name for name in frame if name.partition(".")[0] in sections and "." in name]


def work_of(row: Mapping[str, Any], sections: Sequence[str]) -> dict[str, Any]:
    """The settings of a row in these sections that define its work on any machine.

    Leaves out empty settings, the place of the code, a kernel's build, and the path of a file with a digest.
    """
    found = {
        key: row[key]
        for section in sections
        for key in row
        if key.startswith(f"{section}.") and not key.endswith("._target_") and not is_empty(row[key])
    }
    unseen = [key for key in found if key.startswith("kernel.") and key not in OF_KERNEL]
    unseen += ["dataset.path"] if "dataset.sha256" in found else []
    return {key: value for key, value in found.items() if key not in unseen}


def varied(frame: pd.DataFrame, names: Sequence[str], within: Sequence[str]) -> list[str]:
    """The columns of ``names`` in which rows with equal values of the columns ``within`` differ."""
    groups = frame.groupby(list(within))
    return [name for name in names if (groups[name].nunique(dropna=False) > 1).any()]


def is_empty(value: object) -> bool:
    """Whether a table's cell is empty: None, NA, NaN or an empty text."""
    return value is None or value is pd.NA or value == "" or value != value


def setting(value: Any) -> Any:
    """The value of a setting as tables show it: a list becomes a text, ``16-16``; others stay."""
    return "-".join(map(str, value)) if isinstance(value, list) else value


# ---- the baseline of each row of a sweep: the row with the most basic choices at the same point of the grid

CHOICES = ("strategy", "kernel", "precision")
"""Keys of the choices; every other axis is part of the point that a row is at."""

_BASIC = {"kernel": ("naive",), "precision": ("fp32",)}

_OWN = 9
"""The distance of a choice that is not basic: a baseline may have it only if its row has it, too."""

Row = Mapping[str, Any]


def baselines(frame: pd.DataFrame, axes: Sequence[str]) -> tuple[list[int], list[str]]:
    """The number and the name of each row's baseline; -1 and an empty name for a row without one.

    A baseline has the same data set, network and whatever else the sweep varies except choices. Its strategy
    is ``reference`` (``sequential`` for strategies on the host; ``resident`` in a sweep of several GPUs that
    lacks it), its kernel ``naive``, its precision fp32, and it has the options of the choices' files; if the
    sweep has no such row, the baseline shares some choices with the row. A row without another baseline gets
    -1 unless it is the baseline of other rows. The kernel is the chosen one, even if the strategy brings its
    own.
    """
    of_one = ("resident",) if frame["several_devices"].any() else ()
    frame = frame.assign(kernel=frame["kernel.name"], of_one=[of_one] * len(frame))
    chosen = [*CHOICES, *(axis for axis in axes if axis in frame and axis.split(".")[0] in CHOICES[:2])]
    chosen = list(dict.fromkeys(chosen))
    point = ["dataset", "network", *(axis for axis in axes if axis in frame and axis not in chosen)]
    rows = frame.to_dict("records")
    numbers = _numbers(rows, chosen, point)
    used = {number for i, number in enumerate(numbers) if number != i}
    numbers = [number if number != i or i in used else -1 for i, number in enumerate(numbers)]
    varied = [axis for axis in chosen if frame[axis].astype(str).nunique() > 1]
    names = ["" if n < 0 else _name(rows[n], rows[i], varied) for i, n in enumerate(numbers)]
    return numbers, names


def _numbers(rows: Sequence[Row], chosen: Sequence[str], point: Sequence[str]) -> list[int]:
    """For each row, the first row at its point with the most basic choices, each basic or the row's own.

    Rows are looked up by their choices that are not basic, so that the time is linear in the number of rows.
    """
    points: dict[tuple[Any, ...], list[int]] = {}
    for i, row in enumerate(rows):
        points.setdefault(_values(row, point), []).append(i)
    numbers = list(range(len(rows)))
    for members in points.values():
        for on_host in {bool(rows[i]["on_host"]) for i in members}:
            distances = {i: [_distance(axis, rows[i], on_host) for axis in chosen] for i in members}
            best: dict[tuple[str, ...], dict[tuple[Any, ...], tuple[list[int], int]]] = {}
            for i, far in distances.items():
                own = tuple(axis for axis, each in zip(chosen, far, strict=True) if each == _OWN)
                alike, values = best.setdefault(own, {}), _values(rows[i], own)
                alike[values] = min(alike.get(values, (far, i)), (far, i))
            for i, far in distances.items():
                if bool(rows[i]["on_host"]) == on_host:
                    found = (alike.get(_values(rows[i], own)) for own, alike in best.items())
                    shortest, number = min(filter(None, found))
                    numbers[i] = number if shortest < far else i
    return numbers


def _distance(axis: str, row: Row, on_host: bool) -> int:
    """The distance of a row's choice from the most basic one, which is different for rows on the host."""
    if axis == "strategy":
        basic: Sequence[Any] = (
            ("sequential", "reference") if on_host else ("reference", *row.get("of_one", ()))
        )
    elif axis in _BASIC:
        basic = _BASIC[axis]
    else:
        is_default = is_empty(row[axis]) or row[axis] == _default(axis, row)
        return 0 if is_default else _OWN
    return basic.index(row[axis]) if row[axis] in basic else _OWN


def _default(axis: str, row: Row) -> Any:
    """The value of an option in the file of the row's choice, as ``snn.analysis.frame`` shows it."""
    group, _, option = axis.partition(".")
    if row[group] not in groups.names(group):
        return None
    return setting(groups.load(group, row[group]).get(option))


def _values(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    """The values of a row as a key: every empty value is None, and 1 equals 1.0."""
    return tuple(None if is_empty(row[name]) else row[name] for name in names)


def _name(baseline: Row, row: Row, varied: Sequence[str]) -> str:
    """The baseline's basic choices that differ within the sweep, such as ``reference, kernel naive``."""
    choices = []
    for axis in varied:
        if is_empty(baseline[axis]) or _distance(axis, baseline, bool(row["on_host"])) == _OWN:
            continue
        name = axis.partition(".")[2].replace("_", " ") or axis
        choices.append(str(baseline[axis]) if axis == "strategy" else f"{name} {baseline[axis]}")
    return ", ".join(choices)
