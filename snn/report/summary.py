"""The report's first page as HTML: the fastest strategies, the device, and what limits the results."""

from collections.abc import Mapping, Sequence
from html import escape

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.report import html_page
from snn.report.answer import answer
from snn.report.glossary import badge
from snn.tables import overview_text, recommend
from snn.tables.ranking_text import preliminary

_MOST_CASES = 24
_MOST_FAILURES = 6


def fragment(
    recommended: pd.DataFrame,
    table: pd.DataFrame,
    points: Sequence[pd.DataFrame],
    provenance: pd.DataFrame,
    thresholds: Thresholds,
    trained: str = "",
) -> str:
    """What the records say for the report's first page: the answer, with the first of many cases.

    ``recommended`` and ``table`` are the recommendation and the overview of these points; ``trained`` says
    what the cells train. Of one case that ended well the headline is its own answer.
    """
    asked = overview_text.asked_for(table).index[:_MOST_CASES]
    rankings = [recommend.build(points[i], {}, thresholds) for i in asked]
    headline = _headline(table)
    if len(recommended) == 1 and recommended["strategy_status"].iloc[0] == "ok":
        headline = " ".join(filter(None, [*recommended["answer"], preliminary(rankings[0], thresholds)]))
    left = len(table) - len(asked)
    more = f"<p>The table overview shows {left} more cases.</p>\n" if left > 0 else ""
    return (
        f'<style>\n{html_page.badges()}</style>\n<div class="answer">\n'
        f"<h1>Which strategy trains fastest?</h1>\n{_paragraphs(table, headline, trained, provenance)}"
        f"{answer(recommended.head(len(asked)), rankings)}{more}{_caveats(table, points)}</div>\n"
    )


def summary(table: pd.DataFrame, points: Sequence[pd.DataFrame], provenance: pd.DataFrame) -> str:
    """Paragraphs: which strategy is fastest how often, on which device, the machine's state, and failures."""
    return _paragraphs(table, _headline(table), "", provenance) + _caveats(table, points)


def _headline(table: pd.DataFrame) -> str:
    return overview_text.headline(overview_text.asked_for(table))


def _paragraphs(table: pd.DataFrame, headline: str, trained: str, provenance: pd.DataFrame) -> str:
    if (table["backend"] == "cpu").all() and len(table):
        headline = f"These are times of a CPU; no GPU was used. {headline}"
    further = "".join(
        f"<p>{escape(text)}</p>\n" for text in (trained, *overview_text.of_devices(provenance)) if text
    )
    return f'<p class="headline">{escape(headline)}</p>\n{further}'


def _caveats(table: pd.DataFrame, points: Sequence[pd.DataFrame]) -> str:
    measured = sum((cells["status"] != "unsupported").sum() for cells in points)
    return (
        _machine(overview_text.of_machine(points), measured)
        + _failures(overview_text.failures(points, table))
        + _unsupported(overview_text.unsupported(points))
    )


def _machine(counts: Mapping[str, int], cells: int) -> str:
    states = ", ".join(f"{count} {badge(word)}" for word, count in counts.items())
    return f"<p>State of the machine while the {cells} cells were measured: {states}.</p>\n"


def _failures(failed: Sequence[tuple[str, str, str]]) -> str:
    """The first failures with their reasons, and how many more there are."""
    if not failed:
        return "<p>None of them diverged or ran out of memory.</p>\n"
    lines = "".join(
        f"<li>{escape(cell)}: {', '.join(badge(word) for word in status.split(', '))} {escape(reason)}</li>"
        for cell, status, reason in failed[:_MOST_FAILURES]
    )
    left = len(failed) - _MOST_FAILURES
    more = f"<li>and {left} more, named in the overview</li>" if left > 0 else ""
    return f"<p>Some cells failed:</p>\n<ul>{lines}{more}</ul>\n"


def _unsupported(reasons: Sequence[tuple[str, str]]) -> str:
    """What is unsupported on this device, with the reasons; empty where everything is supported."""
    lines = "".join(
        f"<li>{escape(strategies)}: {badge('unsupported')} {escape(reason)}</li>"
        for strategies, reason in reasons[:_MOST_FAILURES]
    )
    left = len(reasons) - _MOST_FAILURES
    more = f"<li>and {left} more, named in the tables of their sweeps</li>" if left > 0 else ""
    return f"<p>Some combinations are unsupported here:</p>\n<ul>{lines}{more}</ul>\n" if reasons else ""
