"""Claims of the sources, judged against rows of archived tables.

A source is a file of ``config/claims/``; ``config/README.md`` describes its keys. A claim has tests. A test
selects rows of one or more tables and bounds their value. Each row, or pair of rows, is a case. The claim
holds there, fails there, or is open because the 95% interval of the value contains the bound.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd

from snn.analysis.verdicts import NOT_SIGNIFICANT
from snn.config.groups import CONFIG, ROOT, read_yaml
from snn.config.suggestions import meant
from snn.errors import ConfigError, shown
from snn.files.published_sets import PUBLISHED
from snn.profiling.memory import size
from snn.report.write import read

SOURCES = CONFIG / "claims"

CONFIRMED, CONDITIONAL, REFUTED = "confirmed", "conditional", "refuted"
NOT_MEASURED, NOT_TESTABLE = "not measured yet", "not testable here"
VERDICTS = {
    CONFIRMED: "the claim holds in every case",
    CONDITIONAL: "it holds in some cases, which are listed",
    REFUTED: "it fails in some cases and holds in none",
    NOT_SIGNIFICANT: "in every case the 95% interval contains the bound",
    NOT_MEASURED: "rows that could test it are not published, for the reason given",
    NOT_TESTABLE: "no row can test it, for the reason given",
}
HOLDS, FAILS, OPEN = "holds", "fails", "open"

_BASES = {"tests": "", "not_measured": NOT_MEASURED, "not_testable": NOT_TESTABLE}
"""What a verdict rests on, and the verdict that follows from it alone."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -inf < value < inf


def _is_choice(value: Any) -> bool:
    """Whether a value is a mapping from columns to values, or lists of values, that a table can hold."""
    if not isinstance(value, Mapping) or not all(map(_is_text, value)):
        return False
    listed = [each for one in value.values() for each in (one if isinstance(one, list) else [one])]
    return all(isinstance(each, str | int | float) for each in listed) and [] not in value.values()


_Forms = Mapping[str, tuple[Callable[[Any], bool], str]]
"""By key: whether its value is right, and what would be."""

_TEST_FORMS: _Forms = {
    "table": (
        lambda value: _is_text(value) or (_is_texts(value) and value != []),
        "a table, DEVICE/SET/TABLE or config/FILE, or a list of tables",
    ),
    "says": (_is_text, "a text"),
    "where": (_is_choice, "values by column"),
    "column": (_is_text, "the name of a column"),
    "is": (lambda value: isinstance(value, Mapping), "what the value must be"),
    "by": (_is_texts, "a list of columns"),
    "over": (lambda value: _is_choice(value) and value != {}, "values by column"),
    "per": (_is_text, "the name of a column"),
    "best": (lambda value: isinstance(value, bool), "true or false"),
    "unit": (_is_text, "a text"),
    "digits": (
        lambda value: type(value) is int and 0 < value < 18,
        "significant digits, from 1 to 17",
    ),
}
"""Of the keys of a test."""

_CLAIM_FORMS: _Forms = {
    **dict.fromkeys(("section", "says", "note", "not_measured", "not_testable"), (_is_text, "a text")),
    "tests": (lambda value: isinstance(value, list) and value != [], "a list of tests"),
}
_REQUIRED = ("table", "says", "where", "column", "is")
_BOUNDS = {"above", "below", "at_least", "at_most", "equals"}
_ENDS = {"median": ("low", "high"), "step_us": ("step_ci_low_us", "step_ci_high_us")}
"""The ends of the interval of columns that call them neither ``COLUMN_low`` nor ``COLUMN_ci_low``."""
_BASELINES = ("baseline", "best_peer", "fastest_cpu")
"""Columns that name what a row's speedup is over."""

Tables = Callable[[str], pd.DataFrame | None]
"""Returns a table by its name; None if it does not exist yet."""


@dataclass(frozen=True)
class Case:
    """A value, its 95% interval if it has one, and whether the claim holds there.

    ``at`` has the value of each column in the test's ``by``.
    """

    at: tuple[Any, ...]
    value: Any
    low: float | None
    high: float | None
    outcome: str


@dataclass(frozen=True)
class Finding:
    """The cases that a test finds in one table, in the table's order, and the device they were measured on.

    Of values that a source printed, it is the source's device, if the table names it.
    ``cases`` is empty if the table does not exist yet, or has no value in these rows.
    """

    test: Mapping[str, Any]
    table: str
    cases: tuple[Case, ...]
    device: str


@dataclass(frozen=True)
class Claim:
    """A claim, its findings and the verdict that follows from them."""

    name: str
    section: str
    says: str
    note: str
    reason: str
    findings: tuple[Finding, ...]
    verdict: str


@dataclass(frozen=True)
class Source:
    """A source and its claims, in the order of the file."""

    name: str
    title: str
    by: str
    claims: tuple[Claim, ...]

    def counts(self) -> dict[str, int]:
        """The number of claims by verdict, for every verdict."""
        counter = Counter(claim.verdict for claim in self.claims)
        return {verdict: counter[verdict] for verdict in VERDICTS}


def source_names() -> list[str]:
    """The names of all sources, the paper first."""
    return sorted((path.stem for path in SOURCES.glob("*.yaml")), key=lambda name: (name != "paper", name))


def judge(name: str, tables: Tables | None = None) -> Source:
    """The source of this name with a verdict on each claim.

    Raises ConfigError for an unknown name, and, naming file and key, for a claim or a test of the wrong form
    and for a test that selects no row of its table.
    """
    if name not in source_names():
        raise ConfigError(
            f"{shown(name)}: there is no such source{meant(name, source_names())}; there are "
            f"{', '.join(source_names())}"
        )
    file = SOURCES / f"{name}.yaml"
    content = read_yaml(file)
    if not isinstance(content, Mapping) or not isinstance(content.get("claims"), Mapping):
        raise ConfigError(f"{file}: it must have the key claims, with claims by name")
    for key in ("title", "by"):
        if not isinstance(content.get(key), str):
            raise ConfigError(f"{file}: {key} is {shown(content.get(key))}: it must be a text")
    tables = tables or published_tables()
    claims = [judge_claim(each, claim, tables, str(file)) for each, claim in content["claims"].items()]
    return Source(name, content["title"], content["by"], tuple(claims))


def judge_claim(name: str, claim: Any, tables: Tables, file: str) -> Claim:
    """A claim with its findings and its verdict. Raises ConfigError as ``judge`` does."""
    place = f"{file}: {name}"
    if not isinstance(claim, Mapping):
        raise ConfigError(f"{place} is {shown(claim)}: it must have the keys section, says and tests")
    _check_keys(claim, _CLAIM_FORMS, ("section", "says"), place)
    if len(_BASES.keys() & claim.keys()) != 1:
        raise ConfigError(f"{place}: it must have one of {', '.join(_BASES)}; the latter two with the reason")
    findings = tuple(
        finding
        for i, test in enumerate(claim.get("tests", ()))
        for finding in find(test, tables, f"{place}.tests[{i}]")
    )
    (basis,) = _BASES.keys() & claim.keys()
    reason = "" if basis == "tests" else claim[basis]
    verdict = _BASES[basis] or verdict_of(findings)
    return Claim(name, claim["section"], claim["says"], claim.get("note", ""), reason, findings, verdict)


def verdict_of(findings: Sequence[Finding]) -> str:
    """The verdict that follows from all cases of all findings; a finding without a case is not measured."""
    if not all(finding.cases for finding in findings):
        return NOT_MEASURED
    outcomes = {case.outcome for finding in findings for case in finding.cases}
    if outcomes == {HOLDS}:
        return CONFIRMED
    if outcomes == {OPEN}:
        return NOT_SIGNIFICANT
    return CONDITIONAL if HOLDS in outcomes else REFUTED


def published_tables(published: Path = PUBLISHED) -> Tables:
    """Returns a published table by its name, DEVICE/SET/TABLE, or the rows of a file config/FILE.yaml.

    The file has a list ``rows``, or mappings by name, each of which is a row with the column ``name``.
    """

    @cache
    def table(name: str) -> pd.DataFrame | None:
        folder, _, stem = name.rpartition("/")
        if name.startswith("config/"):
            return _table_of(ROOT / f"{name}.yaml")
        file = published / folder / f"tables/{stem}.csv"
        return read(file, stem) if file.exists() else None

    return table


def _table_of(file: Path) -> pd.DataFrame:
    content = read_yaml(file)
    rows = content.get("rows", content) if isinstance(content, Mapping) else None
    if isinstance(rows, Mapping) and all(isinstance(row, Mapping) for row in rows.values()):
        rows = [{"name": name, **row} for name, row in rows.items()]
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError(f"{file}: it must have a list of mappings as rows, or mappings by name")
    return pd.DataFrame(rows)


# ---- a test and its cases


def find(test: Any, tables: Tables, place: str) -> list[Finding]:
    """The findings of a test, one for each of its tables. Raises ConfigError, naming place and key."""
    _check(test, place)
    names = test["table"] if isinstance(test["table"], list) else [test["table"]]
    return [_find(test, name, tables(name), place) for name in names]


def _check(test: Any, place: str) -> None:
    if not isinstance(test, Mapping):
        raise ConfigError(f"{place}: {shown(test)}: it must have the keys {', '.join(_REQUIRED)}")
    _check_keys(test, _TEST_FORMS, _REQUIRED, place)
    bounds = test["is"]
    are_right = all(_is_number(one) or (key == "equals" and _is_text(one)) for key, one in bounds.items())
    if not bounds or bounds.keys() - _BOUNDS or ("equals" in bounds and len(bounds) > 1) or not are_right:
        raise ConfigError(
            f"{place}.is: {shown(dict(bounds))}: it must be equals with a word or a number, or one or "
            "more of above, below, at_least, at_most with a number"
        )


def _check_keys(given: Mapping[Any, Any], forms: _Forms, required: Iterable[str], place: str) -> None:
    """Raise ConfigError, naming the key, unless all keys are known, and their values of the right form."""
    unknown = given.keys() - forms.keys()
    if unknown:
        raise ConfigError(f"{place}: unknown keys {', '.join(map(str, unknown))}: {', '.join(forms)}")
    missing = [key for key in required if key not in given]
    if missing:
        raise ConfigError(f"{place}: it lacks {', '.join(missing)}")
    for key, value in given.items():
        is_right, right = forms[key]
        if not is_right(value):
            raise ConfigError(f"{place}.{key}: {shown(value)}: it must be {right}")


def _find(test: Mapping[str, Any], name: str, table: pd.DataFrame | None, place: str) -> Finding:
    if table is None:
        return Finding(test, name, (), "")
    rows = _selected(table, test["where"], name, place)
    cases = [case for row in rows for case in _cases(row, table, test, name, place)]
    if cases and test.get("best"):
        cases = [max(cases, key=lambda case: case.value)]
    if len({case.at for case in cases}) < len(cases):
        raise ConfigError(f"{place}.by: several rows of {name} have the same values: name more columns")
    printed = test["column"].startswith(("published_", "paper_"))
    named = [row.get("published_device" if printed else "device") for row in rows]
    devices = {device for device in named if isinstance(device, str)}
    return Finding(test, name, tuple(cases), " and ".join(sorted(devices)))


def _selected(table: pd.DataFrame, where: Mapping[str, Any], name: str, place: str) -> list[dict[str, Any]]:
    """The rows with these values; a list allows any of its values, each of which some row must have.

    Values match as text, too: a column of networks holds numbers or texts, depending on its other rows.
    """
    missing = where.keys() - set(table)
    if missing:
        raise ConfigError(f"{place}.where: {name} has no column {', '.join(sorted(missing))}")
    listed = {key: wanted if isinstance(wanted, list) else [wanted] for key, wanted in where.items()}
    chosen = pd.Series(True, table.index)
    for key, values in listed.items():
        chosen &= _has_one_of(table[key], values)
    for key, values in listed.items():
        for value in values:
            if not _has_one_of(table[key][chosen], [value]).any():
                raise ConfigError(f"{place}.where: no row of {name} has {shown({**where, key: value})}")
    rows: list[dict[str, Any]] = table[chosen].to_dict("records")
    return rows


def _has_one_of(column: pd.Series, values: list[Any]) -> pd.Series:
    return column.isin(values) | column.astype(str).isin([*map(str, values)])


def _cases(
    row: Mapping[str, Any], table: pd.DataFrame, test: Mapping[str, Any], name: str, place: str
) -> Iterable[Case]:
    """The case of a row; none if it, or the row that it is divided by, has no value."""
    by = test.get("by", [])
    absent = set(by) - row.keys()
    if absent:
        raise ConfigError(f"{place}.by: {name} has no column {', '.join(sorted(absent))}")
    at = tuple(row[key] for key in by)
    interval = _interval(row, test, name, place)
    if interval is None:
        return
    if "over" in test:
        where = {**test["where"], **dict(zip(by, at, strict=True)), **test["over"]}
        others = _selected(table, where, name, f"{place}.over")
        if len(others) > 1:
            raise ConfigError(f"{place}.over: {len(others)} rows have {shown(where)}: name more in by")
        other = _interval(others[0], test, name, place)
        if other is None:
            return
        _check_number(others[0], test["column"], 0, name, f"{place}.over")
        _check_baseline(row, others[0], test["column"], name, f"{place}.over")
        interval = _ratio(interval, other)
    value, low, high = interval
    yield Case(at, value, low, high, _outcome(value, low, high, test["is"]))


Interval = tuple[Any, float | None, float | None]


def _interval(row: Mapping[str, Any], test: Mapping[str, Any], name: str, place: str) -> Interval | None:
    """A row's value and the ends of its interval, if it has any, each divided by the column ``per``."""
    column = test["column"]
    missing = {column, *([test["per"]] if "per" in test else [])} - row.keys()
    if missing:
        raise ConfigError(f"{place}: {name} has no column {', '.join(sorted(missing))}")
    if pd.isna(row[column]):
        return None
    own = (f"{column}_low", f"{column}_high")
    low, high = _ENDS.get(column, own if own[0] in row else (f"{column}_ci_low", f"{column}_ci_high"))
    values = [row[column], row.get(low), row.get(high)]
    if "equals" not in test["is"]:
        row = {**row, column: _as_number(row[column])}
        values[0] = row[column]
        _check_number(row, column, -inf, name, place)
    if "per" in test:
        _check_number(row, test["per"], 0, name, place)
        values = [None if value is None else value / row[test["per"]] for value in values]
    value, low_end, high_end = (None if pd.isna(one) else one for one in values)
    return value, low_end, high_end


def _as_number(value: Any) -> Any:
    """The number that a text is, such as a property of a device; any other value unchanged."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _check_number(row: Mapping[str, Any], column: str, above: float, name: str, place: str) -> None:
    if not isinstance(row[column], int | float) or not row[column] > above:
        right = "a number" if above == -inf else f"a number above {above:g}, to divide by it"
        raise ConfigError(f"{place}: {name} has {column} {shown(row[column])}: it must be {right}")


def _check_baseline(
    one: Mapping[str, Any], other: Mapping[str, Any], column: str, name: str, place: str
) -> None:
    """Raise ConfigError for a ratio of two speedups over different baselines, which compares nothing."""
    speedups = column.startswith("speedup")
    named = [key for key in _BASELINES if speedups and str(one.get(key)) != str(other.get(key))]
    if named:
        raise ConfigError(
            f"{place}: the two {column} of {name} are over different baselines, {shown(one[named[0]])} and "
            f"{shown(other[named[0]])}: choose a column or rows with the same"
        )


def _ratio(one: Interval, other: Interval) -> Interval:
    """The ratio of two values, with the widest interval that their independent intervals allow."""
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


# ---- findings in words


def evidence(finding: Finding) -> str:
    """A finding as text: what was measured, its figures, and in which cases the claim holds."""
    return f"{finding.test['says']}: {result(finding)}"


def result(finding: Finding) -> str:
    """A finding's figures, and in which cases the claim holds."""
    if not finding.cases:
        return NOT_MEASURED
    conditions = when(finding)
    return f"{figures(finding)}{f' ({conditions})' if conditions else ''}"


def figures(finding: Finding) -> str:
    """The value of a single case with its interval, or the range of several."""
    unit, digits, cases = finding.test.get("unit", ""), finding.test.get("digits", 3), finding.cases
    if any(isinstance(case.value, str) for case in cases):
        return ", ".join(dict.fromkeys(str(case.value) for case in cases))
    if len(cases) == 1:
        (case,) = cases
        if case.low is None or case.high is None or case.low == case.high:
            return number(case.value, unit, digits)
        low, high = (number(end, unit, digits).removesuffix(f" {unit}") for end in (case.low, case.high))
        word = f"{NOT_SIGNIFICANT}, " if case.outcome == OPEN else ""
        return f"{number(case.value, unit, digits)} ({word}95% CI {low} to {high})"
    least, most = (number(of(case.value for case in cases), unit, digits) for of in (min, max))
    return most if least == most else f"{least.removesuffix(f' {unit}')} to {most}"


def number(value: Any, unit: str, digits: int = 3) -> str:
    """A value to its significant digits, and all before the point; a fraction in percent."""
    if unit == "%":
        return f"{100 * value:.{digits}g}%"
    if unit == "bytes":
        return size(int(value))
    if unit == "count":
        return f"{value:,.0f}"
    text = f"{value:.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:#.{digits}g}".rstrip(".")
    return f"{text} {unit}".rstrip()


_WORDS = {HOLDS: "holds", FAILS: "fails", OPEN: NOT_SIGNIFICANT}


def when(finding: Finding) -> str:
    """In which cases the claim holds, fails or is open; for a single case, the outcome if it is not open."""
    by, cases = finding.test.get("by", []), finding.cases
    if len(cases) == 1:
        return "" if cases[0].outcome == OPEN else _WORDS[cases[0].outcome]
    outcomes = [outcome for outcome in _WORDS if any(case.outcome == outcome for case in cases)]
    if len(outcomes) == 1:
        return f"{_WORDS[outcomes[0]]} in {'both' if len(cases) == 2 else f'all {len(cases)}'} cases"
    return "; ".join(f"{_WORDS[outcome]}: {_selection(cases, by, outcome)}" for outcome in outcomes)


def _selection(cases: Sequence[Case], by: Sequence[str], outcome: str) -> str:
    """The cases with this outcome: the last column of ``by`` in ranges, for each choice of the others."""
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault(case.at[:-1], []).append(case)
    parts = []
    for key, of_key in groups.items():
        in_order = sorted(of_key, key=_position)
        runs = [
            [case.at[-1] for case in run]
            for is_so, run in groupby(in_order, key=lambda case: case.outcome == outcome)
            if is_so
        ]
        if runs:
            named = " ".join(_label(value, name) for value, name in zip(key, by, strict=False))
            spans = [_span(run, by[-1], is_first=not i) for i, run in enumerate(runs)]
            parts.append(" ".join(filter(None, [named, ", ".join(spans)])))
    return " and ".join(parts)


def _position(case: Case) -> float:
    """Sorts numbers by size and leaves texts in the table's order."""
    return 0.0 if isinstance(case.at[-1], str) else float(case.at[-1])


def _span(values: Sequence[Any], name: str, is_first: bool) -> str:
    """Neighbouring values; the name of their column is given only once, before the first."""
    labels = [_label(value, name) for value in values]
    bare = [label.removeprefix(f"{name.replace('_', ' ')} ") for label in labels]
    shown_labels = [labels[0] if is_first else bare[0], *bare[1:]]
    if len(labels) < 3 or isinstance(values[0], str):
        return ", ".join(shown_labels)
    return f"{shown_labels[0]} to {shown_labels[-1]}"


def _label(value: Any, name: str) -> str:
    """A value as words: a size, a text without underscores, or a number with the name of its column."""
    if isinstance(value, str):
        return value.replace("_", " ")
    if name == "bytes":
        return size(int(value))
    if isinstance(value, bool):
        return f"{name.replace('_', ' ')} {value}"
    return f"{name.replace('_', ' ')} {value:g}"
