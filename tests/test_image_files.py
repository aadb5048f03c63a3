"""A user's own images in IDX files: read exactly, part of a cell that follows them, or rejected by name."""

import hashlib
import os
import re
import struct
import tracemalloc
from pathlib import Path

import idx_files
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from idx_files import NAMES, TEST_IMAGES, TEST_LABELS, TRAIN_IMAGES, TRAIN_LABELS, image_set, write, zipped

from snn import cli, datasets
from snn.config import groups
from snn.config.compose import composed
from snn.datasets import idx_images
from snn.errors import ConfigError, DataError
from snn.files import regular
from snn.grid import sweeps
from snn.hardware.devices import Device

CPU = Device("cpu", "Abacus")
FILES = image_set()


def of(folder, **keys):
    """The choice of a folder, as the command line makes it of a few rows."""
    given = [f"dataset.{key}={value}" for key, value in keys.items()]
    return composed(["dataset=idx", f"dataset.path='{folder}'", "training.batch_size=1", *given])["dataset"]


def made(folder, **keys):
    return datasets.make(of(folder, **keys)).values


def refusal(folder, **keys):
    with pytest.raises((ConfigError, DataError)) as caught:
        made(folder, **keys)
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "images", FILES)


@settings(max_examples=15)
@given(
    rows=st.integers(1, 5),
    test_rows=st.integers(1, 4),
    height=st.integers(1, 6),
    width=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
    dotted=st.sets(st.sampled_from(NAMES)),
    packed=st.sets(st.sampled_from(NAMES)),
    data=st.data(),
)
def test_reads_back_what_was_written(
    tmp_path_factory, rows, test_rows, height, width, seed, dotted, packed, data
):
    raw = image_set(rows, test_rows, height, width, 256, seed)
    folder = tmp_path_factory.mktemp("idx")
    for name, content in raw.items():
        spelt = name.replace("-idx", ".idx") if name in dotted else name
        (folder / (spelt + ".gz" * (name in packed))).write_bytes(
            zipped(content) if name in packed else content
        )
    asked = [data.draw(st.none() | st.integers(1, held)) for held in (rows, test_rows)]
    keys = {key: one for key, one in zip(("rows", "test_rows"), asked, strict=True) if one}
    choice = of(folder, **keys)
    assert (choice["rows"], choice["test_rows"]) == (asked[0] or rows, asked[1] or test_rows)
    assert choice["shape"] == [1, height, width]
    table = datasets.make(choice).values
    assert table.dtype == np.float32
    assert np.array_equal(table, idx_files.table(raw.values(), *asked))
    training, test = datasets.parts(table, choice)
    assert (len(training), len(test)) == (choice["rows"], choice["test_rows"])
    assert datasets.digest(choice) == hashlib.sha256(b"".join(raw.values())).hexdigest()


@pytest.mark.parametrize(
    "spelling", ["{}-idx3-ubyte", "{}.idx3-ubyte", "{}-idx3-ubyte.gz", "{}.idx3-ubyte.gz"]
)
def test_of_several_spellings_the_first_is_read(tmp_path, spelling):
    write(tmp_path, FILES)
    other = image_set(seed=2)[TRAIN_IMAGES]
    (tmp_path / spelling.format("train-images")).write_bytes(zipped(other) if "gz" in spelling else other)
    first = spelling == "{}-idx3-ubyte"
    raw = {**FILES, TRAIN_IMAGES: other if first else FILES[TRAIN_IMAGES]}
    assert np.array_equal(made(tmp_path), idx_files.table(raw.values()))


def test_a_composed_cell_holds_whole_numbers_from_the_headers_alone(folder):
    path = folder / TRAIN_IMAGES
    os.truncate(path, 16)
    choice = of(folder)
    assert (choice["rows"], choice["test_rows"], choice["shape"]) == (4, 2, [1, 2, 3])
    with pytest.raises(DataError, match=f"{re.escape(str(path))}: its header says 4 images of 2x3"):
        datasets.make(choice)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"rows": 5}, f"dataset.rows is 5: it must be at most 4, the number of images in .*/{TRAIN_IMAGES}"),
        ({"test_rows": 3}, f"dataset.test_rows is 3: it must be at most 2, .* in .*/{TEST_IMAGES}"),
        ({"rows": 5, "test_rows": 2, "shape": "[1,2,3]"}, "dataset.rows is 5: it must be at most 4"),
        ({"shape": "[1,3,2]"}, r"dataset.shape is \[1, 3, 2\]: it must be \[1, 2, 3\], that of"),
        ({"shape": "[2,3]"}, r"dataset.shape is \[2, 3\]: it must be \[channels, height, width\]"),
        ({"shape": "[1,2,0]"}, r"dataset.shape is \[1, 2, 0\]"),
        ({"rows": 0}, "dataset.rows is 0: it must be a whole number, at least 1"),
        ({"test_rows": "x"}, "dataset.test_rows is 'x': it must be a whole number"),
        ({"sha256": "'" + "0" * 64 + "'"}, "the image files have changed since the workflow was planned"),
    ],
)
def test_a_key_that_does_not_fit_the_files_is_refused(folder, keys, said):
    with pytest.raises((ConfigError, DataError), match=said):
        made(folder, **keys)


def test_what_the_files_say_is_checked_with_the_rest_of_the_cell(folder):
    start = ["dataset=idx", f"dataset.path={folder}"]
    with pytest.raises(ConfigError, match=r"training.batch_size is 5: it must be at most 4, .* dataset=idx"):
        composed([*start, "training.batch_size=5"])
    layers = "network.layers=['conv2d 4 3',relu,'linear 10']"
    with pytest.raises(ConfigError, match="kernel of 3 does not fit images of"):
        composed([*start, "training.batch_size=2", "network=layers", layers, "network.loss=cross_entropy"])


def planned(path, **keys):
    """The only cell of a grid of these images."""
    grid = path.parent / "grid.yaml"
    sweep = {"dataset": "idx", "dataset.path": str(path), "training.batch_size": 1}
    grid.write_text(yaml.safe_dump({"sweeps": {"x": sweep | keys}}))
    (cell,) = sweeps.read(grid, CPU)["x"].cells
    return cell


def test_a_planned_cell_is_the_one_that_is_run_and_follows_the_files(folder):
    cell = planned(folder)
    choice = cell["dataset"]
    assert [choice[key] for key in ("rows", "test_rows", "shape")] == [4, 2, [1, 2, 3]]
    assert choice["sha256"] == hashlib.sha256(b"".join(FILES.values())).hexdigest()
    assert composed(sweeps.overrides(cell))["dataset"] == choice
    assert len(datasets.make(choice).values) == 6
    (folder / TEST_LABELS).write_bytes(zipped(FILES[TEST_LABELS]))
    assert planned(folder) == cell
    write(folder, {TEST_LABELS: image_set(seed=2)[TEST_LABELS]})
    assert planned(folder).name != cell.name
    with pytest.raises(DataError, match="have changed since the workflow was planned; run"):
        datasets.make(choice)
    with pytest.raises(ConfigError, match="it has changed"):
        planned(folder, **{"dataset.sha256": choice["sha256"]})


def test_a_planned_cell_is_composed_where_only_its_prepared_table_is_left(folder):
    cell = planned(folder)
    for path in folder.iterdir():
        path.unlink()
    assert composed(sweeps.overrides(cell))["dataset"] == cell["dataset"]
    assert datasets.inputs(cell["dataset"]) == []


def test_an_output_never_replaces_an_image_file(folder, capsys):
    arguments = ["dataset=idx", f"dataset.path={folder}", "training.batch_size=1"]
    for name in NAMES:
        assert cli.main(["prepare", *arguments, f"output={folder}/{name}"]) == 2
        assert "this file is an input, which would be overwritten" in capsys.readouterr().err
        assert (folder / name).read_bytes() == FILES[name]
    for _ in range(2):
        assert cli.main(["prepare", *arguments, f"output={folder}/t.npy"]) == 0


def test_the_digest_is_read_again_only_where_a_file_has_changed(folder, monkeypatch):
    choice = of(folder)
    first = datasets.digest(choice)
    monkeypatch.setattr(idx_images, "read_idx", lambda *given: pytest.fail("it was read again"))
    assert datasets.digest(choice) == first


def test_a_choice_that_leaves_everything_open_is_all_that_the_files_hold(folder):
    assert np.array_equal(idx_images.make(str(folder)), idx_files.table(FILES.values()))
    choice = groups.load("dataset", "idx") | {"path": str(folder)}
    assert datasets.completed(choice) == {**choice, "rows": 4, "test_rows": 2, "shape": [1, 2, 3]}


def sized(*sizes):
    """The beginning of a file of images."""
    return struct.pack(">4I", 0x803, *sizes)


IMAGES, TESTED = FILES[TRAIN_IMAGES], FILES[TEST_IMAGES]
FAULTS = {
    "text": (TRAIN_IMAGES, b"<!DOCTYPE html>", "0x3c21444f: it must be 0x00000803 (images"),
    "nothing": (TRAIN_LABELS, b"", "it has 0 bytes: an IDX file of labels begins with 8"),
    "half a magic number": (TRAIN_IMAGES, b"\0\0", "it has 2 bytes: an IDX file of images begins with 16"),
    "half a header": (TEST_IMAGES, TESTED[:15], "it has 15 bytes"),
    "labels": (TEST_IMAGES, FILES[TEST_LABELS], "0x00000801 (labels: unsigned bytes in 1 dimension):"),
    "images": (TEST_LABELS, TESTED, "0x00000803 (images: unsigned bytes in 3 dimensions)"),
    "floats": (TRAIN_IMAGES, b"\0\0\x0d\x03" + IMAGES[4:], "0x00000d03 (32-bit floats in 3 dimensions): "),
    "the other byte order": (TRAIN_LABELS, b"\x01\x08\0\0" + FILES[TRAIN_LABELS][4:], "0x01080000: it must"),
    "no images": (TRAIN_IMAGES, sized(0, 2, 3), "0 images of 2x3: there must be at least one"),
    "no pixels": (TRAIN_IMAGES, sized(4, 0, 3), "4 images of 0x3: there must be at least one"),
    "a byte less": (TRAIN_IMAGES, IMAGES[:-1], "2x3, which with it are 40 bytes, but it has only 39"),
    "a byte more": (TRAIN_LABELS, FILES[TRAIN_LABELS] + b"\0", "4 labels, which with it are 12 bytes, but"),
    "a label less": (TRAIN_LABELS, idx_files.idx([1, 2, 3]), "it has 3 labels, but "),
    "a label more": (TEST_LABELS, idx_files.idx([1, 2, 3]), f"/{TEST_IMAGES} has 2 images: "),
    "other test images": (TEST_IMAGES, idx_files.idx(np.zeros((2, 3, 2))), "its images are 3x2, but "),
    "beyond the limit": (TRAIN_IMAGES, sized(2**31, 28, 28), "more than the 2147483648 bytes"),
    "sizes that overflow": (TRAIN_IMAGES, sized(*[2**32 - 1] * 3), "more than the 2147483648"),
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
    with pytest.raises(DataError, match=r"it has 40 bytes, and reading it takes about 6 times"):
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
        (Path.touch, "it must be a folder with the files"),
        (lambda path: path.symlink_to(path), "the folder cannot be read: Too many levels of symbolic links"),
        (lambda path: path.symlink_to("/dev/zero"), "it must be a folder"),
        (Path.mkdir, "there is no train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k"),
    ],
)
def test_a_path_that_is_no_folder_of_images_is_refused(tmp_path, make, said):
    make(tmp_path / "p")
    assert f"dataset.path is '{tmp_path}/p': {said}" in refusal(tmp_path / "p")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_only_regular_files_are_read(folder, make):
    (folder / TEST_LABELS).unlink()
    make(folder / TEST_LABELS)
    assert refusal(folder).startswith(f"{folder / TEST_LABELS}: cannot be read: ")


def test_a_file_that_is_larger_than_any_is_refused_before_it_is_read(folder):
    os.truncate(folder / TRAIN_IMAGES, idx_images.LARGEST_FILE + 1)  # sparse: it takes no space on the disk
    assert "it has 2147483649 bytes, more than the 2147483648 that a file may have" in refusal(folder)
