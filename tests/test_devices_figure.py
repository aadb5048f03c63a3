"""The figure of several devices: panels, the names of rows, and where each device's dots stand."""

import numpy as np
import pandas as pd
import pytest
from figure_layout import faults, said_in

from snn.figures import devices
from snn.files.published_sets import PUBLISHED
from snn.tables.devices import as_published

A, B, CPU = "NVIDIA H200", "Tesla T4", "CPU AMD EPYC"


def row(dataset, strategy, speedups, network="256", kernel="naive", threads=None, baseline=None, paper=None):
    """A row of the table; ``speedups`` are by device."""
    found = {"dataset": dataset, "network": network, "strategy": strategy, "kernel": kernel}
    found |= {"strategy.threads": threads, "baseline": baseline or "reference, kernel naive"}
    found |= {"on_all": "faster" if len(speedups) > 1 else "", "advice": "faster on some"}
    for device, speedup in speedups.items():
        found |= {f"speedup {device}": speedup, f"speedup_ci_low {device}": 0.9 * speedup}
        found |= {f"speedup_ci_high {device}": 1.1 * speedup}
    return found | {"published_speedup Tesla T4": np.nan if paper is None else paper}


def drawn(*rows):
    figure = devices.draw(pd.DataFrame(rows))
    assert faults(figure) == []
    return figure


def names(figure):
    return [tick.get_text().replace("\n", " ") for tick in figure.axes[0].get_yticklabels()]


def dots(axes):
    """The dots of a panel by the label of their device: row and speedup."""
    return {
        container.get_label(): [
            (float(at), float(value))
            for value, at in zip(*container.lines[0].get_data(), strict=True)
            if not np.isnan(value)
        ]
        for container in axes.containers
    }


def test_one_data_set_is_one_panel_in_the_order_of_the_table():
    figure = drawn(
        row("large", "streams", {A: 0.8, B: 0.9}, paper=0.99),
        row("large", "combined", {A: 1.8, B: 1.6, CPU: 0.9}, paper=1.65),
        row("large", "preallocated", {A: 3.0, B: 2.0}),
    )
    (axes,) = figure.axes
    assert names(figure) == ["large, streams", "large, combined", "large, preallocated"]
    assert {device: [value for _, value in some] for device, some in dots(axes).items()} == {
        A: [0.8, 1.8, 3.0],
        B: [0.9, 1.6, 2.0],
        CPU: [0.9],
    }
    diamonds = next(line for line in axes.lines if line.get_label() == as_published("Tesla T4"))
    assert list(diamonds.get_xydata()[:2, 0]) == [0.99, 1.65]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        A,
        B,
        CPU,
        as_published("Tesla T4"),
    ]


def test_what_is_not_significant_is_hollow_and_no_marker_of_a_row_is_on_another():
    clear, unclear = {f"verdict {A}": "faster"}, {f"verdict {A}": "not significant"}
    figure = drawn(
        row("large", "pinned", {A: 1.1, B: 1.2}, paper=1.1) | unclear,
        row("large", "combined", {A: 1.8, B: 1.6}, paper=1.8) | clear,
    )
    (axes,) = figure.axes
    (hollow,) = (
        line for line in axes.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    )
    (on,) = dots(axes)[A][:1]
    assert [(at, value) for value, at in hollow.get_xydata()] == [on]
    assert hollow.get_zorder() > axes.containers[0].lines[0].get_zorder()
    diamonds = next(line for line in axes.lines if line.get_label() == as_published("Tesla T4"))
    for number in range(2):
        heights = [dots(axes)[device][number][0] for device in (A, B)] + [diamonds.get_ydata()[number]]
        assert np.diff(heights) == pytest.approx([0.25, 0.25]) and heights[1] == pytest.approx(number)


def test_bars_are_the_intervals():
    (axes,) = drawn(row("large", "streams", {A: 2.0, B: 4.0})).axes
    ends = [bar.get_segments()[0][:, 0] for container in axes.containers for bar in container.lines[2]]
    assert np.array(ends) == pytest.approx(np.array([[1.8, 2.2], [3.6, 4.4]]))


def test_data_sets_with_the_same_rows_are_panels_with_the_largest_speedups_on_top():
    figure = drawn(
        row("small", "combined", {A: 2.0, B: 1.6}),
        row("small", "graph", {A: 30.0, B: 20.0}),
        row("large", "combined", {A: 1.8, B: 1.5}),
        row("large", "graph", {A: 27.0, B: 18.0}),
        row("large", "streams", {A: 0.8, B: 0.9}),
    )
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes] == ["small", "large"]
    assert names(figure) == ["graph", "combined", "streams"]
    small, large = map(dots, figure.axes)
    assert [round(at) for at, _ in small[A]] == [1, 0]
    assert {round(at): value for at, value in large[A]} == {0: 27.0, 1: 1.8, 2: 0.8}
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()


def test_dots_of_a_row_stand_one_below_the_other_around_its_middle():
    (axes,) = drawn(
        row("large", "combined", {A: 1.8, B: 1.6, CPU: 0.9}), row("large", "graph", {A: 27.0, CPU: 1.1})
    ).axes
    found = dots(axes)
    places = {device: [at for at, _ in some] for device, some in found.items()}
    assert places[A][0] < places[B][0] < places[CPU][0] and places[B] == [0.0]
    assert places[A][1] < 1 < places[CPU][1] and 1 - places[A][1] == pytest.approx(places[CPU][1] - 1)


def test_rows_are_named_by_what_sets_them_apart():
    figure = drawn(
        row("large", "graph", {A: 27.0, B: 20.0}, network="128"),
        row("large", "graph", {A: 98.0, B: 80.0}, kernel="tiled_fused"),
        row("large", "combined", {A: 1.8, B: 1.6}),
        row("large", "threads", {CPU: 1.9, B: 1.1}, threads=8, baseline="sequential, kernel naive"),
    )
    assert names(figure) == [
        "large, 128, graph",
        "large, 256, graph, tiled_fused",
        "large, 256, combined",
        "large, 256, threads, 8 threads, over sequential",
    ]
    said = " ".join(text.get_text().replace("\n", " ") for text in figure.texts)
    assert "Baseline: each device's own reference, kernel naive, unless a row names another." in said
    assert "Kernel: naive unless a row names another." in said


def test_baselines_that_differ_in_their_kernel_alone_are_named_in_full():
    figure = drawn(
        row("large", "graph", {A: 27.0, B: 20.0}),
        row("large", "resident", {A: 20.0, B: 18.0}),
        row("large", "pool", {A: 2.0, B: 1.8}, baseline="reference, kernel tiled"),
    )
    assert names(figure)[2] == "large, pool, over reference, kernel tiled"


def test_rows_of_one_device_are_left_out_where_others_are_of_two():
    both, one = row("large", "combined", {A: 1.8, B: 1.6}), row("large", "pool", {A: 2.0})
    assert names(drawn(both, one)) == ["large, combined"]
    assert names(drawn(one)) == ["large, pool"]


def test_a_table_without_speedups_says_so():
    figure = devices.draw(pd.DataFrame([row("large", "reference", {A: 1.0}) | {"advice": np.nan}]))
    assert figure.axes[0].texts[0].get_text() == "no row has a speedup"


def rings(axes):
    return [
        (float(value), float(at))
        for line in axes.lines
        if line.get_fillstyle() == "none" and line.get_marker() == "o"
        for value, at in zip(*line.get_data(), strict=True)
    ]


def test_what_diverged_has_a_ring_and_what_has_no_interval_is_said_to_be_of_one_run():
    found = [
        row("large", "streams", {A: 0.8, B: 0.9}) | {f"status {A}": "ok", f"status {B}": "ok, diverged"},
        row("large", "combined", {A: 1.8, B: 1.6}) | {f"status {A}": "ok", f"status {B}": np.nan},
    ]
    figure = drawn(*found)
    (axes,) = figure.axes
    ((value, at),) = rings(axes)
    assert (value, (at, value) in dots(axes)[B]) == (0.9, True)
    said = " ".join(said_in(figure).split())
    assert "Circles around markers: the training diverged." in said and "without a bar" not in said
    found[0] |= {f"status {B}": "ok", f"speedup_ci_low {A}": np.nan, f"speedup_ci_high {A}": np.nan}
    figure = drawn(*found)
    said = " ".join(said_in(figure).split())
    assert not rings(figure.axes[0]) and "diverged" not in said
    assert "A marker without a bar has no interval: it is of one run each." in said


def looks(figure):
    """Colour and marker of each device, by its label."""
    found = {}
    for axes in figure.axes:
        for container in axes.containers:
            line = container.lines[0]
            found[container.get_label()] = (line.get_color(), line.get_marker())
    return found


def test_a_device_looks_the_same_beside_whichever_others_and_no_two_look_alike():
    few = looks(drawn(row("large", "combined", {B: 1.6, A: 1.8})))
    more = looks(
        drawn(row("large", "combined", {CPU: 0.9, "NVIDIA Z1": 1.2, A: 1.8, "CPU of a host": 1.1, B: 1.6}))
    )
    assert len(set(more.values())) == len(more) == 5
    assert {device: more[device] for device in few} == few
    assert more[CPU] == looks(drawn(row("large", "combined", {A: 1.8, CPU: 0.9})))[CPU]


def test_the_published_figures_agree_on_their_devices_and_fit_on_a_page():
    one, other = (
        devices.draw(pd.read_csv(PUBLISHED / f"{name}.csv")) for name in ("devices", "devices_strategies")
    )
    titles = [figure.get_suptitle() for figure in (one, other)]
    by = "network and strategy", "strategy"
    assert titles == [f"Speedup by {varied}, on several devices" for varied in by]
    both = looks(one).keys() & looks(other).keys()
    assert both == {"NVIDIA H200", "NVIDIA H100 80GB HBM3"}
    assert all(looks(one)[device] == looks(other)[device] for device in both)
    assert all(len(set(looks(each).values())) == len(looks(each)) for each in (one, other))
    assert other.get_figheight() <= 9.5 and faults(other) == []
    said = said_in(other)
    assert "CPU Intel(R) Xeon(R) Processor beside the NVIDIA H200" in said and "nvidia-h200/" not in said
    assert "Published, of large, combined: elsewhere in the paper 2.14." in said
    assert [axes.get_title() for axes in other.axes] == ["small", "medium", "large"]
    assert "A row begins with the widths of its hidden layers." in said_in(one)
