"""Malformed data: CSV files, sets of images, data sets that a workflow prepared, plans of further rounds."""

import bz2
import gzip
import hashlib
import io
import itertools
import json
import lzma
import pickle
import re
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from attempt import HERE, LIKE_NONE, Input
from garbage import NO_NUMBERS, PAGE, POINTER, VALUES, cut, damaged, flipped, given, no_json, values, words
from hypothesis import strategies as st
from idx_files import NAMES, TRAIN_IMAGES, TRAIN_LABELS, idx, image_set, table, zipped

from snn.config import groups
from snn.config.settings import MOST_ROUNDS
from snn.datasets import quadratic

# ---- CSV files

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_CSV = ("dataset=csv", "dataset.path=t.csv", "dataset.target='c0'", "training.batch_size=1")
_CSV += ("dataset.held_out=0", "dataset.standardise=false", "dataset.shuffle_seed=null", "output=t.npy")
_NO_CELLS = (
    *(text for text in NO_NUMBERS if "," not in text),
    *words("abc NaN Infinity 1e39 -1e39 1e400 1d5 $1 True null NA #N/A \x001 \ufeff1 1×10"),
    *("1\r", "1\x0b2", "1\x1a", "1\u20092", '"1"2', '1"', '"1', "'1'", "9" * 400),
)
_NO_SETTINGS = [(f"dataset.{one}", "t.csv") for one in ("delimiter=';'", 'delimiter="\t"', "delimiter=' '")]
_NO_SETTINGS += [("dataset.header=false", "t.csv"), (f"dataset.sha256={'0' * 64}", "t.csv")]
_NO_SETTINGS += [
    (one, one.partition("=")[0])
    for one in (
        *("dataset.text_columns=onehot", "dataset.held_out=0.01", "dataset.delimiter=c"),
        *("dataset.delimiter=''", "training.batch_size=1000", "dataset.path='t.csv\x00'"),
    )
]
_NO_SETTINGS += [
    (f"dataset.path='{path}'", path.removeprefix("../input/"))
    for path in ("t.csv/t.csv", "T.CSV", "x" * 300, ".", "../input/none.csv")
]
"""Settings that do not fit a good file, with what the message names."""

_NO_LABELS = {"3 classes": ("-1", "2", "1000000"), "c0": ("1e30", "0.5", "-0.001", "x", "0x1", "yes")}


@st.composite
def _tables(draw: Any) -> list[list[str]]:
    """Rows of numbers below a header."""
    columns = draw(st.integers(2, 5))
    number = st.integers(-999, 999).map(str) | st.floats(-1e6, 1e6, width=32).map(str) | st.just("1e-3")
    rows = draw(st.lists(st.lists(number, min_size=columns, max_size=columns), min_size=2, max_size=6))
    return [[f"c{i}" for i in range(columns)], *rows]


@st.composite
def _csv_with_defect(draw: Any) -> Input:
    """A cell, a row, the header or a setting is wrong."""
    rows, further, names = draw(_tables()), [], "t.csv"
    at, header = draw(st.integers(1, len(rows) - 1)), rows[0]
    match draw(st.sampled_from(("cell", "row", "header", "target", "setting"))):
        case "cell":
            text = draw(st.sampled_from(_NO_CELLS))
            last = len(header) - 1 - text.endswith("\r")  # at the end of a line it ends it, as on Windows
            rows[at][draw(st.integers(0, last))] = text
        case "row":
            row = rows[at]
            wrong = ([*row, "1"], row[:-1], [*row, ""], ["1"] * 300, [",".join(row), *row])
            rows[at] = draw(st.sampled_from((*wrong, [f'"{row[0]}', *row[1:]])))
        case "header":
            few, others = len(header), header[1:]
            wrong = [(["x"] * few, "'x'"), ([*header[:-1], "c0"], "'c0'"), (list("12345")[:few], 0)]
            wrong += [
                (["nan", *["1"] * (few - 1)], 0),
                (["a\x01b", *others], "'c1'"),
                (['"a', *others], "'c1'"),
            ]
            wrong += [([*header, "more"], "'c0'"), (header[:-1], "'c0'")]
            rows[0], target = draw(st.sampled_from(wrong))
            further = [f"dataset.target={target}"]
        case "target":
            few = len(header)
            target = draw(st.sampled_from(["'none'", "'C0'", "'c0 '", few, -few - 1, 10**9]))
            further = [f"dataset.target={target}"]
        case "setting":
            setting, names = draw(st.sampled_from(_NO_SETTINGS))
            further = [setting]
    return _csv(_joined(rows), *further, names=names)


@st.composite
def _with_wrong_labels(draw: Any) -> Input:
    """Targets of which one is not a label, as it is not a whole number; or a third class, of two outputs."""
    rows = draw(_tables())
    for row, label in zip(rows[1:], itertools.cycle("01")):
        row[0] = label
    names = draw(st.sampled_from(list(_NO_LABELS)))
    rows.insert(draw(st.integers(1, len(rows))), [draw(st.sampled_from(_NO_LABELS[names])), *rows[1][1:]])
    network = ("network=layers", "network.layers=['linear 2']", "network.loss=cross_entropy")
    arguments = given(_CSV[:-1], "device=cpu", "dataset.target=0", *network)
    return Input("snn", arguments, {"t.csv": _joined(rows)}, names)


def csv() -> st.SearchStrategy[Input]:
    """CSV files with one defect each, good ones with a wrong setting, and other kinds of files."""
    return st.one_of(*[_csv_with_defect()] * 4, _with_wrong_labels(), st.sampled_from(list(known_csv())))


def known_csv() -> Iterator[Input]:
    """Files that are not a CSV file of numbers, and a good one with other settings."""
    yield from map(_csv, _no_csv())
    good = b"c0,c1\n1,2\n3,4\n"
    yield from _csv(good).of_kinds("t.csv")
    yield from (_csv(good, setting, names=names) for setting, names in _NO_SETTINGS)
    yield _csv(good, "dataset.header=false", "dataset.target=0")


def damaged_csv() -> st.SearchStrategy[Input]:
    """Damaged files, and any text, without a header."""
    lines = st.text('0123456789.,,-+eE"\n\n\r \ta', max_size=60).map(str.encode)
    numbers = _tables().flatmap(lambda rows: damaged(_joined(rows[1:])))
    read = ("dataset.header=false", "dataset.delimiter=','", "dataset.decimal=.", "dataset.encoding=utf-8")
    return (numbers | lines | st.binary(max_size=40)).map(
        lambda content: replace(
            _csv(content, "dataset.target=-1", *read), is_wrong=False, really_valid=_all_numbers
        )
    )


def _joined(rows: list[list[str]]) -> bytes:
    return "".join(",".join(row) + "\n" for row in rows).encode("utf-8", "surrogatepass")


def _csv(content: bytes, *further: str, names: str = "t.csv") -> Input:
    return Input("snn prepare", given(_CSV, *further), {"t.csv": content}, names)


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
    read = np.load(here / "t.npy")
    return bool(np.array_equal(np.array(found, np.float32), read))


@cache
def _no_csv() -> list[bytes]:
    """A good file as something else: packed, in another encoding, empty, of another kind."""
    whole = b"c0,c1,c2\n1,2,3\n-4,5.5,6e-1\n"
    header, _, rest = whole.partition(b"\n")
    packed, array = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("t.csv", whole)
    np.save(array, np.eye(3))
    first_cells = (  # of a row with two others: bytes that no text has, marks, quotes, ends of lines
        *(b"\xe9", b"\xef\xbb\xbf1", b'"1', b'"1\n"', b"1" * (17 << 20), b"1\x1b", "1\u2028".encode()),
    )
    return [
        *(whole.decode().encode(name) for name in ("utf-16-le", "utf-16-be", "utf-32", "utf-32-be")),
        *(whole + cell + b",1,1\n" for cell in first_cells),
        *(gzip.compress(whole), bz2.compress(whole), lzma.compress(whole), packed.getvalue()),
        *(
            array.getvalue(),
            PAGE,
            POINTER,
            b'{"c0": [1, 2], "c1": [3, 4]}\n',
            b"\x89PNG\r\n\x1a\n" + bytes(100),
        ),
        *(b"", b"\n\r\n\n", b"   \n  \n", b"\xef\xbb\xbf", header + b"\n", b"c0\n1\n-4\n"),
        header + b"\n1,2,3,5\n",  # a decimal comma
        *(whole + b"\0", whole + b"\xc3", whole + b"\xed\xa0\x80\n"),
        b"\xef\xbb\xbf\xef\xbb\xbf" + rest,
        whole + b",".join([b"1"] * 100_000) + b"\n",
    ]


# ---- sets of images: four IDX files in a folder, of which one is not what it should be

GOOD = image_set()
FOLDER = {f"images/{name}": content for name, content in GOOD.items()}
"""Files of an input, for others that need a folder of images."""

_IMAGES = ("dataset=idx", "dataset.path=images", "training.batch_size=1", "output=t.npy")


def images() -> st.SearchStrategy[Input]:
    """Sets with one defect each, good ones with a wrong setting, and other kinds of files."""
    name = st.sampled_from(NAMES)
    others = image_set(rows=5, test_rows=3, height=3, width=3)  # of which one file is in the set
    published = st.sampled_from(("mnist", "fashion"))
    return st.one_of(
        name.flatmap(_cut),
        name.flatmap(_with_wrong_header),
        st.builds(
            lambda name, more: _set({name: GOOD[name] + more}, names=name),
            name,
            st.binary(min_size=1, max_size=40),
        ),
        st.sampled_from(list(known_images())),
        name.map(lambda name: _set({name: others[name]})),
        st.builds(
            lambda name, own: _set({name: zipped(GOOD[name])}, f"dataset={own}", names=TRAIN_IMAGES),
            name,
            published,
        ),
    )


def known_images() -> Iterator[Input]:
    """Images that are something else, and good ones with other settings."""
    yield from (_set({TRAIN_IMAGES: content}) for content in _no_images())
    for name in NAMES:
        yield from _set({}).of_kinds(f"images/{name}", name)
    yield from replace(_set({}), files={}).of_kinds("images", "'images'", but=("folder",))
    for setting, names in _NO_IMAGE_SETTINGS.items():
        yield _set({}, *setting.split(), names=names or setting.replace("=", " is "))


def damaged_images() -> st.SearchStrategy[Input]:
    """Sets of which one file, packed or not, is damaged or any bytes."""

    def of_file(name: str) -> st.SearchStrategy[Input]:
        contents = damaged(GOOD[name]) | damaged(zipped(GOOD[name])) | damaged(GOOD[name]).map(zipped)
        names = name if name == TRAIN_LABELS else "images"
        return (contents | st.binary(max_size=40)).map(
            lambda content: replace(
                _set({name: content}, names=names), is_wrong=False, really_valid=_as_in_the_files
            )
        )

    return st.sampled_from(NAMES).flatmap(of_file)


def _cut(name: str) -> st.SearchStrategy[Input]:
    whole = GOOD[name]
    contents = cut(whole) | cut(whole).map(zipped) | cut(zipped(whole))
    return contents.map(lambda content: _set({name: content}, names=name))


@st.composite
def _with_wrong_header(draw: Any, name: str) -> Input:
    """Another magic number, or another size."""
    at = 4 * draw(st.integers(0, 3 if "images" in name else 1))
    right = struct.unpack(">I", GOOD[name][at : at + 4])[0]
    sizes = st.sampled_from((0, 1, 3, 5, 2**16, 2**31 - 1, 2**31, 2**32 - 1)) | st.integers(0, 2**32 - 1)
    number = draw(sizes.filter(lambda one: one != right))
    content = GOOD[name][:at] + struct.pack(">I", number) + GOOD[name][at + 4 :]
    return _set({name: zipped(content) if draw(st.booleans()) else content})


def _no_images() -> Iterator[bytes]:
    """The training images as something else."""
    whole = GOOD[TRAIN_IMAGES]
    pixels = np.frombuffer(whole, np.uint8, offset=16)
    yield from (zipped(whole) + b"more", zipped(whole) + zipped(whole), zipped(zipped(whole)))
    yield zipped(whole + bytes(50_000_000))
    yield struct.pack("<4I", 0x803, 4, 2, 3) + whole[16:]  # the other byte order
    yield struct.pack(">4I", 0xD03, 4, 2, 3) + pixels.astype(">f4").tobytes()
    yield struct.pack(">5I", 0x804, 4, 1, 2, 3) + whole[16:]
    yield from (idx(pixels[:6].reshape(1, 2, 3)), idx(pixels.reshape(4, 3, 2)))
    yield from (whole[16:], POINTER, PAGE, whole.hex().encode())


_NO_IMAGE_SETTINGS = {
    **dict.fromkeys(("dataset.rows=5", "dataset.test_rows=3", "training.batch_size=5"), ""),
    "dataset.rows=5 dataset.test_rows=2 dataset.shape=[1,2,3]": "dataset.rows is 5",
    "dataset.shape=[1,3,2]": "dataset.shape is [1, 3, 2]",
    "dataset.shape=[3,2,3]": "dataset.shape is [3, 2, 3]",
    f"dataset.sha256={'0' * 64}": "images",
    "dataset.path=.": "dataset.path is '.'",
    f"dataset.path=images/{TRAIN_IMAGES}": TRAIN_IMAGES,
    **{f"dataset.path={path}": path for path in ("Images", "images/images", "x" * 300)},
}
"""Settings that do not fit the set, with what the message names; without a word, the setting itself."""


def _set(changed: dict[str, bytes | str], *further: str, names: str = "images") -> Input:
    files = FOLDER | {f"images/{name}": content for name, content in changed.items()}
    return Input("snn prepare", given(_IMAGES, *further), files, names)


def _as_in_the_files(here: Path) -> bool:
    """Whether what was prepared are just the pixels and labels that a simple reader finds in the files."""
    try:
        expected = table([(here / "images" / name).read_bytes() for name in NAMES])
    except (AssertionError, ValueError, OSError, EOFError, struct.error, gzip.zlib.error):
        return False
    found = np.load(here / "t.npy")
    return bool(np.array_equal(expected, found))


# ---- prepared data sets

_CHOICE = groups.load("dataset", "small") | {"rows": 8, "features": 2}
_PREPARED = ("device=cpu", "dataset=small", "dataset.rows=8", "dataset.features=2", "training.batch_size=2")


@cache
def _whole(seed: int = 42) -> bytes:
    """What a prepared file holds; with another seed, of another choice."""
    saved = io.BytesIO()
    np.save(saved, quadratic.make(8, 2))
    content = saved.getvalue() + json.dumps(_CHOICE | {"seed": seed}, sort_keys=True).encode()
    return content + hashlib.sha256(content).digest()


def _data(content: bytes, *further: str, is_wrong: bool = True) -> Input:
    arguments = (*given(_PREPARED, *further), "data=d.npy")
    return Input("snn", arguments, {"d.npy": content}, "d.npy", is_wrong)


def data_sets() -> st.SearchStrategy[Input]:
    """Prepared data sets that are damaged, of something else, or none."""
    return (cut(_whole()) | flipped(_whole())).map(_data) | st.sampled_from(list(known_data_sets()))


def damaged_data_sets() -> st.SearchStrategy[Input]:
    """Prepared data sets with other bytes in them, or with the same once more."""
    return damaged(_whole()).map(lambda content: _data(content, is_wrong=content != _whole()))


def known_data_sets() -> Iterator[Input]:
    """Files that are not a prepared data set, or one of another choice; one that is not there is made."""
    whole = _whole()
    yield from _data(whole).of_kinds("d.npy", but=LIKE_NONE)
    contents = [whole[: 128 + 8 * 3 * 4], pickle.dumps(quadratic.make(8, 2)), _whole(43)]
    contents += [whole + b"x", whole + whole, whole[:-32] + bytes(32), whole[:-32]]
    yield from map(_data, contents)
    for other in ("=medium", ".seed=43", ".rows=9", ".features=3", ".noise=0.2"):
        yield _data(whole, f"dataset{other}")


# ---- plans of further rounds


def plans() -> st.SearchStrategy[Input]:
    """Plans of further rounds with a wrong number, and files that are not a plan."""
    wrong = [value for value in VALUES if type(value) is not int or value < 1]
    any_ = values(("3",), ("x",)).filter(lambda one: type(one) is not int or not 1 <= one <= MOST_ROUNDS)
    numbers = st.sampled_from([*wrong, MOST_ROUNDS + 1, 10**30, 2.0]) | any_
    return st.sampled_from(list(known_plans())) | numbers.map(
        lambda count: _plan(json.dumps({"x/y": 3, "x/z": count}).encode())
    )


def known_plans() -> Iterator[Input]:
    """Files that are not a plan; without a file, none is followed."""
    texts = (*no_json(b'{"x/y": 3}', "x/y"), b"{3: 3}", b'{"\\ud800": 3}')
    yield from map(_plan, texts)
    yield from _plan(b"").of_kinds("p.json", but=LIKE_NONE)


def any_plans() -> st.SearchStrategy[Input]:
    """Damaged plans, and any value."""
    any_ = values(("x",), ("x/y",)).map(lambda value: json.dumps(value).encode())
    return (damaged(b'{"x/y": 3, "x/z": 1000}') | any_).map(
        lambda content: replace(_plan(content), is_wrong=False)
    )


def _plan(content: bytes) -> Input:
    return Input("plan", (f"{HERE}/p.json",), {"p.json": content}, "p.json", really_valid=_is_plan)


def _is_plan(here: Path) -> bool:
    planned = json.loads((here / "p.json").read_bytes())
    numbers = planned.values() if isinstance(planned, dict) else [None]
    return all(type(number) is int and 1 <= number <= MOST_ROUNDS for number in numbers)
