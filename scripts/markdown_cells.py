"""Cells of a Markdown table: numbers with their intervals, and text for missing ones."""

from collections.abc import Iterable, Mapping
from math import floor, log10
from typing import Any

import pandas as pd

from snn.analysis.verdicts import NOT_SIGNIFICANT


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table of these cells."""
    lines = [list(head)]
    lines += [["---"] * len(lines[0]), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ratio(row: Mapping[str, Any], name: str) -> str:
    """A ratio with its interval, marked if it is not significant."""
    value, low, high = (row[key] for key in (name, f"{name}_ci_low", f"{name}_ci_high"))
    if not known(value):
        return ""
    if not known(low) or low == high:
        return digits(value)
    verdict = row.get(name.replace("speedup", "verdict")) or row.get("verdict")
    verdict = verdict or (NOT_SIGNIFICANT if low <= 1 <= high else "")
    word = f"{NOT_SIGNIFICANT}, " if verdict == NOT_SIGNIFICANT else ""
    return f"{digits(value)} ({word}{digits(low)} to {digits(high)})"


def interval(row: Mapping[str, Any], name: str, low: str, high: str, form: str) -> str:
    """A value with the ends of its interval, if known."""
    if not known(row[low]):
        return form.format(row[name])
    return f"{form.format(row[name])} ({form.format(row[low])} to {form.format(row[high])})"


def digits(value: float) -> str:
    """Three significant digits, and all digits before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def seconds(row: Mapping[str, Any]) -> str:
    """The mean time with its standard deviation, both to the second digit of the latter."""
    mean, spread = row["mean_s"], row["std_s"]
    if not known(spread) or spread == 0:
        return f"{mean:.3g} s"
    places = max(0, 1 - floor(log10(spread)))
    return f"{mean:.{places}f} ± {spread:.{places}f} s"


def or_status(row: Mapping[str, Any], key: str, text: str) -> str:
    """The text or, if the value is missing, the row's status."""
    return text if known(row[key]) else str(row["status"])


def number(value: Any, form: str) -> str:
    return form.format(value) if known(value) else ""


def percent(value: Any, spread: Any = None) -> str:
    """A fraction as a percentage, with its standard deviation if known."""
    beside = f" ± {100 * spread:.2f}" if known(spread) else ""
    return f"{100 * value:.2f}{beside}%" if known(value) else ""


def in_brackets(text: Any) -> str:
    return f" ({text})" if isinstance(text, str) and text else ""


def known(value: Any) -> bool:
    return bool(pd.notna(value)) and value != ""
