"""What a figure draws is what its table holds: every dot, error bar and line at its value."""

import numpy as np
import pandas as pd
import pytest
from figure_layout import dots, error_bars, faults, said_in
from matplotlib import pyplot as plt

from snn.figures import breakdown, draw, sweep
from snn.figures.devices import draw_comparison

DEVICE = {"device": "NVIDIA H200", "backend": "cuda", "status": "ok", "dataset": "small", "network": "256"}
STRATEGIES = ["reference", "streams", "pinned"]
MEANS = [8.0, 4.0, 1.0]
"""Far apart, as are the ends of each interval: no other reading of the table gives the same figure."""


@pytest.fixture(autouse=True)
def closed():
    """Figures are closed after each test."""
    yield
    plt.close("all")


def table(**columns):
    rows = pd.DataFrame({"strategy": STRATEGIES, "mean_s": MEANS, "std_s": [0.1, 0.2, 0.4]} | columns)
    return rows.assign(**{name: value for name, value in DEVICE.items() if name not in columns})


def with_interval(name, values):
    """A ratio that is nearer to the lower end of its interval."""
    values = np.array(values)
    return {name: values, f"{name}_ci_low": 0.9 * values, f"{name}_ci_high": 1.5 * values}


def names(axes):
    return [tick.get_text() for tick in axes.get_yticklabels()]


def said_beside(axes):
    return [text.get_text() for text in axes.texts]


def ruled(axes):
    """Where the dashed line of a panel stands."""
    (line,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    return set(line.get_xdata())


OVER_CORE = with_interval("speedup_over_sequential", [1.0, 2.0, 16.0]) | {"options": ""}
OVER_CORE["ran_on"] = ["host", "host", "device"]
OVER_CORE["verdict_over_sequential"] = ["", "not significant", "faster"]
STEP = with_interval("step", [10.0, 20.0, 40.0])
STEPS = STEP | {f"{name}_us": value for name, value in STEP.items()}
STEPS |= {"runtime": ["", "torch 2", "jax 1"], "kernel": "", "speedup_over_best_peer": [2.0, 1.0, 0.5]}
STEPS["verdict"] = ["faster", "best peer", "not significant"]
LOSSES = with_interval("relative_difference", [0.0, 0.02, 0.05]) | {"kernel": "naive"}
LOSSES |= {"precision": ["fp32", "tf32", "bf16"], "convergence": ["", "same", "worse"]}
SPEEDUPS = with_interval("speedup", [1.0, 2.0, 4.0]) | {"neurons": [64, 128, 256], "paper_speedup": np.nan}
COMPARED = with_interval("ratio", [1.0, 2.0, 0.5]) | with_interval("speedup_a", [1.0, 3.0, 7.0])
COMPARED |= with_interval("speedup_b", [1.0, 4.0, 5.0])
DRAWN = {
    "sweep": lambda rows: sweep.draw(rows, ["strategy"], "mine"),
    "comparison": lambda rows: draw_comparison(rows, "one", "other"),
}


@pytest.mark.parametrize(
    ("form", "columns", "panel", "along", "shown"),
    [
        ("sweep", {"kernel": "naive"}, 0, "x", ["mean_s"]),
        ("ranking", {"kernel": "naive"}, 0, "x", ["mean_s"]),
        ("cpu", OVER_CORE, 0, "x", ["speedup_over_sequential"]),
        ("peers", STEPS, 0, "x", ["step"]),
        ("precision", LOSSES, 0, "x", ["mean_s"]),
        ("precision", LOSSES, 1, "x", ["relative_difference"]),
        ("speedup_vs_neurons", SPEEDUPS, 0, "y", ["speedup"]),
        ("comparison", COMPARED, 0, "x", ["ratio"]),
        ("comparison", COMPARED, 1, "x", ["speedup_a", "speedup_b"]),
    ],
)
def test_every_dot_is_at_its_value_and_every_bar_at_its_interval(form, columns, panel, along, shown):
    rows = table(**columns)
    drawn = DRAWN.get(form, lambda rows: draw(form, rows, "Tesla T4"))(rows)
    assert faults(drawn) == []
    axes, scale = drawn.axes[panel], 100 if shown == ["relative_difference"] else 1  # losses are in percent
    rows = rows.assign(
        mean_s_ci_low=rows["mean_s"] - rows["std_s"], mean_s_ci_high=rows["mean_s"] + rows["std_s"]
    )
    values, low, high = (
        scale * np.concatenate([rows[f"{name}{end}"] for name in shown])
        for end in ("", "_ci_low", "_ci_high")
    )
    found = [dot["xy".index(along)] for dot in dots(axes)]
    assert found[: len(values)] == pytest.approx(list(values))
    bars = [bar for bar in error_bars(axes, along) if not np.isnan(bar).any()]
    assert bars == [pytest.approx(ends) for ends in zip(low, high, strict=True)]


def test_rows_are_in_the_order_of_the_table_or_have_the_fastest_on_top():
    rows = table(**OVER_CORE, **STEPS | {"kernel": "naive"})
    assert names(sweep.draw(rows, ["strategy"], "mine").axes[0]) == STRATEGIES
    for form in ("ranking", "cpu"):
        (axes,) = draw(form, rows, "Tesla T4").axes
        assert names(axes) == STRATEGIES[::-1]
        top, bottom = axes.get_ylim()[::-1]
        assert top < bottom
    assert names(draw("peers", rows, "Tesla T4").axes[0]) == STRATEGIES


def test_numbers_beside_rows_and_dashed_lines_are_those_of_the_table():
    (axes,) = draw("cpu", table(**OVER_CORE), "Tesla T4").axes
    assert said_beside(axes) == ["1.00×", "2.00×?", "16.0×"] and ruled(axes) == {
        2.0
    }  # the fastest of the CPU
    (axes,) = draw("peers", table(**STEPS), "Tesla T4").axes
    assert said_beside(axes) == ["10.0 µs, 2.00×", "20.0 µs, 1.00×", "40.0 µs, 0.500×?"]
    assert ruled(axes) == {20.0}  # the fastest peer


def test_speedups_over_one_core_are_ordered_by_themselves_and_unequal_rounds_are_said():
    said = "Rows have unequal rounds: a speedup is over sequential in the same rounds"
    rows = table(**with_interval("speedup_over_sequential", [1.0, 2.0, 1.9])).assign(options="")
    rows = rows.assign(strategy=["sequential", "threads", "blas"], mean_s=[8.0, 4.0, 8 / 1.9], ran_on="host")
    rows["verdict_over_sequential"] = ["", "faster", "faster"]
    assert said not in said_in(draw("cpu", rows, "Tesla T4"))
    rows["mean_s"] = [8.0, 4.0, 3.9]  # blas has a shorter mean, of other rounds
    (axes,) = draw("cpu", rows, "Tesla T4").axes
    assert names(axes) == ["threads", "blas", "sequential"]
    assert said in said_in(axes.figure) and faults(axes.figure) == []


def test_the_note_on_peers_says_what_of_them_differs():
    rows = table(**STEPS)
    other = rows.assign(network="256-256", kernel=["two_layers", "", ""])
    several = pd.concat([rows.assign(kernel=["one_layer", "", ""]), other], ignore_index=True)
    reduced = pd.concat([rows.assign(precision=name) for name in ("fp32", "tf32")], ignore_index=True)
    larger = pd.concat([rows, rows.assign(dataset="large")], ignore_index=True)
    order = "Rows are in the order of the geometric mean"
    precision, blank = "The precision is fp32 where none is named.", "A row that is blank in a panel"
    cut = "Arrows: the bar reaches beyond ten times its value."
    for given, said, unsaid in (
        (rows, [precision], ["Kernels:", order, blank, cut]),
        (rows.assign(step_ci_high_us=1e6), [cut], []),  # of few rounds
        (larger, [order], []),
        (several, ["Kernels: reference one_layer, two_layers."], []),
        (several[1:], [blank], []),
        (several.head(3), ["Kernels: reference one_layer."], []),
        (reduced, [], [precision]),
    ):
        words = said_in(draw("peers", given, "Tesla T4"))
        assert [text for text in said if text not in words] + [text for text in unsaid if text in words] == []


def test_the_parts_of_a_time_stand_on_each_other():
    parts = dict.fromkeys((f"{part}_s" for part in breakdown.PARTS), 0.5)
    rows = table(**parts | {"launch_s": [1.0, 2.0, 3.0]}, predicted_s=[7.0, 3.0, 2.0], attributed_s=MEANS)
    (axes,) = draw("attribution", rows, "Tesla T4").axes
    for i in range(len(rows)):
        *bars, outline = [bar for bar in axes.patches if abs(bar.get_y() + bar.get_height() / 2 - i) < 1e-9]
        ends = [bar.get_x() + bar.get_width() for bar in bars]
        assert [bar.get_x() for bar in bars] == pytest.approx([0.0, *ends[:-1]])
        assert ends[-1] == pytest.approx(sum(rows.loc[i, f"{part}_s"] for part in breakdown.PARTS))
        assert (outline.get_x(), outline.get_fill()) == (0, False)
        assert outline.get_width() == pytest.approx(ends[-1])
    assert [np.mean(bar) for bar in error_bars(axes)] == pytest.approx(MEANS)
    predicted = next(line for line in axes.lines if line.get_label() == "predicted")
    assert list(predicted.get_xdata()) == [7.0, 3.0, 2.0]
    assert "The parts add up" not in said_in(axes.figure)
    assert draw("attribution", rows.assign(note=np.nan), "Tesla T4").axes  # as an empty column is read
    notes = ["", "the parts add up to 1.5 times the mean of the runs", np.nan]
    other = rows.assign(note=notes, attributed_s=[8.0, 6.0, 1.0])
    said = said_in(draw("attribution", other, "Tesla T4"))
    assert "The parts add up to 1.5 times the mean in streams, small." in said
    for names, word in (("64 256 256", "hidden neurons"), ("64 8-8 8-8", "depth"), ("64 256 8-8", "network")):
        assert f"by {word}" in said_in(draw("attribution", rows.assign(network=names.split()), "Tesla T4"))


def test_published_speedups_are_around_the_measured_ones_and_a_network_that_diverged_has_a_circle():
    rows = table(**SPEEDUPS | {"paper_speedup": [1.5, np.nan, 3.0]}, status=["ok", "diverged", "ok"])
    drawn = draw("speedup_vs_neurons", rows, "Tesla T4")
    (axes,) = drawn.axes
    measured, paper = (bars.lines[0] for bars in axes.containers)
    assert paper.get_xydata().tolist() == [[64, 1.5], [256, 3.0]]
    assert paper.get_markerfacecolor() == "none"  # so that neither covers the other where both are the same
    assert paper.get_markersize() > measured.get_markersize() and paper.get_zorder() > measured.get_zorder()
    (circle,) = [line for line in axes.lines if line.get_markersize() == 9]
    assert circle.get_xydata().tolist() == [[128, 2.0]]
    assert axes.get_xscale() == "log" and "published: Tesla T4" in said_in(drawn)
    assert "Circles around markers: the training diverged." in said_in(drawn)
    nothing = draw("speedup_vs_neurons", rows.assign(speedup=np.nan, paper_speedup=np.nan), "Tesla T4")
    assert "no row has a value: speedup" in said_beside(nothing.axes[0])[0]


def test_times_by_depth_are_beside_the_papers_and_say_what_is_of_a_single_run_or_not_significant():
    spreads = {"reference_std_s": [0.1, 0.2, np.nan], "combined_std_s": [0.4, 0.5, 0.6]}
    times = {"reference_s": [2.0, 4.0, 8.0], "combined_s": [1.0, 3.0, 5.0]}
    rows = table(
        **spreads, **times, paper_reference_s=[9.0, 8.0, 7.0], paper_combined_s=[6.0, 5.0, np.nan]
    ).assign(network=["256", "256-256", "64"], verdict=["faster", "not significant", "faster"])
    drawn = draw("time_by_depth", rows, "Tesla T4")
    assert faults(drawn) == []
    measured, paper = drawn.axes
    assert [y for _, y, *_ in dots(measured)] == [2.0, 8.0, 4.0, 1.0, 5.0, 3.0]
    assert [y for _, y, *_ in dots(paper)] == [9.0, 7.0, 8.0, 6.0, 5.0]
    assert error_bars(measured, "y")[-3:] == [
        pytest.approx(ends) for ends in ((0.6, 1.4), (4.4, 5.6), (2.5, 3.5))
    ]
    assert said_beside(measured) == ["2", "8", "4", "1", "5", "3"]  # networks of one layer come first
    lines = [line for axes in drawn.axes for line in axes.get_ygridlines()]
    assert lines and not any(line.get_visible() for line in lines)  # none runs through a number
    remarks = "A mean without a bar is of a single run. Not significant: the difference for 256-256."
    assert said_in(drawn).count(remarks) == 1
    said = said_in(draw("time_by_depth", rows[:1], "Tesla T4"))
    assert "single run" not in said and "Not significant" not in said


def test_rows_in_common_are_named_once_and_panels_share_them():
    rows = pd.concat([table(dataset=name, kernel="naive") for name in ("one", "two")], ignore_index=True)
    drawn = draw("ranking", rows, "Tesla T4")
    left, right = drawn.axes
    assert [left.get_title(), right.get_title()] == ["one", "two"]
    assert [x for x, *_ in dots(left)] == [x for x, *_ in dots(right)] == MEANS
    visible = [
        sum(tick.label1.get_visible() for tick in axes.yaxis.get_major_ticks()) for axes in (left, right)
    ]
    assert visible == [3, 0] and faults(drawn) == []


def rates(**changes):
    known = {"learning_rate": [0.1, 0.001, 0.01], "trainings": 3, "finite": [1, 3, 3], "members": 9}
    losses = {"final_mse": [np.nan, 8.0, 0.5], "final_mse_std": [np.nan, 0.4, 0.1]}
    ended = {"status": ["diverged", "ok", "ok"], "initialiser": "he_uniform", "strategy": "ensemble"}
    return pd.DataFrame(known | losses | {**DEVICE, **ended} | changes)


def test_learning_rates_stand_at_their_values_and_those_that_diverged_are_crossed():
    drawn = draw("learning_rates", rates(), "Tesla T4", "Data: small.")
    (axes,) = drawn.axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert [x for x, *_ in dots(axes)] == [0.001, 0.01]
    assert error_bars(axes, "y") == [pytest.approx(ends) for ends in ((7.6, 8.4), (0.4, 0.6))]
    (cross,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [0.1]
    assert "Training runs that diverged: 2 of 3 at 0.1." in said_in(drawn)
    assert "9 networks in one launch" in said_in(drawn) and "Data: small." in said_in(drawn)
    assert "Circles" not in said_in(drawn) and faults(drawn) == []
    several = draw("learning_rates", pd.concat([rates(), rates(network="64", final_mse=[2.0, 3.0, 4.0])]))
    assert [bars.get_label() for bars in several.axes[0].containers] == ["256", "64"]
    assert faults(several) == []
    nothing = draw("learning_rates", rates(final_mse=np.nan))
    assert "no row has a value: final loss" in nothing.axes[0].texts[0].get_text()


def calls(names, **columns):
    """A trace of these calls, one after the other, of a microsecond each."""
    times = np.arange(float(len(names)))
    rows = pd.DataFrame({"call": names, "start_us": times, "end_us": times + 1.0} | columns)
    where = {"device_start_us": np.nan, "device_end_us": np.nan, "stream": np.nan, "strategy": "streams"}
    return rows.assign(**{key: value for key, value in (where | DEVICE).items() if key not in columns})


def test_a_timeline_shows_pinned_memory_also_where_there_is_more_of_the_devices():
    held = {"device_bytes": [0, 8192, 8192], "pinned_bytes": [4096, 4096, 2048]}
    rows = calls(["host_alloc", "malloc", "synchronize"], **held)
    drawn = draw("timeline", rows, "Tesla T4")
    assert faults(drawn) == []
    (area,), (line,) = drawn.axes[1].collections, drawn.axes[1].lines
    assert list(line.get_ydata()) == [4, 4, 2]
    assert line.get_zorder() > area.get_zorder() and line.get_color() not in area.get_facecolor()
    assert "neither on top of the other" in said_in(drawn)
    key = drawn.legends[0]
    looks = dict(zip((text.get_text() for text in key.get_texts()), key.legend_handles, strict=True))
    waits, device = (
        np.array(looks[name].get_facecolor()) for name in ("other waits for the device", "device memory")
    )
    assert np.abs(waits - device).max() > 0.4
    without = draw("timeline", rows.assign(pinned_bytes=0), "Tesla T4")
    assert not without.axes[1].lines and "pinned memory" not in said_in(without)


def test_parts_of_a_lane_are_told_apart_by_their_places():
    names = ["malloc", "host_alloc", "stream_create", "copy_in", "copy_out", "kernel", "synchronize"]
    times = np.arange(7.0)
    work = {
        "device_start_us": times,
        "device_end_us": times + 0.5,
        "stream": [np.nan] * 3 + [0.0] * 3 + [np.nan],
    }
    drawn = draw("timeline", calls(names, **work, device_bytes=0, pinned_bytes=0), "Tesla T4")
    assert faults(drawn) == []
    host, device = [], []
    for boxes in drawn.axes[0].collections:
        for path in boxes.get_paths():
            low, high = path.get_extents().intervaly
            lane = round((low + high) / 2)
            (device if lane else host).append((round(low - lane, 3), round(high - lane, 3)))
    assert len(set(host)) == len(host) == len(names) and len(set(device)) == len(device) == 3
    assert all(-0.38 <= low < high <= 0.38 for low, high in host + device)
