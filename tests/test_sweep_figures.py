"""The figure of a sweep of any shape can be read: long names, many settings, times of any span, or none."""

import itertools
import random

import numpy as np
import pandas as pd
import pytest
from figure_layout import faults, said_in
from matplotlib import pyplot as plt
from matplotlib.markers import CARETDOWN, CARETLEFT

from snn.figures import draw, sweep

CHOICES = {
    "strategy": ["reference", "managed_prefetch", "torch_compile", "a_new_strategy_of_mine"],
    "dataset": ["small", "my_own_data_set_of_wines"],
    "network": ["256", "64-64", "conv16x3-relu-conv32x3-relu-maxpool2-linear10"],
    "kernel": ["naive", "tiled_fused"],
    "training.batch_size": [16, 64, 4096],
    "training.learning_rate": [1e-4, 1e-3, 0.25],
    "network.seed": [1, 2, 3],
    "strategy.tile_rows": ["32", "64", "128", "auto"],
    "strategy.pin_memory": [True, False],
    "kernel.block": ["2-2", "8-8", "32-32", "32-16"],
    "dataset.rows": [100, 1000, 100_000],
}
"""What the sweeps of these tests vary, some of it in each; the first four are columns of every table."""

STATUSES = ["out_of_memory", "unsupported", "diverged"]


def any_sweep(seed):
    """A sweep's table and its axes: some settings, times over up to eight decades, some rows without one."""
    choose = random.Random(seed)
    settings = list(CHOICES)
    varied = [*settings[:4], *choose.sample(settings[4:], choose.randint(0, 2))]
    values = [choose.sample(CHOICES[name], choose.randint(1, min(3, len(CHOICES[name])))) for name in varied]
    rows = pd.DataFrame(list(itertools.product(*values)), columns=varied).head(120)
    span = choose.choice([0.1, 1, 4])
    rows["mean_s"] = [10 ** choose.uniform(-span, span) for _ in range(len(rows))]
    rows["std_s"] = rows["mean_s"] * [choose.choice([0.01, 0.3, 2.0, np.nan]) for _ in range(len(rows))]
    rows["status"] = [choose.choice(STATUSES) if choose.random() < 0.1 else "ok" for _ in range(len(rows))]
    rows.loc[rows["status"] != "ok", ["mean_s", "std_s"]] = np.nan
    on_host = rows["strategy"] == rows["strategy"][0]
    rows["device"] = on_host.map({True: "AMD EPYC 9454 48-Core Processor", False: "NVIDIA H100 80GB HBM3"})
    rows["backend"] = on_host.map({True: "cpu", False: "cuda"})
    rows = rows.assign(speedup=1e5 * rows["mean_s"], baseline="reference, naive", verdict="faster")
    axes = ["network.hidden" if name == "network" else name for name in varied if rows[name].nunique() > 1]
    return rows, axes


@pytest.mark.parametrize("seed", range(6))
def test_a_sweep_of_any_shape_can_be_read(seed):
    rows, axes = any_sweep(seed)
    for drawn in (sweep.draw(rows, axes, "a_sweep_of_mine"), draw("ranking", rows, "Tesla T4")):
        assert faults(drawn) == []
        assert "standard deviation" in said_in(drawn)
        assert all(device in said_in(drawn) for device in set(rows["device"]))


def test_a_panel_may_have_no_number_on_an_axis_of_numbers():
    """Where most networks have one hidden layer, its width is the axis; one data set has a deeper one."""
    points = {"dataset": ["small"] * 3 + ["large"], "network": ["64", "128", "256", "256-256"]}
    rows = pd.concat([two(), two()], ignore_index=True).assign(strategy="reference", **points)
    drawn = sweep.draw(rows, ["dataset", "network.hidden"], "mine")
    assert faults(drawn) == []
    assert [tick.get_text() for tick in drawn.axes[1].get_xticklabels()] == ["256-256"]


def test_these_sweeps_are_of_both_kinds():
    """Some have a number as their axis, some a row per cell, and some cells have no time."""
    drawn = [sweep.draw(*any_sweep(seed), "mine") for seed in range(6)]
    assert {figure.axes[0].get_xlabel() for figure in drawn} > {"training time (s)"}
    assert any("Crosses" in said_in(figure) for figure in drawn)
    plt.close("all")


def two(**changes):
    """A slow and a fast row."""
    rows = pd.DataFrame({"strategy": ["reference", "graph"], "mean_s": [2.0, 1.0], "std_s": 0.1})
    known = {"kernel": "naive", "dataset": "small", "network": "256", "status": "ok"}
    return rows.assign(**known | {"device": "NVIDIA H200", "backend": "cuda"} | changes)


def figures(rows, axes=("strategy",)):
    """The figure of the rows of a sweep, and their ranking."""
    return sweep.draw(rows, axes, "mine"), draw("ranking", rows, "Tesla T4")


@pytest.fixture(autouse=True)
def closed():
    """Figures are closed after each test."""
    yield
    plt.close("all")


def test_a_training_that_diverged_has_a_circle_and_the_note_says_so():
    ended, said = two(status=["diverged", "ok"]), "Circles around markers: the training diverged."
    widths = ended.assign(strategy="graph", network=["256", "64"])
    over_width = sweep.draw(widths, ["network.hidden"], "mine")
    for figure, place in (*((each, [2.0, 0.0]) for each in figures(ended)[:1]), (over_width, [256.0, 2.0])):
        (circle,) = [line for line in figure.axes[0].lines if line.get_markersize() == 9]
        assert circle.get_xydata().tolist() == [place] and said in said_in(figure)
    assert said not in said_in(sweep.draw(two(), ["strategy"], "mine"))


def test_a_bar_that_reaches_below_a_tenth_of_its_mean_ends_in_an_arrow_and_the_note_says_so():
    rows, said = two(mean_s=[20.0, 1.0], std_s=[17.9, 0.91]), "Arrows: the bar reaches below a tenth"
    widths = rows.assign(strategy="graph", network=["256", "64"])
    over_width = sweep.draw(widths, ["network.hidden"], "mine")
    for figure, marker, at in (*((each, CARETLEFT, 0) for each in figures(rows)), (over_width, CARETDOWN, 1)):
        (arrow,) = [line for line in figure.axes[0].lines if line.get_marker() == marker]
        assert [place[at] for place in arrow.get_xydata()] == [0.1]
        assert said in said_in(figure) and faults(figure) == []
    assert said not in said_in(sweep.draw(rows.assign(std_s=0.5), ["strategy"], "mine"))


def test_a_row_that_is_blank_in_a_panel_is_said_to_be_not_measured():
    full = pd.concat([two(), two(dataset="large")], ignore_index=True)
    for table, is_said in ((full, False), (full.head(3), True)):
        for drawn in figures(table, ["strategy", "dataset"]):
            assert ("A row that is blank in a panel was not measured there." in said_in(drawn)) == is_said


def test_the_ranking_says_that_speedups_are_of_common_rounds_where_they_are_not_those_of_the_means():
    said = "Rows have unequal rounds: a speedup is over the reference in the same rounds"
    for speedup, baseline, is_said in (
        (2.0, "reference", False),
        (2.2, "reference", True),
        (2.2, "sequential", False),
    ):
        rows = two(speedup=[1.0, speedup], baseline=["reference", baseline], verdict=["reference", "faster"])
        drawn = draw("ranking", rows, "Tesla T4")
        assert (said in said_in(drawn)) == is_said and faults(drawn) == []


def test_colours_of_rows_say_where_these_ran_as_their_key_does():
    rows = pd.concat([two(), two(strategy="threads", device="AMD EPYC", backend="cpu").head(1)])
    for drawn in figures(rows.reset_index(drop=True)):
        shown = [bars.lines[0] for bars in drawn.axes[0].containers]
        looks = [
            [(line.get_color(), line.get_marker()) for line in lines]
            for lines in (shown, drawn.legends[0].get_lines()[-2:])
        ]
        assert looks[0] == looks[1] and len(set(looks[0])) == 2
        assert [len(line.get_xdata()) for line in shown] == [2, 1]
