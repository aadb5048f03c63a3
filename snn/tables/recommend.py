"""Strategies ranked by the time of a training run, each compared with the reference and with the fastest.

And what a report and a terminal say of such a ranking: whether it is preliminary, and its scores.
"""

from collections.abc import Mapping
from math import isnan
from typing import Any

import pandas as pd

from snn.analysis.frame import SCORES, beside_times, outcome
from snn.analysis.intervals import mean_interval, ratio, with_best
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import (
    EVIDENCE,
    MORE_ROUNDS,
    SPEEDUP,
    WITH_HOST,
    common_rounds,
    reason,
    speedup,
)
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
from snn.tables.table import Table

TITLE = "Strategies ranked"

_SCORES = {"test_accuracy": "accuracy", "test_r2": "R²", "test_rmse": "RMSE in the target's units"}
_MORE_ROUNDS = "the same command with a larger --budget adds rounds"
_BEHIND = ("behind", "behind_ci_low", "behind_ci_high", "behind_p_adjusted", "behind_detectable")


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell, those that ended well first, by ``behind``, with a ``rank`` in each training.

    ``speedup`` is over the reference, and ``behind`` the row's mean time over the shortest one. The first row
    is called ``fastest`` only if all others are slower. ``options`` tells rows of one strategy and kernel
    apart, if there are. Rows that failed, or may not be compared with the reference or with the first, have
    no rank.
    """
    points = [
        _point(cells.reset_index(drop=True), thresholds)
        for _, cells in frame.groupby(["dataset", "network"], sort=False)
    ]
    table = pd.concat(points, ignore_index=True)
    if (table["options"] == "").all():
        table = table.drop(columns="options")
    return table.astype({"rank": "Int64"})


def prepared(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells of one recommendation: the first is the baseline, and a GPU is compared with its host."""
    return cells.assign(**{overview.IS_BASELINE: cells.index == cells.index[0], WITH_HOST: True})


def _point(cells: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    order = _order(cells, thresholds)
    rest = cells[~cells["cell"].isin(order)].sort_values("mean_s", kind="stable")["cell"]
    cells = cells.set_index("cell").loc[[*order, *rest]].reset_index()
    intervals = [mean_interval(rounds) for rounds in cells["rounds"]]
    groups = ("strategy", "kernel")
    options = [
        ", ".join(option for group in groups for option in overview.options_of(row, cells, group))
        for _, row in cells.iterrows()
    ]
    first, is_well = overview.names(cells)[0], (cells["status"] == OK) & cells["mean_s"].notna()
    apart = [  # why a row may not be compared with the first
        reason(row, cells.iloc[0], thresholds) if 0 < len(order) <= i and is_well[i] else ""
        for i, row in cells.iterrows()
    ]
    over_reference = advising_budget(overview.over_reference(cells, thresholds))
    if (baseline := overview.reference(cells)) is not None:
        over_reference["baseline"] = baseline["strategy"]
    notes = zip(over_reference["note"], over_reference["verdict"], apart, strict=True)
    spread = [f"{score}_std" for score in SCORES if cells[f"{score}_std"].notna().any()]
    tested = [name for name in ("majority_accuracy", "test_rows") if cells[name].notna().any()]
    ended = outcome(cells)
    if (failed := cells["status"] != OK).any():  # also those that have a time, because they diverged
        ended["reason"] = cells["reason"].where(failed, "")
    return (
        cells.assign(rank=[*range(1, len(order) + 1), *[None] * len(rest)])
        .loc[:, ["rank", "strategy", "dataset", "network", "kernel"]]
        .assign(options=options, mean_s=cells["mean_s"])
        .assign(mean_ci_low=[low for low, _ in intervals], mean_ci_high=[high for _, high in intervals])
        .assign(std_s=cells["std_s"])
        .join(over_reference)
        .join(_behind(cells, len(order), apart, thresholds))
        .assign(
            note=[
                f"{NOT_COMPARABLE} with {first}: {text}" if text and verdict != NOT_COMPARABLE else note
                for note, verdict, text in notes
            ],
            rounds=[sum(map(bool, rounds)) for rounds in cells["rounds"]],
            **{key: cells[key] for key in ("runs", "final_loss", "draws")},
        )
        .join(beside_times(cells))
        .join(cells[[*spread, *tested]])
        .join(ended)
        .join(cells[["machine", "machine_note", "device", "backend"]])
    )


def _order(cells: pd.DataFrame, thresholds: Thresholds) -> list[str]:
    """The cells that ended well: the shortest mean time, then the others by their time over that one's.

    That is of common rounds: in a round that only one of two cells has, the machine may have been slower.
    Those that may not be compared with the first are left out.
    """
    ended_well = [row for row in overview.ranked(cells, thresholds) if row["status"] == OK]
    if not ended_well:
        return []
    best, *others = ended_well
    behind = {
        other["cell"]: ratio(*common_rounds(other, best)).value
        for other in others
        if not reason(other, best, thresholds)
    }
    return [best["cell"], *sorted(behind, key=lambda cell: (isnan(behind[cell]), behind[cell]))]


def advising_budget(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose notes advise a larger budget of ``snn recommend`` instead of more rounds of a grid."""
    return table.assign(note=table["note"].str.replace(MORE_ROUNDS, _MORE_ROUNDS, regex=False))


def _behind(cells: pd.DataFrame, ranked: int, apart: list[str], thresholds: Thresholds) -> pd.DataFrame:
    """The time of the ranked rows over that of the first, with its interval and verdict."""
    others = cells.iloc[1:ranked]
    ratios = speedup(others, cells.iloc[[0] * len(others)].set_axis(others.index), thresholds, with_best)
    found = ratios[[*SPEEDUP, *EVIDENCE]].set_axis([*_BEHIND], axis=1).reindex(cells.index).astype(float)
    found.loc[found.index[:1] if ranked else [], "behind"] = 1.0
    words = [{FASTER: SLOWER, SAME: AS_FAST}.get(verdict, NOT_SIGNIFICANT) for verdict in ratios["verdict"]]
    first = FASTEST if words and set(words) == {SLOWER} else SHORTEST
    rest = [NOT_COMPARABLE if why else "" for why in apart[ranked:]]
    return found.assign(against_fastest=[*[first][:ranked], *words, *rest])


recommend = Table(TITLE, lambda cells, published, thresholds: build(prepared(cells), published, thresholds))


# ---- in words


def preliminary(ranking: pd.DataFrame, thresholds: Thresholds) -> str:
    """That the first was measured in one round only, and which ratios are significant then; empty if it was
    measured in more, or is alone."""
    ranked = ranking[ranking["rank"].notna()]
    if len(ranked) < 2 or ranked.loc[ranked["rank"] == 1, "rounds"].item() > 1:
        return ""
    return (
        "Preliminary: measured in one round only, so the variation between rounds is unknown, and a ratio is "
        f"only significant beyond a factor of {thresholds['one_round']:g}."
    )


def scores_in_words(ranking: pd.DataFrame) -> str:
    """The scores on rows that were not trained on, of the candidate with the most runs; empty without such.

    The others train the same network, but in fewer rounds from fewer draws of initial weights.
    """
    ended_well = ranking[ranking["status"] == OK]
    tested = ended_well[[name for name in _SCORES if name in ended_well]].dropna(how="all")
    if tested.empty:
        return ""
    row = ended_well.loc[ended_well["runs"][tested.index].astype(int).idxmax()]
    scores = {name: row[name] for name in _SCORES if pd.notna(row.get(name))}
    parts = [
        f"{_SCORES[name]} {_with_spread(value, row.get(f'{name}_std'))}" for name, value in scores.items()
    ]
    if "test_rmse" in scores and "test_r2" not in scores:
        parts.append("no R², since the target is the same in all of them")
    if scores.get("test_r2", 1.0) <= 0:
        parts.append("no better than always predicting the mean")
    if pd.notna(majority := row.get("majority_accuracy")):
        no_worse = ", which is no worse" if scores.get("test_accuracy", 1.0) <= majority else ""
        parts.append(f"of always predicting the commonest class {majority:.3g}{no_worse}")
    runs, strategy = row["runs"], row["strategy"]
    several = f"mean ± standard deviation of {runs} training runs by {strategy} from different weights"
    parts[-1] += f" ({several if runs > 1 else f'one training run by {strategy}'})"
    count = row.get("test_rows")
    rows = f"{'' if pd.isna(count) else f'{count:,.0f} '}held-out row{'' if count == 1 else 's'}"
    return f"On {rows}, after the epochs that were timed: {', '.join(parts)}."


def _with_spread(value: float, spread: float | None) -> str:
    """``0.941 ± 0.01``, ``31,300``."""

    def rounded(value: float, digits: int) -> str:
        shown = f"{value:.{digits}g}"
        return f"{float(shown):,.0f}" if abs(value) >= 10**digits else shown

    return rounded(value, 3) + ("" if spread is None or pd.isna(spread) else f" ± {rounded(spread, 2)}")
