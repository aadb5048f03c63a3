"""Strategies ranked by the time of a training, each compared with the reference and with the fastest."""

from collections.abc import Mapping
from math import isnan
from typing import Any

import pandas as pd

from snn.analysis.frame import SCORES, beside_times, outcome
from snn.analysis.intervals import mean_interval, ratio
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import MORE_ROUNDS, SPEEDUP, common_rounds, over_baselines, reason, speedup
from snn.analysis.verdicts import (
    AS_FAST,
    FASTER,
    FASTEST,
    NOT_COMPARABLE,
    NOT_SIGNIFICANT,
    OK,
    SAME,
    SHORTEST,
    SLOWER,
)
from snn.tables import overview

TITLE = "Strategies ranked"

_MORE_ROUNDS = "the same command with a larger --budget adds rounds"
_BEHIND = ("behind", "behind_ci_low", "behind_ci_high")


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell, those that ended well first, by ``behind``, with a ``rank`` in each training.

    ``speedup`` is over the reference, and ``behind`` the row's mean time over the shortest one, both with
    their 95% intervals. ``verdict`` is of ``speedup``; ``against_fastest`` says whether a row is ``slower``
    than the one with the shortest mean time, ``as fast`` (within the threshold ``same``) or ``not
    significant``. That row is called ``fastest`` only where all others are slower. ``rounds`` is the number
    of jobs that the runs are of. ``options`` tells rows of one strategy and kernel apart, if there are.
    Rows that failed, or may not be compared with the reference or with the first, have no rank.
    """
    points = [
        _point(cells.reset_index(drop=True), thresholds)
        for _, cells in frame.groupby(["dataset", "network"], sort=False)
    ]
    table = pd.concat(points, ignore_index=True)
    if (table["options"] == "").all():
        table = table.drop(columns="options")
    return table.astype({"rank": "Int64"})


def _point(cells: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    order = _order(cells, thresholds)
    rest = cells[~cells["cell"].isin(order)].sort_values("mean_s", kind="stable")["cell"]
    cells = cells.set_index("cell").loc[[*order, *rest]].reset_index()
    intervals = [mean_interval(rounds) for rounds in cells["rounds"]]
    table = pd.DataFrame(
        {
            "rank": [i + 1 if i < len(order) else None for i in range(len(cells))],
            **{key: cells[key] for key in ("strategy", "dataset", "network")},
            "kernel": cells["kernel"],
            "options": _options(cells),
            "mean_s": cells["mean_s"],
            "mean_ci_low": [low for low, _ in intervals],
            "mean_ci_high": [high for _, high in intervals],
            "std_s": cells["std_s"],
        }
    )
    table = table.join(_over_reference(cells, thresholds)).join(_behind(cells, len(order), thresholds))
    table["note"] = _with_first(table, cells, len(order), thresholds)
    table = table.assign(
        rounds=[sum(map(bool, rounds)) for rounds in cells["rounds"]],
        runs=cells["runs"],
        final_loss=cells["final_loss"],
        draws=cells["draws"],
    )
    spread = [f"{score}_std" for score in SCORES if cells[f"{score}_std"].notna().any()]
    tested = [name for name in ("majority_accuracy", "test_rows") if cells[name].notna().any()]
    ended = outcome(cells)
    if (failed := cells["status"] != OK).any():  # also those that have a time, because they diverged
        ended["reason"] = cells["reason"].where(failed, "")
    return (
        table.join(beside_times(cells))
        .join(cells[[*spread, *tested]])
        .join(ended)
        .assign(**{key: cells[key] for key in ("machine", "machine_note", "device", "backend")})
    )


def _order(cells: pd.DataFrame, thresholds: Thresholds) -> list[str]:
    """The cells that ended well: the shortest mean time, then the others by their time over that one's.

    That is of common rounds: in a round that only one of two cells has, the machine may have been slower.
    Those that may not be compared with the first are left out.
    """
    ended_well = [row for row in overview.ranked(cells, thresholds) if row["status"] == "ok"]
    if not ended_well:
        return []
    best, *others = ended_well
    others = [other for other in others if not reason(other, best, thresholds)]
    behind = [ratio(*common_rounds(other, best)).value for other in others]
    order = sorted(range(len(others)), key=lambda i: (isnan(behind[i]), behind[i]))
    return [best["cell"], *(others[i]["cell"] for i in order)]


def _options(cells: pd.DataFrame) -> list[str]:
    """By row, the options in which it differs from others of its strategy or kernel: ``tile_rows 32``."""
    groups = ("strategy", "kernel")
    return [
        ", ".join(option for group in groups for option in overview.options_of(row, cells, group))
        for _, row in cells.iterrows()
    ]


def _over_reference(cells: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """``speedup`` over the reference with its interval, ``verdict``, ``baseline`` and ``note``."""
    columns = [*SPEEDUP, "verdict", "note"]
    reference = overview.reference(cells)
    if reference is None:
        return pd.DataFrame(index=cells.index, columns=columns).fillna({"verdict": "", "note": ""})
    numbers = [cells.index.get_loc(reference.name)] * len(cells)
    found = over_baselines(cells, numbers, thresholds)[columns]
    return advising_budget(found).assign(baseline="reference")


def advising_budget(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose notes advise a larger budget of ``snn recommend`` instead of more rounds of a grid."""
    return table.assign(note=table["note"].str.replace(MORE_ROUNDS, _MORE_ROUNDS, regex=False))


def _behind(cells: pd.DataFrame, ranked: int, thresholds: Thresholds) -> pd.DataFrame:
    """The time of the ranked rows over that of the first, with its interval and verdict."""
    others = cells.iloc[1:ranked]
    ratios = speedup(others, cells.iloc[[0] * len(others)].set_axis(others.index), thresholds)
    found = ratios[list(SPEEDUP)].set_axis(list(_BEHIND), axis=1).reindex(cells.index).astype(float)
    found.loc[found.index[:1] if ranked else [], "behind"] = 1.0
    words = [{FASTER: SLOWER, SAME: AS_FAST}.get(verdict, NOT_SIGNIFICANT) for verdict in ratios["verdict"]]
    first = FASTEST if words and set(words) == {SLOWER} else SHORTEST
    rest = [NOT_COMPARABLE if why else "" for why in _apart(cells, ranked, thresholds)]
    return found.assign(against_fastest=[*[first][:ranked], *words, *rest])


def _apart(cells: pd.DataFrame, ranked: int, thresholds: Thresholds) -> list[str]:
    """Why each row behind the ranked ones may not be compared with the first; empty where it did not end
    well, or where there is no first."""
    rest = cells[ranked:]
    ended_well = (rest["status"] == "ok") & rest["mean_s"].notna()
    return [
        reason(row, cells.iloc[0], thresholds) if ranked and well else ""
        for (_, row), well in zip(rest.iterrows(), ended_well, strict=True)
    ]


def _with_first(table: pd.DataFrame, cells: pd.DataFrame, ranked: int, thresholds: Thresholds) -> list[str]:
    """The notes; of a row that may be compared with the reference and not with the first, why."""
    first = overview.names(cells)[0]
    why = [""] * ranked + _apart(cells, ranked, thresholds)
    return [
        f"{NOT_COMPARABLE} with {first}: {text}" if text and verdict != NOT_COMPARABLE else note
        for note, verdict, text in zip(table["note"], table["verdict"], why, strict=True)
    ]
