"""The recommended strategy for each network, its margins, and the reasons read from the ledgers."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.tables import overview
from snn.tables.overview_text import asked_for, case
from snn.tables.speedup_reasons import reason

TITLE = "Recommended strategy for each network, and why"

_WINNER = ("strategy", "kernel", "mean_s", "reason")
_MARGINS = (
    *("speedup", "speedup_ci_low", "speedup_ci_high", "verdict"),
    *("runner_up", "lead", "lead_ci_low", "lead_ci_high", "lead_verdict"),
)


def build(points: Sequence[pd.DataFrame], table: pd.DataFrame) -> pd.DataFrame:
    """One row per point, from its cells and its row of the overview: the fastest strategy and kernel.

    ``speedup`` is over the reference and ``lead`` over the ``runner_up``, both with their 95% intervals and
    verdicts. ``reason`` says what its ledger and time breakdown have less of than the reference's, and more;
    than the runner-up's, where there is no reference. Points on the host of a GPU are left out: the table
    ``cpu`` compares the two. There may be no row, where nothing is supported.
    """
    asked = asked_for(table).index
    rows = [
        _row(cells, table.loc[i], table) for i, cells in zip(table.index, points, strict=True) if i in asked
    ]
    columns = ["case", *_WINNER, *_margins_and_settings(table)]
    return pd.DataFrame(rows, columns=columns)


def _row(cells: pd.DataFrame, row: pd.Series, table: pd.DataFrame) -> dict[str, Any]:
    shared = {key: row[key] for key in _margins_and_settings(table)}
    return {"case": case(row, table), **_winner(cells, row), **shared}


def _margins_and_settings(table: pd.DataFrame) -> list[str]:
    """The columns that are the overview's."""
    settings = ["dataset", "network", *(key for key in table if "." in key)]
    return [*_MARGINS, *settings, "status", "machine", "device", "backend"]


def _winner(cells: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
    if is_empty(row["fastest"]):
        return {"strategy": "", "kernel": "", "mean_s": None, "reason": "No time was measured."}
    winner = cells[[name == row["fastest"] for name in overview.names(cells)]].iloc[0]
    chosen = {}
    for group in ("strategy", "kernel"):
        options = overview.options_of(winner, cells, group)
        chosen[group] = winner[group] + (f" ({', '.join(options)})" if options else "")
    return chosen | {"mean_s": row["mean_s"], "reason": _reason(winner, cells, row)}


def _reason(winner: pd.Series, cells: pd.DataFrame, row: pd.Series) -> str:
    reference = overview.reference(cells)
    if reference is not None or is_empty(row["runner_up"]):
        return reason(winner, reference)
    runner_up = cells[[name == row["runner_up"] for name in overview.names(cells)]].iloc[0]
    return f"Compared with {row['runner_up']}, as there is no reference: {reason(winner, runner_up)}"
