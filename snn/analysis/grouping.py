"""Which rows of a table belong together: settings as text, and the settings in which rows differ."""

from collections.abc import Sequence
from typing import Any

import pandas as pd


def texts(frame: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """The values of these columns joined to one text per row; an empty value counts as a value."""
    rows = frame[list(names)].itertuples(index=False, name=None)
    joined = ["|".join("" if pd.isna(value) else str(value) for value in row) for row in rows]
    return pd.Series(joined, frame.index)


def settings(frame: pd.DataFrame, sections: Sequence[str]) -> list[str]:
    """The columns of these sections of a cell, for example ``training.epochs``."""
    return [name for name in frame if name.partition(".")[0] in sections and "." in name]


def varied(frame: pd.DataFrame, names: Sequence[str], within: Sequence[str]) -> list[str]:
    """Those of the columns ``names`` in which rows differ that are equal in the columns ``within``."""
    groups = frame.groupby(list(within))
    return [name for name in names if (groups[name].nunique(dropna=False) > 1).any()]


def is_empty(value: object) -> bool:
    """Whether a table's cell holds nothing: None, NA, NaN or an empty text."""
    return value is None or value is pd.NA or value == "" or value != value


def setting(value: Any) -> Any:
    """The value of a setting as tables show it: a list as one text, ``16-16``; anything else as it is."""
    return "-".join(map(str, value)) if isinstance(value, list) else value
