"""Malformed CSV files."""

import bz2
import gzip
import io
import itertools
import lzma
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from attempt import KINDS, Input
from garbage import NO_NUMBERS, PAGE, POINTER, damaged, given, words
from hypothesis import strategies as st

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_USUAL = (
    "dataset=csv",
    "dataset.path=t.csv",
    "dataset.target='c0'",
    "training.batch_size=1",
    "dataset.held_out=0",
)
_USUAL += ("dataset.standardise=false", "dataset.shuffle_seed=null", "output=t.npy")
_NO_CELLS = (
    *(text for text in NO_NUMBERS if "," not in text),
    *words("abc NaN Infinity 1e39 -1e39 1e400 1d5 $1 True null NA #N/A \x001 \ufeff1 1×10"),
)
_NO_CELLS += ("1\r", "1\x0b2", "1\x1a", "1\u20092", '"1"2', '1"', '"1', "'1'", "9" * 400)


@st.composite
def _tables(draw: Any) -> list[list[str]]:
    """Rows of numbers below a header."""
    columns = draw(st.integers(2, 5))
    number = st.integers(-999, 999).map(str) | st.floats(-1e6, 1e6, width=32).map(str) | st.just("1e-3")
    rows = draw(st.lists(st.lists(number, min_size=columns, max_size=columns), min_size=2, max_size=6))
    return [[f"c{i}" for i in range(columns)], *rows]


@st.composite
def _with_wrong_cell(draw: Any) -> Input:
    table, text = draw(_tables()), draw(st.sampled_from(_NO_CELLS))
    row = draw(st.integers(1, len(table) - 1))
    ends_a_line = text.endswith("\r")  # in the last column it is a line that ends as in Windows
    column = draw(st.integers(0, len(table[0]) - 1 - ends_a_line))
    table[row][column] = text
    return _file(f"{text[:20]!r} in row {row}, column {column}", _joined(table))


@st.composite
def _with_wrong_row(draw: Any) -> Input:
    table = draw(_tables())
    at = draw(st.integers(1, len(table) - 1))
    row = table[at]
    rows = ([*row, "1"], row[:-1], [*row, ""], ["1"] * 300, [",".join(row), *row], [f'"{row[0]}', *row[1:]])
    table[at] = draw(st.sampled_from(rows))
    return _file(f"row {at} is {table[at][:6]}", _joined(table))


@st.composite
def _with_wrong_header(draw: Any) -> Input:
    table = draw(_tables())
    names = table[0]
    few, others = len(names), names[1:]
    right = [(names, target) for target in ("'none'", "'C0'", "'c0 '", few, -few - 1, 10**9)]
    headers = [(["x"] * few, "'x'"), ([*names[:-1], names[0]], "'c0'"), (["1", "2", "3", "4", "5"][:few], 0)]
    headers += [(["nan", *["1"] * (few - 1)], 0), (["a\x01b", *others], "'c1'"), (['"a', *others], "'c1'")]
    headers += [([*names, "more"], "'c0'"), (names[:-1], "'c0'")]
    header, target = draw(st.sampled_from(right + headers))
    return _file(f"header {header}", _joined([header, *table[1:]]), f"dataset.target={target}")


_OTHERS = ["text_columns=onehot", "held_out=0.01", "delimiter=c", "delimiter=''"]
_NO_KEYS = [((f"dataset.{one}",), f"dataset.{one.partition('=')[0]}") for one in _OTHERS]
_NO_KEYS += [((f"dataset.delimiter={one}",), "t.csv") for one in ("';'", '"\t"', "' '")]
_NO_KEYS += [
    (("dataset.header=false", "dataset.target=0"), "t.csv"),
    (("dataset.header=false",), "t.csv"),
    ((f"dataset.sha256={'0' * 64}",), "t.csv"),
    (("training.batch_size=1000",), "training.batch_size"),
    (("dataset.path='t.csv\x00'",), "dataset.path"),
]
_NO_PATHS = ("t.csv/t.csv", "T.CSV", "x" * 300, ".", "../input/none.csv")
_NO_KEYS += [((f"dataset.path='{path}'",), path.removeprefix("../input/")) for path in _NO_PATHS]
"""Settings that are not of a good file, with what the message names."""

_NO_LABELS = (
    *(("-1", "3 classes"), ("2", "3 classes"), ("1000000", "3 classes"), ("1e30", "c0"), ("0.5", "c0")),
    *(("-0.001", "c0"), ("x", "c0"), ("0x1", "c0"), ("yes", "c0")),
)


@st.composite
def _with_wrong_labels(draw: Any) -> Input:
    """Targets of which one is no label, as it is not a whole number; or a third class, of two outputs."""
    table = draw(_tables())
    for row, label in zip(table[1:], itertools.cycle("01")):
        row[0] = label
    wrong, names = draw(st.sampled_from(_NO_LABELS))
    at = draw(st.integers(1, len(table)))
    table.insert(at, [wrong, *table[1][1:]])
    of_network = ("network=layers", "network.layers=['linear 2']", "network.loss=cross_entropy")
    one = _file(
        f"label {wrong} of 2 in row {at}", _joined(table), "dataset.target=0", *of_network, names=names
    )
    arguments = tuple(argument for argument in one.arguments if not argument.startswith("output="))
    return Input(one.what, "snn", ("device=cpu", *arguments), one.files, one.names)


def malformed() -> st.SearchStrategy[Input]:
    """CSV files with one defect each, good ones with a wrong setting, and other kinds of files."""
    defects = (_with_wrong_cell(), _with_wrong_row(), _with_wrong_header(), _with_wrong_labels())
    keys = st.builds(
        lambda table, key: _file(" ".join(key[0]), _joined(table), *key[0], names=key[1]),
        _tables(),
        st.sampled_from(_NO_KEYS),
    )
    return st.one_of(*defects, keys, st.sampled_from(list(known())))


def known() -> Iterator[Input]:
    """Files that are no CSV file of numbers, and a good one with other settings."""
    for what, content in (*_spoilt().items(), *((kind, kind) for kind in KINDS)):
        yield _file(what, content)
    for further, names in _NO_KEYS:
        yield _file(" ".join(further), b"c0,c1\n1,2\n3,4\n", *further, names=names)


def garbage() -> st.SearchStrategy[Input]:
    """Damaged files, and any text, without a header."""
    lines = st.text('0123456789.,,-+eE"\n\n\r \ta', max_size=60).map(str.encode)
    numbers = _tables().flatmap(lambda table: damaged(_joined(table[1:])))
    return (numbers | lines | st.binary(max_size=40)).map(_any)


def _joined(table: list[list[str]]) -> bytes:
    return "".join(",".join(row) + "\n" for row in table).encode("utf-8", "surrogatepass")


def _file(what: str, content: bytes | str, *further: str, names: str = "t.csv") -> Input:
    return Input(what, "snn prepare", given(_USUAL, *further), {"t.csv": content}, names)


def _any(content: bytes) -> Input:
    written = ("dataset.header=false", "dataset.delimiter=','", "dataset.decimal=.", "dataset.encoding=utf-8")
    one = _file("garbage", content, "dataset.target=-1", *written)
    return Input(one.what, one.command, one.arguments, one.files, one.names, False, _all_numbers)


def _all_numbers(here: Path) -> bool:
    """Whether what was prepared of a file are just the numbers that a simple reader finds in it."""
    found = []
    text = (here / "t.csv").read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    lines = [one for one in text.split("\n") if one.strip(" \t") and not one.lstrip().startswith(("#", "%"))]
    while lines[0].count(",") < lines[-1].count(","):  # lines before the table
        del lines[0]
    for line in lines:
        cells = [re.fullmatch(r'\s*"(.*)"|([^"]*)', cell) for cell in line.split(",")]
        if not all(cell and _NUMBER.fullmatch(cell[1] or cell[2] or "") for cell in cells):
            return False
        found.append([float(cell[1] or cell[2]) for cell in cells if cell])
    table = np.load(here / "t.npy")
    return bool(np.array_equal(np.array(found, np.float32), table))


@cache
def _spoilt() -> dict[str, bytes | str]:
    """A good file as something else: packed, in another encoding, empty, of another kind."""
    whole = b"c0,c1,c2\n1,2,3\n-4,5.5,6e-1\n"
    header, _, rest = whole.partition(b"\n")
    packed, array = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("t.csv", whole)
    np.save(array, np.eye(3))
    encodings = {
        name: whole.decode().encode(name) for name in ("utf-16-le", "utf-16-be", "utf-32", "utf-32-be")
    }
    rows = {  # a row is of a cell as this and of two others
        "with a byte of Latin-1": b"\xe9",
        "with a mark within": b"\xef\xbb\xbf1",
        "with an open quote": b'"1',
        "with a cell of two lines": b'"1\n"',
        "with a long line": b"1" * (17 << 20),
        "with a control character": b"1\x1b",
        "with a line separator": "1\u2028".encode(),
    }
    return {
        **encodings,
        **{what: whole + cell + b",1,1\n" for what, cell in rows.items()},
        "gzip": gzip.compress(whole),
        "bzip2": bz2.compress(whole),
        "xz": lzma.compress(whole),
        "zip": packed.getvalue(),
        "NumPy": array.getvalue(),
        "of nothing": b"",
        "of an end of line": b"\n\r\n\n",
        "of spaces": b"   \n  \n",
        "of a mark": b"\xef\xbb\xbf",
        "of a header": header + b"\n",
        "of one column": b"c0\n1\n-4\n",
        "with a decimal comma": header + b"\n1,2,3,5\n",
        "with a NUL at its end": whole + b"\0",
        "with half a character": whole + b"\xc3",
        "with a surrogate": whole + b"\xed\xa0\x80\n",
        "with two marks": b"\xef\xbb\xbf\xef\xbb\xbf" + rest,
        "with an endless row": whole + b",".join([b"1"] * 100_000) + b"\n",
        "of HTML": PAGE,
        "of JSON": b'{"c0": [1, 2], "c1": [3, 4]}\n',
        "of a pointer": POINTER,
        "of PNG": b"\x89PNG\r\n\x1a\n" + bytes(100),
    }
