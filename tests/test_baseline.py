"""The baseline of each row, held against its definition, and found without comparing all rows with all."""

import random

import pandas as pd
import pytest

from snn.analysis import grouping as baseline

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


def frame_of(rows, seed):
    chance = random.Random(seed)
    found = [{name: chance.choice(values) for name, values in VALUES.items()} for _ in range(rows)]
    rows = [row | {"on_host": row["strategy"] == "sequential"} for row in found]
    return chosen(pd.DataFrame(rows, dtype=object))


def chosen(frame):
    """The rows, whose strategies all use the kernel that was chosen."""
    return frame.assign(**{"kernel.name": frame["kernel"]})


def expected(rows, chosen, point):
    """Every row beside every other, as the definition says it."""
    numbers = []
    for i, row in enumerate(rows):
        best, shortest = i, [baseline._distance(axis, row, row["on_host"]) for axis in chosen]
        for j, other in enumerate(rows):
            distances = [baseline._distance(axis, other, row["on_host"]) for axis in chosen]
            equal = [axis for axis, each in zip(chosen, distances, strict=True) if each == baseline._OWN]
            eligible = baseline._values(other, [*point, *equal]) == baseline._values(row, [*point, *equal])
            if eligible and distances < shortest:
                best, shortest = j, distances
        numbers.append(best)
    used = {number for i, number in enumerate(numbers) if number != i}
    return [number if number != i or i in used else -1 for i, number in enumerate(numbers)]


def test_each_row_has_the_baseline_of_the_definition():
    found = set()
    for seed in range(40):
        frame = frame_of(1 + seed, seed)
        numbers, _ = baseline.baselines(frame, AXES)
        choices, point = list(AXES[:5]), ["dataset", "network", "training.epochs"]
        assert numbers == expected(frame.to_dict("records"), choices, point), seed
        found |= {number >= 0 for number in numbers}
    assert found == {True, False}


def test_a_row_is_looked_at_a_few_times_however_many_there_are(monkeypatch):
    calls = []
    distance = baseline._distance
    monkeypatch.setattr(baseline, "_distance", lambda *given: calls.append(1) or distance(*given))
    for rows in (500, 2000):
        calls.clear()
        baseline.baselines(frame_of(rows, 1).assign(network="256"), AXES)
        assert len(calls) < 30 * rows


def choice(strategy="reference", kernel="naive", precision="fp32", on_host=False, **further):
    usual = {
        "dataset": "small",
        "network": "64",
        "strategy": strategy,
        "kernel": kernel,
        "precision": precision,
    }
    return usual | {"on_host": on_host} | further


@pytest.mark.parametrize(
    ("rows", "axes", "numbers", "names"),
    [
        ([choice(), choice("pinned")], ["strategy"], [0, 0], ["reference"] * 2),
        ([choice("pinned"), choice()], ["strategy"], [1, 1], ["reference"] * 2),
        ([choice("pinned")], ["strategy"], [-1], [""]),
        ([choice("pinned"), choice("streams")], ["strategy"], [-1, -1], [""] * 2),
        ([choice("pinned"), choice("pinned", "tiled")], ["kernel"], [0, 0], ["kernel naive"] * 2),
        (
            [choice("pinned", precision="bf16"), choice("pinned")],
            ["precision"],
            [1, 1],
            ["precision fp32"] * 2,
        ),
        (
            [
                choice("sequential", on_host=True),
                choice("reference", on_host=True),
                choice("blas", on_host=True),
            ],
            ["strategy"],
            [0, 0, 0],
            ["sequential"] * 3,
        ),
        ([choice("sequential"), choice("reference")], ["strategy"], [1, 1], ["reference"] * 2),
        ([choice(dataset="large"), choice("pinned")], ["strategy", "dataset"], [-1, -1], [""] * 2),
        ([choice(network="8"), choice("pinned")], ["strategy", "network"], [-1, -1], [""] * 2),
        (
            [choice(**{"training.epochs": 1}), choice("pinned", **{"training.epochs": 2})],
            ["strategy", "training.epochs"],
            [-1, -1],
            [""] * 2,
        ),
        (
            [choice(), choice("pinned", "tiled"), choice("pinned"), choice(kernel="tiled")],
            ["strategy", "kernel"],
            [0] * 4,
            ["reference, kernel naive"] * 4,
        ),
        (
            [choice("combined", **{"strategy.tile_rows": n}) for n in (32, 128)],
            ["strategy.tile_rows"],
            [1, 1],
            ["tile rows 128"] * 2,
        ),
        (
            [choice("mine", **{"strategy.tile_rows": n}) for n in (32, None)],
            ["strategy.tile_rows"],
            [1, 1],
            [""] * 2,
        ),
        ([choice("pinned"), choice("pinned")], ["strategy"], [-1, -1], [""] * 2),
        ([choice("pinned", "tiled"), choice("streams")], ["strategy", "kernel"], [-1, -1], [""] * 2),
        (
            [choice("pinned", **{"kernel.block": size}) for size in ("8-8", "16-16")],
            ["kernel.block"],
            [1, 1],
            ["block 16-16"] * 2,
        ),
        ([choice("pinned"), choice(dataset="large")], ["strategy", "dataset"], [-1, -1], [""] * 2),
        (
            [choice(kernel="tiled"), choice("pinned", "tiled"), choice("streams")],
            ["strategy", "kernel"],
            [0, 0, -1],
            ["reference", "reference", ""],
        ),
        (
            [choice(dataset="large"), choice("pinned"), choice()],
            ["strategy", "dataset"],
            [-1, 2, 2],
            ["", "reference", "reference"],
        ),
        (
            [choice(one, kernel) for one in ("pinned", "streams") for kernel in ("naive", "tiled")],
            ["strategy", "kernel"],
            [0, 0, 2, 2],
            ["kernel naive"] * 4,
        ),
        (
            [choice(**{"strategy.tile_rows": None}), choice("streams", **{"strategy.tile_rows": 7})],
            ["strategy", "strategy.tile_rows"],
            [0, 0],
            ["reference"] * 2,
        ),
    ],
)
def test_baselines_and_their_names(rows, axes, numbers, names):
    assert baseline.baselines(chosen(pd.DataFrame(rows)), axes) == (numbers, names)


def test_the_baseline_has_the_chosen_kernel_also_where_a_strategy_brings_its_own():
    row = {
        "dataset": "small",
        "network": "256",
        "precision": "fp32",
        "on_host": False,
        "kernel.name": "naive",
    }
    rows = [row | {"strategy": "reference", "kernel": "naive"}]
    rows += [row | {"strategy": "persistent", "kernel": "one_layer"}]
    numbers, names = baseline.baselines(pd.DataFrame(rows), ["strategy"])
    assert (numbers, names) == ([0, 0], ["reference", "reference"])
