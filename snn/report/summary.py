"""The report's first page as HTML: the fastest strategies, the device, and what limits the results."""

from collections.abc import Mapping, Sequence
from html import escape

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.report import html_page
from snn.report.glossary import badge
from snn.tables import overview_text, recommendation

_MOST_CASES = 12
_MOST_FAILURES = 6


def fragment(table: pd.DataFrame, points: Sequence[pd.DataFrame], provenance: pd.DataFrame) -> str:
    """The part of the report's first page that is made from the records, with the first of many cases."""
    asked, reasons = overview_text.asked_for(table), recommendation.build(points, table)["reason"]
    rows = "\n".join(
        f"<tr><th>{escape(overview_text.case(row, table))}</th>"
        f"<td>{escape(overview_text.sentence(row))}<br><small>{escape(reason)}</small></td>"
        f"<td>{'' if is_empty(row['lead_verdict']) else badge(row['lead_verdict'])}</td></tr>"
        for (_, row), reason in zip(asked.head(_MOST_CASES).iterrows(), reasons, strict=False)
    )
    left = len(table) - min(len(asked), _MOST_CASES)
    more = f"<p>The overview shows {left} more cases.</p>\n" if left > 0 else ""
    return (
        f'<style>\n{html_page.badges()}</style>\n<div class="answer">\n'
        f"{_headline(table, provenance)}<table>\n"
        f"<thead><tr><th>data set, hidden layers</th><th>fastest strategy, and why</th><th>lead</th></tr>"
        f"</thead>\n<tbody>\n{rows}\n</tbody></table>\n{more}{_caveats(table, points)}</div>\n"
    )


def summary(table: pd.DataFrame, points: Sequence[pd.DataFrame], provenance: pd.DataFrame) -> str:
    """Paragraphs: which strategy is fastest how often, on which device, the machine's state, and failures."""
    return _headline(table, provenance) + _caveats(table, points)


def _headline(table: pd.DataFrame, provenance: pd.DataFrame) -> str:
    headline = overview_text.headline(overview_text.asked_for(table))
    devices = "".join(f"<p>{escape(text)}</p>\n" for text in overview_text.of_devices(provenance))
    return f'<p class="headline">{escape(headline)}</p>\n{devices}'


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
