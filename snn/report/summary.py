"""What a reader of the report sees first: the answer, the device and what is to be doubted, as HTML."""

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
    """For the report's first page, into which it is put; of many cases it shows the first."""
    asked, reasons = overview_text.asked_for(table), recommendation.build(points, table)["reason"]
    rows = "\n".join(
        f"<tr><th>{escape(overview_text.case(row, table))}</th>"
        f"<td>{escape(overview_text.sentence(row))}<br><small>{escape(reason)}</small></td>"
        f"<td>{'' if is_empty(row['lead_is']) else badge(row['lead_is'])}</td></tr>"
        for (_, row), reason in zip(asked.head(_MOST_CASES).iterrows(), reasons, strict=False)
    )
    left = len(table) - min(len(asked), _MOST_CASES)
    more = f"<p>{left} more cases stand in the overview.</p>\n" if left > 0 else ""
    return (
        f'<style>\n{html_page.badges()}</style>\n<div class="answer">\n'
        f"{_headline(table, provenance)}<table>\n"
        f"<thead><tr><th>data set, hidden layers</th><th>answer, and why</th><th>lead</th></tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody></table>\n{more}{_doubts(table, points)}</div>\n"
    )


def summary(table: pd.DataFrame, points: Sequence[pd.DataFrame], provenance: pd.DataFrame) -> str:
    """Paragraphs: who is fastest how often, on which device, on how quiet a machine, and what failed."""
    return _headline(table, provenance) + _doubts(table, points)


def _headline(table: pd.DataFrame, provenance: pd.DataFrame) -> str:
    devices = "".join(f"<p>{escape(one)}</p>\n" for one in overview_text.of_devices(provenance))
    return (
        f'<p class="headline">{escape(overview_text.headline(overview_text.asked_for(table)))}</p>\n{devices}'
    )


def _doubts(table: pd.DataFrame, points: Sequence[pd.DataFrame]) -> str:
    cells = sum((one["status"] != "unsupported").sum() for one in points)
    failed = _failures(overview_text.failures(points, table))
    return (
        _machine(overview_text.of_machine(points), cells)
        + failed
        + _unsupported(overview_text.unsupported(points))
    )


def _machine(counts: Mapping[str, int], cells: int) -> str:
    said = ", ".join(f"{count} {badge(word)}" for word, count in counts.items())
    return f"<p>The machine while the {cells} cells were measured: {said}.</p>\n"


def _failures(failed: Sequence[tuple[str, str, str]]) -> str:
    """The first failures with their reasons, and how many more there are."""
    if not failed:
        return "<p>Every cell ended well: none diverged, none ran out of memory.</p>\n"
    lines = "".join(
        f"<li>{escape(cell)}: {', '.join(badge(word) for word in status.split(', '))} {escape(reason)}</li>"
        for cell, status, reason in failed[:_MOST_FAILURES]
    )
    left = len(failed) - _MOST_FAILURES
    more = f"<li>and {left} more, named in the overview</li>" if left > 0 else ""
    return f"<p>Not all ended well:</p>\n<ul>{lines}{more}</ul>\n"


def _unsupported(found: Sequence[tuple[str, str]]) -> str:
    """What has no meaning on this device, with the reasons; nothing where all has."""
    lines = "".join(
        f"<li>{escape(who)}: {badge('unsupported')} {escape(why)}</li>" for who, why in found[:_MOST_FAILURES]
    )
    left = len(found) - _MOST_FAILURES
    more = f"<li>and {left} more, named in the tables of their sweeps</li>" if left > 0 else ""
    return f"<p>Not everything is to be had here:</p>\n<ul>{lines}{more}</ul>\n" if found else ""
