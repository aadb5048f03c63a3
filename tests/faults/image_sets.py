"""Malformed sets of images: four IDX files in a folder, of which one is not what it should be."""

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
from attempt import KINDS, Input
from garbage import damaged
from hypothesis import strategies as st
from idx_files import NAMES, TRAIN_IMAGES, TRAIN_LABELS, idx, image_set, table, zipped

from snn import datasets as prepared

GOOD = image_set()
FOLDER = {f"images/{name}": content for name, content in GOOD.items()}
"""Files of an input, for others that need a folder of images."""

_HEADERS = {name: 16 if "images" in name else 8 for name in NAMES}
_SIZES = (0, 1, 3, 5, 2**16, 2**31 - 1, 2**31, 2**32 - 1)


def malformed() -> st.SearchStrategy[Input]:
    """Sets with one defect each, good ones with a wrong setting, and other kinds of files."""
    name = st.sampled_from(NAMES)
    return st.one_of(
        st.builds(_of_kind, name, st.sampled_from(list(KINDS))),
        st.sampled_from(list(KINDS)).filter(lambda kind: kind != "folder").map(_folder_of_kind),
        name.flatmap(_cut),
        name.flatmap(_with_wrong_header),
        st.builds(_longer, name, st.binary(min_size=1, max_size=40)),
        st.sampled_from(list(_spoilt())).map(lambda what: _set(what, {TRAIN_IMAGES: _spoilt()[what]})),
        st.builds(_of_two_sets, name),
        _with_wrong_key(),
        name.map(lambda of: _published("mnist", of)),
        name.map(lambda of: _published("fashion", of)),
    )


def garbage() -> st.SearchStrategy[Input]:
    """Sets of which one file, packed or not, is damaged or any bytes."""
    return st.sampled_from(NAMES).flatmap(
        lambda name: st.one_of(
            damaged(GOOD[name]).map(lambda content: _any(name, content)),
            damaged(zipped(GOOD[name])).map(lambda content: _any(name, content)),
            damaged(GOOD[name]).map(lambda content: _any(name, zipped(content))),
            st.binary(max_size=40).map(lambda content: _any(name, content)),
        )
    )


def _of_kind(name: str, kind: str) -> Input:
    return _set(f"{name} is: {kind}", {name: kind}, names=name)


def _folder_of_kind(kind: str) -> Input:
    one = _set(f"the folder is: {kind}", {}, names="'images'")
    return Input(one.what, one.command, one.arguments, {"images": kind}, one.names)


def _cut(name: str) -> st.SearchStrategy[Input]:
    def of(size: int, packed: bool) -> Input:
        content = GOOD[name][:size]
        return _set(f"{size} bytes of {name}", {name: zipped(content) if packed else content}, names=name)

    def of_packed(size: int) -> Input:
        return _set(f"{size} packed bytes of {name}", {name: zipped(GOOD[name])[:size]}, names=name)

    raw = st.builds(of, st.integers(0, len(GOOD[name]) - 1), st.booleans())
    return raw | st.integers(0, len(zipped(GOOD[name])) - 1).map(of_packed)


@st.composite
def _with_wrong_header(draw: Any, name: str) -> Input:
    """Another magic number, or another size."""
    at = 4 * draw(st.integers(0, _HEADERS[name] // 4 - 1))
    right = struct.unpack(">I", GOOD[name][at : at + 4])[0]
    number = draw((st.sampled_from(_SIZES) | st.integers(0, 2**32 - 1)).filter(lambda one: one != right))
    content = GOOD[name][:at] + struct.pack(">I", number) + GOOD[name][at + 4 :]
    packed = draw(st.booleans())
    return _set(f"{number} at byte {at} of {name}", {name: zipped(content) if packed else content})


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
        "a pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n",
        "HTML": b"<!DOCTYPE html><html><body>404, not found</body></html>\n",
        "text": whole.hex().encode(),
    }


def _of_two_sets(name: str) -> Input:
    """One file of a set that has one row more, and larger images."""
    other = image_set(rows=5, test_rows=3, height=3, width=3)
    return _set(f"{name} of another set", {name: other[name]})


@st.composite
def _with_wrong_key(draw: Any) -> Input:
    given, names = draw(
        st.sampled_from(
            [
                (("dataset.rows=5",), "dataset.rows is 5"),
                (("dataset.test_rows=3",), "dataset.test_rows is 3"),
                (("dataset.rows=5", "dataset.test_rows=2", "dataset.shape=[1,2,3]"), "dataset.rows is 5"),
                (("dataset.shape=[1,3,2]",), "dataset.shape is [1, 3, 2]"),
                (("dataset.shape=[3,2,3]",), "dataset.shape is [3, 2, 3]"),
                ((f"dataset.sha256={'0' * 64}",), "images"),
                (("training.batch_size=5",), "training.batch_size is 5"),
                (("dataset.path=Images",), "Images"),
                (("dataset.path=.",), "dataset.path is '.'"),
                ((f"dataset.path=images/{TRAIN_IMAGES}",), TRAIN_IMAGES),
                (("dataset.path=images/images",), "images/images"),
                ((f"dataset.path={'x' * 300}",), "x" * 300),
            ]
        )
    )
    return _set(" ".join(given), {}, *given, names=names)


def _published(dataset: str, name: str) -> Input:
    """A user's images as published ones, one file packed."""
    content = {name: zipped(GOOD[name])}
    return _set(f"own images as {dataset}", content, f"dataset={dataset}", names=TRAIN_IMAGES)


def _set(what: str, changed: dict[str, bytes | str], *given: str, names: str = "images") -> Input:
    keys = {each.partition("=")[0] for each in given}
    usual = ("dataset=idx", "dataset.path=images", "training.batch_size=1")
    arguments = (*(each for each in usual if each.partition("=")[0] not in keys), *given, "output=t.npy")
    files = FOLDER | {f"images/{name}": content for name, content in changed.items()}
    return Input(what, "snn.prepare", arguments, files, names)


def _any(name: str, content: bytes) -> Input:
    one = _set("garbage", {name: content}, names=name if name == TRAIN_LABELS else "images")
    return Input(one.what, one.command, one.arguments, one.files, one.names, False, _as_in_the_files)


def _as_in_the_files(here: Path) -> bool:
    """Whether what was prepared are just the pixels and labels that a simple reader finds in the files."""
    try:
        expected = table([(here / "images" / name).read_bytes() for name in NAMES])
    except (AssertionError, ValueError, OSError, EOFError, struct.error, gzip.zlib.error):
        return False
    found, _ = prepared._verified(here / "t.npy")
    return bool(np.array_equal(expected, found))
