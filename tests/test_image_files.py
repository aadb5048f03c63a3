"""A user's own images in IDX files: read exactly, and part of a cell that follows them."""

import hashlib
import os
import re
import struct

import idx_files
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from idx_files import NAMES, TEST_IMAGES, TEST_LABELS, TRAIN_IMAGES, TRAIN_LABELS, image_set, write, zipped

from snn import datasets, prepare
from snn.config import groups
from snn.config.compose import composed
from snn.datasets import idx_images
from snn.errors import ConfigError, DataError
from snn.grid import naming, sweeps
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


def test_every_pixel_is_its_byte_over_255(tmp_path):
    pixels = np.arange(256).reshape(2, 8, 16)
    write(tmp_path, FILES | {TRAIN_IMAGES: idx_files.idx(pixels), TRAIN_LABELS: idx_files.idx([0, 255])})
    write(tmp_path, {TEST_IMAGES: idx_files.idx(pixels)})
    training = made(tmp_path)[:2]
    assert training[:, :-1].ravel().tolist() == [
        float(np.float32(byte) / np.float32(255)) for byte in range(256)
    ]
    assert training[:, -1].tolist() == [0, 255]


def test_a_header_is_what_the_format_says():
    assert idx_images.header((60000, 28, 28)) == struct.pack(">4I", 0x803, 60000, 28, 28)
    assert idx_images.header((7,)) == struct.pack(">2I", 0x801, 7)


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
        (
            {"shape": "[1,3,2]"},
            r"dataset.shape is \[1, 3, 2\]: it must be \[1, 2, 3\], that of the images in",
        ),
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
    assert naming.name_of(planned(folder)) != naming.name_of(cell)
    with pytest.raises(
        DataError, match="have changed since the workflow was planned; run the workflow again"
    ):
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
        assert prepare.main([*arguments, f"output={folder}/{name}"]) == 2
        assert "this file is an input, which would be lost" in capsys.readouterr().err
        assert (folder / name).read_bytes() == FILES[name]
    for _ in range(2):
        assert prepare.main([*arguments, f"output={folder}/t.npy"]) == 0


def test_the_digest_is_read_again_only_where_a_file_has_changed(folder, monkeypatch):
    choice = of(folder)
    first = datasets.digest(choice)
    monkeypatch.setattr(idx_images, "read_idx", lambda *given: pytest.fail("it was read again"))
    assert datasets.digest(choice) == first


def test_a_choice_that_leaves_everything_open_is_all_that_the_files_hold(folder):
    assert np.array_equal(idx_images.make(str(folder)), idx_files.table(FILES.values()))
    choice = groups.load("dataset", "idx") | {"path": str(folder)}
    assert datasets.completed(choice) == {**choice, "rows": 4, "test_rows": 2, "shape": [1, 2, 3]}
