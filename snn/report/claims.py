"""Claims of the sources, judged against rows of archived tables.

A source is a file of ``config/claims/``; ``config/README.md`` describes its keys. A claim has tests. A test
selects rows of one or more tables and bounds their value. Each row, or pair of rows, is a case. The claim
holds there, fails there, or is open because the 95% interval of the value contains the bound, or because the
table calls a speedup not significant.
"""

import json
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import inf, isfinite
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from snn.analysis.verdicts import NOT_SIGNIFICANT
from snn.config.groups import CONFIG, ROOT, read_yaml
from snn.errors import ConfigError, shown
from snn.files.published_sets import PUBLISHED
from snn.profiling.memory import size
from snn.report.write import read

SOURCES = CONFIG / "claims"
_SCHEMA = Path(__file__).with_name("claims.schema.json")

CONFIRMED, CONDITIONAL, REFUTED = "confirmed", "conditional", "refuted"
NOT_MEASURED, NOT_TESTABLE = "not measured yet", "not testable here"
VERDICTS = {
    CONFIRMED: "the claim holds in every case",
    CONDITIONAL: "it holds in some cases, which are listed",
    REFUTED: "it fails in some cases and holds in none",
    NOT_SIGNIFICANT: "in every case the 95% interval contains the bound, or the table says not significant",
    NOT_MEASURED: "rows that could test it are not published, for the reason given",
    NOT_TESTABLE: "no row can test it, for the reason given",
}
HOLDS, FAILS, OPEN = "holds", "fails", "open"

_BASES = {"tests": "", "not_measured": NOT_MEASURED, "not_testable": NOT_TESTABLE}
"""Kinds of evidence for a verdict, each with the verdict that it alone implies."""

_ENDS = {"median": ("low", "high"), "step_us": ("step_ci_low_us", "step_ci_high_us")}
"""The ends of the interval of columns that call them neither ``COLUMN_low`` nor ``COLUMN_ci_low``."""
_BASELINES = ("baseline", "best_peer", "fastest_cpu")
"""Columns that name the baseline of a row's speedup."""

_NEAR = 1e-9
"""A speedup that is not significant may be this much above or below 1."""

Rows = Sequence[Mapping[str, Any]]
"""The rows of a table, which all have its columns."""

Tables = Callable[[str], Rows | None]
"""Returns the rows of a table by its name; None if it does not exist yet."""


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

    Raises ConfigError, naming file and key, for a claim or a test of the wrong form and for a test that
    selects no row of its table.
    """
    file = SOURCES / f"{name}.yaml"
    content = read_yaml(file)
    check_form(content, "", str(file))
    tables = tables or published_tables()
    claims = [judge_claim(each, claim, tables, str(file)) for each, claim in content["claims"].items()]
    return Source(name, content["title"], content["by"], tuple(claims))


def judge_claim(name: str, claim: Any, tables: Tables, file: str) -> Claim:
    """A claim with its findings and its verdict. Raises ConfigError as ``judge`` does."""
    place = f"{file}: {name}"
    check_form(claim, "/$defs/claim", place)
    findings = tuple(
        finding
        for i, test in enumerate(claim.get("tests", ()))
        for finding in find(test, tables, f"{place}.tests[{i}]")
    )
    (basis,) = _BASES.keys() & claim.keys()
    reason = "" if basis == "tests" else claim[basis]
    verdict = _BASES[basis] or verdict_of(findings)
    return Claim(name, claim["section"], claim["says"], claim.get("note", ""), reason, findings, verdict)


def check_form(value: Any, part: str, place: str) -> None:
    """Raise ConfigError, naming place and key, unless a value has the form of this part of the schema."""
    errors = sorted(_validator(part).iter_errors(value), key=lambda error: len(error.absolute_path))
    if errors:
        error = errors[0]
        at = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in error.absolute_path)
        of_keys = error.validator in ("required", "additionalProperties")
        said = error.message if of_keys else shown(error.instance)
        raise ConfigError(f"{place}{at}: {said}: {error.schema.get('description', error.message)}")


@cache
def _validator(part: str) -> Any:
    """A validator of a part of the schema that rejects NaN as a number and 3.0 as an integer."""
    from jsonschema import Draft202012Validator, validators

    schema = json.loads(_SCHEMA.read_text(encoding="utf-8"))
    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: type(value) is int,
            "number": lambda _, value: type(value) in (int, float) and isfinite(value),
        }
    )
    chosen = {"$ref": f"#{part}", "$defs": schema["$defs"]} if part else schema
    return validators.extend(Draft202012Validator, type_checker=types)(chosen)


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
    """Returns a published table, DEVICE/SET/TABLE or TABLE alone, or the rows of a file config/FILE.yaml.

    The file has a list ``rows``, or mappings by name, each of which is a row with the column ``name``.
    """

    @cache
    def table(name: str) -> Rows | None:
        folder, _, stem = name.rpartition("/")
        if name.startswith("config/"):
            return _rows(pd.DataFrame(_listed(ROOT / f"{name}.yaml")))
        file = published / folder / ("tables" if folder else "") / f"{stem}.csv"
        return _rows(read(file, stem)) if file.exists() else None

    return table


def _rows(table: pd.DataFrame) -> Rows:
    rows: list[dict[str, Any]] = table.to_dict("records")
    return rows


def _listed(file: Path) -> list[Any]:
    content = read_yaml(file)
    rows = content.get("rows", content) if isinstance(content, Mapping) else None
    if isinstance(rows, Mapping) and all(isinstance(row, Mapping) for row in rows.values()):
        rows = [{"name": name, **row} for name, row in rows.items()]
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError(f"{file}: it must have a list of mappings as rows, or mappings by name")
    return rows


# ---- a test and its cases


def find(test: Mapping[str, Any], tables: Tables, place: str) -> list[Finding]:
    """The findings of a test, one for each of its tables. Raises ConfigError, naming place and key."""
    names = test["table"] if isinstance(test["table"], list) else [test["table"]]
    found = {name: tables(name) for name in names}
    return [
        Finding(test, name, (), "") if rows is None else _Selection(test, name, rows, place).find()
        for name, rows in found.items()
    ]


Interval = tuple[Any, float | None, float | None]
"""A value, and the ends of its interval if it has one."""


@dataclass(frozen=True)
class _Selection:
    """The rows of a table that a test selects; ``place`` is the test's, which each ConfigError names."""

    test: Mapping[str, Any]
    name: str
    rows: Rows
    place: str

    def find(self) -> Finding:
        """The cases of these rows."""
        rows = self.select(self.test["where"], "where")
        self.check_columns(self.test.get("by", []), ".by")
        pairs = [(row, self.divisor(row)) for row in rows]
        cases = [case for pair in pairs if (case := self.case(*pair)) is not None]
        if cases and self.test.get("best"):
            cases = [max(cases, key=lambda case: case.value)]
        if len({case.at for case in cases}) < len(cases):
            self.reject(".by", f"several rows of {self.name} have the same values: name more columns")
        is_printed = self.test["column"].startswith(("published_", "paper_"))
        column = "published_device" if is_printed else "device"
        named = {row.get(column) for pair in pairs for row in pair if row is not None}
        devices = sorted(device for device in named if isinstance(device, str))
        return Finding(self.test, self.name, tuple(cases), " and ".join(devices))

    def reject(self, key: str, message: str) -> NoReturn:
        raise ConfigError(f"{self.place}{key}: {message}")

    def check_columns(self, columns: Iterable[str], key: str) -> None:
        """Raise ConfigError for columns that the table does not have."""
        if self.rows and (missing := set(columns) - {*self.rows[0]}):
            self.reject(key, f"{self.name} has no column {', '.join(sorted(missing))}")

    def select(self, where: Mapping[str, Any], key: str) -> Rows:
        """The rows with these values; a list allows any of its values, each of which some row must have."""
        self.check_columns(where, f".{key}")
        allowed = {of: values if isinstance(values, list) else [values] for of, values in where.items()}
        chosen = [
            row
            for row in self.rows
            if all(any(_is(row[of], value) for value in values) for of, values in allowed.items())
        ]
        for column, values in allowed.items():
            for value in values:
                if not any(_is(row[column], value) for row in chosen):
                    self.reject(f".{key}", f"no row of {self.name} has {shown({**where, column: value})}")
        return chosen

    def case(self, row: Mapping[str, Any], other: Mapping[str, Any] | None) -> Case | None:
        """The case of a row and its ``divisor``; None if either has no value."""
        test = self.test
        at = tuple(row[key] for key in test.get("by", []))
        interval = self.interval(row)
        if interval is not None and other is not None:
            divisor = self.interval(other)
            if divisor is not None:
                self.check_number(other, test["column"], 0, ".over")
                self.check_baseline(row, other)
            interval = divisor and _ratio(interval, divisor)
        if interval is None:
            return None
        value, low, high = interval
        if "over" not in test and _is_not_significant(row, test["column"]):
            ends = (min(low or value, 1 - _NEAR), max(high or value, 1 + _NEAR))
            return Case(at, *interval, _outcome(value, *ends, test["is"]))
        return Case(at, *interval, _outcome(*interval, test["is"]))

    def divisor(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The row that a row with a value is divided by, if any. Raises ConfigError if there are several."""
        if "over" not in self.test or self.interval(row) is None:
            return None
        same = {key: row[key] for key in self.test.get("by", [])}
        where = {**self.test["where"], **same, **self.test["over"]}
        other, *more = self.select(where, "over")
        if more:
            self.reject(".over", f"{1 + len(more)} rows match {shown(where)}: add columns to by")
        return other

    def interval(self, row: Mapping[str, Any]) -> Interval | None:
        """A row's value and the ends of its interval, if it has any, each divided by the column ``per``."""
        column, per = self.test["column"], self.test.get("per")
        self.check_columns([column, *([per] if per else [])], "")
        if pd.isna(row[column]):
            return None
        own = (f"{column}_low", f"{column}_high")
        ends = _ENDS.get(column, own if own[0] in row else (f"{column}_ci_low", f"{column}_ci_high"))
        values = [row[column], *map(row.get, ends)]
        if "equals" not in self.test["is"]:
            with suppress(ValueError):  # a text may be a number, such as a property of a device
                values[0] = float(values[0]) if isinstance(values[0], str) else values[0]
            self.check_number({column: values[0]}, column, -inf)
        if per:
            self.check_number(row, per, 0)
            values = [None if value is None else value / row[per] for value in values]
        value, low, high = (None if pd.isna(one) else one for one in values)
        return value, low, high

    def check_number(self, row: Mapping[str, Any], column: str, above: float, key: str = "") -> None:
        if not isinstance(row[column], int | float) or not row[column] > above:
            right = "a number" if above == -inf else f"a number above {above:g}, to divide by it"
            self.reject(key, f"{self.name} has {column} {shown(row[column])}: it must be {right}")

    def check_baseline(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
        """Raise ConfigError for a ratio of two speedups over different baselines, which compares nothing."""
        column = self.test["column"]
        named = [key for key in _BASELINES if str(one.get(key)) != str(other.get(key))]
        if column.startswith("speedup") and named:
            both = f"{shown(one[named[0]])} and {shown(other[named[0]])}"
            self.reject(
                ".over",
                f"the two {column} of {self.name} are over different baselines, {both}: choose a column or "
                "rows with the same",
            )


def _is(found: Any, value: Any) -> bool:
    """Whether a cell has a value, also as text: networks are numbers or texts. None: whether it is empty."""
    return bool(pd.isna(found) if value is None else found == value) or str(found) == str(value)


def _ratio(one: Interval, other: Interval) -> Interval:
    """The ratio of two values, with the widest interval that their independent intervals allow."""
    value = one[0] / other[0]
    low, high, other_low, other_high = one[1], one[2], other[1], other[2]
    if low is None or high is None or other_low is None or other_high is None:
        return value, None, None
    return value, low / other_high, high / other_low if other_low > 0 else inf


def _is_not_significant(row: Mapping[str, Any], column: str) -> bool:
    """Whether the table's verdict on a row's speedup, adjusted for its comparisons, is not significant."""
    if not column.startswith("speedup"):
        return False
    name = column.replace("speedup", "verdict", 1)
    return row.get(name, row.get("verdict")) == NOT_SIGNIFICANT


_IS = {"above": operator.gt, "below": operator.lt, "at_least": operator.ge, "at_most": operator.le}


def _outcome(value: Any, low: float | None, high: float | None, bounds: Mapping[str, Any]) -> str:
    """Whether a claim with these bounds holds for all of an interval, for none of it, or for some."""
    if "equals" in bounds:
        return HOLDS if value == bounds["equals"] else FAILS
    ends = [value if low is None else low, value if high is None else high]
    inside = [all(_IS[key](end, bound) for key, bound in bounds.items()) for end in (*ends, value)]
    if all(inside):
        return HOLDS
    least, most = bounds.get("at_least", bounds.get("above")), bounds.get("at_most", bounds.get("below"))
    spans = least is not None and most is not None and ends[0] <= least and ends[1] >= most
    return OPEN if (any(inside) or spans) and low != high else FAILS


# ---- findings in words


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
    """Text of the cases in which the claim holds, fails or is open; for one case, its outcome unless open."""
    by, cases = finding.test.get("by", []), finding.cases
    if len(cases) == 1:
        return "" if cases[0].outcome == OPEN else _WORDS[cases[0].outcome]
    outcomes = [outcome for outcome in _WORDS if any(case.outcome == outcome for case in cases)]
    if len(outcomes) == 1:
        return f"{_WORDS[outcomes[0]]} in {'both' if len(cases) == 2 else f'all {len(cases)}'} cases"
    return "; ".join(f"{_WORDS[outcome]}: {_selection(cases, by, outcome)}" for outcome in outcomes)


def _selection(cases: Sequence[Case], by: Sequence[str], outcome: str) -> str:
    """The cases with this outcome: the last column of ``by`` in ranges, for each choice of the others.

    The name of a column is given only once, before the first of its values.
    """
    choices: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        choices.setdefault(case.at[:-1], []).append(case)
    name, parts = by[-1], []
    for choice, of_choice in choices.items():
        if not isinstance(of_choice[0].at[-1], str):  # texts are in the table's order
            of_choice.sort(key=lambda case: float(case.at[-1]))
        runs = [
            [case.at[-1] for case in run]
            for is_so, run in groupby(of_choice, key=lambda case: case.outcome == outcome)
            if is_so
        ]
        spans: list[str] = []
        for run in runs:
            labels = [_label(value, name) for value in run]
            bare = [label.removeprefix(f"{name.replace('_', ' ')} ") for label in labels]
            first = bare[0] if spans else labels[0]
            as_range = len(run) > 2 and not isinstance(run[0], str)
            spans.append(f"{first} to {bare[-1]}" if as_range else ", ".join([first, *bare[1:]]))
        if spans:
            named = [_label(value, column) for value, column in zip(choice, by, strict=False)]
            parts.append(" ".join([*named, ", ".join(spans)]))
    return " and ".join(parts)


def _label(value: Any, name: str) -> str:
    """A value as words: a size, a text without underscores, or a number with the name of its column."""
    if isinstance(value, str):
        return value.replace("_", " ")
    if name == "bytes":
        return size(int(value))
    if isinstance(value, bool):
        return f"{name.replace('_', ' ')} {value}"
    return f"{name.replace('_', ' ')} {value:g}"
