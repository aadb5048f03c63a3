"""What a busy neighbour, a training on another GPU of the host, does to the time of each strategy."""

from collections.abc import Iterable, Mapping
from math import inf, nan
from typing import Any

import pandas as pd

from snn.analysis.comparability import common_rounds
from snn.analysis.grouping import settings, texts, varied
from snn.analysis.intervals import Ratio, ratio_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import SPEEDUP, speedup
from snn.analysis.verdicts import NOT_COMPARABLE, NOT_SIGNIFICANT, SAME, TOUCHED, UNTOUCHED
from snn.config.neighbour import NONE
from snn.grid import neighbours

TITLE = "Times beside a busy neighbour"

NEIGHBOUR = "protocol.neighbour"
_NAMES = ("strategy", "dataset", "network", "kernel")
_SECTIONS = ("dataset", "network", "training", "strategy", "kernel", "precision", "protocol")
_SHOWN_BY_NAMES = ("network.hidden", "network.layers")
_WORDS: dict[bool | None, str] = {True: "yes", False: "no"}


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell and neighbour: its time alone, beside the neighbour, and ``slowdown``, their ratio.

    ``slowdown`` is beside over alone, with its 95% interval over the rounds that both had on one GPU. The
    probe's costs are not compared, for the neighbour may change them, too. ``verdict`` is ``untouched`` where
    the whole interval lies within the threshold of that name around 1, by which the times are shown to be
    equivalent; otherwise ``touched`` where it does not contain 1, and ``not significant`` where it does.
    ``untouched`` says whether the strategy is that in every row of it, and
    ``in_file`` whether config/neighbours.yaml says so, which is about GPUs; ``note`` says where they differ.
    """
    numbers = pairs(frame)
    alone = frame.iloc[[a for a, _ in numbers]].reset_index(drop=True)
    beside = frame.iloc[[b for _, b in numbers]].reset_index(drop=True)
    ratios = speedup(beside, alone, {**thresholds, "drifted": inf})
    hidden = (NEIGHBOUR, *_SHOWN_BY_NAMES)
    more = [key for key in varied(beside, _settings(beside), list(_NAMES)) if key not in hidden]
    table = beside[[*_NAMES, *more]].assign(neighbour=beside[NEIGHBOUR])
    for name, rows in (("alone", alone), ("beside", beside)):
        table[f"{name}_s"], table[f"{name}_std_s"] = rows["mean_s"], rows["std_s"]
    rows = zip(alone.to_dict("records"), beside.to_dict("records"), strict=True)
    table["rounds"] = [sum(map(all, zip(*common_rounds(*both), strict=True))) for both in rows]
    for name in SPEEDUP:
        table[name.replace("speedup", "slowdown")] = ratios[name]
    table["verdict"] = [verdict(row, thresholds) for row in table.to_dict("records")]
    table["verdict"] = table["verdict"].mask(ratios["verdict"] == NOT_COMPARABLE, NOT_COMPARABLE)
    untouched, file = _untouched(table), neighbours.untouched()
    table["untouched"] = [_WORDS.get(untouched.get(name), "") for name in table["strategy"]]
    of_gpu = (beside["backend"] == "cuda") & (table["untouched"] != "")
    table["in_file"] = table["strategy"].isin(file).map(_WORDS).where(of_gpu, "")
    differs = of_gpu & (table["untouched"] != table["in_file"])
    differences = table["strategy"].map(lambda name: _difference(name, name in file)).where(differs, "")
    table["note"] = ["; ".join(filter(None, both)) for both in zip(ratios["note"], differences, strict=True)]
    table = table.join(outcome(beside)).assign(machine=ratios["machine"], device=beside["device"])
    return table.assign(backend=beside["backend"])


def pairs(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """The numbers of the rows that are compared: a cell alone, and the same beside a neighbour."""
    points = texts(frame, _settings(frame)).tolist()
    by = frame[NEIGHBOUR].tolist()
    alone = {point: i for i, point in enumerate(points) if by[i] == NONE}
    return [(alone[point], i) for i, point in enumerate(points) if i != alone[point]]


def _settings(frame: pd.DataFrame) -> list[str]:
    """Everything that a cell and the same beside a neighbour have in common."""
    return [name for name in settings(frame, _SECTIONS) if name != NEIGHBOUR]


def measured_untouched(tables: Iterable[pd.DataFrame]) -> dict[str, bool]:
    """By strategy whether it is untouched in every row of these tables that has a time on a GPU beside a
    neighbour; strategies without such a row are left out."""
    of_tables = [_untouched(table[table["backend"] == "cuda"]) for table in tables]
    names = dict.fromkeys(name for found in of_tables for name in found)
    return {name: all(found.get(name, True) for found in of_tables) for name in names}


def _untouched(table: pd.DataFrame) -> dict[str, bool]:
    timed = table[table["slowdown"].notna()]
    return (timed["verdict"] == UNTOUCHED).groupby(timed["strategy"], sort=False).all().to_dict()


def verdict(row: Mapping[str, Any], thresholds: Thresholds) -> str:
    """What a slowdown says, by its interval and the number of its rounds."""
    value, low, high = (row[f"slowdown{end}"] for end in ("", "_ci_low", "_ci_high"))
    found = Ratio(value, low, high, row["rounds"], nan)
    word = ratio_verdict(found, thresholds[UNTOUCHED], thresholds["one_round"])
    return {SAME: UNTOUCHED, NOT_SIGNIFICANT: NOT_SIGNIFICANT}.get(word, TOUCHED)


def _difference(strategy: str, named: bool) -> str:
    return f"config/neighbours.yaml {'names' if named else 'does not name'} {strategy} as untouched"
