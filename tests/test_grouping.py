"""In which settings rows differ, and the baseline of each row, held against its definition."""

import random

import numpy as np
import pandas as pd
import pytest
import yaml

from snn.analysis import grouping
from snn.analysis.grouping import baselines, first_at, is_empty, setting, settings, texts, varied

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
    rows = [row | {"several_devices": False} for row in rows]
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


REF, TILE = "reference", "strategy.tile_rows"


def row_of(text):
    """A row from its strategy and what differs from the usual: ``pinned kernel=tiled``."""
    strategy, *others = text.split()
    row = {"dataset": "small", "network": "64", "strategy": strategy, "kernel": "naive", "precision": "fp32"}
    row |= {"on_host": False, "several_devices": False} | {
        key: yaml.safe_load(value) for key, value in (one.split("=") for one in others)
    }
    return {"kernel.name": row["kernel"]} | row


@pytest.mark.parametrize(
    ("rows", "axes", "numbers", "names"),
    [
        ([REF, "pinned"], "strategy", [0, 0], REF),
        (["pinned", REF], "strategy", [1, 1], REF),
        (["pinned"], "strategy", [-1], ""),
        (["pinned", "streams"], "strategy", [-1, -1], ""),
        (["pinned", "pinned kernel=tiled"], "kernel", [0, 0], "kernel naive"),
        (["pinned precision=bf16", "pinned"], "precision", [1, 1], "precision fp32"),
        ([f"{name} on_host=1" for name in ("sequential", REF, "blas")], "strategy", [0] * 3, "sequential"),
        (["sequential", REF], "strategy", [1, 1], REF),
        (["pinned", f"{REF} dataset=large"], "strategy dataset", [-1, -1], ""),
        ([f"{REF} network=8", "pinned"], "strategy network", [-1, -1], ""),
        ([f"{REF} training.epochs=1", "pinned training.epochs=2"], "strategy training.epochs", [-1, -1], ""),
        (
            [REF, "pinned kernel=tiled", "pinned", f"{REF} kernel=tiled"],
            "strategy kernel",
            [0] * 4,
            f"{REF}, kernel naive",
        ),
        ([f"combined {TILE}=32", f"combined {TILE}=128"], TILE, [1, 1], "tile rows 128"),
        ([f"mine {TILE}=32", f"mine {TILE}=null"], TILE, [1, 1], ""),
        (["pinned kernel=tiled", "streams"], "strategy kernel", [-1, -1], ""),
        (["pinned kernel.block=8-8", "pinned kernel.block=16-16"], "kernel.block", [1, 1], "block 16-16"),
        (
            [f"{REF} kernel=tiled", "pinned kernel=tiled", "streams"],
            "strategy kernel",
            [0, 0, -1],
            [REF, REF, ""],
        ),
        ([f"{REF} dataset=large", "pinned", REF], "strategy dataset", [-1, 2, 2], ["", REF, REF]),
        ([f"{REF} {TILE}=null", f"streams {TILE}=7"], f"strategy {TILE}", [0, 0], REF),
        (["resident", "both several_devices=true"], "strategy", [0, 0], "resident"),
        (["resident", f"{REF}", "both several_devices=true"], "strategy", [1] * 3, REF),
        # The kernel is the chosen one, also of a strategy that brings its own.
        ([REF, "persistent kernel=one_layer kernel.name=naive"], "strategy", [0, 0], REF),
    ],
)
def test_baselines_and_their_names(rows, axes, numbers, names):
    found = baselines(pd.DataFrame(map(row_of, rows)), axes.split())
    assert found == (numbers, [names] * len(rows) if isinstance(names, str) else names)


def test_settings_as_text_and_those_that_vary():
    rows = {"dataset": ["small", "small", "large"], "training.lacks": [1.0, None, None]}
    rows |= {"training.same": [1, 1, 2], "network.differs": [1, 2, 2], "network": [None] * 3}
    frame = pd.DataFrame(rows, index=[7, 3, 5])
    names = settings(frame, ["training", "network"])
    assert names == ["training.lacks", "training.same", "network.differs"]
    assert varied(frame, [*names, "network"], ["dataset"]) == ["training.lacks", "network.differs"]
    assert texts(frame, ["dataset", *names[:2]]).to_dict() == {7: "small|1.0|1", 3: "small||1", 5: "large||2"}
    assert first_at(["a", "b", "a", "b", "c"], [3, 1, 2]) == [2, 3, 2, 3, -1]
    assert [setting(value) for value in ([16, 8], [], 3, "a-b", None)] == ["16-8", "", 3, "a-b", None]
    assert all(map(is_empty, (None, pd.NA, np.nan, "")))
    assert not any(map(is_empty, (0, 0.0, False, "x", " ", (), "nan")))
