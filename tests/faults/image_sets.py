"""Malformed sets of images: four IDX files in a folder, of which one is not what it should be."""

import gzip
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from attempt import KINDS, Input
from garbage import PAGE, POINTER, cut, damaged, given
from hypothesis import strategies as st
from idx_files import NAMES, TRAIN_IMAGES, TRAIN_LABELS, idx, image_set, table, zipped

GOOD = image_set()
FOLDER = {f"images/{name}": content for name, content in GOOD.items()}
"""Files of an input, for others that need a folder of images."""

_USUAL = ("dataset=idx", "dataset.path=images", "training.batch_size=1", "output=t.npy")
_SIZES = (0, 1, 3, 5, 2**16, 2**31 - 1, 2**31, 2**32 - 1)


def malformed() -> st.SearchStrategy[Input]:
    """Sets with one defect each, good ones with a wrong setting, and other kinds of files."""
    name, kinds = st.sampled_from(NAMES), st.sampled_from(list(KINDS))
    others = image_set(rows=5, test_rows=3, height=3, width=3)  # of which one file is in the set
    return st.one_of(
        st.builds(lambda name, kind: _set(kind, {name: kind}, names=name), name, kinds),
        kinds.filter(lambda kind: kind != "folder").map(
            lambda kind: replace(_set(f"the folder is: {kind}", {}, names="'images'"), files={"images": kind})
        ),
        name.flatmap(_cut),
        name.flatmap(_with_wrong_header),
        st.builds(_longer, name, st.binary(min_size=1, max_size=40)),
        st.sampled_from(list(known())),
        name.map(lambda name: _set(f"{name} of another set", {name: others[name]})),
        st.builds(_as_published, name, st.sampled_from(("mnist", "fashion"))),
    )


def known() -> Iterator[Input]:
    """Images that are something else, and good ones with other settings."""
    for what, content in _spoilt().items():
        yield _set(what, {TRAIN_IMAGES: content})
    for further, names in _NO_KEYS:
        yield _set(" ".join(further), {}, *further, names=names)


def garbage() -> st.SearchStrategy[Input]:
    """Sets of which one file, packed or not, is damaged or any bytes."""
    return st.sampled_from(NAMES).flatmap(
        lambda name: st.one_of(
            damaged(GOOD[name]),
            damaged(zipped(GOOD[name])),
            damaged(GOOD[name]).map(zipped),
            st.binary(max_size=40),
        ).map(lambda content: _any(name, content))
    )


def _cut(name: str) -> st.SearchStrategy[Input]:
    whole = GOOD[name]
    contents = cut(whole) | cut(whole).map(zipped) | cut(zipped(whole))
    return contents.map(lambda content: _set(f"{name} that is cut off", {name: content}, names=name))


@st.composite
def _with_wrong_header(draw: Any, name: str) -> Input:
    """Another magic number, or another size."""
    at = 4 * draw(st.integers(0, 3 if "images" in name else 1))
    right = struct.unpack(">I", GOOD[name][at : at + 4])[0]
    number = draw((st.sampled_from(_SIZES) | st.integers(0, 2**32 - 1)).filter(lambda one: one != right))
    content = GOOD[name][:at] + struct.pack(">I", number) + GOOD[name][at + 4 :]
    return _set(
        f"{number} at byte {at} of {name}", {name: zipped(content) if draw(st.booleans()) else content}
    )


def _longer(name: str, more: bytes) -> Input:
    return _set(f"{len(more)} more bytes in {name}", {name: GOOD[name] + more}, names=name)


def _spoilt() -> dict[str, bytes]:
    """The training images as something else."""
    whole = GOOD[TRAIN_IMAGES]
    pixels = np.frombuffer(whole, np.uint8, offset=16)
    return {
        "bytes behind gzip": zipped(whole) + b"more",
        "two files packed as one": zipped(whole) + zipped(whole),
        "packed twice": zipped(zipped(whole)),
        "a packed file that is far too long": zipped(whole + bytes(50_000_000)),
        "the other byte order": struct.pack("<4I", 0x803, 4, 2, 3) + whole[16:],
        "floats": struct.pack(">4I", 0xD03, 4, 2, 3) + pixels.astype(">f4").tobytes(),
        "four dimensions": struct.pack(">5I", 0x804, 4, 1, 2, 3) + whole[16:],
        "one image": idx(pixels.reshape(-1)[:6].reshape(1, 2, 3)),
        "lines for columns": idx(pixels.reshape(4, 3, 2)),
        "no header": whole[16:],
        "a pointer": POINTER,
        "HTML": PAGE,
        "text": whole.hex().encode(),
    }


_NO_KEYS = [
    (("dataset.rows=5",), "dataset.rows is 5"),
    (("dataset.test_rows=3",), "dataset.test_rows is 3"),
    (("dataset.rows=5", "dataset.test_rows=2", "dataset.shape=[1,2,3]"), "dataset.rows is 5"),
    (("dataset.shape=[1,3,2]",), "dataset.shape is [1, 3, 2]"),
    (("dataset.shape=[3,2,3]",), "dataset.shape is [3, 2, 3]"),
    ((f"dataset.sha256={'0' * 64}",), "images"),
    (("training.batch_size=5",), "training.batch_size is 5"),
    (("dataset.path=.",), "dataset.path is '.'"),
    ((f"dataset.path=images/{TRAIN_IMAGES}",), TRAIN_IMAGES),
    *[((f"dataset.path={path}",), path) for path in ("Images", "images/images", "x" * 300)],
]
"""Settings that are not of the set, with what the message names."""


def _as_published(name: str, dataset: str) -> Input:
    """A user's images as published ones, one file packed."""
    content = {name: zipped(GOOD[name])}
    return _set(f"own images as {dataset}", content, f"dataset={dataset}", names=TRAIN_IMAGES)


def _set(what: str, changed: dict[str, bytes | str], *further: str, names: str = "images") -> Input:
    files = FOLDER | {f"images/{name}": content for name, content in changed.items()}
    return Input(what, "snn prepare", given(_USUAL, *further), files, names)


def _any(name: str, content: bytes) -> Input:
    one = _set("garbage", {name: content}, names=name if name == TRAIN_LABELS else "images")
    return replace(one, is_wrong=False, really_valid=_as_in_the_files)


def _as_in_the_files(here: Path) -> bool:
    """Whether what was prepared are just the pixels and labels that a simple reader finds in the files."""
    try:
        expected = table([(here / "images" / name).read_bytes() for name in NAMES])
    except (AssertionError, ValueError, OSError, EOFError, struct.error, gzip.zlib.error):
        return False
    found = np.load(here / "t.npy")
    return bool(np.array_equal(expected, found))
