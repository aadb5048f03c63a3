"""The recommended strategy for each network, its margins, and the reasons read from the ledgers."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.tables import overview
from snn.tables.overview_text import asked_for, case, sentence
from snn.tables.speedup_reasons import reason

TITLE = "Recommended strategy for each network, and why"

_MARGINS = (
    *("speedup", "speedup_ci_low", "speedup_ci_high", "verdict"),
    *("runner_up", "lead", "lead_ci_low", "lead_ci_high", "lead_verdict", "tied_with", "note"),
)
_WINNER = ("strategy", "strategy_status", "kernel", "plan", "mean_s", "reason")
_OF_ROW = ("status", "machine", "device", "backend")


def build(points: Sequence[pd.DataFrame], table: pd.DataFrame) -> pd.DataFrame:
    """One row per point, from its cells and its row of the overview: the fastest strategy and kernel.

    ``answer`` says in words whether it is that, or only has the shortest mean time, or did not end well, as
    ``strategy_status`` does. ``plan`` says how a strategy with a kernel of its own trains. ``speedup`` is
    over the reference and ``lead`` over the ``runner_up``, both with their 95% intervals and verdicts.
    ``reason`` says what its ledger and time breakdown have less of than the reference's, and more; than the
    runner-up's, where there is no reference. Points on the host of a GPU are left out: the table ``cpu``
    compares the two. There may be no row, where nothing is supported.
    """
    asked = asked_for(table).index
    rows = [
        _row(cells, table.loc[i], table) for i, cells in zip(table.index, points, strict=True) if i in asked
    ]
    return pd.DataFrame(rows, columns=["case", "answer", *_WINNER, *_MARGINS, *_settings(table), *_OF_ROW])


def _row(cells: pd.DataFrame, row: pd.Series, table: pd.DataFrame) -> dict[str, Any]:
    return {
        "case": case(row, table),
        "answer": sentence(row),
        **_winner(cells, row),
        **{key: row[key] for key in (*_MARGINS, *_settings(table), *_OF_ROW)},
    }


def _settings(table: pd.DataFrame) -> list[str]:
    return ["dataset", "network", *(key for key in table if "." in key)]


def _winner(cells: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
    if is_empty(row["fastest"]):
        nothing = dict.fromkeys(("strategy", "strategy_status", "kernel", "plan"), "")
        return nothing | {"mean_s": None, "reason": "No time was measured."}
    winner = cells[[name == row["fastest"] for name in overview.names(cells)]].iloc[0]
    chosen = {"strategy_status": winner["status"], "plan": winner["plan"]}
    for group, name in (("strategy", winner["strategy"]), ("kernel", winner["kernel"])):
        options = overview.options_of(winner, cells, group)
        chosen[group] = name + (f" ({', '.join(options)})" if name and options else "")
    return chosen | {"mean_s": row["mean_s"], "reason": _reason(winner, cells, row)}


def _reason(winner: pd.Series, cells: pd.DataFrame, row: pd.Series) -> str:
    reference = overview.reference(cells)
    if reference is not None or is_empty(row["runner_up"]):
        return reason(winner, reference)
    runner_up = cells[[name == row["runner_up"] for name in overview.names(cells)]].iloc[0]
    return f"Compared with {row['runner_up']}, as there is no reference: {reason(winner, runner_up)}"
