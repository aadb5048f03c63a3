"""What of a user's table can be trained on, but perhaps is not meant: it is said, and changes nothing."""

import numpy as np
import pytest
from csv_tables import of_rows
from hypothesis import given
from hypothesis import strategies as st

from snn import datasets, prepare
from snn.datasets import csv_table
from snn.errors import DataError

ROWS = 12
FEATURE = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
TARGET = 2 * FEATURE % 7 + 0.5


def remarks(folder, columns, **keys):
    """Of a table with these columns, by one letter each, and the target y."""
    names = "".join(columns) + "y"
    rows = list(zip(*columns.values(), TARGET, strict=True))
    return csv_table.make(of_rows(folder, rows, names), "y", **keys).remarks


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (range(ROWS), "'b' numbers the rows"),
        (range(100, 100 + ROWS), "'b' numbers the rows"),
        (np.random.default_rng(1).permutation(ROWS), "'b' numbers the rows"),
        ([7] * ROWS, "'b' is the same in all rows"),
        (["red"] * ROWS, "'b' is the same in all rows"),
        (TARGET, "'b' equals the target"),
    ],
)
@pytest.mark.parametrize("standardise", [True, False])
def test_a_doubtful_feature_is_named(tmp_path, column, said, standardise):
    keys = {"standardise": standardise, "text_columns": "one_hot"}
    line = remarks(tmp_path, {"a": FEATURE, "b": column}, **keys)[-1]
    assert f"t.csv: {said}: is that meant to be a feature? To leave a column out, remove it" in line


@pytest.mark.parametrize(
    "column", [2 * np.arange(ROWS), np.arange(ROWS) + 0.5, [*range(ROWS - 1), 0], FEATURE]
)
def test_other_features_are_not(tmp_path, column):
    assert not remarks(tmp_path, {"a": FEATURE, "b": column})


def test_of_few_rows_any_numbers_may_be_consecutive(tmp_path):
    assert not csv_table.make(of_rows(tmp_path, [(1, 5), (2, 3), (3, 8)], "xy"), "y").remarks


def test_the_same_classes_in_words_equal_the_target(tmp_path):
    rows = [(i % 3, name, name) for i, name in enumerate(["no", "yes", "yes", "no"] * 3)]
    made = csv_table.make(of_rows(tmp_path, rows, "aby"), "y", text_columns="one_hot", task="classification")
    assert "'b' equals the target" in made.remarks[-1]
    assert "columns of 0 and 1: 'b' (2 values)" in made.remarks[0]


@pytest.mark.parametrize("last", [0, 1])
def test_a_row_of_totals_is_named(tmp_path, last):
    totals = ("total", FEATURE.sum() + last, TARGET.sum())
    path = of_rows(tmp_path, [*zip("uvw" * 4, FEATURE, TARGET, strict=True), totals], "aby")
    said = "".join(csv_table.make(path, "y", text_columns="drop").remarks)
    assert ("row of totals" in said) == (not last)


def test_of_many_the_first_are_named(tmp_path):
    (line,) = remarks(tmp_path, {name: [3] * ROWS for name in "abcdefgh"})
    assert "'e' is the same in all rows and 3 more: is that" in line


@given(shift=st.integers(-5, 5), drop=st.integers(0, ROWS - 1))
def test_what_is_said_changes_no_value(tmp_path_factory, shift, drop):
    ids = np.delete(np.arange(ROWS + 1), drop) + shift
    rows = list(zip(ids, TARGET, strict=True))
    made = csv_table.make(of_rows(tmp_path_factory.mktemp("csv"), rows, "xy"), "y")
    assert np.array_equal(made.values, np.array(rows, np.float32))
    assert bool(made.remarks) == (drop in (0, ROWS))


def test_they_are_printed_where_a_table_is_made(tmp_path, capsys):
    path = of_rows(tmp_path, list(zip(range(ROWS), FEATURE, TARGET, strict=True)), "aby")
    keys = ["dataset=csv", f"dataset.path={path}", "dataset.target=y", "training.batch_size=4"]
    assert prepare.main([*keys, f"output={tmp_path / 'made.npy'}"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"snn: note: {path}: 'a' numbers the rows: is that")
    datasets.say_remarks(datasets.Table(np.zeros((2, 2), np.float32), remarks=("a\nb.csv: two lines",)))
    assert capsys.readouterr().err == "snn: note: a\\nb.csv: two lines\n"


@pytest.mark.parametrize(
    ("given", "named"), [("2", "2"), (2, "2"), (0, "0"), (-1, "2"), (-2, "1"), (1, "1"), ("1", "1")]
)
def test_a_number_that_is_a_name_in_the_header_is_that_name(tmp_path, given, named):
    """As of years; the columns are named by what they do not stand at."""
    header, rows = ["id", "0", "1", "2"], [(5, 6, 7, 8), (1, 2, 3, 4)]
    path = of_rows(tmp_path, rows, header)
    made = csv_table.make(path, given)
    assert made.values[:, -1].tolist() == [row[header.index(named)] for row in rows]
    notes = [line for line in made.remarks if "the target, given as" in line]
    assert notes == (
        [f"{path}: the target, given as {given}, is the column {named!r}"] if given != named else []
    )


def test_a_number_that_is_no_column_is_refused_with_the_header(tmp_path):
    path = of_rows(tmp_path, [(5, 6), (1, 2)], ["gdp", "2019"])
    with pytest.raises(DataError, match="it must be between -2 and 1, or a name in the header: gdp, 2019"):
        csv_table.make(path, 2021)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0, 1] * 6, "0 to 1"),
        ([1, 2, 3] * 4, "1 to 3"),
        ([3, 4, 5] * 4, None),
        ([0, 2] * 6, None),
        ([0.0, 0.5, 1.0] * 4, None),
        (range(12), None),
        ([0] * 12, None),
    ],
)
def test_a_target_that_may_be_classes_is_named_where_it_is_predicted_as_a_number(tmp_path, values, said):
    path = of_rows(tmp_path, list(zip(FEATURE, values, strict=True)), "xy")
    notes = [line for line in csv_table.make(path, "y").remarks if "--classify" in line]
    assert len(notes) == bool(said)
    if said:
        assert f"the target 'y' holds the whole numbers {said}, and is predicted as a number" in notes[0]
        assert not csv_table.make(path, "y", task="classification").remarks


@pytest.mark.parametrize(
    ("values", "alone"),
    [(7 * np.arange(ROWS), 12), ([*"abcdefgh", *"hhhh"], 7), ([*"abcdefg", *"ggggg"], 0)],
)
def test_classes_of_which_most_rows_are_one_of_their_own_are_named(tmp_path, values, alone):
    path = of_rows(tmp_path, list(zip(FEATURE, values, strict=True)), "xy")
    said = csv_table.make(path, "y", task="classification").remarks
    assert len(said) == bool(alone)
    if said:
        assert f"t.csv: {alone} of 12 rows are the only one of their class" in said[0] and "'y'" in said[0]


def test_what_is_left_out_is_said(tmp_path):
    rows = [(i, "" if i < 3 else i % 7, f"n{i}", i * i % 11) for i in range(5, -9, -1)]
    path = of_rows(tmp_path, rows, "abcy")
    rows, columns = csv_table.make(path, "y", text_columns="drop", missing="drop_rows").remarks
    assert "left out: 11 of 14 rows" in rows
    assert "11 in 'b'" in rows
    assert columns == f"{path}: left out: column with text: 'c'"
