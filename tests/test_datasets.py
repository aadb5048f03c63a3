"""The paper's data bit for bit, and what is said of the content of a CSV file that cannot be used."""

import csv
import gzip
import io
import json
import re
import zipfile

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


def zipped(name):
    """A zip archive with one file of this name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, "x,y\n1,2\n")
    return content.getvalue()


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
    quoted = re.fullmatch(r'"([^"]*)"', text)
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


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        ("", {"target": "y"}, "the file is empty"),
        ("x,y\n", {"target": "y"}, "no rows of data"),
        ("x,y\n1,2\n3\n", {"target": "y"}, "line 3: 1 columns, but the lines before have 2"),
        ("x,y\n1,2\n3,4,5\n", {"target": "y"}, "line 3: 3 columns"),
        ("x,y\n1,2\n3,four\n", {"target": "y"}, "line 3, column 'y': 'four' is not a number"),
        ("x,y\n1,2\n,4\n", {"target": "y"}, "line 3, column 'x': '' is a missing value"),
        ("x,y\n1,2\n٣,4\n", {"target": "y"}, "line 3, column 'x': '٣' is not a number"),
        ("x,y\n1,2\n0x10,4\n", {"target": "y"}, "line 3, column 'x': '0x10' is not a number"),
        ("x,y\n1,2\n1\x0b,4\n", {"target": "y"}, "line 3, column 'x': '1\\x0b' is not a number"),
        ("x,y\n1,2\n1\0,4\n", {"target": "y"}, "NUL bytes"),
        ("x,y\n" + "1,2\n" * 2000 + "1\0,4\n", {"target": "y"}, "line 2002, column 'x': '1\\x00'"),
        ("x,y\n1,2\n\ufeff1,4\n", {"target": "y"}, "line 3, column 'x': '\\ufeff1' is not a number"),
        ("x,y\n1_0,4\n", {"target": "y"}, "line 2, column 'x': '1_0' is not a number"),
        ("x,y\n3,4\n1,nan\n", {"target": "y"}, "line 3, column 'y': 'nan' is a missing value"),
        ("x,y\n1,2\n-inf,2\n", {"target": "y"}, "line 3, column 'x': '-inf' is not a finite"),
        ("x,y\n1,2\n1e39,2\n", {"target": "y"}, "line 3, column 'x': '1e39' is not a finite float32"),
        ("x,y\n1,2\n", {"target": "z"}, "dataset.target is 'z', which is not in the header: x, y"),
        ("x,y\n1,2\n", {"target": "Y"}, "is 'Y', which is not in the header (did you mean 'y'?): x, y"),
        ("x,price\n1,2\n", {"target": "prize"}, "not in the header (did you mean 'price'?): x, price"),
        ("x,y\n" + "1" * 200_000 + ",2\n", {"target": "y"}, "line 2: not a line of a CSV file: field larger"),
        ("x,y\n1,2\n" + "1" * 99 + "x,2\n", {"target": "y"}, f"column 'x': '{'1' * 40}'... is not a number"),
        ("y,y\n1,2\n", {"target": "y"}, "'y' is more than once in the header: rename one"),
        ("x,x,y\n1,2,3\n", {"target": "y"}, "'x' is more than once in the header: rename one"),
        (",x,y\n0,1,2\n", {"target": "y"}, "column 0 (from 0) has no name in the header"),
        ("x\x1b[2J,y\n1,2\n", {"target": "y"}, "line 1: the name 'x\\x1b[2J' in the header has a control"),
        (
            "1,2\n3,4\n",
            {"target": 1},
            "line 1: the header holds only numbers: 1, 2. If it is data, say dataset.header=false",
        ),
        ("1,nan\n3,4\n", {"target": 1}, "line 1: the header holds only numbers"),
        ("1,\n3,4\n", {"target": 1}, "line 1: the header holds only numbers"),
        ('x,y\n"1"2,3\n', {"target": "y"}, "line 2: not a line of a CSV file: ',' expected after"),
        ('x,y\n"1,3\n4,5\n', {"target": "y"}, 'line 2: a quote (") has no second one'),
        ('x,y\n"1\n2",3\n', {"target": "y"}, 'line 2: a quote (") has no second one'),
        ("x,y\n1,2\r3,4\n", {"target": "y"}, "line 2: a carriage return within a line"),
        ("x,y\n1,2\n", {"target": True}, "dataset.target is True: it must be a column's name, or its number"),
        ("x,y\n1,2\n", {"target": 1.0}, "dataset.target is 1.0: it must be"),
        ("x,y\n1,2\n", {"target": None}, "dataset.target is None: it must be"),
        ("x,y\n1,2\n", {"target": ["y"]}, "dataset.target is ['y']: it must be"),
        ("x,y\n1,2\n", {"target": 2}, "dataset.target is 2: it must be between -2 and 1"),
        ("1,2\n", {"target": "y", "header": False}, "give the column's number, 0 to 1"),
        ("x,y\n1,2\n", {"target": 1, "header": False}, "is the first line a header"),
        ("x y\n1 2\n", {"target": 0}, "only one column ('x y'), but a feature and a target are needed; is "),
        ("x;y\n1;2\n", {"target": 0}, "by semicolons: say \"dataset.delimiter=';'\""),
        ("1|2\n", {"target": 0, "header": False}, "by bars (|): say \"dataset.delimiter='|'\""),
        ("x\ty\n1\t2\n", {"target": 0}, "by tabs: say $'dataset.delimiter=\\'\\t\\''"),
        ("x,y\n1,2\n", {"target": 0, "delimiter": ";"}, "by commas: leave out dataset.delimiter"),
        ('"x";"y"\n1;2\n', {"target": "y"}, "',' expected after '\"'; its first line seems to be separated"),
        (b"x,y\n1,\xff\n", {"target": "y"}, "line 2: not a CSV file in UTF-8: the byte 0xff"),
        ("°,y\n1,2\n".encode("latin1"), {"target": "y"}, "in Latin-1, convert it: iconv -f latin1 -t utf8 "),
        ("€,y\n1,2\n".encode("cp1252"), {"target": "y"}, "iconv -f cp1252 -t utf8 "),
        (b"\xef\xbb\xbf\xffx,y\n1,2\n", {"target": "y"}, "line 1: not a CSV file in UTF-8: the byte 0xff"),
        ("x,y\n1,2\n".encode("utf-16"), {"target": "y"}, "looks like text in UTF-16: save it as UTF-8"),
        ("x,y\n1,2\n".encode("utf-16-be"), {"target": "y"}, "looks like text in UTF-16"),
        (gzip.compress(b"x,y\n1,2\n", mtime=0), {"target": "y"}, "looks like a gzip file: unpack it first"),
        (zipped("t.csv"), {"target": "y"}, "looks like a zip archive: unpack it first"),
        (zipped("xl/workbook.xml"), {"target": "y"}, "looks like an Excel workbook (.xlsx): save its sheet"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_says_what_is_wrong_and_where(tmp_path, text, settings, said):
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        csv_table.make(path, **settings)
    assert path in str(caught.value)
    assert said in str(caught.value)


def test_one_row_and_constant_columns_are_a_table(tmp_path):
    path = written(tmp_path, "x,y\n 1 , 2\n")
    assert csv_table.make(path, target=-1).values.tolist() == [[1.0, 2.0]]
    path = written(tmp_path, "x,y\n5,5\n5,5")
    assert csv_table.make(path, target="y").values.tolist() == [[5.0, 5.0]] * 2


def test_blank_lines_and_a_byte_order_mark_do_no_harm(tmp_path):
    path = written(tmp_path, "﻿x,y\n\n1,2\n\n")
    assert csv_table.make(path, target="x").values.tolist() == [[2.0, 1.0]]


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
