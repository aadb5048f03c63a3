"""Data sets: each is a module with a function ``make`` that returns a float32 table, target column last.

It may also return facts (``Table``). With the key ``test_rows``, this many test rows follow the training
rows; with ``held_out``, this share of all rows. A module that reads files may have further functions of a
choice: ``inputs``, the user's files; ``digest`` of their content, for the key ``sha256``; ``sizes``, the keys
that the choice leaves open; ``at_most``, the most rows and columns, if no header states them.

A prepared data set is the output of ``numpy.save``, then the data set's section of the cell as JSON, a line
end and the table's facts as JSON if it has any (with its columns), and the SHA-256 of all of this.
"""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from snn.errors import ConfigError, DataError, one_line
from snn.files.outputs import note, replaced
from snn.files.regular import read_into_memory

_COUNTS = ("rows", "test_rows")


@dataclass(frozen=True, eq=False)
class Table:
    """A data set: float32 ``values`` (rows, features + 1), the target last; training rows before test rows.

    ``facts`` are JSON values for the record, described in the data set's module. ``remarks`` are lines about
    parts of a user's file that are valid, but that the user may not have meant. ``columns`` says how a row of
    a user's file becomes a row of values, for predictions; JSON values, the target's last.
    """

    values: np.ndarray
    facts: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    columns: Sequence[Mapping[str, Any]] = ()


def checked(table: np.ndarray, place: str) -> np.ndarray:
    """The table with contiguous rows. Raises DataError, naming the place, unless it can be trained on."""
    if table.ndim != 2 or table.dtype != np.float32 or table.shape[0] < 1 or table.shape[1] < 2:
        raise DataError(
            f"{place}: it holds {table.dtype} of shape {table.shape}, "
            "not float32 of shape (rows, features + 1)"
        )
    finite = np.isfinite(table)
    if not finite.all():
        row, column = divmod(int(finite.argmin()), table.shape[1])
        raise DataError(
            f"{place}: the value in row {row}, column {column} (both from 0) is {table[row, column]}, "
            "which is not a finite float32 number"
        )
    return np.ascontiguousarray(table)


def counts(rows: int, choice: Mapping[str, Any]) -> tuple[int, int | None]:
    """The numbers of training rows and of test rows among a choice's ``rows``; None without test rows.

    Raises DataError unless the number of rows matches the choice, with at least one row of each kind.
    """
    share = choice.get("held_out", 0)
    test_rows = round(share * rows) if share else choice.get("test_rows")
    training = rows - (test_rows or 0)
    is_short = training < 1 or (test_rows is not None and test_rows < 1)
    if share and is_short:
        raise DataError(
            f"dataset {choice['name']}: dataset.held_out is {share:g}, which is {test_rows} of {rows} "
            "rows: one or more must be held out, and one or more trained on; say dataset.held_out=0 to hold "
            "out none"
        )
    if is_short or choice.get("rows") not in (None, training):
        wanted = " and ".join(f"dataset.{key} is {choice[key]}" for key in _COUNTS if key in choice)
        raise DataError(f"dataset {choice['name']}: its table has {rows} rows, but {wanted}")
    return training, test_rows


def parts(table: np.ndarray, choice: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray | None]:
    """Split a choice's values into training rows and test rows or None. Raises DataError as ``counts``."""
    training, test_rows = counts(len(table), choice)
    return table[:training], None if test_rows is None else table[training:]


def described(table: Table, choice: Mapping[str, Any]) -> dict[str, Any]:
    """The record's entry on the data: the SHA-256 of type, shape and values; rows, features, facts."""
    rows, columns = table.values.shape
    training, test_rows = counts(rows, choice)
    sha = hashlib.sha256(f"{table.values.dtype.str} {rows} {columns}\n".encode())
    sha.update(np.ascontiguousarray(table.values).data)
    tested = {} if test_rows is None else {"test_rows": test_rows}
    return {"sha256": sha.hexdigest(), "rows": training, **tested, "features": columns - 1, **table.facts}


def make(choice: Mapping[str, Any]) -> Table:
    """The table of a file of ``config/dataset``. Raises DataError if the data cannot be used."""
    parameters = {key: value for key, value in choice.items() if key not in ("_target_", "name")}
    module, _, function = choice["_target_"].rpartition(".")
    try:
        made = getattr(import_module(module), function)(**parameters)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"dataset {choice['name']}: {error}") from error
    except MemoryError as error:
        raise DataError(f"dataset {choice['name']}: it does not fit in memory: {error}") from error
    table = made if isinstance(made, Table) else Table(made)
    return replace(table, values=checked(table.values, f"dataset {choice['name']}"))


def say_remarks(table: Table) -> None:
    """Print the remarks on a table to standard error before it is trained on."""
    for remark in table.remarks:
        note(one_line(remark))


def completed(choice: Mapping[str, Any]) -> dict[str, Any]:
    """The choice with the sizes from its files' headers. Raises DataError if they do not match it."""
    return {**choice, **_ask_module(choice, "sizes", {})}


def at_most(choice: Mapping[str, Any]) -> tuple[int, int] | None:
    """Upper bounds of a table's rows and columns, if no header states them. Raises DataError."""
    found: tuple[int, int] | None = _ask_module(choice, "at_most", None)
    return found


def digest(choice: Mapping[str, Any]) -> str:
    """The digest of the user's files, for a choice with the key ``sha256``."""
    return _ask_module(choice, "digest", "")


def inputs(choice: Mapping[str, Any]) -> list[Path]:
    """The existing user's files of a choice, which no output may replace."""
    return _ask_module(choice, "inputs", [])


def _ask_module(choice: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    function = getattr(import_module(choice["_target_"].rpartition(".")[0]), name, None)
    return function(choice) if function else otherwise


def kept(path: Path, choice: Mapping[str, Any]) -> Table:
    """The prepared table of a file, created if it does not exist. Raises DataError."""
    if path.exists():
        return load(path, choice)
    table = make(choice)
    write(path, table, choice)
    return table


def split(table: np.ndarray, batch_size: int, name: str, tested: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """X (rows, features) and Y (rows, 1) of training rows. Raises DataError if they do not fill a batch."""
    if len(table) < batch_size:
        beside = f", in addition to {tested} test rows" if tested else ""
        raise DataError(
            f"dataset {name} has {len(table)} rows to train on{beside}, fewer than one batch: "
            f"training.batch_size is {batch_size}, it must be at most {len(table)}"
        )
    return np.ascontiguousarray(table[:, :-1]), np.ascontiguousarray(table[:, -1:])


# ---- prepared files

_SEAL = hashlib.sha256().digest_size
_COPIES = 3
"""Copies of a file in memory while it is loaded: its bytes, the table, and a spare one for its two parts."""


def write(path: Path, table: Table, choice: Mapping[str, Any]) -> None:
    """Write a table of this choice of data set atomically. Raises OutputError if it cannot be written."""
    content = io.BytesIO()
    np.save(content, checked(table.values, str(path)))
    content.write(_canonical(choice))
    if facts := {**table.facts, **({"columns": table.columns} if table.columns else {})}:
        content.write(b"\n" + _canonical(facts))
    content.write(hashlib.sha256(content.getbuffer()).digest())
    with replaced(path) as file:
        file.write(content.getbuffer())


def load(path: Path, choice: Mapping[str, Any]) -> Table:
    """Load the prepared table of a choice. Raises DataError if the file is damaged or of another choice."""
    is_of_workflow = "results/datasets/" in path.as_posix()
    again = f"; to prepare it again: snakemake --cores 1 --force {path}" if is_of_workflow else ""
    wrong = f"{path}: not the data set that was prepared"
    try:
        content = read_into_memory(path, _COPIES)
    except DataError as error:
        raise DataError(f"{error}{again}") from error
    if hashlib.sha256(memoryview(content)[:-_SEAL]).digest() != content[-_SEAL:]:
        raise DataError(f"{wrong}: its content does not have the digest that was written with it{again}")
    stream = io.BytesIO(content)
    values = np.load(stream)
    made_of, _, facts = content[stream.tell() : -_SEAL].partition(b"\n")
    if made_of != _canonical(choice):
        of, right = made_of[:1000].decode(), _canonical(choice).decode()
        raise DataError(f"{wrong}: it was made from {of}, but the cell has {right}{again}")
    known = json.loads(facts) if facts else {}
    columns = known.pop("columns", ())
    return Table(values, known, columns=columns)


def intact(path: Path, choice: Mapping[str, Any]) -> bool:
    """Whether a prepared file is undamaged and belongs to this choice of data set."""
    try:
        load(path, choice)
    except DataError:
        return False
    return True


def _canonical(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said, sort_keys=True).encode()
