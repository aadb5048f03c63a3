"""The paper's data bit for bit, what any data set must be, and prepared ones: whole and of their choice."""

import json
import os
import pickle
import re
import resource
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records_of import record

from snn import cli, datasets
from snn.analysis import frame
from snn.config import groups
from snn.config.compose import composed
from snn.config.groups import read_yaml
from snn.datasets import Table, csv_table
from snn.errors import ConfigError, DataError, RecordError
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.measurement import cell
from snn.prepare import prepare
from snn.records import store

SMALL = groups.load("dataset", "small") | {"rows": 2, "features": 2}
TABLE = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)
THRESHOLDS = read_yaml(groups.CONFIG / "verdicts.yaml")
CELL = [
    "device=cpu",
    "network.hidden=[2]",
    "training.epochs=1",
    "protocol.runs=1",
    "protocol.warmup_seconds=0",
    "protocol.max_warmup_seconds=0",
]


@pytest.fixture
def path(tmp_path):
    datasets.write(tmp_path / "t.npy", Table(TABLE), SMALL)
    return tmp_path / "t.npy"


def refused(path, why, choice=SMALL):
    """Whether loading refuses a file, naming it and the fault."""
    with pytest.raises(DataError) as caught:
        datasets.load(path, choice)
    said = str(caught.value)
    return said.startswith(f"{path}: ") and why in said and "--force" not in said


def test_of_a_workflows_data_set_the_refusal_says_how_to_prepare_it_again(tmp_path):
    path = tmp_path / "results/datasets/t.npy"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no table")
    with pytest.raises(
        DataError, match=rf"; to prepare it again: snakemake --cores 1 --force {re.escape(str(path))}$"
    ):
        datasets.load(path, SMALL)


def test_what_was_prepared_is_loaded(path):
    table = datasets.load(path, dict(reversed(SMALL.items()))).values
    assert np.array_equal(table, TABLE)
    assert table.dtype == np.float32
    assert table.flags.writeable
    assert datasets.intact(path, SMALL)
    assert np.array_equal(np.load(path), TABLE)  # as anyone may look at it


def test_a_table_of_another_choice_is_refused(path):
    other = SMALL | {"seed": 43}
    assert refused(path, '"seed": 42', other)
    assert not datasets.intact(path, other)


WHOLE_SIZE = 128 + TABLE.nbytes + len(json.dumps(SMALL)) + 32


@settings(max_examples=200)
@given(place=st.integers(0, WHOLE_SIZE - 1), change=st.integers(1, 255))
def test_a_changed_byte_is_refused(tmp_path_factory, place, change):
    path = tmp_path_factory.mktemp("prepared") / "t.npy"
    datasets.write(path, Table(TABLE), SMALL)
    content = bytearray(path.read_bytes())
    assert len(content) == WHOLE_SIZE
    content[place] ^= change
    path.write_bytes(content)
    assert refused(path, "digest")
    assert not datasets.intact(path, SMALL)


@settings(max_examples=50)
@given(length=st.integers(0, WHOLE_SIZE - 1))
def test_a_truncated_file_is_refused(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("prepared") / "t.npy"
    datasets.write(path, Table(TABLE), SMALL)
    os.truncate(path, length)
    assert refused(path, "digest")


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("trapped"),)


@pytest.mark.parametrize(
    "table",
    [TABLE, TABLE.astype(float), TABLE[0], TABLE * np.nan, np.array([Trap()], dtype=object)],
    ids=["table", "float64", "one dimension", "NaN", "objects"],
)
def test_a_file_of_numpys_own_is_refused(path, tmp_path, monkeypatch, table):
    monkeypatch.chdir(tmp_path)
    np.save(path, table)
    assert refused(path, "digest")
    path.write_bytes(pickle.dumps(Trap()))
    assert refused(path, "digest")
    assert not Path("trapped").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_refused(path, value):
    table = TABLE.copy()
    table[1, 0] = value
    with pytest.raises(DataError, match="row 1, column 0"):
        datasets.write(path, Table(table), SMALL)


def test_only_a_regular_file_is_loaded(path, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("none.npy", ".", "fifo"):
        assert refused(tmp_path / name, "cannot be read")
    assert refused(Path("/dev/zero"), "it is a device")


@contextmanager
def largest_file(nbytes):
    """Let no file of this process grow beyond this: the system refuses to write, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_disk_that_is_full_is_a_refusal_and_leaves_nothing(tmp_path, capsys):
    output = tmp_path / "new" / "t.npy"
    with largest_file(1000):
        assert cli.main(["prepare", "dataset=small", f"output={output}"]) == 2
    said = capsys.readouterr().err
    assert said == f"snn: {output}: cannot be written: File too large; its content is lost\n"
    assert not list(output.parent.iterdir())


def test_an_output_that_cannot_be_written_is_a_refusal(tmp_path, capsys):
    (tmp_path / "file").touch()
    for output in (tmp_path / "file" / "t.npy", tmp_path):
        assert cli.main(["prepare", "dataset=small", f"output={output}"]) == 2
        assert f"snn: output is '{output}': " in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_cell_trains_on_what_was_prepared_for_it_and_says_so_in_its_record(tmp_path):
    path = tmp_path / "small.npy"
    assert cli.main(["prepare", "dataset=small", f"output={path}"]) == 0
    in_memory, loaded = (cell.run(composed([*CELL, *data])) for data in ([], [f"data={path}"]))
    store.checked(json.loads(json.dumps(loaded)), "the record")
    assert in_memory["data"] == loaded["data"]
    assert (loaded["data"]["rows"], loaded["data"]["features"]) == (256, 32)
    for wrong, said in (
        ([f"data={path}", "dataset.seed=43"], "it was made from"),
        (["data="], "it is a folder"),
    ):
        with pytest.raises(DataError, match=said):
            cell.run(composed([*CELL, *wrong]))


def test_the_digest_of_data_is_of_shape_and_values():
    tables = (TABLE, TABLE.reshape(3, 2), TABLE + 1)
    described = [datasets.described(Table(table), SMALL | {"rows": len(table)}) for table in tables]
    assert len({one["sha256"] for one in described}) == 3
    assert described[0] == datasets.described(Table(np.asfortranarray(TABLE)), SMALL)


IMAGES = {"name": "mine", "rows": 3, "test_rows": 2, "shape": [1, 1, 2]}
FIVE = np.arange(15, dtype=np.float32).reshape(5, 3)


def test_test_rows_follow_the_training_rows_and_are_counted_apart(tmp_path):
    training, test = datasets.parts(FIVE, IMAGES)
    assert np.array_equal(np.concatenate([training, test]), FIVE)
    assert len(test) == 2
    assert datasets.parts(TABLE, SMALL)[1] is None
    of_record = datasets.described(Table(FIVE), IMAGES)
    assert (of_record["rows"], of_record["test_rows"], of_record["features"]) == (3, 2, 2)
    assert "test_rows" not in datasets.described(Table(TABLE), SMALL)
    path = tmp_path / "t.npy"
    datasets.write(path, Table(FIVE), IMAGES)
    assert np.array_equal(datasets.load(path, IMAGES).values, FIVE)


@pytest.mark.parametrize("rows", [1, 4, 6])
def test_a_table_of_other_rows_than_its_choice_says_is_refused(rows):
    with pytest.raises(DataError, match=f"has {rows} rows, but dataset.rows is 3 and dataset.test_rows is 2"):
        datasets.parts(np.zeros((rows, 3), np.float32), IMAGES)


def test_tables_refuse_one_data_set_with_two_contents():
    planned = sweeps.read(groups.CONFIG / "grid.yaml", Device("cuda", "NVIDIA H200"))["neurons"].cells[:2]
    records = {str(number): record(one, [1.0]) for number, one in enumerate(planned)}
    assert len(frame.tabulate(records, THRESHOLDS)) == 2
    other = {**records["1"], "data": {**records["1"]["data"], "sha256": "1" * 64}}
    with pytest.raises(RecordError, match=r"^1 was trained on other data than 0, though .*--force"):
        frame.tabulate(records | {"1": other}, THRESHOLDS)
    earlier = {key: value for key, value in records["1"].items() if key != "data"}
    assert len(frame.tabulate(records | {"1": earlier}, THRESHOLDS)) == 2


@pytest.mark.parametrize(("name", "rows"), [("small", 256), ("medium", 2560), ("large", 25600)])
def test_the_papers_data(name, rows):
    table = datasets.make(groups.load("dataset", name)).values
    random = np.random.RandomState(42)
    X = random.uniform(-1, 1, size=(rows, 32))
    Y = np.square(X).sum(1) + random.normal(0, 0.1, size=rows)
    assert table.dtype == np.float32
    assert np.array_equal(table[:, :32], X.astype(np.float32))
    assert np.array_equal(table[:, 32], Y.astype(np.float32))


def written(folder, text, name="table.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@settings(max_examples=200)
@given(
    content=st.binary(max_size=200) | st.text('01.-,,"\n\nab\x1b?NA ', max_size=60).map(str.encode),
    header=st.booleans(),
    keys=st.fixed_dictionaries(
        {
            "standardise": st.booleans(),
            "held_out": st.sampled_from([0.0, 0.4]),
            "text_columns": st.sampled_from(["error", "one_hot", "drop"]),
            "missing": st.sampled_from(["error", "drop_rows"]),
            "task": st.sampled_from(["regression", "classification"]),
        }
    ),
)
def test_any_bytes_are_a_table_or_refused(tmp_path_factory, content, header, keys):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(content)
    try:
        table = csv_table.make(str(path), target=0, header=header, **keys)
    except DataError as error:
        assert str(path) in str(error)
        assert str(error).isprintable()
    else:
        assert np.isfinite(table.values).all()
        assert json.dumps(table.facts).isprintable()


@settings(max_examples=200)
@given(text=st.text(alphabet='0123456789+-.eE_ \t"naifx٣１', min_size=1, max_size=8))
def test_a_cell_is_a_decimal_number_in_ascii_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text(f"a,b\n0,0\n1,{text}\n")
    decimal = re.fullmatch(r"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*", text)
    quoted = re.fullmatch(r' *"([^"]*)"', text) or re.search(r"[0-9] [0-9]{3}", text)  # or grouped, as 1 000
    if quoted is None and decimal and abs(float(text)) < 3e38:
        assert csv_table.make(str(path), target="b").values[1, 1] == np.float32(float(text))
    elif quoted is None:
        with pytest.raises(DataError, match="line 3"):
            csv_table.make(str(path), target="b")


def test_whole_numbers_that_float32_rounds_are_told_once_by_column(tmp_path):
    path = written(tmp_path, "id,price,big,y\n1,0.1,16777216,33554433\n16777217,0.2,1e30,33554435\n")
    (line,) = csv_table.make(path, target="y").remarks
    assert line.startswith(f"{path}: float32 rounds whole numbers in 2 column(s): ")
    assert "'id', where 16777217 (line 3) becomes 16777216" in line
    assert "'y', where 33554433 (line 2) becomes 33554432" in line
    assert not csv_table.make(written(tmp_path, "x,y\n123456.789,-16777216.0\n"), target="y").remarks


def test_too_few_rows_for_a_batch():
    table = datasets.make(groups.load("dataset", "small")).values
    with pytest.raises(DataError, match=r"256 rows.*batch_size is 257, it must be at most 256"):
        datasets.split(table, 257, "small")


def test_a_network_that_is_not_trained_on_it_does_not_limit_a_data_set(tmp_path):
    path = tmp_path / "wide.npy"
    prepare(
        [f"output={path}", "dataset=small", "training.batch_size=256", "network.hidden=[1048576, 1048576]"]
    )
    assert path.exists()


def test_a_data_set_that_this_machine_cannot_hold_is_refused_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "make", None)
    with pytest.raises(ConfigError, match=r"this data set needs .* of 1000000000 rows"):
        prepare(
            [
                f"output={tmp_path / 'x.npy'}",
                "dataset=small",
                "dataset.rows=1000000000",
                "dataset.features=100000",
            ]
        )


def test_unknown_parameter_of_a_data_set():
    with pytest.raises(ConfigError, match="dataset small"):
        datasets.make(groups.load("dataset", "small") | {"colour": 1})


@pytest.mark.parametrize(("key", "value"), [("seed", 2**32), ("rows", 10**30)])
def test_a_value_that_numpy_refuses_is_an_error_of_the_data_set(key, value):
    with pytest.raises((ConfigError, DataError), match="dataset small: "):
        datasets.make(groups.load("dataset", "small") | {key: value})


def test_what_a_data_set_makes_is_a_finite_float32_table():
    with (
        np.errstate(over="ignore"),
        pytest.raises(DataError, match=r"dataset small: the value in row 0, column \d+ "),
    ):
        datasets.make(groups.load("dataset", "small") | {"noise": 1e300})
    choice = {"_target_": f"{__name__}.wide", "name": "mine"}
    with pytest.raises(DataError, match=r"dataset mine: it holds float64 of shape \(2, 2\), not float32"):
        datasets.make(choice)


def wide():
    return np.zeros((2, 2))
