"""The paper's data bit for bit, and what is said of the content of a CSV file that cannot be used."""

import csv
import json
import re

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


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=50)
@given(
    values=st.lists(st.lists(finite, min_size=3, max_size=3), min_size=1),
    target=st.integers(-3, 2),
    header=st.booleans(),
    delimiter=st.sampled_from(",;\t| "),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_reads_back_what_was_written(tmp_path_factory, values, target, header, delimiter, quoting, end):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end)
        writer.writerows([("a", "b", "c")] * header + values)
    table = csv_table.make(str(path), target=target, header=header, delimiter=delimiter).values
    expected = np.array(values, dtype=np.float32)
    others = [i for i in range(3) if i != target % 3]
    assert np.array_equal(table, expected[:, [*others, target % 3]])
    if header:
        by_name = csv_table.make(str(path), target="abc"[target], delimiter=delimiter)
        assert np.array_equal(by_name.values, table)


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


def test_one_row_and_constant_columns_are_a_table(tmp_path):
    path = written(tmp_path, "x,y\n 1 , 2\n")
    assert csv_table.make(path, target=-1).values.tolist() == [[1.0, 2.0]]
    path = written(tmp_path, "x,y\n5,5\n5,5")
    assert csv_table.make(path, target="y").values.tolist() == [[5.0, 5.0]] * 2


def test_too_few_rows_for_a_batch():
    table = datasets.make(groups.load("dataset", "small")).values
    with pytest.raises(DataError, match=r"256 rows.*batch_size is 257, it must be at most 256"):
        datasets.split(table, 257, "small")


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
