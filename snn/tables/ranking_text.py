"""What is said in words of a ranking of ``snn.tables.recommend``, on a terminal and in a report."""

import pandas as pd

from snn.analysis.machine_state import Thresholds

_SCORES = {"test_accuracy": "accuracy", "test_r2": "R²", "test_rmse": "RMSE in the target's units"}


def preliminary(ranking: pd.DataFrame, thresholds: Thresholds) -> str:
    """That the first was measured in one round only, and which ratios are significant then; empty where it
    was not, or is alone."""
    ranked = ranking[ranking["rank"].notna()]
    if len(ranked) < 2 or ranked.loc[ranked["rank"] == 1, "rounds"].item() > 1:
        return ""
    return (
        "Preliminary: measured in one round only, so the variation between rounds is unknown, and a ratio is "
        f"only significant beyond a factor of {thresholds['one_round']:g}."
    )


def on_held_out_rows(ranking: pd.DataFrame) -> str:
    """The scores on rows that were not trained on, of the candidate with the most runs; empty without such.

    The others train the same network, but in fewer rounds from fewer draws of initial weights.
    """
    ended_well = ranking[ranking["status"] == "ok"]
    tested = ended_well[[name for name in _SCORES if name in ended_well]].dropna(how="all")
    if tested.empty:
        return ""
    row = ended_well.loc[ended_well["runs"][tested.index].astype(int).idxmax()]
    parts = [f"{said} {_with_spread(row, name)}" for name, said in _SCORES.items() if pd.notna(row.get(name))]
    if "test_rmse" in ended_well and pd.notna(row["test_rmse"]) and pd.isna(row.get("test_r2")):
        parts.append("no R², since the target is the same in all of them")
    if row.get("test_r2", 1.0) <= 0:
        parts.append("no better than always predicting the mean")
    if pd.notna(row.get("majority_accuracy")):
        parts.append(f"of always predicting the commonest class {row['majority_accuracy']:.3g}")
        if row.get("test_accuracy", 1.0) <= row["majority_accuracy"]:
            parts[-1] += ", which is no worse"
    several = (
        f"mean ± standard deviation of {row['runs']} trainings by {row['strategy']} from different weights"
    )
    of_runs = several if row["runs"] > 1 else f"one training by {row['strategy']}"
    rows = f"{row['test_rows']:,.0f} " if pd.notna(row.get("test_rows")) else ""
    one = "row" if rows == "1 " else "rows"
    return f"On {rows}held-out {one}, after the epochs that were timed: {', '.join(parts)} ({of_runs})."


def _with_spread(row: pd.Series, name: str) -> str:
    spread = row.get(f"{name}_std")
    return _rounded(row[name], 3) + ("" if pd.isna(spread) else f" ± {_rounded(spread, 2)}")


def _rounded(value: float, digits: int) -> str:
    """``0.941``, ``31,300``."""
    shown = f"{value:.{digits}g}"
    return f"{float(shown):,.0f}" if abs(value) >= 10**digits else shown
