"""In which settings rows differ."""

import numpy as np
import pandas as pd
import pytest

from snn.analysis.grouping import is_empty, setting, settings, texts, varied


def test_a_setting_that_one_row_lacks_varies_and_one_of_another_group_does_not():
    rows = pd.DataFrame(
        {
            "dataset": ["small", "small", "large"],
            "lacks": [1.0, None, None],
            "same": [1, 1, 2],
            "differs": [1, 2, 2],
            "empty": [None] * 3,
        }
    )
    assert varied(rows, ["lacks", "same", "differs", "empty"], ["dataset"]) == ["lacks", "differs"]


def test_texts_join_the_values_of_a_row_empty_ones_too():
    rows = pd.DataFrame({"a": ["x", None], "b": [1, 2], "c": [np.nan, 0.5]}, index=[7, 3])
    found = texts(rows, ["a", "b", "c"])
    assert found.to_dict() == {7: "x|1|", 3: "|2|0.5"}


def test_settings_are_the_keys_of_sections():
    rows = pd.DataFrame(columns=["training", "training.epochs", "network.seed", "kernel.name", "mean_s"])
    assert settings(rows, ["training", "network", "mean_s"]) == ["training.epochs", "network.seed"]


@pytest.mark.parametrize("nothing", [None, pd.NA, float("nan"), np.nan, ""])
def test_what_holds_nothing_is_empty(nothing):
    assert is_empty(nothing)


@pytest.mark.parametrize("something", [0, 0.0, False, "x", " ", (), "nan"])
def test_what_holds_something_is_not(something):
    assert not is_empty(something)


def test_a_list_is_shown_as_one_text():
    assert (setting([16, 8]), setting([]), setting(3), setting("a-b"), setting(None)) == (
        "16-8",
        "",
        3,
        "a-b",
        None,
    )
