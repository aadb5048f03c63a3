"""The figure of a sweep of any shape can be read: a row per cell, or times over a number that varies."""

import itertools
import random

import numpy as np
import pandas as pd
import pytest
from figure_layout import dots, faults, said_in
from matplotlib import pyplot as plt
from matplotlib.markers import CARETDOWN, CARETLEFT
from test_figures import DEVICE

from snn.figures import draw, sweep

TILES = "strategy.tile_rows"
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
    rows = pd.DataFrame(list(itertools.product(*values)), columns=varied).head(60)
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


def test_sweeps_of_any_shape_can_be_read():
    """Some have a number as their axis, some a row per cell, and some cells have no time."""
    labels, notes = set(), ""
    for seed in range(6):
        rows, axes = any_sweep(seed)
        for drawn in (draw("ranking", rows, "Tesla T4"), sweep.draw(rows, axes, "a_sweep_of_mine")):
            assert faults(drawn) == []
            assert "standard deviation" in said_in(drawn)
            assert all(device in said_in(drawn) for device in set(rows["device"]))
        labels.add(drawn.axes[0].get_xlabel())
        notes += said_in(drawn)
    assert labels > {"training time (s)"} and "Crosses" in notes


def test_a_number_that_follows_from_the_data_set_is_no_axis():
    """If only runs on ``large`` have fewer epochs, each panel would have one number of them."""
    usual = DEVICE | {"network": "256", "kernel": "naive", "status": "ok", "mean_s": 1.0, "std_s": 0.1}
    rows = [
        usual | {"dataset": dataset, "strategy": strategy, "training.epochs": epochs}
        for dataset, epochs in (("small", 100), ("large", 50))
        for strategy in ("reference", "streams")
    ]
    axes = ["dataset", "strategy", "training.epochs"]
    for further, label in ([], "training time (s)"), ([rows[0] | {"training.epochs": 50}], "epochs"):
        drawn = sweep.draw(pd.DataFrame([*rows, *further]), axes, "mine")
        assert drawn.axes[-1].get_xlabel() == label and faults(drawn) == []
        assert [one.get_title() for one in drawn.axes] == ["small", "large"]


def test_a_panel_may_have_no_number_on_an_axis_of_numbers():
    """Where most networks have one hidden layer, its width is the axis; one data set has a deeper one."""
    points = {"dataset": ["small"] * 3 + ["large"], "network": ["64", "128", "256", "256-256"]}
    rows = pd.concat([two(), two()], ignore_index=True).assign(strategy="reference", **points)
    _, (_, axes) = swept(rows, axes=["dataset", "network.hidden"])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["256-256"]


def two(**changes):
    """A slow and a fast row."""
    rows = pd.DataFrame({"strategy": ["reference", "graph"], "mean_s": [2.0, 1.0], "std_s": 0.1})
    return rows.assign(**{"kernel": "naive", **DEVICE} | changes)


def figures(rows, axes=("strategy",)):
    """The figure of the rows of a sweep, and their ranking."""
    return sweep.draw(rows, axes, "mine"), draw("ranking", rows, "Tesla T4")


def tiles(values, **changes):
    rows = pd.DataFrame({"strategy": "streams", TILES: values, "mean_s": 1.0, "std_s": 0.1})
    return rows.assign(kernel="naive", **DEVICE).assign(**changes)


def swept(*tables, axes=("strategy", TILES)):
    """The figure of a sweep of these tables, which has no fault of layout, and its panels."""
    drawn = sweep.draw(pd.concat(tables, ignore_index=True), axes, "mine")
    assert faults(drawn) == []
    return drawn, drawn.axes


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
