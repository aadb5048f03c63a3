"""The columns of a CSV file: standardised, with text or without values; rows held out; labels."""

import numpy as np
import pytest
from csv_tables import LABELS, arguments, of_rows, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from snn import datasets
from snn.config.compose import composed
from snn.datasets import csv_table
from snn.datasets.csv_table import MOST_VALUES
from snn.errors import ConfigError, DataError
from snn.measurement.passes import job_of

# ---- standardised by the rows that are trained on


numbers = st.floats(-(2.0**120), 2.0**120, width=32) | st.floats(-10, 10, width=32) | st.just(5.0)


@settings(max_examples=60)
@given(
    rows=st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=5, max_size=40),
    seed=st.none() | st.integers(0, 2**32 - 1),
    share=st.sampled_from([0.0, 0.2, 0.5]),
)
def test_every_column_has_mean_0_and_variance_1_where_it_is_trained_on(tmp_path_factory, rows, seed, share):
    path = of_rows(tmp_path_factory.mktemp("csv"), rows, "aby")
    values = np.array(rows)
    try:
        made = csv_table.make(path, "y", standardise=True, held_out=share, shuffle_seed=seed)
    except DataError as error:
        assert "there is nothing to predict" in str(error) or "too far from the rows" in str(error)
        return
    order = np.arange(len(rows)) if seed is None else np.random.RandomState(seed).permutation(len(rows))
    training = len(rows) - round(share * len(rows))
    for j in range(3):
        column = values[order, j].astype(np.longdouble)
        of_training = column[:training]
        got = made.values[:, j].astype(np.float64)
        if np.ptp(of_training) == 0:
            assert not got.any()
            continue
        expected = (column - of_training.mean()) / of_training.std()
        np.testing.assert_allclose(got, expected.astype(np.float64), rtol=1e-5, atol=1e-5)
        assert got[:training].mean() == pytest.approx(0, abs=1e-5)
        assert got[:training].std() == pytest.approx(1, rel=1e-4)
    y = values[order[:training], 2]
    assert made.facts["target_mean"] == pytest.approx(y.mean(), rel=1e-9, abs=1e-9 * np.abs(y).max())
    assert made.facts["target_scale"] > 0


def test_held_out_rows_have_no_influence_on_what_is_trained_on(tmp_path):
    rows = np.random.RandomState(2).normal(size=(20, 3))
    keys = {"standardise": True, "held_out": 0.25, "shuffle_seed": 5}
    one = csv_table.make(of_rows(tmp_path, rows.tolist(), "aby"), "y", **keys)
    rows[np.random.RandomState(5).permutation(20)[15:]] *= 1000
    other = csv_table.make(of_rows(tmp_path, rows.tolist(), "aby"), "y", **keys)
    assert np.array_equal(one.values[:15], other.values[:15])
    assert not np.array_equal(one.values[15:], other.values[15:])
    assert one.facts == other.facts


def test_large_whole_numbers_keep_the_digits_in_which_they_differ(tmp_path):
    """Float32 would round time stamps to the nearest 64; their deviations are computed before."""
    stamps = 1_700_000_000 + np.arange(100)
    path = of_rows(tmp_path, [(stamp, i % 7) for i, stamp in enumerate(stamps)], "xy")
    made = csv_table.make(path, "y", standardise=True)
    assert np.allclose(made.values[:, 0], (stamps - stamps.mean()) / stamps.std(), atol=1e-6)
    assert "float32" not in " ".join(made.remarks)
    assert "float32 rounds whole numbers in 1 column(s): 'x'" in csv_table.make(path, "y").remarks[-1]


def test_a_constant_target_is_refused(tmp_path):
    path = of_rows(tmp_path, [(i, 5) for i in range(10)], "xy")
    assert "column 'y': the target is 5 in each of the 8 rows that are trained on" in refused(
        path, standardise=True, held_out=0.2
    )


def test_a_held_out_value_beyond_float32_is_refused_by_name(tmp_path):
    path = of_rows(tmp_path, [(0, 1), (1e-30, 2), (0, 3), (1e30, 4)], "xy")
    assert "column 'x': 1e+30 is too far from the rows" in refused(path, standardise=True, held_out=0.25)


# ---- rows held out


@settings(max_examples=30)
@given(rows=st.integers(6, 60), share=st.sampled_from([0.2, 0.25, 0.5, 0.9]), seed=st.integers(0, 2**32 - 1))
def test_a_share_of_the_rows_is_held_out_and_every_row_is_there_once(tmp_path_factory, rows, share, seed):
    path = of_rows(tmp_path_factory.mktemp("csv"), [(i, 2 * i) for i in range(rows)], "xy")
    choice = {"name": "csv", "held_out": share}
    table = csv_table.make(path, "y", held_out=share, shuffle_seed=seed).values
    training, test = datasets.parts(table, choice)
    assert len(test) == round(share * rows)
    assert sorted(table[:, 0]) == list(range(rows))
    assert np.array_equal(table[:, 1], 2 * table[:, 0])
    assert np.array_equal(table[:, 0], np.random.RandomState(seed).permutation(rows))
    in_order = csv_table.make(path, "y", held_out=share, shuffle_seed=None).values
    assert np.array_equal(datasets.parts(in_order, choice)[1][:, 0], np.arange(len(training), rows))


@pytest.mark.parametrize(("rows", "share", "count"), [(2, 0.2, 0), (5, 0.05, 0), (4, 0.9, 4), (1, 0.9, 1)])
def test_a_share_that_leaves_one_kind_of_rows_out_is_refused(tmp_path, rows, share, count):
    path = of_rows(tmp_path, [(i, i) for i in range(rows)], "xy")
    with pytest.raises(DataError, match=rf"dataset.held_out is {share}, which is {count} of {rows} rows"):
        csv_table.make(path, "y", held_out=share)


# ---- text


COLOURS = [(1, "red", 2), (2, "blue", 4), (3, "red", 6), (4, "Blue", 8), (5, "green", 9)]


def test_one_hot_has_a_column_per_value_in_the_order_of_code_points(tmp_path):
    path = of_rows(tmp_path, COLOURS, ["a", "colour", "y"])
    found = csv_table.make(path, "y", text_columns="one_hot")
    made = found.values
    assert found.facts == {"one_hot_columns": ["colour"]}
    values = ["Blue", "blue", "green", "red"]
    assert made.tolist() == [[a, *(float(colour == one) for one in values), y] for a, colour, y in COLOURS]
    standardised = csv_table.make(path, "y", text_columns="one_hot", standardise=True).values
    assert np.array_equal(standardised[:, 1:5], made[:, 1:5])
    assert standardised[:, 0].mean() == pytest.approx(0, abs=1e-6)


def test_a_column_that_is_dropped_may_hold_anything(tmp_path):
    path = of_rows(tmp_path, [(1, "x", 2), (2, "", 3), (3, "NA", 5)], ["a", "t", "y"])
    made = csv_table.make(path, "y", text_columns="drop")
    assert made.values.tolist() == [[1, 2], [2, 3], [3, 5]]
    assert made.facts == {"left_out_columns": ["t"]}
    only = of_rows(tmp_path, [("x", 2), ("y", 3)], "ty")
    assert "no column but the target 'y' is left" in refused(only, text_columns="drop")


def test_more_values_than_are_encoded_are_refused(tmp_path):
    rows = [(i % 5, f"n{i % (MOST_VALUES + 1)}", i) for i in range(300)]
    said = refused(of_rows(tmp_path, rows, ["a", "name", "y"]), text_columns="one_hot")
    assert f"column 'name': {MOST_VALUES + 1} different values, and at most {MOST_VALUES}" in said
    most = [(a, name, y) for a, name, y in rows if name != f"n{MOST_VALUES}"]
    table = csv_table.make(of_rows(tmp_path, most, ["a", "name", "y"]), "y", text_columns="one_hot")
    assert table.values.shape[1] == 1 + MOST_VALUES + 1


# ---- classification


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["no", "yes", "no", "Maybe"], ["Maybe", "no", "yes"]),
        ([8, 3, 5, 3], ["3", "5", "8"]),
        (["10", "9", "-1.0", "9"], ["-1", "9", "10"]),
        (["10", "x", "x", "u", "9"], ["10", "9", "u", "x"]),
    ],
)
def test_labels_are_numbered_in_a_stable_order(tmp_path, labels, classes):
    path = of_rows(tmp_path, enumerate(labels), "xy")
    made = csv_table.make(path, "y", task="classification", standardise=True)
    assert made.facts["classes"] == classes
    named = [classes[int(number)] for number in made.values[:, 1]]
    assert named == [str(label).removesuffix(".0") for label in labels]
    assert "target_scale" not in made.facts


def test_what_is_no_label_is_refused(tmp_path):
    path = of_rows(tmp_path, [(1, 0), (2, 1.5), (3, 1)], "xy")
    assert ", line 3, column 'y': 1.5" in refused(path, task="classification")
    path = of_rows(tmp_path, [(i, i) for i in range(1001)], "xy")
    assert "1001 different values, and at most 1000" in refused(path, task="classification")
    few = of_rows(tmp_path, [(i, i % 3) for i in range(20)], "xy")
    settings = composed(arguments(few, "y", *LABELS, "network.layers=[linear 2]", "training.batch_size=4"))
    with pytest.raises(
        ConfigError, match=r"3 classes \(0, 1, 2\), but .* end in 2 outputs: end them in linear 3"
    ):
        job_of(settings, datasets.make(settings["dataset"]))
