"""What a row of a table is of: its settings as one text, by which rows are told apart or held together."""

from collections.abc import Sequence

import pandas as pd


def texts(frame: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """Of each row the values of these columns as one text; an empty one is a value like any other."""
    rows = frame[list(names)].itertuples(index=False, name=None)
    return pd.Series(["|".join("" if pd.isna(one) else str(one) for one in row) for row in rows], frame.index)


def settings(frame: pd.DataFrame, sections: Sequence[str]) -> list[str]:
    """The columns of these sections of a cell, as ``training.epochs``."""
    return [name for name in frame if name.partition(".")[0] in sections and "." in name]


def varied(frame: pd.DataFrame, names: Sequence[str], within: Sequence[str]) -> list[str]:
    """Those of the names that tell rows apart which are the same in ``within``."""
    same = frame.groupby(list(within))
    return [name for name in names if (same[name].nunique(dropna=False) > 1).any()]


def is_empty(value: object) -> bool:
    """Whether a cell holds nothing."""
    return value is None or value is pd.NA or value == "" or value != value
