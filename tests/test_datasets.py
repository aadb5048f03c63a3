"""The paper's data bit for bit, and what is said of a user's file that cannot be used."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snn import datasets
from snn.config import groups
from snn.datasets import csv_table
from snn.errors import ConfigError, DataError


@pytest.mark.parametrize(("name", "rows"), [("small", 256), ("medium", 2560), ("large", 25600)])
def test_the_papers_data(name, rows):
    table = datasets.make(groups.load("dataset", name))
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


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=50)
@given(
    values=st.lists(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
        min_size=1,
    ),
    target=st.integers(-3, 2),
    header=st.booleans(),
)
def test_reads_back_what_was_written(tmp_path_factory, values, target, header):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b", "c")] * header + values)
    table = csv_table.make(str(path), target=target, header=header)
    expected = np.array(values, dtype=np.float32)
    others = [i for i in range(3) if i != target % 3]
    assert np.array_equal(table, expected[:, [*others, target % 3]])
    if header:
        assert np.array_equal(csv_table.make(str(path), target="abc"[target]), table)


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        ("", {"target": "y"}, "the file is empty"),
        ("x,y\n", {"target": "y"}, "no rows of data"),
        ("x,y\n1,2\n3\n", {"target": "y"}, "line 3: 1 columns, but the lines before have 2"),
        ("x,y\n1,2\n3,4,5\n", {"target": "y"}, "line 3: 3 columns"),
        ("x,y\n1,2\n3,four\n", {"target": "y"}, "line 3, column 'y': 'four' is not a number"),
        ("x,y\n1,2\n,4\n", {"target": "y"}, "line 3, column 'x': '' is not a number"),
        ("x,y\n1,2\n1_0,4\n", {"target": "y"}, "line 3, column 'x': '1_0' is not a number"),
        ("x,y\n1,nan\n", {"target": "y"}, "line 2, column 'y': 'nan' is not a finite"),
        ("x,y\n1,2\n-inf,2\n", {"target": "y"}, "line 3, column 'x': '-inf' is not a finite"),
        ("x,y\n1,2\n1e39,2\n", {"target": "y"}, "line 3, column 'x': '1e39' is not a finite float32"),
        ("x,y\n1,2\n", {"target": "z"}, "dataset.target is 'z', which is not in the header: x, y"),
        ("y,y\n1,2\n", {"target": "y"}, "dataset.target is 'y', which is more than once in the header"),
        ("x,y\n1,2\n", {"target": 2}, "dataset.target is 2: it must be between -2 and 1"),
        ("1,2\n", {"target": "y", "header": False}, "give the column's number, 0 to 1"),
        ("x,y\n1,2\n", {"target": 1, "header": False}, "is the first line a header"),
        ("x;y\n1;2\n", {"target": 0}, "is dataset.delimiter right"),
        (b"x,y\n1,\xff\n", {"target": "y"}, "not a CSV file in UTF-8"),
    ],
)
def test_says_what_is_wrong_and_where(tmp_path, text, settings, said):
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        csv_table.make(path, **settings)
    assert path in str(caught.value)
    assert said in str(caught.value)


def test_missing_file_and_folder(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(DataError, match=f"{path}: cannot be read"):
            csv_table.make(str(path), target="y")


def test_blank_lines_and_a_byte_order_mark_do_no_harm(tmp_path):
    path = written(tmp_path, "﻿x,y\n\n1,2\n\n")
    assert csv_table.make(path, target="x").tolist() == [[2.0, 1.0]]


def test_refuses_a_file_that_changed(tmp_path):
    path = written(tmp_path, "x,y\n1,2\n")
    known = csv_table.digest(Path(path))
    assert len(csv_table.make(path, target="y", sha256=known)) == 1
    written(tmp_path, "x,y\n1,3\n")
    with pytest.raises(DataError, match="has changed"):
        csv_table.make(path, target="y", sha256=known)


def test_too_few_rows_for_a_batch():
    table = datasets.make(groups.load("dataset", "small"))
    with pytest.raises(DataError, match=r"256 rows.*batch_size is 257, it must be at most 256"):
        datasets.split(table, 257, "small")


def test_prepared_files_are_checked(tmp_path):
    path = tmp_path / "t.npy"
    path.write_text("no")
    with pytest.raises(DataError, match="not a prepared data set"):
        datasets.load(path)
    np.save(path, np.zeros((3, 3)))
    with pytest.raises(DataError, match="float64"):
        datasets.load(path)


def test_unknown_parameter_of_a_data_set():
    with pytest.raises(ConfigError, match="dataset small"):
        datasets.make(groups.load("dataset", "small") | {"colour": 1})
