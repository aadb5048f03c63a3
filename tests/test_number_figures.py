"""Figures over a number: learning rates, and the numbers that a sweep varies."""

import numpy as np
import pandas as pd
import pytest
from figure_layout import dots, error_bars, faults, said_in
from test_figures import DEVICE

from snn.figures import draw, sweep

TILES = "strategy.tile_rows"


def rates(**changes):
    known = {"learning_rate": [0.1, 0.001, 0.01], "trainings": 3, "finite": [1, 3, 3], "members": 9}
    losses = {"final_mse": [np.nan, 8.0, 0.5], "final_mse_std": [np.nan, 0.4, 0.1]}
    ended = {"status": ["diverged", "ok", "ok"], "initialiser": "he_uniform", "strategy": "ensemble"}
    return pd.DataFrame(known | losses | {**DEVICE, **ended} | changes)


def tiles(values, **changes):
    rows = pd.DataFrame({"strategy": "streams", TILES: values, "mean_s": 1.0, "std_s": 0.1})
    return rows.assign(kernel="naive", **DEVICE).assign(**changes)


def swept(*tables, axes=("strategy", TILES)):
    """The figure of a sweep of these tables, which has no fault of layout, and its panels."""
    drawn = sweep.draw(pd.concat(tables, ignore_index=True), axes, "mine")
    assert faults(drawn) == []
    return drawn, drawn.axes


def test_learning_rates_stand_at_their_values_and_those_that_diverged_are_crossed():
    drawn = draw("learning_rates", rates(), "Tesla T4", "Data: small.")
    (axes,) = drawn.axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert [x for x, *_ in dots(axes)] == [0.001, 0.01]
    assert error_bars(axes, "y") == [pytest.approx(ends) for ends in ((7.6, 8.4), (0.4, 0.6))]
    (cross,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [0.1]
    assert "Trainings that diverged: 2 of 3 at 0.1." in said_in(drawn)
    assert "9 trainings in one launch" in said_in(drawn) and "Data: small." in said_in(drawn)
    assert "Circles" not in said_in(drawn) and faults(drawn) == []
    several = draw("learning_rates", pd.concat([rates(), rates(network="64", final_mse=[2.0, 3.0, 4.0])]))
    assert [bars.get_label() for bars in several.axes[0].containers] == ["256", "64"]
    assert faults(several) == []
    nothing = draw("learning_rates", rates(final_mse=np.nan))
    assert "no row has a value: final loss" in nothing.axes[0].texts[0].get_text()


def test_a_number_that_a_sweep_varies_is_an_axis_and_words_stand_beside_it():
    numbers = tiles(["32", "64", "256", "auto"], mean_s=[4.0, 3.0, 2.0, 1.5])
    drawn, (axes,) = swept(numbers, tiles([None], strategy="reference", mean_s=5.0))
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "tile rows")
    numbers, word = axes.containers
    assert numbers.lines[0].get_xydata().tolist() == [[32.0, 4.0], [64.0, 3.0], [256.0, 2.0]]
    assert word.lines[0].get_xdata()[0] > 256
    (reference,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert set(reference.get_ydata()) == {5.0}
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["32", "64", "256", "auto"]
    assert "reference: 5 s" in said_in(drawn) and "side by side" not in said_in(drawn)


def test_series_at_the_same_numbers_stand_side_by_side_around_them():
    values = ["32", "64", "256", "auto"]
    rows = [tiles(values), tiles(values, strategy="combined"), tiles([None], strategy="reference")]
    wider = [each.assign(network="1024", mean_s=2.0) for each in rows]
    drawn, panels = swept(*rows, *wider, axes=["strategy", TILES, "network.hidden"])
    for axes in panels:
        one, one_word, other, other_word = (
            np.asarray(each.lines[0].get_xdata(), dtype=float) for each in axes.containers
        )
        assert np.sqrt(one * other) == pytest.approx([32.0, 64.0, 256.0])
        assert (one < other).all() and one_word[0] < other_word[0] and other[0] < one[1]
    assert "Series stand side by side at a number" in said_in(drawn)
    assert "reference: 1 s (256), 2 s (1024)" in said_in(drawn)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (["16", "64", "256"], [1024.0, 4096.0]),
        (["32", "48", "64"], [80.0, 96.0]),
        (["16", "32", "64"], [128.0, 256.0]),
        (["32"], [64.0, 96.0]),
    ],
)
def test_words_stand_beyond_the_largest_number_as_far_apart_as_the_numbers(numbers, words):
    """By the same factor on a log axis, by the same difference on a linear one."""
    rows = [tiles(["8", "16"], dataset="large"), tiles([*numbers, "auto", "all"])]
    _, (_, axes) = swept(*rows, axes=["dataset", TILES])
    assert [x for x, *_ in dots(axes)] == pytest.approx([*map(float, numbers), *words])


@pytest.mark.parametrize(
    ("column", "values", "numbers"),
    [
        ("kernel.block", ["8-8", "32-32"], [64, 1024]),
        ("network", ["64", "256"], [64, 256]),
        ("kernel.block", ["8-32", "32-8"], None),  # as many threads: no number tells them apart
    ],
)
def test_blocks_stand_at_their_numbers_of_threads_and_networks_at_their_widths(column, values, numbers):
    rows = tiles([None, None], strategy="resident", mean_s=[1.0, 2.0], network=["256", "256-256"])
    rows = rows.drop(columns=TILES).assign(**{column: values})
    _, (axes,) = swept(rows, axes=["network.hidden" if column == "network" else column])
    assert [x for x, *_ in dots(axes)] == (numbers or [1.0, 2.0])
    assert (len(axes.get_yticklabels()) == 2) or numbers


def test_a_cell_without_a_time_is_crossed_at_its_number_and_its_status_is_said():
    rows = tiles(["32", "64", "128"], mean_s=[1.0, np.nan, 2.0], status=["ok", "out_of_memory", "ok"])
    drawn, (axes,) = swept(rows)
    (cross,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [64.0]
    assert "Crosses: cells without a time (out_of_memory)." in said_in(drawn)
