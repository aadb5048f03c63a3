"""What tests of a claim found, in words: the figures, and when the claim holds."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from snn.analysis.claims import FAILS, HOLDS, OPEN, Case, Found
from snn.analysis.verdicts import NOT_SIGNIFICANT
from snn.profiling.memory import size

_SAID = {HOLDS: "holds", FAILS: "fails", OPEN: NOT_SIGNIFICANT}


def figures(found: Found) -> str:
    """The value of a single case with its interval, or the range of several."""
    unit = found.test.get("unit", "")
    cases = found.cases
    if isinstance(cases[0].value, str):
        return ", ".join(dict.fromkeys(str(case.value) for case in cases))
    if len(cases) == 1:
        (case,) = cases
        is_known = case.low is not None and case.high is not None and case.low != case.high
        return number(case.value, unit) + (_ends(case, unit) if is_known else "")
    least, most = (number(of(case.value for case in cases), unit) for of in (min, max))
    return most if least == most else f"{least.removesuffix(f' {unit}')} to {most}"


def _ends(case: Case, unit: str) -> str:
    word = f"{NOT_SIGNIFICANT}, " if case.outcome == OPEN else ""
    low, high = (number(end, unit).removesuffix(f" {unit}") for end in (case.low, case.high))
    return f" ({word}95% CI {low} to {high})"


def number(value: Any, unit: str) -> str:
    """Three significant digits, and all before the point; a fraction in percent."""
    if unit == "%":
        return f"{100 * value:.3g}%"
    if unit == "bytes":
        return size(int(value))
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")
    return f"{text} {unit}".rstrip()


def when(found: Found) -> str:
    """In which cases it holds, fails or remains open; empty where there is one case alone."""
    by, cases = found.test.get("by", []), found.cases
    if len(cases) == 1:
        return ""
    outcomes = [outcome for outcome in _SAID if any(case.outcome == outcome for case in cases)]
    if len(outcomes) == 1:
        return f"{_SAID[outcomes[0]]} in {'both' if len(cases) == 2 else f'all {len(cases)}'} cases"
    return "; ".join(f"{_SAID[outcome]}: {_where(cases, by, outcome)}" for outcome in outcomes)


def _where(cases: Sequence[Case], by: Sequence[str], outcome: str) -> str:
    """The cases with this outcome: the last column of ``by`` in ranges, for each choice of the others."""
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault(case.at[:-1], []).append(case)
    parts = []
    for key, of_key in groups.items():
        in_order = sorted(of_key, key=_in_order)
        runs = [
            [case.at[-1] for case in run]
            for is_so, run in groupby(in_order, key=lambda case: case.outcome == outcome)
            if is_so
        ]
        if runs:
            named = " ".join(_said(value, name) for value, name in zip(key, by, strict=False))
            spans = [_span(run, by[-1], is_first=not i) for i, run in enumerate(runs)]
            parts.append(" ".join(filter(None, [named, ", ".join(spans)])))
    return " and ".join(parts)


def _in_order(case: Case) -> float:
    """Numbers by size; texts as the table has them."""
    return 0.0 if isinstance(case.at[-1], str) else float(case.at[-1])


def _span(values: Sequence[Any], name: str, is_first: bool) -> str:
    """Values that follow each other; the name of their column stands before the first alone."""
    said = [_said(value, name) for value in values]
    bare = [one.removeprefix(f"{name.replace('_', ' ')} ") for one in said]
    shown = [said[0] if is_first else bare[0], *bare[1:]]
    if len(said) < 3 or isinstance(values[0], str):
        return ", ".join(shown)
    return f"{shown[0]} to {shown[-1]}"


def _said(value: Any, name: str) -> str:
    """A value as words: a size, a text without underscores, or a number with the name of its column."""
    if isinstance(value, str):
        return value.replace("_", " ")
    if name == "bytes":
        return size(int(value))
    return f"{name.replace('_', ' ')} {value:g}"
