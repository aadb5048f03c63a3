"""The answer that opens a report: which strategy trains each network fastest, and how sure that is."""

from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.analysis.verdicts import NOT_SIGNIFICANT, REFERENCE, SAME, SIGNIFICANT
from snn.report.glossary import badge
from snn.tables.overview_text import ratio_and_interval
from snn.tables.ranking_text import on_held_out_rows

_HEADINGS = (
    "Data set, network",
    "Fastest strategy",
    "One training",
    "Times as fast as the reference (95% CI)",
    "Times as fast as the runner-up (95% CI)",
    "Lead over every other",
)
_RANKED = (
    "strategy",
    "one training (± standard deviation of the runs)",
    "times as long as the first (95% CI)",
    "against the first",
    "how it ended",
)


def answer(recommended: pd.DataFrame, rankings: Sequence[pd.DataFrame] = ()) -> str:
    """An HTML table of the rows of ``recommendation``, one per data set and network, each with its reason.

    ``rankings``: for each row, in its order, the strategies as ``snn.tables.recommend`` lists them;
    they stand folded below the answer, unfolded where there is only one. A strategy is called the fastest
    only where its lead is significant, and never one whose training did not end well.
    """
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in _HEADINGS)
    beside = [*rankings] or [None] * len(recommended)
    rows = [
        _row(row) + _why(row, ranked, unfolded=len(recommended) == 1)
        for row, ranked in zip(recommended.to_dict("records"), beside, strict=True)
    ]
    return _table("What to use for each data set and network", head, "".join(rows))


def ranking(ranked: pd.DataFrame, case: str = "") -> str:
    """An HTML table of the rows of ``snn.tables.recommend``, the shortest mean time first.

    ``case``: the data set and the network, by which a screen reader tells the tables of a page apart.
    """
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in _RANKED)
    rows = "".join(
        f'<tr><th scope="row">{escape(row["strategy"])}{_kernel(row)}</th>'
        f"<td>{duration(row['mean_s'])}{_spread(row)}</td>"
        f"<td>{_ratio(row, 'behind') if row['rank'] != 1 else ''}</td>"
        f"<td>{_word(row['against_fastest'])}</td><td>{_status(row)}</td></tr>\n"
        for row in ranked.to_dict("records")
    )
    return _table(f"Strategies, the shortest mean time first{f': {case}' if case else ''}", head, rows)


def _table(label: str, head: str, rows: str) -> str:
    return (
        f'<table aria-label="{escape(label)}">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody>\n</table>\n"
    )


def duration(seconds: Any) -> str:
    """Seconds in the unit that suits them, to four digits: ``24.72 ms``; a dash where there are none."""
    if is_empty(seconds):
        return "–"
    unit, factor = next(
        (unit, factor) for unit, factor, least in _UNITS if abs(seconds) >= least or unit == "µs"
    )
    return f"{seconds * factor:.4g} {unit}"


_UNITS = (("s", 1, 1), ("ms", 1e3, 1e-3), ("µs", 1e6, 0))


def _row(row: dict[str, Any]) -> str:
    verdict = "" if row["strategy_status"] != "ok" else _word(row["lead_verdict"])
    cells = (_winner(row), duration(row["mean_s"]), _over_reference(row), _over_runner_up(row), verdict)
    columns = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row" rowspan="2">{escape(row["case"])}</th>{columns}</tr>\n'


def _winner(row: dict[str, Any]) -> str:
    if not row["strategy"]:
        return "none: no training finished"
    name = f"<b>{escape(row['strategy'])}</b>{_kernel(row)}"
    if row["strategy_status"] != "ok":
        return f"none: every training {badge(row['strategy_status'])}; the shortest time has {name}"
    if is_empty(row["runner_up"]):
        return f"{name}<br>there is nothing to compare it with"
    if row["lead_verdict"] == SIGNIFICANT:
        return name
    if row["lead_verdict"] == SAME:
        return f"{name}<br>equally fast: {escape(row['tied_with'])}"
    return (
        f"no single one: {name} has the shortest mean time<br>"
        f"not significantly slower: {escape(row['tied_with'])}"
    )


def _kernel(row: dict[str, Any]) -> str:
    """The kernel that did the arithmetic, the plan of a strategy that has one, and options."""
    kernel = "" if is_empty(row["kernel"]) else f"kernel {row['kernel']}"
    said = ", ".join(
        str(text) for text in (kernel, row.get("plan"), row.get("options")) if not is_empty(text)
    )
    return f" <small>({escape(said)})</small>" if said else ""


def _over_reference(row: dict[str, Any]) -> str:
    if row["verdict"] == REFERENCE:
        return "it is the reference"
    return _ratio(row, "speedup", row["verdict"]) or "–"


def _over_runner_up(row: dict[str, Any]) -> str:
    ratio = _ratio(row, "lead")
    return f"{ratio}<br><small>runner-up: {escape(row['runner_up'])}</small>" if ratio else "–"


def _ratio(row: dict[str, Any], name: str, verdict: str = "") -> str:
    """``3.73 (2.55 to 5.46)``, with the verdict where it is not significant."""
    if is_empty(row[name]):
        return ""
    ratio, interval = ratio_and_interval(row, name)
    said = f"{ratio} ({interval})" if interval else ratio
    return f"{said}<br>{badge(verdict)}" if verdict == NOT_SIGNIFICANT else said


def _why(row: dict[str, Any], ranked: pd.DataFrame | None, unfolded: bool) -> str:
    scores = "" if ranked is None else on_held_out_rows(ranked)
    text = "<br>".join(escape(text) for text in (row["reason"], scores, _sentence(row["note"])) if text)
    more = ""
    if ranked is not None and len(ranked) > 1:
        opened = " open" if unfolded else ""
        folded = f"<summary>all {len(ranked)} strategies</summary>\n{ranking(ranked, row['case'])}"
        more = f"<details{opened}>{folded}</details>"
    below = f'<td class="why" colspan="{len(_HEADINGS) - 1}">'
    return f"<tr>{below}<small>{text}</small>{more}</td></tr>\n"


def _sentence(note: Any) -> str:
    return f"{note[0].upper()}{note[1:]}." if not is_empty(note) else ""


def _word(verdict: Any) -> str:
    return "" if is_empty(verdict) else badge(verdict)


def _spread(row: dict[str, Any]) -> str:
    return "" if is_empty(row["std_s"]) else f" ± {duration(row['std_s'])}"


def _status(row: dict[str, Any]) -> str:
    if row["status"] == "ok":
        return f"ok, {row['runs']} runs"
    words = " ".join(badge(word) for word in row["status"].split(", "))
    return " ".join(filter(None, (words, escape(row.get("reason") or ""))))
