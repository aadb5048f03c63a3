"""What of a CSV file cannot be trained on as it is, and which setting would do something about it."""

import shlex
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from snn.datasets.common import csv_notation
from snn.datasets.common.csv_columns import (
    FEWER_COLUMNS,
    MISSING,
    MOST_CLASSES,
    MOST_VALUES,
    Column,
    Sheet,
    missing_in,
    shortened,
    some,
)
from snn.datasets.common.csv_lines import Rows, is_float
from snn.datasets.common.csv_texts import FEW, Texts, shared, texts_of
from snn.errors import DataError

Again = Callable[[], Rows]
"""Reads the rows once more, for what only a message needs."""

_COUNTED = 10_000
_FEW = 0.01
"""The largest share of the cells of a column that are taken for slips in a column of numbers."""


def check_usable(
    sheet: Sheet, used: Sequence[int], target: int, encodes: Sequence[int], drops_rows: bool, again: Again
) -> None:
    """Raise DataError, with every complaint, for text and missing values in columns that are used.

    ``encodes`` are the columns of which text is allowed; ``drops_rows``: rows that lack values are left out.
    """
    said: list[str] = []
    encoded = {*encodes}
    texts = [i for i in used if sheet.columns[i].texts and i not in encoded]
    others = encoded.union(texts)
    infinite = [i for i in used if sheet.columns[i].infinite and i not in others]
    if infinite:
        said.append(_of_infinite(sheet, infinite))
    if texts:
        said += _of_texts(sheet, used, texts, target, again)
    empty = [i for i in used if sheet.columns[i].missing == sheet.rows]
    if empty:
        said.append(_of_empty(sheet, empty, target))
    filled = [i for i in used if sheet.columns[i].missing < sheet.rows]
    if not drops_rows and any(sheet.columns[i].missing for i in filled):
        said.append(_of_missing(sheet, filled, again))
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
    numbers = {i: found.pop(i) for i in in_order if found[i].has_marks}
    slips = {i: found.pop(i) for i in in_order if i in found and are_slips(sheet, i)}
    signed = {i: found.pop(i) for i in in_order if i in found and found[i].has_signs}
    said = [_of_numbers(sheet, numbers, used, again)] if numbers else []
    said += [_of_slips(sheet, slips)] if slips else []
    said += [_of_signed(sheet, signed, are_all=not slips)] if signed else []
    if target in found:
        said.append(_of_target(sheet, target, found.pop(target)))
    if found:
        said.append(_of_features(sheet, found, are_all=set(used) <= {*texts, target}))
    return said


def _of_numbers(sheet: Sheet, columns: Mapping[int, Texts], used: Sequence[int], again: Again) -> str:
    """Of columns in which each text is a number, but with commas, or with points between thousands.

    Where decimals have commas, a further one that is read as plain numbers may have points between thousands.
    """
    first, *others = columns
    column = sheet.columns[first]
    notations = shared(columns.values())
    marks = {mark for texts in columns.values() for mark in texts.marks}
    pointed: list[int] = []
    if notations == {csv_notation.COMMA}:
        read = texts_of(again(), {i: 0 for i in used if not sheet.columns[i].texts})
        pointed = [i for i, texts in read.items() if texts.in_thousands]
    is_one = not pointed and all(notations <= texts.notations for texts in columns.values())
    script = csv_notation.script(notations, marks) if is_one and sheet.delimiter != "," else None
    command = f" (sed '{script}' {shlex.quote(str(sheet.file))} > points.csv)" if script else ""
    return (
        f"{_no_number(sheet, column)}: this column has {csv_notation.named(notations, marks)}"
        f"{f'; they are in {names_of(sheet, others)}, too' if others else ''}"
        f"{f'; points between thousands are in {names_of(sheet, pointed)}' if pointed else ''}: "
        f"write {csv_notation.right(notations, column.first_text[1])}{command}"
        f"{', and 1234 for 1.234' if pointed else ''}"
    )


def are_slips(sheet: Sheet, i: int) -> bool:
    """Whether almost all cells of a column are numbers."""
    column = sheet.columns[i]
    return column.texts < FEW and column.texts <= _FEW * (sheet.rows - column.missing)


def _of_slips(sheet: Sheet, columns: Mapping[int, Texts]) -> str:
    """Of columns of numbers with a few cells of text, such as a second header or a line of sums."""
    first, *others = columns
    column = sheet.columns[first]
    lines = sorted({line for texts in columns.values() for line in texts.lines})
    return (
        f"{_no_number(sheet, column)}; "
        f"all but {column.texts} of {sheet.rows - column.missing:,} cells of this column are numbers"
        f"{f'; so it is in {names_of(sheet, others)}' if others else ''}: "
        f"correct or remove {'line' if len(lines) == 1 else 'lines'} {some(list(map(str, lines)))}"
    )


def _of_signed(sheet: Sheet, columns: Mapping[int, Texts], are_all: bool) -> str:
    """Of columns in which each text is a number with a sign before or behind it.

    ``are_all``: no other column of numbers has some in its texts, so they may be left out of the file.
    """
    mixed = {i: texts for i, texts in columns.items() if len(texts.signs or ()) > 1}
    first, *others = mixed or columns
    signs = sorted({sign for i in (first, *others) for sign in columns[i].signs or ()})
    has = f"has numbers with a sign, {' and '.join(signs)}"
    way = "write them without it"
    if mixed:
        kinds = [f"with {sign}" if sign else "without a sign" for sign in sorted(columns[first].signs or ())]
        has, way = f"mixes units, in numbers {' and '.join(kinds)}", "write all in one unit, without a sign"
    elif are_all:
        script = csv_notation.script_without(signs)
        way += f" (sed '{script}' {shlex.quote(str(sheet.file))} > numbers.csv)"
    too = f"; {'so it is' if mixed else 'they are'} in {names_of(sheet, others)}, too" if others else ""
    return f"{_no_number(sheet, sheet.columns[first])}: this column {has}{too}: {way}"


def _of_features(sheet: Sheet, columns: Mapping[int, Texts], are_all: bool) -> str:
    """Of columns of text; ``are_all``: there is no feature of another kind, so none can be left out."""
    first, *others = columns
    column = sheet.columns[first]
    many = [i for i, texts in columns.items() if len(texts.values) > MOST_VALUES]
    ways = ["dataset.text_columns=one_hot replaces such a column by one of 0 and 1 for each of its values"]
    if many:
        ways = [
            f"dataset.text_columns=one_hot is for at most {MOST_VALUES} values of a column: for it, group "
            f"those of {names_of(sheet, many)}, or remove it from the file"
        ]
    if not are_all:
        ways.append("dataset.text_columns=drop leaves it out")
    return (
        f"{_no_number(sheet, column)}; this column has text in {column.texts} of {sheet.rows} rows, "
        f"{columns[first].count}{f'; text is in {names_of(sheet, others)}, too' if others else ''}: "
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


def names_of(sheet: Sheet, columns: Sequence[int]) -> str:
    """The first few names of columns, or numbers of those without one, and how many more there are."""
    names = [sheet.columns[i].name for i in columns]
    return some([repr(name) if name else f"{i} (from 0)" for i, name in zip(columns, names, strict=True)])


def _of_infinite(sheet: Sheet, columns: Sequence[int]) -> str:
    first, *others = sorted(columns, key=lambda i: sheet.columns[i].first_infinite[0])
    column = sheet.columns[first]
    return (
        f"{_place(sheet, column, column.first_infinite)} is not a finite float32 number; this column has "
        f"such values in {column.infinite} of {sheet.rows} rows"
        f"{f'; they are in {names_of(sheet, others)}, too' if others else ''}: "
        "remove these rows from the file, or leave the cells empty and say dataset.missing=drop_rows"
    )


def _of_empty(sheet: Sheet, columns: Sequence[int], target: int) -> str:
    is_one = len(columns) == 1
    what = f"column {names_of(sheet, columns)} has" if is_one else f"columns {names_of(sheet, columns)} have"
    way = f"remove {'it' if is_one else 'them'} from the file"
    if target in columns:
        way = f"name another target than {names_of(sheet, [target])}, and {way}"
    return f"{sheet.file}: {what} no value in any row: {way}"


def _of_missing(sheet: Sheet, used: Sequence[int], again: Again) -> str:
    """Of columns that lack values, but not all."""
    lacking = [sheet.columns[i] for i in used if sheet.columns[i].missing]
    first = min(lacking, key=lambda column: column.first_missing[0])
    leaves_some = any(MISSING.isdisjoint(row[i].strip() for i in used) for _, row in again())
    way = "dataset.missing=drop_rows leaves out the rows that lack one"
    return (
        f"{_place(sheet, first, first.first_missing)} is a missing value; of {sheet.rows} rows values are "
        f"missing: {missing_in(lacking)}; {way if leaves_some else f'each row lacks one: {FEWER_COLUMNS}'}"
    )
