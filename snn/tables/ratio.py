"""Speedups: one mean over another, with the spread that the runs of both give it."""

import numpy as np
import pandas as pd


def speedup(base: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """``speedup`` = base mean_s / other mean_s, row by row, and its ``speedup_std``.

    The standard deviation of the ratio to first order: r sqrt((s_a / m_a)^2 + (s_b / m_b)^2), where s is
    the standard deviation of one run.
    """
    ratio = base["mean_s"].to_numpy(float) / other["mean_s"].to_numpy(float)
    spread = np.hypot(
        *(part["std_s"].to_numpy(float) / part["mean_s"].to_numpy(float) for part in (base, other))
    )
    return pd.DataFrame({"speedup": ratio, "speedup_std": ratio * spread}, index=other.index)


def against_reference(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Each row's speedup over the reference that has the same ``keys``, and the verdicts on both machines."""
    reference = frame[frame["strategy"] == "reference"].set_index(keys)
    base = reference.loc[pd.MultiIndex.from_frame(frame[keys]) if len(keys) > 1 else frame[keys[0]]]
    return speedup(base, frame).assign(machine=joint("quiet", base["machine"], frame["machine"]))


def joint(best: str, *columns: pd.Series) -> list[str]:
    """Row by row ``best`` (``ok``, ``quiet``) where all columns say so, otherwise what else they say."""
    rows = zip(*columns, strict=True)
    return [
        ", ".join(dict.fromkeys(word for cell in row for word in cell.split(", ") if word != best)) or best
        for row in rows
    ]
