"""What of a CSV file cannot be trained on as it is, and which setting would do something about it."""

import shlex
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from snn.datasets.common import csv_notation
from snn.datasets.common.csv_columns import MOST_CLASSES, MOST_VALUES, Column, Sheet, shortened
from snn.datasets.common.csv_lines import Rows, is_float
from snn.datasets.common.csv_texts import Texts, shared, texts_of
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
    said: list[str] = []
    for i in used:
        column = sheet.columns[i]
        if column.infinite and i not in encodes:
            raise DataError(f"{_place(sheet, column, column.first_infinite)} is not a finite float32 number")
    texts = [i for i in used if sheet.columns[i].texts and i not in encodes]
    if texts:
        said += _of_texts(sheet, used, texts, target, again)
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


def _of_texts(
    sheet: Sheet, used: Sequence[int], texts: Sequence[int], target: int, again: Again
) -> list[str]:
    """The complaints about columns of text: numbers with commas or signs, the target, and features."""
    in_order = sorted(texts, key=lambda i: sheet.columns[i].first_text[0])
    first = next((i for i in in_order if i != target), target)
    counted = {i: _COUNTED if i in (target, first) else MOST_VALUES for i in in_order}
    found = texts_of(again(), counted)
    numbers = {i: found.pop(i) for i in in_order if found[i].notations}
    signed = {i: found.pop(i) for i in in_order if i in found and found[i].signs}
    said = [_of_numbers(sheet, numbers)] if numbers else []
    said += [_of_signed(sheet, signed)] if signed else []
    if target in found:
        said.append(_of_target(sheet, target, found.pop(target)))
    if found:
        said.append(_of_features(sheet, found, are_all=set(used) <= {*texts, target}))
    return said


def _of_numbers(sheet: Sheet, columns: Mapping[int, Texts]) -> str:
    """Of columns in which each text is a number, but with commas, or with points between thousands."""
    first, *others = columns
    column = sheet.columns[first]
    notations = shared(columns.values())
    marks = {mark for texts in columns.values() for mark in texts.marks}
    script = csv_notation.script(notations, marks) if sheet.delimiter != "," else None
    command = f" (sed '{script}' {shlex.quote(str(sheet.file))} > points.csv)" if script else ""
    return (
        f"{_no_number(sheet, column)}: this column has {csv_notation.named(notations, marks)}"
        f"{f'; they are in {_names(sheet, others)}, too' if others else ''}: "
        f"write {csv_notation.right(notations, column.first_text[1])}{command}"
    )


def _of_signed(sheet: Sheet, columns: Mapping[int, Texts]) -> str:
    """Of columns in which each text is a number with a sign before or behind it."""
    first, *others = columns
    signs = sorted({sign for texts in columns.values() for sign in texts.signs or ()})
    command = f"sed '{csv_notation.script_without(signs)}' {shlex.quote(str(sheet.file))} > numbers.csv"
    return (
        f"{_no_number(sheet, sheet.columns[first])}: "
        f"this column has numbers with a sign, {' and '.join(signs)}"
        f"{f'; they are in {_names(sheet, others)}, too' if others else ''}: "
        f"write them without it ({command})"
    )


def _of_features(sheet: Sheet, columns: Mapping[int, Texts], are_all: bool) -> str:
    """Of columns of text; ``are_all``: there is no feature of another kind, so none can be left out."""
    first, *others = columns
    column = sheet.columns[first]
    many = [i for i, texts in columns.items() if len(texts.values) > MOST_VALUES]
    ways = ["dataset.text_columns=one_hot replaces such a column by one of 0 and 1 for each of its values"]
    if many:
        ways = [
            f"dataset.text_columns=one_hot is for at most {MOST_VALUES} values of a column: for it, group "
            f"those of {_names(sheet, many)}, or remove it from the file"
        ]
    if not are_all:
        ways.append("dataset.text_columns=drop leaves it out")
    return (
        f"{_no_number(sheet, column)}; this column has text in {column.texts} of {sheet.rows} rows, "
        f"{columns[first].count}{f'; text is in {_names(sheet, others)}, too' if others else ''}: "
        f"{', '.join(ways)}"
    )


def _of_target(sheet: Sheet, target: int, texts: Texts) -> str:
    column = sheet.columns[target]
    way = (
        "to tell these apart, say network=layers network.loss=cross_entropy, and end network.layers in as "
        "many outputs"
    )
    if len(texts.values) > MOST_CLASSES:
        way = f"cross_entropy tells at most {MOST_CLASSES} apart, so name another target, or write numbers"
    return (
        f"{_no_number(sheet, column)}, but this column is the target, to be predicted as a number; it has "
        f"text in {column.texts} of {sheet.rows} rows, {texts.count}: {way}"
    )


def _names(sheet: Sheet, columns: Sequence[int]) -> str:
    """The first few names of columns, and how many more there are."""
    shown = ", ".join(repr(sheet.columns[i].name) for i in columns[:_NAMED])
    return shown + (f" and {len(columns) - _NAMED} more" if len(columns) > _NAMED else "")


def _of_missing(sheet: Sheet, lacking: Sequence[Column]) -> str:
    first = min(lacking, key=lambda column: column.first_missing[0])
    counts = [f"{column.missing} in {column.name!r}" for column in lacking]
    more = f" and {len(counts) - _NAMED} more columns" if len(counts) > _NAMED else ""
    return (
        f"{_place(sheet, first, first.first_missing)} is a missing value; of {sheet.rows} rows values are "
        f"missing: {', '.join(counts[:_NAMED])}{more}; dataset.missing=drop_rows leaves out the rows that "
        "lack one"
    )
