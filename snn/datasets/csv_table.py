"""A user's own table, from a CSV file. Errors name file, line and column, and the setting that would help."""

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from snn.datasets.common import files
from snn.datasets.common.csv_columns import (
    BLANKS,
    CONTROL,
    MISSING,
    Column,
    Sheet,
    detected_delimiter,
    loose_rows,
    setting,
    shortened,
)
from snn.datasets.common.file_types import check_is_text
from snn.datasets.common.table import Table, counts
from snn.errors import DataError
from snn.files.regular import opened, path_of

LARGEST_FILE = 2 << 30
"""Bytes. The table is as large again, and every cell of the grid loads it."""
MOST_VALUES, MOST_CLASSES = 100, 1000
"""Columns that one_hot makes of one, and classes of a target."""
_COPIES = 8
"""Of a file in memory while it is read: its bytes, its lines, the numbers in float64, and the table."""


LONGEST_VALUE = 200
"""Characters of a value of text; those of classes stand in records."""
_SLIPS = 0.1
"""Share of other texts among numbers up to which a column is not left out as one of text."""
_FEW_ROWS, _MOST_CLASSES = 10, 20
"""Rows of which any numbers may happen to be 1, 2, 3, ...; whole numbers so few that they may be classes."""
_FEWER = "remove the columns that lack most from the file"


class _Source(NamedTuple):
    """A column in the rows that are used: float64 numbers, or those of its cells among its ``values``."""

    name: str
    numbers: np.ndarray
    values: Sequence[str] = ()


def is_target(value: object) -> bool:
    """Whether a value can name the target column: by its name, or by its number."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and value != ""
    )


def is_mark(value: object) -> bool:
    """Whether a value is one character that is not part of a plain number, a quote or a line's end."""
    if not isinstance(value, str) or len(value) != 1 or value.isalnum() or value in '"+-':
        return False
    return value.isprintable() or value in "\t\u00a0\u2009\u202f"


def is_delimiter(value: object) -> bool:
    """Whether a value can be between columns: a mark, or any number of blanks."""
    return value == BLANKS or (is_mark(value) and value not in ("'", "."))


def make(
    path: str,
    target: str | int,
    header: bool | int | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    na_values: Sequence[str | float] = (),
    comment: str | None = None,
    standardise: bool = False,
    held_out: float = 0.0,
    shuffle_seed: int | None = None,
    text_columns: str = "error",
    missing: str = "error",
    task: str | None = None,
    sha256: str | None = None,
) -> Table:
    """Read a CSV file into a float32 table (rows, features + 1), with the target column moved to the end.

    The keys are those of config/dataset/csv.yaml. Of texts, ``one_hot`` makes a column of 0 and 1 for each
    value. For the ``task`` ``classification`` the target's distinct values, in order, are the classes 0, 1, ...
    Rows are permuted with ``numpy.random.RandomState(shuffle_seed)``, and the last share ``held_out`` is not
    trained on. ``standardise``: z = (x - m) / s, with mean and standard deviation of the rows trained on.

    Facts: ``classes``, ``majority_accuracy`` (on the rows held out), ``one_hot_columns``, ``left_out_rows``,
    ``left_out_columns``, ``standardised_sha256`` (of all m and s), ``target_mean`` and ``target_scale``.
    """
    file = path_of(path)
    if not is_target(target):
        raise DataError(
            f"{file}: dataset.target is {target!r}: it must be a column's name or number, as 0 or -1"
        )
    content = files.read(file, _COPIES, LARGEST_FILE)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(
            f"{file}: the file has changed since the workflow was planned; run the workflow again"
        )
    check_is_text(file, content)
    given = {"delimiter": delimiter, "decimal": decimal, "thousands": thousands, "encoding": encoding}
    sheet = Sheet(
        file, content, target, {**given, "na_values": na_values, "comment": comment, "header": header}
    )
    del content
    index = _target_index(sheet, target)
    learned = sheet.columns[index]
    if task == "classification" and any(learned.cells) and len(learned.missing) == len(sheet.lines):
        learned.numbers = None  # classes such as None and NA
    if task == "classification" and learned.numbers is None:
        none = {"", *map(str, na_values)}
        learned.missing = [row for row, cell in enumerate(learned.cells) if cell in none]
    dropped = [
        i for i, one in enumerate(sheet.columns) if text_columns == "drop" and i != index and _is_text(one)
    ]
    used = [i for i in range(len(sheet.columns)) if i not in {*dropped}]
    encodes = {i for i in used if (task == "classification" if i == index else text_columns == "one_hot")}
    _check(sheet, used, index, encodes, missing == "drop_rows")
    kept = np.ones(len(sheet.lines), bool)
    for i in used:
        kept[list(sheet.columns[i].missing)] = False
    if not kept.any():
        raise DataError(
            f"{file}: each of the {len(kept)} rows lacks a value; {_lacking(sheet, used)}; {_FEWER}"
        )
    features = [_source(sheet, sheet.columns[i], kept, MOST_VALUES) for i in used if i != index]
    goal = _source(sheet, learned, kept, MOST_CLASSES)
    if not features:
        raise DataError(f"{file}: no column but the target {goal.name!r} is left without text")
    if task == "classification" and not goal.values:
        goal = _labels(sheet, goal, kept)
    rows = len(goal.numbers)
    order = np.arange(rows) if shuffle_seed is None else np.random.RandomState(shuffle_seed).permutation(rows)
    training = counts(rows, {"name": f"csv, {file}", "held_out": held_out})[0]
    values, facts = _assembled(file, features, goal, order, training, standardise)
    lacking = {"left_out_rows": len(kept) - rows, "left_out_columns": [sheet.names[i] for i in dropped]}
    facts |= {key: value for key, value in lacking.items() if value}
    remarks = _remarks(sheet, target, goal, features, facts, task, not standardise, kept)
    return Table(values, facts, tuple(f"{file}: {remark}" for remark in remarks))


def digest(choice: Mapping[str, Any]) -> str:
    """SHA-256 of the file's content, read again only if the file changed. Raises DataError."""
    return _digest(*inputs(choice), files.identity(*inputs(choice)))


def inputs(choice: Mapping[str, Any]) -> list[Path]:
    """The file that is read."""
    return [path_of(choice["path"])]


def at_most(choice: Mapping[str, Any]) -> tuple[int, int]:
    """More rows than the file has, by its size, and as many columns as its table can have; little is read.

    A value and what follows it take a byte or more. Raises DataError if there is no such file.
    """
    with opened(inputs(choice)[0], DataError) as content:
        lines = content.read(1 << 20).decode(errors="replace").splitlines()[:100]
        rows = loose_rows(lines, choice["delimiter"] or detected_delimiter(lines))
        columns = max(map(len, rows), default=1)
        made = columns * (MOST_VALUES if choice["text_columns"] == "one_hot" else 1)
        return content.seek(0, io.SEEK_END) // columns + 1, made


@cache
def _digest(file: Path, identity: tuple[int, ...]) -> str:
    return hashlib.sha256(files.read(file, _COPIES, LARGEST_FILE)).hexdigest()


def _target_index(sheet: Sheet, target: str | int) -> int:
    """The column with a name, or else a number."""
    names, has_header = sheet.names, sheet.header is not None
    if has_header and str(target) in names:  # also a number, such as a year
        if names.count(str(target)) > 1:
            raise DataError(
                f"{sheet.file}: dataset.target {target!r} is more than once in the header: rename one, or say "
                f"{setting('target', names.index(str(target)))}, its number"
            )
        return names.index(str(target))
    listed = ", ".join(names[:12]) + (f", ... ({len(names)} columns)" if len(names) > 12 else "")
    if isinstance(target, int) and not -len(names) <= target < len(names):
        of_header = f", or a name in the header: {listed}" if has_header else ""
        raise DataError(
            f"{sheet.file}: dataset.target is {target}: it must be between {-len(names)} and {len(names) - 1}"
            f"{of_header}"
        )
    if isinstance(target, int):
        return target % len(names)
    if not has_header:
        raise DataError(
            f"{sheet.file}: dataset.target is the name {target!r}, but line {sheet.lines[0]} is read as data: "
            f"give the column's number, 0 to {len(names) - 1}, or say {setting('header', True)}"
        )
    from difflib import get_close_matches  # only for a message

    like = [name for name in names if name.lower() == target.lower()] or get_close_matches(
        target, names, 1, 0.7
    )
    hint = f" (did you mean {like[0]!r}?)" if like else ""
    raise DataError(f"{sheet.file}: dataset.target is {target!r}, which is not in the header{hint}: {listed}")


def _is_text(column: Column) -> bool:
    """Whether a column is left out with those of text; if few of its values are, that would be a slip."""
    return column.numbers is None or len(column.strays) > _SLIPS * (len(column.cells) - len(column.missing))


def _check(sheet: Sheet, used: Sequence[int], index: int, encodes: set[int], drops_rows: bool) -> None:
    """Raise DataError, with every complaint, for columns that cannot be used."""
    said, columns = list[str](), {i: sheet.columns[i] for i in used}

    def complain(where: Mapping[int, int], what: str, way: str) -> None:
        """Name the first of some rows, of which there is one for each column that something is wrong with."""
        i = min(where, key=lambda i: where[i])
        others = _named(sheet, [other for other in where if other != i])
        place = f"{sheet.file}, line {sheet.lines[where[i]]}, column {sheet.names[i]!r}"
        too = f" (so it is in {others})" if others else ""
        said.append(f"{place}: {shortened(columns[i].cells[where[i]])} {what}{too}: {way}")

    no_number = "is not a decimal number, as -1.5 or 2e-3, that is finite in float32"
    if strays := {i: one.strays[0] for i, one in columns.items() if one.strays}:
        found = sorted(
            {(sheet.lines[row], columns[i].cells[row]) for i in strays for row in columns[i].strays}
        )
        cells, lines = ([*dict.fromkeys(which)] for which in zip(*[one[::-1] for one in found], strict=True))
        way = f"correct line {_some(list(map(str, lines)))}, or leave it out, as without a value: "
        way += f"{setting('na_values', cells[:5])} {setting('missing', 'drop_rows')}"
        if sheet.header is None and lines[0] == sheet.lines[0]:
            way = f"if this is the header, say {setting('header', True)}; else {way}"
        elif comment := re.match(r"[-+.0-9]\S*\s*([#%!;])\s*\w", cells[0]):
            way = f"if this has a comment, say {setting('comment', comment[1])}; else {way}"
        units = {columns[i].unit for i in strays} - {""}
        complain(
            strays,
            f"{no_number}, as most of this column are{' (with ' + ', '.join(units) + ')' if units else ''}",
            way,
        )
    empty = [i for i, one in columns.items() if len(one.missing) == len(sheet.lines)]
    texts = [i for i, one in columns.items() if one.numbers is None and i not in {*encodes, *empty}]
    where = {i: int(np.delete(np.arange(len(sheet.lines)), list(columns[i].missing))[0]) for i in texts}
    values = {i: len({*columns[i].cells}) for i in texts}
    if index in where:
        at, is_many = {index: where.pop(index)}, values[index] > MOST_CLASSES
        way = "say network=layers network.loss=cross_entropy, and end network.layers in as many outputs"
        way = (
            f"at most {MOST_CLASSES} are told apart: name another target"
            if is_many
            else f"to tell these apart, {way}"
        )
        complain(at, f"{no_number}, but the target, with {values[index]} different texts", way)
    if where:
        many = [i for i in where if values[i] > MOST_VALUES]
        way = f"{setting('text_columns', 'one_hot')} makes a column of each value"
        if many:
            way = f"one_hot is for at most {MOST_VALUES} values: group those of {_named(sheet, many)}, or remove it"
        if {*used} - {*texts, index}:
            way += f"; {setting('text_columns', 'drop')} leaves such columns out"
        complain(where, f"{no_number}, but a text, one of {values[min(where)]} different ones", way)
    if empty:
        other = f"name another target than {sheet.names[index]!r}, and " if index in empty else ""
        said.append(
            f"{sheet.file}: no value in any row of {_named(sheet, empty)}: {other}remove it from the file"
        )
    lacking = {i: int(one.missing[0]) for i, one in columns.items() if len(one.missing) and i not in empty}
    if lacking and not drops_rows:
        gone = {row for i in lacking for row in columns[i].missing}
        some = f"{setting('missing', 'drop_rows')} leaves out the rows that lack one"
        way = some if len(gone) < len(sheet.lines) else f"each row lacks one: {_FEWER}"
        complain(lacking, f"is a missing value; {_lacking(sheet, list(lacking))}", way)
    if said:
        raise DataError("; and ".join(said))


def _some(words: Sequence[str], what: str = "") -> str:
    more = f" and {len(words) - 5} more{what}" if len(words) > 5 else ""
    return ", ".join(words[:5]) + more


def _named(sheet: Sheet, columns: Sequence[int]) -> str:
    """The names of columns, or the numbers of those without one."""
    return _some([repr(sheet.names[i]) if sheet.names[i] else f"{i} (from 0)" for i in columns])


def _lacking(sheet: Sheet, columns: Sequence[int]) -> str:
    most = sorted(
        (sheet.columns[i] for i in columns if len(sheet.columns[i].missing)),
        key=lambda one: -len(one.missing),
    )
    return f"values are missing: {_some([f'{len(one.missing)} in {one.name!r}' for one in most], ' columns')}"


def _source(sheet: Sheet, column: Column, kept: np.ndarray, most: int) -> _Source:
    """A column in the rows that are kept; of text, the numbers of its values in the order of code points."""
    if column.numbers is not None:
        return _Source(column.name, column.numbers[kept])
    rows = np.flatnonzero(kept).tolist()
    values = sorted({column.cells[row] for row in rows})
    place = f"{sheet.file}, column {column.name!r}"
    if len(values) > most:
        raise DataError(
            f"{place}: {len(values)} different texts, and at most {most} are encoded: group them, or remove it"
        )
    for value in values:
        if CONTROL.search(value) or len(value) > LONGEST_VALUE:
            line = sheet.lines[column.cells.index(value)]
            what = f"a control character, or more than {LONGEST_VALUE} characters"
            raise DataError(
                f"{sheet.file}, line {line}, column {column.name!r}: {shortened(value)} has {what}"
            )
    number = {value: at for at, value in enumerate(values)}
    return _Source(column.name, np.array([number[column.cells[row]] for row in rows], float), values)


def _labels(sheet: Sheet, target: _Source, kept: np.ndarray) -> _Source:
    """A target of whole numbers as the numbers 0, 1, ... of classes."""
    wrong = np.flatnonzero(target.numbers % 1)
    labels, numbers = np.unique(target.numbers, return_inverse=True)
    since = "since the loss is cross_entropy; a number is predicted with mean_squared_error"
    if len(wrong):
        line = sheet.lines[np.flatnonzero(kept)[wrong[0]]]
        raise DataError(
            f"{sheet.file}, line {line}, column {target.name!r}: {target.numbers[wrong[0]]:g} is no label: it must "
            f"be text or a whole number, {since}"
        )
    if len(labels) > MOST_CLASSES:
        raise DataError(
            f"{sheet.file}, column {target.name!r}: it has {len(labels)} different labels: it must have at most "
            f"{MOST_CLASSES}, {since}"
        )
    return _Source(target.name, numbers.astype(float), [f"{label + 0.0:.0f}" for label in labels])


def _assembled(
    file: Path, features: list[_Source], target: _Source, order: np.ndarray, training: int, standardise: bool
) -> tuple[np.ndarray, dict[str, Any]]:
    """The table, and the facts of it. Raises DataError if a z is not a float32 number, or the target constant."""
    facts: dict[str, Any] = {"classes": list(target.values)} if target.values else {}
    of_all, parts = list[tuple[float, float]](), list[np.ndarray]()
    for source in (*features, target):
        column = source.numbers[order]
        if source.values and source is not target:
            column = column[:, None] == np.arange(len(source.values))
        elif standardise and not source.values:
            mean, scale = _moments(column[:training])
            of_all.append((mean, scale))
            z = (column - mean) / scale if scale else np.zeros_like(column)
            with np.errstate(over="ignore"):
                finite = np.isfinite(z.astype(np.float32))
            if not finite.all():
                raise DataError(
                    f"{file}, column {source.name!r}: {column[int(finite.argmin())]:g} is too far from the rows that "
                    f"are trained on, with mean {mean:g} and standard deviation {scale:g}, for a float32 number"
                )
            column = z
        parts.append(column)
    if standardise:
        facts["standardised_sha256"] = hashlib.sha256(np.array(of_all, "<f8").tobytes()).hexdigest()
        if not target.values:
            if not scale:
                raise DataError(
                    f"{file}, column {target.name!r}: the target is {mean:g} in each of the {training} rows that are "
                    "trained on: there is nothing to predict"
                )
            facts |= {"target_mean": mean, "target_scale": scale}
    if encoded := [source.name for source in features if source.values]:
        facts["one_hot_columns"] = encoded
    made = np.empty((len(order), sum(column[:1].size for column in parts)), np.float32)
    at = 0
    for column in parts:
        wide = column.reshape(len(order), -1)
        made[:, at : at + wide.shape[1]] = wide
        at += wide.shape[1]
    if target.values and training < len(order):
        labels = made[:, -1].astype(np.intp)
        commonest = np.bincount(labels[:training]).argmax()
        facts["majority_accuracy"] = float(np.mean(labels[training:] == commonest))
    return made, facts


def _moments(column: np.ndarray) -> tuple[float, float]:
    """The mean and the standard deviation sqrt(sum((x - m)^2) / n), 0 for a constant column and no other.

    Deviations are divided by the largest before they are squared, so that no square is infinite or 0.
    """
    if column.min() == column.max():
        return float(column[0]), 0.0
    mean = float(np.mean(column))
    largest = float(np.abs(column - mean).max())
    return mean, largest * float(np.sqrt(np.mean(np.square((column - mean) / largest))))


def _remarks(
    sheet: Sheet,
    target: str | int,
    goal: _Source,
    features: Sequence[_Source],
    facts: Mapping[str, Any],
    task: str | None,
    rounds: bool,
    kept: np.ndarray,
) -> list[str]:
    """What can be trained on, but perhaps is not meant."""
    said = [f"Read as: {sheet.found}"] if sheet.found else []
    numbers, rows = goal.numbers, len(goal.numbers)
    if sheet.header is not None and isinstance(target, int):
        said.append(f"the target, given as {target}, is the column {goal.name!r}")
    classes, first = np.unique(numbers, return_counts=True), numbers.min()
    few = 2 <= len(classes[0]) <= min(_MOST_CLASSES, rows // 2)
    if (
        task is None
        and few
        and first in (0, 1)
        and np.array_equal(classes[0], np.arange(len(classes[0])) + first)
    ):
        said.append(
            f"the target {goal.name!r} holds the whole numbers {first:.0f} to {numbers.max():.0f}, and is predicted as "
            "a number; classes are told apart with network.loss=cross_entropy (snn recommend --classify)"
        )
    alone = int((classes[1] == 1).sum()) if goal.values else 0
    if 2 * alone > rows:
        way = "without network.loss=cross_entropy (snn recommend --classify) a number is predicted"
        said.append(
            f"{alone:,} of {rows:,} rows are the only one of their class in {goal.name!r}, so nothing is learnt of others; {way}"
        )
    if words := sorted(MISSING.intersection(goal.values)):
        said.append(
            f"{_some(words)} are classes of {goal.name!r}; {setting('na_values', words)} makes them missing values"
        )
    if units := [f"{one.unit} in {one.name!r}" for one in sheet.columns if one.unit]:
        said.append(f"numbers are read without their signs: {_some(units, ' columns')}")
    gone = (
        [f"{facts['left_out_rows']:,} of {len(kept):,} rows, which lack a value"]
        if "left_out_rows" in facts
        else []
    )
    if names := facts.get("left_out_columns"):
        gone.append(f"column{'s' * (len(names) > 1)} with text: {_some(list(map(repr, names)))}")
    said += [f"left out: {'; '.join(gone)}"] if gone else []
    doubtful = [f"{one.name!r} {what}" for one in features if (what := _doubtful(one, numbers))]
    if doubtful:
        way = "is that meant to be a feature? To leave a column out, remove it from the file"
        said.append(f"{_some(doubtful, ' such columns')}: {way}")
    rounded = []
    for one in [] if not rounds else [one for one in (*features, goal) if not one.values]:
        x = one.numbers
        wrong = np.flatnonzero(
            (np.abs(x) > 2**24) & (np.abs(x) < 1e21) & (x % 1 == 0) & (x != x.astype(np.float32))
        )
        if len(wrong):
            line, value = sheet.lines[np.flatnonzero(kept)[wrong[0]]], x[wrong[0]]
            rounded.append(f"{one.name!r}, where {value:.0f} (line {line}) becomes {np.float32(value):.0f}")
    if rounded:
        way = "if the last digits matter, subtract a constant"
        said.append(f"float32 rounds whole numbers in {len(rounded)} column(s): {_some(rounded)}; {way}")
    return said


def _doubtful(feature: _Source, target: np.ndarray) -> str | None:
    """What is odd about a feature: it is constant, numbers the rows, or equals the target."""
    numbers = feature.numbers
    if len(numbers) < 2 or np.array_equal(numbers, target):
        return "equals the target" if len(numbers) > 1 else None
    if numbers.min() == numbers.max():
        return "is the same in all rows"
    is_whole = not feature.values and len(numbers) >= _FEW_ROWS and bool((numbers == np.floor(numbers)).all())
    if is_whole and numbers.max() - numbers.min() == len(numbers) - 1 == len(np.unique(numbers)) - 1:
        return "numbers the rows"
    return None
