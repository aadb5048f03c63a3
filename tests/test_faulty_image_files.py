"""Image files that are refused: each is named, with what is wrong and what would be right."""

import os
import re
import struct
import tracemalloc

import idx_files
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from idx_files import NAMES, TEST_IMAGES, TEST_LABELS, TRAIN_IMAGES, TRAIN_LABELS, write, zipped
from test_image_files import FILES, of, refusal

from snn import datasets
from snn.datasets import idx_images
from snn.errors import DataError
from snn.files import regular


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "images", FILES)


def magic(content, to):
    return to + content[4:]


FAULTS = {
    "text": (
        TRAIN_IMAGES,
        b"<!DOCTYPE html>",
        "its magic number is 0x3c21444f: it must be 0x00000803 (images",
    ),
    "nothing": (TRAIN_LABELS, b"", "it has 0 bytes: an IDX file of labels begins with 8"),
    "half a magic number": (TRAIN_IMAGES, b"\0\0", "it has 2 bytes: an IDX file of images begins with 16"),
    "half a header": (TEST_IMAGES, FILES[TEST_IMAGES][:15], "it has 15 bytes"),
    "labels for images": (
        TEST_IMAGES,
        FILES[TEST_LABELS],
        "0x00000801 (labels: unsigned bytes in 1 dimension):",
    ),
    "images for labels": (
        TEST_LABELS,
        FILES[TEST_IMAGES],
        "0x00000803 (images: unsigned bytes in 3 dimensions)",
    ),
    "floats": (
        TRAIN_IMAGES,
        magic(FILES[TRAIN_IMAGES], b"\0\0\x0d\x03"),
        "0x00000d03 (32-bit floats in 3 dimensions): it must be 0x00000803 (images: unsigned bytes in 3",
    ),
    "the other byte order": (
        TRAIN_LABELS,
        magic(FILES[TRAIN_LABELS], b"\x01\x08\0\0"),
        "0x01080000: it must",
    ),
    "no images": (
        TRAIN_IMAGES,
        struct.pack(">4I", 0x803, 0, 2, 3),
        "0 images of 2x3: there must be at least one",
    ),
    "no pixels": (
        TRAIN_IMAGES,
        struct.pack(">4I", 0x803, 4, 0, 3),
        "4 images of 0x3: there must be at least one",
    ),
    "a byte less": (
        TRAIN_IMAGES,
        FILES[TRAIN_IMAGES][:-1],
        "its header says 4 images of 2x3, which with it are 40 bytes, but it has only 39: it is cut off",
    ),
    "a byte more": (
        TRAIN_LABELS,
        FILES[TRAIN_LABELS] + b"\0",
        "4 labels, which with it are 12 bytes, but it has more",
    ),
    "a label less": (TRAIN_LABELS, idx_files.idx([1, 2, 3]), "it has 3 labels, but "),
    "a label more": (
        TEST_LABELS,
        idx_files.idx([1, 2, 3]),
        f"/{TEST_IMAGES} has 2 images: there must be one label",
    ),
    "other test images": (
        TEST_IMAGES,
        idx_files.idx(np.zeros((2, 3, 2))),
        "its images are 3x2, but those in ",
    ),
    "a file beyond the limit": (
        TRAIN_IMAGES,
        struct.pack(">4I", 0x803, 2**31, 28, 28),
        "more than the 2147483648 bytes that are read of such a file",
    ),
    "sizes that overflow": (
        TRAIN_IMAGES,
        struct.pack(">4I", 0x803, *[2**32 - 1] * 3),
        "more than the 2147483648",
    ),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(("name", "content", "said"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_file_is_refused_by_its_name(folder, name, content, said, packed):
    if packed:
        (folder / name).unlink()
        name, content = f"{name}.gz", zipped(content)
    write(folder, {name: content})
    found = refusal(folder)
    assert found.startswith(f"{folder / name}: ")
    assert said in found


def test_a_gzip_file_that_is_cut_off_or_damaged_is_refused(folder):
    whole, path, harmless = zipped(FILES[TRAIN_IMAGES]), folder / f"{TRAIN_IMAGES}.gz", 0
    (folder / TRAIN_IMAGES).unlink()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=f"^{re.escape(str(path))}: "):
            idx_images.make(str(folder))
    for place in range(len(whole)):
        for bit in (1, 64):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            try:
                table = idx_images.make(str(folder))
            except DataError as error:
                assert str(error).startswith(f"{path}: ")
            else:  # as in a time stamp
                assert np.array_equal(table, idx_files.table(FILES.values()))
                harmless += 1
    assert harmless < 20
    path.write_bytes(whole + b"more")
    assert "it is a damaged gzip file" in refusal(folder)


def test_a_small_gzip_file_unpacks_to_no_more_than_its_header_says(folder):
    path = folder / f"{TRAIN_IMAGES}.gz"
    (folder / TRAIN_IMAGES).unlink()
    path.write_bytes(zipped(FILES[TRAIN_IMAGES] + bytes(100_000_000)))
    choice = of(folder)
    tracemalloc.start()
    with pytest.raises(DataError, match="but it has more"):
        datasets.make(choice)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    path.write_bytes(zipped(struct.pack(">4I", 0x803, 10**6, 40, 50) + bytes(10**6)))
    with pytest.raises(DataError, match=r"says 1000000 images of 40x50, but \d+ bytes cannot hold them"):
        idx_images.read_idx(path, 3)


def test_a_file_that_the_memory_does_not_hold_is_refused(folder, monkeypatch):
    choice = of(folder)
    monkeypatch.setattr(regular, "_free_memory", lambda: 100)
    with pytest.raises(
        DataError, match=r"it has 40 bytes, and reading it takes about 6 times as much memory"
    ):
        datasets.make(choice)
    packed = zipped(bytes(idx_files.idx(np.zeros((4, 20, 30)))))
    (folder / TRAIN_IMAGES).write_bytes(packed)
    (folder / TEST_IMAGES).write_bytes(idx_files.idx(np.zeros((2, 20, 30))))
    choice = of(folder)
    monkeypatch.setattr(regular, "_free_memory", lambda: 6 * len(packed))
    with pytest.raises(DataError, match="it has 2416 bytes, and reading it"):
        datasets.make(choice)


@settings(max_examples=150)
@given(
    content=st.binary(max_size=60)
    | st.builds(
        lambda sizes, rest: struct.pack(">4I", 0x803, *sizes) + rest,
        st.tuples(*[st.integers(0, 5)] * 3),
        st.binary(max_size=60),
    ),
    packed=st.booleans(),
)
def test_any_bytes_are_images_or_refused(tmp_path_factory, content, packed):
    path = tmp_path_factory.mktemp("idx") / "file"
    path.write_bytes(zipped(content) if packed else content)
    try:
        found = idx_images.read_idx(path, 3)
    except DataError as error:
        assert str(error).startswith(f"{path}: ")
    else:
        assert np.array_equal(found.values, idx_files.values(content))
        assert idx_images.sizes_in_header(path, 3) == found.values.shape


def test_a_folder_without_the_files_is_refused_with_the_names_that_were_looked_for(tmp_path):
    write(tmp_path, {name: content for name, content in FILES.items() if name != TEST_LABELS})
    write(tmp_path, {TEST_LABELS.upper(): FILES[TEST_LABELS]})
    found = refusal(tmp_path)
    assert f"dataset.path is '{tmp_path}': there is no {TEST_LABELS} in this folder" in found
    assert all(name in found for name in NAMES)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "the folder cannot be read: No such file"),
        (lambda path: path.write_bytes(b"x"), "it must be a folder with the files"),
        (os.mkfifo, "it must be a folder with the files"),
        (lambda path: path.symlink_to(path), "the folder cannot be read: Too many levels of symbolic links"),
        (lambda path: path.symlink_to("/dev/zero"), "it must be a folder"),
        (lambda path: path.mkdir(), "there is no train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k"),
    ],
    ids=["none", "a file", "a pipe", "a link to itself", "a device", "an empty folder"],
)
def test_a_path_that_is_no_folder_of_images_is_refused(tmp_path, make, said):
    make(tmp_path / "p")
    assert f"dataset.path is '{tmp_path}/p': {said}" in refusal(tmp_path / "p")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "it is a pipe"),
        (lambda path: path.mkdir(), "it is a folder"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("nowhere"), "No such file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device"),
    ],
    ids=["a pipe", "a folder", "a link to itself", "a link to nothing", "a device"],
)
@pytest.mark.parametrize("name", NAMES)
def test_only_regular_files_are_read(folder, name, make, said):
    (folder / name).unlink()
    make(folder / name)
    found = refusal(folder)
    assert found.startswith(f"{folder / name}: cannot be read: ")
    assert said in found


def test_a_file_that_is_larger_than_any_is_refused_before_it_is_read(folder):
    os.truncate(folder / TRAIN_IMAGES, idx_images.LARGEST_FILE + 1)  # sparse: it takes no space on the disk
    assert "it has 2147483649 bytes, more than the 2147483648 that are read of such a file" in refusal(folder)
