"""Effect of a busy neighbour, which trains on another GPU of the host, on the time of each strategy."""

from collections.abc import Mapping
from math import inf, nan
from typing import Any

import pandas as pd

from snn.analysis.grouping import first_at, settings, texts
from snn.analysis.intervals import Ratio, ratio_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import common_rounds, speedup
from snn.analysis.verdicts import NOT_COMPARABLE, NOT_SIGNIFICANT, SAME, TOUCHED, UNTOUCHED
from snn.config import groups
from snn.config.cell import NONE
from snn.tables.sweep import NAMES
from snn.tables.table import DEVICE, Pairs, Rows, Table, assemble, further, ratio, status

_NEIGHBOUR = "protocol.neighbour"
_YES_NO = {True: "yes", False: "no"}


def _build(cells: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell and neighbour: its time alone, with the neighbour, and ``slowdown``, their ratio.

    The interval uses the rounds that both had on one GPU. The probe's costs are not compared, since the
    neighbour may change them, too. config/neighbours.yaml is about GPUs only.
    """
    numbers = _pairs(cells)
    alone, beside = (cells.iloc[[pair[i] for pair in numbers]].reset_index(drop=True) for i in (0, 1))
    ratios = speedup(beside, alone, {**thresholds, "drifted": inf})
    both = zip(alone.to_dict("records"), beside.to_dict("records"), strict=True)
    made = beside.assign(
        **ratios,
        neighbour=beside[_NEIGHBOUR],
        alone_s=alone["mean_s"],
        alone_std_s=alone["std_s"],
        beside_s=beside["mean_s"],
        beside_std_s=beside["std_s"],
        rounds=[sum(map(all, zip(*common_rounds(*pair), strict=True))) for pair in both],
    )
    rows = Rows(made, paper, thresholds)
    times = "neighbour alone_s alone_std_s beside_s beside_std_s rounds"
    table = assemble(rows, " ".join(NAMES), further(_settings, *NAMES), times, ratio("slowdown"))
    words = pd.Series([verdict(row, thresholds) for row in table.to_dict("records")], dtype=object)
    table["verdict"] = words.mask(ratios["verdict"] == NOT_COMPARABLE, NOT_COMPARABLE)
    measured, in_file = table["strategy"].map(_untouched(table)), table["strategy"].isin(groups.untouched())
    on_gpu = (beside["backend"] == "cuda") & measured.notna()
    table["untouched"] = measured.map(_YES_NO).fillna("")
    table["in_file"] = in_file.map(_YES_NO).where(on_gpu, "")
    said = in_file.map({True: "names", False: "does not name"})
    said = "config/neighbours.yaml " + said + " " + table["strategy"] + " as untouched"
    notes = zip(ratios["note"], said.where(on_gpu & (measured != in_file), ""), strict=True)
    table["note"] = ["; ".join(filter(None, two)) for two in notes]
    return table.join(assemble(rows, status, DEVICE))


def _pairs(cells: pd.DataFrame) -> Pairs:
    """Pairs of a cell alone and the same cell with a neighbour."""
    alone = first_at(texts(cells, _settings(cells)), cells.index[cells[_NEIGHBOUR] == NONE])
    return [(number, i) for i, number in enumerate(alone) if i != number]


def _settings(cells: pd.DataFrame) -> list[str]:
    """The settings that a cell has in common with the same cell next to a neighbour."""
    sections = ("dataset", "network", "training", "strategy", "kernel", "precision", "protocol")
    return [name for name in settings(cells, sections) if name != _NEIGHBOUR]


def _untouched(table: pd.DataFrame) -> dict[str, bool]:
    timed = table[table["slowdown"].notna()]
    return (timed["verdict"] == UNTOUCHED).groupby(timed["strategy"], sort=False).all().to_dict()


def verdict(row: Mapping[str, Any], thresholds: Thresholds) -> str:
    """The word for a slowdown, by its interval and its number of rounds.

    ``untouched`` if the whole interval lies within the threshold of that name around 1, which shows that the
    times are equivalent; otherwise ``touched`` if the adjusted p-value is below 5%.
    """
    value, low, high = (row[f"slowdown{end}"] for end in ("", "_ci_low", "_ci_high"))
    found = Ratio(value, low, high, row["rounds"], nan)
    word = ratio_verdict(found, row["p_adjusted"], thresholds[UNTOUCHED], thresholds["one_round"])
    return {SAME: UNTOUCHED, NOT_SIGNIFICANT: NOT_SIGNIFICANT}.get(word, TOUCHED)


neighbours = Table("Times beside a busy neighbour", _build, _pairs)
