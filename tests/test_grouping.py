"""In which settings rows differ, and the baseline of each row, held against its definition."""

import random

import numpy as np
import pandas as pd
import pytest
import yaml

from snn.analysis import grouping
from snn.analysis.grouping import baselines, first_at, is_empty, setting, settings, texts, varied


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


def test_the_first_of_the_chosen_rows_at_each_point():
    assert first_at(["a", "b", "a", "b", "c"], [3, 1, 2]) == [2, 3, 2, 3, -1]


@pytest.mark.parametrize(
    ("value", "empty"),
    [
        *((nothing, True) for nothing in (None, pd.NA, float("nan"), np.nan, "")),
        *((something, False) for something in (0, 0.0, False, "x", " ", (), "nan")),
    ],
)
def test_what_holds_nothing_is_empty(value, empty):
    assert is_empty(value) == empty


@pytest.mark.parametrize(
    ("value", "shown"), [([16, 8], "16-8"), ([], ""), (3, 3), ("a-b", "a-b"), (None, None)]
)
def test_a_list_is_shown_as_one_text(value, shown):
    assert setting(value) == shown


# ---- baselines

AXES = ("strategy", "kernel", "precision", "strategy.tile_rows", "kernel.block", "training.epochs")
VALUES = {
    "strategy": ["reference", "sequential", "combined", "streams"],
    "kernel": ["naive", "tiled"],
    "precision": ["fp32", "tf32"],
    "strategy.tile_rows": [32, 128.0, None],
    "kernel.block": ["16-16", "8-8"],
    "training.epochs": [1, 2],
    "dataset": ["small", "large"],
    "network": ["256"],
}


def rows_by_chance(count, seed):
    chance = random.Random(seed)
    found = [{name: chance.choice(values) for name, values in VALUES.items()} for _ in range(count)]
    rows = [row | {"on_host": row["strategy"] == "sequential", "kernel.name": row["kernel"]} for row in found]
    return pd.DataFrame(rows, dtype=object)


def numbers_by_definition(rows, chosen, point):
    """Every row beside every other, as the definition says it."""
    distance, values, numbers = grouping._distance, grouping._values, []
    for i, row in enumerate(rows):
        best, shortest = i, [distance(axis, row, row["on_host"]) for axis in chosen]
        for j, other in enumerate(rows):
            distances = [distance(axis, other, row["on_host"]) for axis in chosen]
            equal = [axis for axis, each in zip(chosen, distances, strict=True) if each == grouping._OWN]
            is_eligible = values(other, [*point, *equal]) == values(row, [*point, *equal])
            if is_eligible and distances < shortest:
                best, shortest = j, distances
        numbers.append(best)
    used = {number for i, number in enumerate(numbers) if number != i}
    return [number if number != i or i in used else -1 for i, number in enumerate(numbers)]


def test_each_row_has_the_baseline_of_the_definition():
    found = set()
    for seed in range(40):
        rows = rows_by_chance(1 + seed, seed)
        numbers, _ = baselines(rows, AXES)
        choices, point = list(AXES[:5]), ["dataset", "network", "training.epochs"]
        assert numbers == numbers_by_definition(rows.to_dict("records"), choices, point), seed
        found |= {number >= 0 for number in numbers}
    assert found == {True, False}


def test_a_row_is_looked_at_a_few_times_however_many_there_are(monkeypatch):
    calls, distance = [], grouping._distance
    monkeypatch.setattr(grouping, "_distance", lambda *given: calls.append(1) or distance(*given))
    for rows in (500, 2000):
        calls.clear()
        baselines(rows_by_chance(rows, 1), AXES)
        assert len(calls) < 30 * rows


def row_of(text):
    """A row from its strategy and what differs from the usual: ``pinned kernel=tiled``."""
    strategy, *others = text.split()
    row = {"dataset": "small", "network": "64", "strategy": strategy, "kernel": "naive", "precision": "fp32"}
    row |= {"on_host": False} | {
        key: yaml.safe_load(value) for key, value in (one.split("=") for one in others)
    }
    return {"kernel.name": row["kernel"]} | row


@pytest.mark.parametrize(
    ("rows", "axes", "numbers", "names"),
    [
        (["reference", "pinned"], "strategy", [0, 0], "reference"),
        (["pinned", "reference"], "strategy", [1, 1], "reference"),
        (["pinned"], "strategy", [-1], ""),
        (["pinned", "streams"], "strategy", [-1, -1], ""),
        (["pinned", "pinned"], "strategy", [-1, -1], ""),
        (["pinned", "pinned kernel=tiled"], "kernel", [0, 0], "kernel naive"),
        (["pinned precision=bf16", "pinned"], "precision", [1, 1], "precision fp32"),
        (
            [f"{name} on_host=1" for name in ("sequential", "reference", "blas")],
            "strategy",
            [0] * 3,
            "sequential",
        ),
        (["sequential", "reference"], "strategy", [1, 1], "reference"),
        (["reference dataset=large", "pinned"], "strategy dataset", [-1, -1], ""),
        (["pinned", "reference dataset=large"], "strategy dataset", [-1, -1], ""),
        (["reference network=8", "pinned"], "strategy network", [-1, -1], ""),
        (
            ["reference training.epochs=1", "pinned training.epochs=2"],
            "strategy training.epochs",
            [-1, -1],
            "",
        ),
        (
            ["reference", "pinned kernel=tiled", "pinned", "reference kernel=tiled"],
            "strategy kernel",
            [0] * 4,
            "reference, kernel naive",
        ),
        (
            ["combined strategy.tile_rows=32", "combined strategy.tile_rows=128"],
            "strategy.tile_rows",
            [1, 1],
            "tile rows 128",
        ),
        (["mine strategy.tile_rows=32", "mine strategy.tile_rows=null"], "strategy.tile_rows", [1, 1], ""),
        (["pinned kernel=tiled", "streams"], "strategy kernel", [-1, -1], ""),
        (["pinned kernel.block=8-8", "pinned kernel.block=16-16"], "kernel.block", [1, 1], "block 16-16"),
        (
            ["reference kernel=tiled", "pinned kernel=tiled", "streams"],
            "strategy kernel",
            [0, 0, -1],
            ["reference", "reference", ""],
        ),
        (
            ["reference dataset=large", "pinned", "reference"],
            "strategy dataset",
            [-1, 2, 2],
            ["", "reference", "reference"],
        ),
        (
            ["pinned", "pinned kernel=tiled", "streams", "streams kernel=tiled"],
            "strategy kernel",
            [0, 0, 2, 2],
            "kernel naive",
        ),
        (
            ["reference strategy.tile_rows=null", "streams strategy.tile_rows=7"],
            "strategy strategy.tile_rows",
            [0, 0],
            "reference",
        ),
        # The kernel is the chosen one, also of a strategy that brings its own.
        (["reference", "persistent kernel=one_layer kernel.name=naive"], "strategy", [0, 0], "reference"),
    ],
)
def test_baselines_and_their_names(rows, axes, numbers, names):
    found = baselines(pd.DataFrame(map(row_of, rows)), axes.split())
    assert found == (numbers, [names] * len(rows) if isinstance(names, str) else names)
