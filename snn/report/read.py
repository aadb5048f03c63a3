"""A table that was written as CSV, read back from a file that anyone may have made."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from snn.errors import RecordError
from snn.files import regular

_MOST_BYTES = 64 << 20


def read(path: Path, name: str, columns: Iterable[str] = (), **options: Any) -> pd.DataFrame:
    """The table of this name in a CSV file, with these columns at least.

    ``options`` are those of ``pandas.read_csv``. Raises RecordError, naming the file, where it is none.
    """
    content = regular.read(path, RecordError, _MOST_BYTES)
    try:
        table = pd.read_csv(io.BytesIO(content), **options)
    except ValueError as error:
        raise RecordError(f"{path}: not a table: {error}") from error
    for column in columns:
        if column not in table:
            raise RecordError(f"{path}: it has no column {column}: it must be the table {name}")
    return table
