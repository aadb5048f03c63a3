"""Claims of a text, held against rows of tables: confirmed, refuted or conditional, by a written rule.

A claim has one or more tests. A test selects rows of a table and says what their value must be. Each row, or
pair of rows, is a case. The claim holds there, fails, or is open because the 95% interval contains the bound.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import pandas as pd

from snn.analysis.verdicts import NOT_SIGNIFICANT
from snn.errors import ConfigError, shown

CONFIRMED, REFUTED, CONDITIONAL = "confirmed", "refuted", "conditional"
NOT_YET, NOT_TESTED = "not measured yet", "not tested"
HOLDS, FAILS, OPEN = "holds", "fails", "open"

_KEYS = {"table", "where", "by", "column", "per", "over", "is", "best", "unit", "says"}
_FORMS = (
    ("table", str, "a published table, FOLDER/TABLE"),
    ("says", str, "a text"),
    ("where", Mapping, "values by column"),
    ("over", Mapping, "values by column"),
    ("is", Mapping, "what the value must be"),
    ("by", list, "a list of columns"),
)
_BOUNDS = {"above", "below", "at_least", "at_most", "equals"}
_ENDS = {"median": ("low", "high"), "step_us": ("step_ci_low_us", "step_ci_high_us")}
"""The ends of the interval of columns that call them neither ``COLUMN_low`` nor ``COLUMN_ci_low``."""

Tables = Callable[[str], pd.DataFrame | None]
"""A table by its name, ``FOLDER/TABLE``; None where it is not there yet."""


@dataclass(frozen=True)
class Case:
    """A value that a claim is about, its 95% interval if there is one, and whether the claim holds there."""

    at: tuple[Any, ...]
    value: Any
    low: float | None
    high: float | None
    outcome: str


@dataclass(frozen=True)
class Found:
    """What a test found: its cases in the order of the table, and the device they were measured on."""

    test: Mapping[str, Any]
    cases: tuple[Case, ...]
    device: str


def verdict(claim: Mapping[str, Any], found: Sequence[Found | None]) -> str:
    """The word for a claim, from what each of its tests found; None where there is nothing yet.

    ``confirmed``: it holds in every case. ``refuted``: it fails in some and holds in none. ``not
    significant``: every case is open. Otherwise ``conditional``.
    """
    if "untested" in claim:
        return NOT_TESTED
    if None in found:
        return NOT_YET
    outcomes = {case.outcome for one in found if one for case in one.cases}
    if outcomes == {HOLDS}:
        return CONFIRMED
    if outcomes == {OPEN}:
        return NOT_SIGNIFICANT
    return CONDITIONAL if HOLDS in outcomes else REFUTED


def run(claim: Mapping[str, Any], tables: Tables, place: str) -> list[Found | None]:
    """What the tests of a claim find in these tables, in order; None where there is no table or no value yet.

    Raises ConfigError, naming the place, where a claim has no tests and no reason why not, where a test is
    wrong, or finds no row, or where its tests are of two devices.
    """
    if ("untested" in claim) == ("tests" in claim):
        raise ConfigError(f"{place}: a claim must have tests, or untested with the reason")
    found = [_run(test, tables, f"{place}.tests[{i}]") for i, test in enumerate(claim.get("tests", ()))]
    devices = {one.device for one in found if one}
    if len(devices) > 1:
        raise ConfigError(
            f"{place}: its tests are of {' and '.join(sorted(devices))}: they must be of one device"
        )
    return found


def _run(test: Mapping[str, Any], tables: Tables, place: str) -> Found | None:
    _check(test, place)
    table = tables(test["table"])
    if table is None:
        return None
    rows = _selected(table, test["where"], place)
    cases = [case for row in rows for case in _case(row, table, test, place)]
    if not cases:
        return None
    if test.get("best"):
        cases = [max(cases, key=lambda case: case.value)]
    devices = {row["device"] for row in rows if "device" in row}
    return Found(test, tuple(cases), " and ".join(sorted(devices)))


def _check(test: Any, place: str) -> None:
    if not isinstance(test, Mapping):
        raise ConfigError(f"{place}: {shown(test)}: it must have the keys {', '.join(sorted(_KEYS))}")
    unknown = test.keys() - _KEYS
    if unknown:
        raise ConfigError(f"{place}: unknown keys {', '.join(sorted(unknown))}: {', '.join(sorted(_KEYS))}")
    missing = {"table", "where", "column", "is", "says"} - test.keys()
    if missing:
        raise ConfigError(f"{place}: it lacks {', '.join(sorted(missing))}")
    for key, kind, right in _FORMS:
        if key in test and not isinstance(test[key], kind):
            raise ConfigError(f"{place}.{key}: {shown(test[key])}: it must be {right}")
    bounds = test["is"]
    named = [bound for bound in bounds if bound != "equals"]
    numbers = all(isinstance(bounds[bound], int | float) for bound in named)
    if not bounds or bounds.keys() - _BOUNDS or ("equals" in bounds and named) or not numbers:
        raise ConfigError(
            f"{place}.is: {shown(dict(bounds))}: it must be equals with a word, or one or more of above, "
            "below, at_least, at_most with a number"
        )


def _selected(table: pd.DataFrame, where: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """The rows with these values; a list allows any of its values."""
    missing = where.keys() - set(table)
    if missing:
        raise ConfigError(f"{place}.where: the table has no column {', '.join(sorted(missing))}")
    chosen = pd.Series(True, table.index)
    for key, wanted in where.items():
        chosen &= table[key].isin(wanted if isinstance(wanted, list) else [wanted])
    rows: list[dict[str, Any]] = table[chosen].to_dict("records")
    if not rows:
        raise ConfigError(f"{place}.where: no row has {shown(dict(where))}")
    return rows


def _case(row: Mapping[str, Any], table: pd.DataFrame, test: Mapping[str, Any], place: str) -> Iterable[Case]:
    """The case of a row; none where it, or the row that it is divided by, has no value."""
    by = test.get("by", [])
    at = tuple(row[key] for key in by)
    interval = _interval(row, test, place)
    if interval is None:
        return
    if "over" in test:
        where = {**test["where"], **dict(zip(by, at, strict=True)), **test["over"]}
        others = _selected(table, where, f"{place}.over")
        if len(others) > 1:
            raise ConfigError(f"{place}.over: {len(others)} rows have {shown(where)}: name more in by")
        other = _interval(others[0], test, place)
        if other is None:
            return
        _check_number(others[0], test["column"], 0, test, f"{place}.over")
        interval = _ratio(interval, other)
    value, low, high = interval
    yield Case(at, value, low, high, _outcome(value, low, high, test["is"]))


Interval = tuple[Any, float | None, float | None]


def _interval(row: Mapping[str, Any], test: Mapping[str, Any], place: str) -> Interval | None:
    """A row's value and the ends of its interval, if there are any, each divided by the column ``per``."""
    column = test["column"]
    missing = {column, *([test["per"]] if "per" in test else [])} - row.keys()
    if missing:
        raise ConfigError(f"{place}: {test['table']} has no column {', '.join(sorted(missing))}")
    if pd.isna(row[column]):
        return None
    own = (f"{column}_low", f"{column}_high")
    low, high = _ENDS.get(column, own if own[0] in row else (f"{column}_ci_low", f"{column}_ci_high"))
    values = [row[column], row.get(low), row.get(high)]
    if "equals" not in test["is"]:
        _check_number(row, column, -inf, test, place)
    if "per" in test:
        _check_number(row, test["per"], 0, test, place)
        values = [None if value is None else value / row[test["per"]] for value in values]
    value, low_end, high_end = (None if pd.isna(one) else one for one in values)
    return value, low_end, high_end


def _check_number(
    row: Mapping[str, Any], column: str, above: float, test: Mapping[str, Any], place: str
) -> None:
    """Raise ConfigError where a table has something else than a number, or none to divide by."""
    if not isinstance(row[column], int | float) or not row[column] > above:
        right = "a number" if above == -inf else f"a number above {above:g}, to divide by it"
        raise ConfigError(f"{place}: {test['table']} has {column} {shown(row[column])}: it must be {right}")


def _ratio(one: Interval, other: Interval) -> Interval:
    """Of two values with independent intervals, as far as these allow."""
    value = one[0] / other[0]
    low, high, other_low, other_high = one[1], one[2], other[1], other[2]
    if low is None or high is None or other_low is None or other_high is None:
        return value, None, None
    return value, low / other_high, high / other_low if other_low > 0 else inf


def _outcome(value: Any, low: float | None, high: float | None, bounds: Mapping[str, Any]) -> str:
    if "equals" in bounds:
        return HOLDS if value == bounds["equals"] else FAILS
    ends = [value if low is None else low, value if high is None else high]
    inside = [_is_within(end, bounds) for end in (*ends, value)]
    if all(inside):
        return HOLDS
    overlaps = any(inside) or _spans(ends, bounds)
    return OPEN if overlaps and low != high else FAILS


def _is_within(value: float, bounds: Mapping[str, float]) -> bool:
    return (
        value > bounds.get("above", -inf)
        and value < bounds.get("below", inf)
        and value >= bounds.get("at_least", -inf)
        and value <= bounds.get("at_most", inf)
    )


def _spans(ends: Sequence[float], bounds: Mapping[str, float]) -> bool:
    """Whether an interval reaches across all of the allowed range."""
    low, high = bounds.get("at_least", bounds.get("above")), bounds.get("at_most", bounds.get("below"))
    return low is not None and high is not None and ends[0] <= low and ends[1] >= high
