"""Figures over a number: learning rates, and the numbers that a sweep varies."""

import numpy as np
import pandas as pd
import pytest
from figure_layout import faults, said_in
from test_figures import DEVICE, close_to, error_bars

from snn.figures import learning_rates, sweep


def rates(**changes):
    known = {"learning_rate": [0.1, 0.001, 0.01], "trainings": 3, "finite": [1, 3, 3], "members": 9}
    losses = {"final_mse": [np.nan, 8.0, 0.5], "final_mse_std": [np.nan, 0.4, 0.1]}
    ended = {"status": ["diverged", "ok", "ok"], "initialiser": "he_uniform", "strategy": "ensemble"}
    return pd.DataFrame(known | losses | {**DEVICE, **ended} | changes)


def test_learning_rates_stand_at_their_values_and_those_that_diverged_are_crossed():
    drawn = learning_rates.draw(rates(), "Tesla T4", "Data: small.")
    (axes,) = drawn.axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    (line,) = [one.lines[0] for one in axes.containers]
    assert list(line.get_xdata()) == [0.001, 0.01, 0.1]
    assert error_bars(axes) == close_to([7.6, 0.4], [8.4, 0.6])
    (cross,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [0.1]
    assert [text.get_text() for text in axes.texts] == ["2 of 3 diverged"]
    assert min(cross.get_ydata()) > 1 and cross.get_transform() == axes.get_xaxis_transform()
    assert "Crosses above the panel: trainings that diverged, and how many of how many." in said_in(drawn)
    assert "9 trainings in one launch" in said_in(drawn) and "Data: small." in said_in(drawn)
    assert faults(drawn) == []


def test_learning_rates_of_several_networks_have_a_line_each():
    drawn = learning_rates.draw(pd.concat([rates(), rates(network="64", final_mse=[2.0, 3.0, 4.0])]), "")
    assert [one.get_label() for one in drawn.axes[0].containers] == ["256", "64"]
    assert faults(drawn) == []
    nothing = learning_rates.draw(rates(final_mse=np.nan), "")
    assert "finite loss" in nothing.axes[0].texts[0].get_text()


def tiles(values, **changes):
    rows = pd.DataFrame({"strategy": "streams", "strategy.tile_rows": values, "mean_s": 1.0, "std_s": 0.1})
    return rows.assign(kernel="naive", **DEVICE).assign(**changes)


def test_a_number_that_a_sweep_varies_is_an_axis_and_words_stand_beside_it():
    rows = tiles(["32", "64", "256", "auto"], mean_s=[4.0, 3.0, 2.0, 1.5], network="256")
    rows = pd.concat([rows, tiles([None], strategy="reference", mean_s=5.0)], ignore_index=True)
    drawn = sweep.draw(rows, ["strategy", "strategy.tile_rows"], "mine")
    (axes,) = drawn.axes
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "tile rows")
    numbers, word = axes.containers
    assert list(numbers.lines[0].get_xdata()) == [32.0, 64.0, 256.0]
    assert list(numbers.lines[0].get_ydata()) == [4.0, 3.0, 2.0]
    assert word.lines[0].get_xdata()[0] > 256
    (reference,) = [
        line for line in axes.lines if line.get_linestyle() == "--" and len(line.get_xdata()) == 2
    ]
    assert set(reference.get_ydata()) == {5.0}
    axes.figure.draw_without_rendering()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["32", "64", "256", "auto"]
    assert "reference: 5 s" in said_in(drawn) and "side by side" not in said_in(drawn)
    assert faults(drawn) == []


def test_series_at_the_same_numbers_stand_side_by_side_around_them():
    values = ["32", "64", "256", "auto"]
    rows = pd.concat([tiles(values), tiles(values, strategy="combined")])
    rows = pd.concat([rows.reset_index(drop=True), tiles([None], strategy="reference")], ignore_index=True)
    panels = pd.concat([rows, rows.assign(network="1024", mean_s=2.0)], ignore_index=True)
    drawn = sweep.draw(panels, ["strategy", "strategy.tile_rows", "network.hidden"], "mine")
    for axes in drawn.axes:
        one, one_word, other, other_word = (
            np.asarray(each.lines[0].get_xdata(), dtype=float) for each in axes.containers
        )
        assert np.sqrt(one * other) == pytest.approx([32.0, 64.0, 256.0])
        assert (one < other).all() and one_word[0] < other_word[0] and other[0] < one[1]
    said = said_in(drawn)
    assert "Series stand side by side at a number" in said
    assert "reference: 1 s (256), 2 s (1024)" in said
    assert faults(drawn) == []


@pytest.mark.parametrize(
    ("numbers", "words"),
    [(["16", "64", "256"], [1024.0, 4096.0]), (["32", "48", "64"], [80.0, 96.0]), (["32"], [64.0, 96.0])],
)
def test_words_stand_beyond_the_largest_number_as_far_apart_as_the_numbers(numbers, words):
    """By the same factor on a log axis, by the same difference on a linear one."""
    panels = [tiles(["8", "16"], dataset="large"), tiles([*numbers, "auto", "all"])]
    drawn = sweep.draw(pd.concat(panels, ignore_index=True), ["dataset", "strategy.tile_rows"], "mine")
    at = [one.lines[0].get_xdata()[0] for one in drawn.axes[1].containers]
    assert at == pytest.approx([float(numbers[0]), *words])
    assert faults(drawn) == []


def test_blocks_stand_at_their_numbers_of_threads_and_networks_at_their_widths():
    rows = pd.DataFrame({"strategy": "resident", "mean_s": [1.0, 2.0], "std_s": 0.1, "kernel": "naive"})
    rows = rows.assign(**{**DEVICE, "network": ["256", "256-256"]})
    (axes,) = sweep.draw(rows.assign(**{"kernel.block": ["8-8", "32-32"]}), ["kernel.block"], "mine").axes
    assert list(axes.containers[0].lines[0].get_xdata()) == [64, 1024]
    (axes,) = sweep.draw(rows.assign(network=["64", "256"]), ["network.hidden"], "mine").axes
    assert list(axes.containers[0].lines[0].get_xdata()) == [64, 256]
    alike = rows.assign(**{"kernel.block": ["8-32", "32-8"]})  # as many threads: no number tells them apart
    (axes,) = sweep.draw(alike, ["kernel.block"], "mine").axes
    assert len(axes.get_yticklabels()) == 2


def test_a_cell_without_a_time_is_crossed_at_its_number_and_its_status_is_said():
    rows = tiles(["32", "64", "128"], mean_s=[1.0, np.nan, 2.0], status=["ok", "out_of_memory", "ok"])
    drawn = sweep.draw(rows, ["strategy.tile_rows"], "mine")
    (cross,) = [line for line in drawn.axes[0].lines if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [64.0]
    assert "Crosses: cells without a time (out_of_memory)." in said_in(drawn)
    assert faults(drawn) == []
