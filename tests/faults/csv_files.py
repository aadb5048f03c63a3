"""Malformed CSV files."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
from attempt import KINDS, Input
from garbage import damaged
from hypothesis import strategies as st
from spoilt_csv import spoilt

from snn import datasets as prepared

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_AS_IN_THE_FILE = ("dataset.standardise=false", "dataset.held_out=0", "dataset.shuffle_seed=null")
_NO_NUMBERS = (
    "",
    " ",
    "abc",
    "nan",
    "NaN",
    "inf",
    "-Infinity",
    "1_000",
    "\u0661",
    "\uff11",
    "0x1f",
    "1e39",
    "-1e39",
)
_NO_NUMBERS += (
    "1 2",
    "1..2",
    "1e",
    "e5",
    ".",
    "-",
    "--1",
    "+-1",
    "1e1.5",
    "1e400",
    '"1"2',
    '""',
    '1"',
    '"1',
    "'1'",
)
_NO_NUMBERS += (
    "1\u00a02",
    "1\u20092",
    "$1",
    "1%",
    "1f",
    "1j",
    "1d5",
    "True",
    "null",
    "NA",
    "#N/A",
    "1\x00",
    "\x001",
)
_NO_NUMBERS += (
    "1\r",
    "\ufeff1",
    "1\x0b2",
    "\u22121",
    "1\u00d710",
    "9" * 400,
    "1/2",
    "(1)",
    "=1+1",
    "<script>",
    "1\x1a",
)


@st.composite
def _tables(draw: Any) -> list[list[str]]:
    """Rows of numbers below a header."""
    columns = draw(st.integers(2, 5))
    number = st.integers(-999, 999).map(str) | st.floats(-1e6, 1e6, width=32).map(str) | st.just("1e-3")
    rows = draw(st.lists(st.lists(number, min_size=columns, max_size=columns), min_size=2, max_size=6))
    return [[f"c{i}" for i in range(columns)], *rows]


@st.composite
def _with_wrong_cell(draw: Any) -> Input:
    table, text = draw(_tables()), draw(st.sampled_from(_NO_NUMBERS))
    row = draw(st.integers(1, len(table) - 1))
    ends_a_line = text.endswith("\r")  # in the last column it is a line that ends as in Windows
    column = draw(st.integers(0, len(table[0]) - 1 - ends_a_line))
    table[row][column] = text
    return _file(f"{text!r} in row {row}, column {column}", _joined(table))


@st.composite
def _with_wrong_row(draw: Any) -> Input:
    table = draw(_tables())
    at = draw(st.integers(1, len(table) - 1))
    row = table[at]
    rows = (
        [*row, "1"],
        row[:-1],
        [*row, ""],
        ["1"] * 300,
        [",".join(row), *row],
        [f'"{row[0]}', *row[1:]],
    )
    table[at] = draw(st.sampled_from(rows))
    first = at == 1  # a further column or a lacking one, of the first row, is told by the header
    return _file(f"row {at}{' (first)' * first} is {table[at][:6]}", _joined(table))


@st.composite
def _with_wrong_header(draw: Any) -> Input:
    table = draw(_tables())
    names = table[0]
    header, target = draw(
        st.sampled_from(
            [
                (names, "none"),
                (names, "C0"),
                (names, "c0 "),
                (names, len(names)),
                (names, -len(names) - 1),
                (names, 10**9),
                (["1", "2", "3", "4", "5"][: len(names)], 0),
                (["nan", *["1"] * (len(names) - 1)], 0),
                (["x"] * len(names), "x"),
                ([*names[:-1], names[0]], "c0"),
                (["a\x01b", *names[1:]], names[1]),
                (['"a', *names[1:]], names[1]),
                ([*names, "more"], "c0"),
                (names[:-1], "c0"),
            ]
        )
    )
    return _file(f"header {header}, target {target!r}", _joined([header, *table[1:]]), target)


@st.composite
def _with_wrong_key(draw: Any) -> Input:
    """A good file, and a setting that is not of it."""
    content = _joined(draw(_tables()))
    given, names = draw(
        st.sampled_from(
            [
                (("dataset.header=false", "dataset.target=0"), "t.csv"),
                (("dataset.header=false",), "t.csv"),
                (("dataset.delimiter=';'",), "t.csv"),
                (('dataset.delimiter="\t"',), "t.csv"),
                (("dataset.delimiter=' '",), "t.csv"),
                (("dataset.held_out=0.01",), "dataset.held_out"),
                (("dataset.text_columns=onehot",), "dataset.text_columns"),
                (("dataset.delimiter=c",), "dataset.delimiter"),
                (("dataset.delimiter=''",), "dataset.delimiter"),
                ((f"dataset.sha256={'0' * 64}",), "t.csv"),
                (("training.batch_size=1000",), "training.batch_size"),
                (("dataset.path='t.csv\x00'",), "dataset.path"),
                (("dataset.path='t.csv/t.csv'",), "t.csv"),
                (("dataset.path='T.CSV'",), "T.CSV"),
                ((f"dataset.path={'x' * 300}",), "x" * 300),
                (("dataset.path=.",), "."),
                (("dataset.path='../input/none.csv'",), "none.csv"),
            ]
        )
    )
    return _file(" ".join(given), content, "c0", *given, names=names)


_LABELS = ("-1", "2", "1e30", "1000000")
_MARKERS = ("x", "0x1", "yes")


@st.composite
def _with_wrong_labels(draw: Any) -> Input:
    """Targets of which one is no label, as it is not a whole number; or a third class, of two outputs."""
    table = draw(_tables())
    for row, label in zip(table[1:], itertools.cycle("01")):
        row[0] = label
    wrong, names = draw(
        st.sampled_from(
            (
                ("0.5", "c0"),
                ("-0.001", "c0"),
                *((x, "3 classes" if abs(float(x)) < 2**53 else "c0") for x in _LABELS),
                *((x, "c0") for x in _MARKERS),
            )
        )
    )
    row = draw(st.integers(1, len(table)))
    table.insert(row, [wrong, *table[1][1:]])
    of_network = ("network=layers", "network.layers=['linear 2']", "network.loss=cross_entropy")
    one = _file(f"label {wrong} of 2 in row {row}", _joined(table), 0, *of_network, names=names)
    arguments = tuple(argument for argument in one.arguments if not argument.startswith("output="))
    return Input(one.what, "snn", ("device=cpu", *arguments), one.files, one.names)


def malformed() -> st.SearchStrategy[Input]:
    """CSV files with one defect each, good ones with a wrong setting, and other kinds of files."""
    kinds = st.sampled_from(list(KINDS)).map(lambda kind: _file(kind, kind))
    return st.one_of(
        _with_wrong_cell(),
        _with_wrong_row(),
        _with_wrong_header(),
        st.sampled_from(list(spoilt())).map(lambda what: _file(what, spoilt()[what])),
        _with_wrong_key(),
        _with_wrong_labels(),
        kinds,
    )


def garbage() -> st.SearchStrategy[Input]:
    """Damaged files, and any text, without a header."""
    lines = st.text('0123456789.,,-+eE"\n\n\r \ta', max_size=60).map(str.encode)
    numbers = _tables().flatmap(lambda table: damaged(_joined(table[1:])))
    return (numbers | lines | st.binary(max_size=40)).map(_any)


def _joined(table: list[list[str]]) -> bytes:
    return "".join(",".join(row) + "\n" for row in table).encode("utf-8", "surrogatepass")


def _file(
    what: str, content: bytes | str, target: str | int = "c0", *given: str, names: str = "t.csv"
) -> Input:
    keys = {each.partition("=")[0] for each in given}
    column = f"dataset.target={target}" if isinstance(target, int) else f"dataset.target='{target}'"
    usual = ("dataset=csv", "dataset.path=t.csv", column, "training.batch_size=1", *_AS_IN_THE_FILE)
    arguments = (*(each for each in usual if each.partition("=")[0] not in keys), *given, "output=t.npy")
    return Input(what, "snn.prepare", arguments, {"t.csv": content}, names)


def _any(content: bytes) -> Input:
    written = ("dataset.header=false", "dataset.delimiter=','", "dataset.decimal=.", "dataset.encoding=utf-8")
    one = _file("garbage", content, -1, *written)
    return Input(one.what, one.command, one.arguments, one.files, one.names, False, _all_numbers)


def _all_numbers(here: Path) -> bool:
    """Whether what was prepared of a file are just the numbers that a simple reader finds in it."""
    found = []
    text = (here / "t.csv").read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    lines = [
        line for line in text.split("\n") if line.strip(" \t") and not line.lstrip().startswith(("#", "%"))
    ]
    while lines[0].count(",") < lines[-1].count(","):  # lines before the table
        del lines[0]
    for line in lines:
        cells = [re.fullmatch(r'\s*"(.*)"|([^"]*)', cell) for cell in line.split(",")]
        if not all(cell and _NUMBER.fullmatch(cell[1] or cell[2] or "") for cell in cells):
            return False
        if cells:
            found.append([float(cell[1] or cell[2]) for cell in cells if cell])
    table, _ = prepared._verified(here / "t.npy")
    return bool(np.array_equal(np.array(found, np.float32), table))
