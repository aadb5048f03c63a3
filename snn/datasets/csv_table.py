"""A user's own table, from a CSV file. Errors name file, line and column."""

import hashlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from snn.datasets.common import csv_lines, csv_remarks, files
from snn.datasets.common.csv_assembly import Assembly, Order, Source
from snn.datasets.common.csv_columns import MOST_CLASSES, MOST_VALUES, Sheet, encoded, survey
from snn.datasets.common.csv_complaints import Again, check_labels, check_usable
from snn.datasets.common.csv_lines import LONGEST_LINE, listed, rows_of
from snn.datasets.common.file_types import check_is_text
from snn.datasets.common.table import Table, counts
from snn.errors import DataError
from snn.files.regular import opened

LARGEST_FILE = 2 << 30
"""Bytes. The table is as large again, and every cell of the grid loads it."""
_COPIES = 8
"""Of a file in memory while it is read: its bytes, the numbers in float64, and the table."""


def is_target(value: object) -> bool:
    """Whether a value can name the target column: by its name, or by its number."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and value != ""
    )


def is_delimiter(value: object) -> bool:
    """Whether a value is one character that is no part of a number, a quote or a line's end."""
    return (
        isinstance(value, str)
        and len(value) == 1
        and (value.isprintable() or value == "\t")
        and not value.isalnum()
        and value not in "\"'+-."
    )


def make(
    path: str,
    target: str | int,
    header: bool = True,
    delimiter: str = ",",
    standardise: bool = False,
    held_out: float = 0.0,
    shuffle_seed: int | None = None,
    text_columns: str = "error",
    missing: str = "error",
    task: str | None = None,
    sha256: str | None = None,
) -> Table:
    """Read a CSV file into a float32 table (rows, features + 1), with the target column moved to the end.

    ``target`` is the name of a column (with a header) or its number, from 0, or negative from the end; a
    number that is a name in the header is that name. Cells
    hold decimal numbers in ASCII, as -1.5e-3, quoted or not. In further columns ``text_columns`` allows text:
    ``one_hot`` makes a column of 0 and 1 for each distinct value, ``drop`` leaves the column out. ``missing``
    = ``drop_rows`` leaves out rows that lack a value (``csv_columns.MISSING``). For the ``task``
    ``classification``, the target holds text or whole numbers; its distinct values, numbers in their order
    or texts in that of their code points, are the classes 0, 1, ...

    Rows are permuted with ``numpy.random.RandomState(shuffle_seed)``, or stay in the order of the file, and
    the last share ``held_out`` of them is not trained on. ``standardise``: z = (x - m) / s, where m is the
    mean and s the standard deviation of the rows trained on, for each feature of numbers and the target of a
    regression (``csv_assembly``).

    The table's facts have ``classes`` and ``majority_accuracy``, that of the commonest class on the rows held
    out; ``one_hot_columns``, ``left_out_rows`` and ``left_out_columns``, if there are any; of a standardised
    table ``standardised_sha256``, which is of m and s of each such column in turn (float64), and
    the target's ``target_mean`` and ``target_scale``. Its remarks are on what is left out, on a target
    that is given as a number or may be classes, on features that are constant, number the rows or equal the
    target, and on whole numbers that float32 rounds.

    Raises DataError for a missing, empty or changed file, rows of different lengths, and whatever is not
    allowed.
    """
    file = Path(path)
    if not is_target(target):
        raise DataError(
            f"{file}: dataset.target is {target!r}: it must be a column's name, or its number, as 0 or -1"
        )
    content = _content(file)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(
            f"{file}: the file has changed since the workflow was planned; run the workflow again"
        )
    if not content:
        raise DataError(f"{file}: the file is empty")
    check_is_text(file, content)

    def again() -> csv_lines.Rows:
        return islice(rows_of(file, content, delimiter), int(header), None)

    rows = rows_of(file, content, delimiter)
    sheet = survey(file, rows, delimiter, csv_lines.header(file, rows) if header else None)
    names = sheet.names
    index = _target_index(file, target, names, header)
    texts = [i for i, column in enumerate(sheet.columns) if column.texts]
    dropped = [i for i in texts if i != index] if text_columns == "drop" else []
    left_out = {*dropped}
    used = [i for i in range(len(names)) if i not in left_out]
    encodes = [i for i in texts if (task == "classification" if i == index else text_columns == "one_hot")]
    check_usable(sheet, used, index, encodes, missing == "drop_rows", again)
    read = encoded(sheet, again(), used, {i: MOST_CLASSES if i == index else MOST_VALUES for i in encodes})
    sources = {
        i: Source(names[i], read.numbers[:, at], tuple(read.values.get(i, ()))) for at, i in enumerate(used)
    }
    learned = sources.pop(index)
    if not sources:
        raise DataError(f"{file}: no column but the target {learned.name!r} is left without text")
    learned, classes = _classes(sheet, index, learned, again) if task == "classification" else (learned, None)
    remarks = csv_remarks.of_target(sheet, learned, target, header, task)
    remarks += csv_remarks.of_classes(sheet, index, learned, classes)
    remarks += csv_remarks.of_left_out(sheet, len(read.numbers), dropped)
    remarks += csv_remarks.of_slips(sheet, encodes)
    remarks += csv_remarks.of_features(sheet, list(sources.values()), learned)
    if not standardise:
        whole = [*sources, *([] if classes else [index])]
        remarks += csv_remarks.of_rounded(sheet, again(), whole, read.numbers)
    order = _order(file, len(read.numbers), held_out, shuffle_seed)
    table = Assembly(file, order, standardise).table(list(sources.values()), learned, classes)
    lacking = {
        "left_out_rows": sheet.rows - len(read.numbers),
        "left_out_columns": [names[i] for i in dropped],
    }
    facts = {**table.facts, **{key: value for key, value in lacking.items() if value}}
    return Table(table.values, facts, tuple(remarks))


def digest(choice: Mapping[str, Any]) -> str:
    """SHA-256 of the file's content, read again only if the file changed. Raises DataError."""
    file = Path(choice["path"])
    return _digest(file, files.identity(file))


def inputs(choice: Mapping[str, Any]) -> list[Path]:
    """The file that is read."""
    return [Path(choice["path"])]


def at_most(choice: Mapping[str, Any]) -> tuple[int, int]:
    """More rows than the file has, by its size, and as many columns as its table can have; little is read.

    A value and what follows it take a byte or more. Raises DataError where there is no such file.
    """
    with opened(Path(choice["path"]), DataError) as content:
        lines = iter(lambda: content.readline(LONGEST_LINE), b"")
        first = next(filter(bytes.strip, lines), b"")
        columns = csv_lines.unquoted(first.decode(errors="replace")).count(choice["delimiter"]) + 1
        made = columns * (MOST_VALUES if choice["text_columns"] == "one_hot" else 1)
        return content.seek(0, io.SEEK_END) // columns + 1, made


@cache
def _digest(file: Path, identity: tuple[int, ...]) -> str:
    return hashlib.sha256(_content(file)).hexdigest()


def _content(file: Path) -> bytes:
    return files.read(file, _COPIES, LARGEST_FILE)


def _classes(sheet: Sheet, index: int, target: Source, again: Again) -> tuple[Source, list[str]]:
    """The target as labels 0, 1, ... of classes, and the names of these."""
    if target.values:
        return target, list(target.values)
    check_labels(sheet, index, target.numbers, MOST_CLASSES, again)
    labels, numbers = np.unique(target.numbers, return_inverse=True)
    return Source(target.name, numbers), [f"{label + 0.0:.0f}" for label in labels]


def _order(file: Path, rows: int, held_out: float, seed: int | None) -> Order:
    order = np.arange(rows) if seed is None else np.random.RandomState(seed).permutation(rows)
    return Order(order, counts(rows, {"name": f"csv, {file}", "held_out": held_out})[0])


def _target_index(file: Path, target: str | int, names: Sequence[str], header: bool) -> int:
    if isinstance(target, str) and header:
        return _index_of_name(file, target, names)
    if isinstance(target, str):
        raise DataError(
            f"{file}: dataset.target is the name {target!r}, but dataset.header is false: "
            f"give the column's number, 0 to {len(names) - 1}"
        )
    if header and str(target) in names:  # such as a year
        return _index_of_name(file, str(target), names)
    if not -len(names) <= target < len(names):
        header_is = f", or a name in the header: {listed(names)}" if header else ""
        raise DataError(
            f"{file}: dataset.target is {target}: it must be between {-len(names)} and {len(names) - 1}"
            f"{header_is}"
        )
    return target % len(names)


def _index_of_name(file: Path, target: str, names: Sequence[str]) -> int:
    if target not in names:
        from difflib import get_close_matches  # only for a message

        like = [name for name in names if name.lower() == target.lower()]
        like += get_close_matches(target, names, 1, cutoff=0.7)
        hint = f" (did you mean {like[0]!r}?)" if like else ""
        raise DataError(
            f"{file}: dataset.target is {target!r}, which is not in the header{hint}: {listed(names)}"
        )
    if "" in names:
        raise DataError(
            f"{file}: column {names.index('')} (from 0) has no name in the header: give it one, remove it, "
            "or give dataset.target as a number"
        )
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataError(
            f"{file}: {twice!r} is more than once in the header: rename one, "
            "or give dataset.target as a number"
        )
    return names.index(target)
