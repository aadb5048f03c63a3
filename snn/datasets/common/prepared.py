"""Prepared data sets: a table in a file that proves its own content and says what it was made from.

The file is what ``numpy.save`` writes, followed by the data set's section of the cell as JSON, by a line end
and the table's facts as JSON if it has some, and by the SHA-256 of all of this. NumPy's own ``load`` reads
the values and ignores the rest.
"""

import hashlib
import io
import json
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from snn.datasets.common import files
from snn.datasets.common.table import Table, checked
from snn.errors import DataError
from snn.files.outputs import replaced

_SEAL = hashlib.sha256().digest_size
_COPIES = 3
"""Of a file in memory while it is loaded: its bytes, the table, and one to spare for its two parts."""

# The header that NumPy writes, and no other: a number of rows is believed only where the file has as many.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '<f4', 'fortran_order': False, "
    rb"'shape': \((\d{1,15}), (\d{1,15})\), \} *\n",
    re.DOTALL,
)


def write(path: Path, table: Table, choice: Mapping[str, Any]) -> None:
    """Write a table of this choice of data set atomically. Raises OutputError where it cannot be written."""
    content = io.BytesIO()
    np.save(content, checked(table.values, str(path)))
    content.write(_canonical(choice))
    if table.facts:
        content.write(b"\n" + _canonical(table.facts))
    content.write(hashlib.sha256(content.getbuffer()).digest())
    with replaced(path) as file:
        file.write(content.getbuffer())


def load(path: Path, choice: Mapping[str, Any]) -> Table:
    """The table that was prepared of this choice of data set.

    Raises DataError, naming the file and how to make it again, where it is damaged or of another choice.
    """
    table, said = _verified(path)
    made_of, _, facts = said.partition(b"\n")
    if made_of != _canonical(choice):
        of = made_of[:1000].decode(errors="replace")
        raise _refused(path, f"it was made of {of}, but the cell is of {_canonical(choice).decode()}")
    rows, features = len(table) - choice.get("test_rows", 0), table.shape[1] - 1
    for key, found in (("rows", rows), ("features", features)):
        if choice.get(key, found) != found:
            raise _refused(path, f"it has {found} {key}, but dataset.{key} is {choice[key]}")
    if prod(choice.get("shape", (features,))) != features:
        raise _refused(path, f"it has {features} features, but dataset.shape is {choice['shape']}")
    return Table(table, json.loads(facts) if facts else {})


def intact(path: Path, choice: Mapping[str, Any] | None = None) -> bool:
    """Whether a prepared file is whole and, where a choice is given, of this choice of data set."""
    try:
        if choice is None:
            _verified(path)
        else:
            load(path, choice)
    except DataError:
        return False
    return True


def _verified(path: Path) -> tuple[np.ndarray, bytes]:
    """The values of a file and what it says of them, its digest checked before anything in it is believed."""
    try:
        content = files.read(path, _COPIES)
    except DataError as error:
        raise DataError(f"{error}{_again(path)}") from error
    header = _HEADER.match(content)
    body, seal = memoryview(content)[:-_SEAL], content[-_SEAL:]
    if header is None or hashlib.sha256(body).digest() != seal:
        raise _refused(path, "its content does not have the digest that was written with it")
    rows, columns = map(int, header.groups())
    end = header.end() + 4 * rows * columns
    if end > len(body):
        raise _refused(path, f"it has fewer values than {rows} rows of {columns}")
    table = np.frombuffer(content, np.float32, rows * columns, header.end()).reshape(rows, columns)
    try:
        return checked(table.copy(), str(path)), bytes(body[end:])
    except DataError as error:
        raise DataError(f"{error}{_again(path)}") from error


def _canonical(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said, sort_keys=True).encode()


def _refused(path: Path, why: str) -> DataError:
    return DataError(f"{path}: not the data set that was prepared: {why}{_again(path)}")


def _again(path: Path) -> str:
    """How to prepare a workflow's data set again, for the end of a message; empty for any other file."""
    is_of_workflow = "results/datasets/" in path.as_posix()
    return f"; to prepare it again: snakemake --cores 1 --force {path}" if is_of_workflow else ""
