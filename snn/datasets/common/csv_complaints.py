"""What of a CSV file cannot be trained on as it is, and which setting would do something about it."""

from collections.abc import Callable, Sequence

import numpy as np

from snn.datasets.common.csv_columns import MISSING, Column, Sheet, shortened
from snn.datasets.common.csv_lines import Rows, is_float
from snn.errors import DataError

Again = Callable[[], Rows]
"""Reads the rows once more, for what only a message needs."""

_COUNTED = 10_000
_NAMED = 5


def check_usable(
    sheet: Sheet, used: Sequence[int], target: int, encodes: Sequence[int], drops_rows: bool, again: Again
) -> None:
    """Raise DataError, with every complaint, for text and missing values in columns that are used.

    ``encodes`` are the columns of which text is allowed; ``drops_rows``: rows that lack values are left out.
    """
    said = []
    for i in used:
        column = sheet.columns[i]
        if column.infinite and i not in encodes:
            raise DataError(f"{_place(sheet, column, column.first_infinite)} is not a finite float32 number")
    texts = [i for i in used if sheet.columns[i].texts and i not in encodes]
    if target in texts:
        said.append(_of_target(sheet, target, again))
    if features := [i for i in texts if i != target]:
        said.append(_of_features(sheet, features, again))
    lacking = [sheet.columns[i] for i in used if sheet.columns[i].missing]
    if lacking and not drops_rows:
        said.append(_of_missing(sheet, lacking))
    if said:
        raise DataError("; and ".join(said))


def check_labels(sheet: Sheet, target: int, labels: np.ndarray, most: int, again: Again) -> None:
    """Raise DataError unless the numbers in the target column (rows,) are whole, and at most so many."""
    column = sheet.columns[target]
    if (labels != np.floor(labels)).any():
        line, text = next(
            (line, row[target]) for line, row in again() if is_float(row[target]) and float(row[target]) % 1
        )
        raise DataError(
            f"{_place(sheet, column, (line, text))} is no label: it must be text or a whole number, since "
            "the loss is cross_entropy; a number is predicted with mean_squared_error"
        )
    count = len(np.unique(labels))
    if count > most:
        raise DataError(
            f"{sheet.file}, column {column.name!r}: it has {count} distinct labels, and at most {most} are "
            "told apart by cross_entropy; a number is predicted with mean_squared_error"
        )


def _place(sheet: Sheet, column: Column, cell: tuple[int, str]) -> str:
    line, text = cell
    return f"{sheet.file}, line {line}, column {column.name!r}: {shortened(text)}"


def _no_number(sheet: Sheet, column: Column) -> str:
    hint = "; is the first line a header (dataset.header=true)?" if column.first_text[0] == 1 else ""
    return f"{_place(sheet, column, column.first_text)} is not a number, as -1.5 or 2e-3{hint}"


def _of_features(sheet: Sheet, texts: Sequence[int], again: Again) -> str:
    first = min(texts, key=lambda i: sheet.columns[i].first_text[0])
    column = sheet.columns[first]
    others = [repr(sheet.columns[i].name) for i in texts if i != first]
    shown = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
    return (
        f"{_no_number(sheet, column)}; this column has text in {column.texts} of {sheet.rows} rows, "
        f"{_distinct(again(), first)}{f'; text is in {shown}, too' if others else ''}: "
        "dataset.text_columns=one_hot replaces such a column by one of 0 and 1 for each of its values, "
        "dataset.text_columns=drop leaves it out"
    )


def _of_target(sheet: Sheet, target: int, again: Again) -> str:
    column = sheet.columns[target]
    return (
        f"{_no_number(sheet, column)}, but this column is the target, to be predicted as a number; it has "
        f"text in {column.texts} of {sheet.rows} rows, {_distinct(again(), target)}: to tell these apart, "
        "say network=layers network.loss=cross_entropy, and end network.layers in as many outputs"
    )


def _of_missing(sheet: Sheet, lacking: Sequence[Column]) -> str:
    first = min(lacking, key=lambda column: column.first_missing[0])
    counts = [f"{column.missing} in {column.name!r}" for column in lacking]
    more = f" and {len(counts) - _NAMED} more columns" if len(counts) > _NAMED else ""
    return (
        f"{_place(sheet, first, first.first_missing)} is a missing value; of {sheet.rows} rows values are "
        f"missing: {', '.join(counts[:_NAMED])}{more}; dataset.missing=drop_rows leaves out the rows that "
        "lack one"
    )


def _distinct(rows: Rows, column: int) -> str:
    """How many distinct values a column has, in words."""
    found: set[str] = set()
    for _, row in rows:
        if len(found) <= _COUNTED:
            found.add(row[column].strip())
    count = len(found - MISSING)
    if count > _COUNTED:
        return f"more than {_COUNTED} distinct values"
    return f"{count} distinct value{'' if count == 1 else 's'}"
