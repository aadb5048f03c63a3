"""What a figure draws is what its table holds: every bar, error bar and line at its value."""

import numpy as np
import pandas as pd
import pytest
from figure_layout import faults, said_in
from matplotlib import pyplot as plt
from matplotlib.container import ErrorbarContainer

from snn.figures import (
    attribution,
    comparison,
    cpu,
    peers,
    precision,
    ranking,
    speedup_vs_neurons,
    sweep,
    time_by_depth,
)

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
    return rows.assign(**DEVICE)


def with_interval(name, values):
    """A ratio that is nearer to the lower end of its interval."""
    values = np.array(values)
    return {name: values, f"{name}_ci_low": 0.9 * values, f"{name}_ci_high": 1.5 * values}


def error_bars(axes, along="y"):
    """The ends of each error bar, in the order in which they were drawn."""
    drawn = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    bars = [segment for one in drawn for lines in one.lines[2] for segment in lines.get_segments()]
    return [tuple(bar[:, "xy".index(along)]) for bar in bars if len(bar)]


def dots(axes):
    """The values of the dots of rows, in the order in which they were drawn."""
    return [one.lines[0].get_xdata()[0] for one in axes.containers if isinstance(one, ErrorbarContainer)]


def close_to(low, high):
    return [pytest.approx(ends) for ends in zip(low, high, strict=True)]


def around(rows):
    return close_to(rows["mean_s"] - rows["std_s"], rows["mean_s"] + rows["std_s"])


def test_a_sweep_has_means_and_standard_deviations():
    rows = table()
    (axes,) = sweep.draw(rows.assign(kernel="naive"), ["strategy"], "mine").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == STRATEGIES
    assert dots(axes) == MEANS
    assert error_bars(axes, "x") == around(rows)


def test_the_ranking_has_the_fastest_on_top_with_its_standard_deviation():
    rows = table()
    (axes,) = ranking.draw(rows.assign(kernel="naive"), "Tesla T4").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == STRATEGIES[::-1]
    top, bottom = axes.get_ylim()[::-1]
    assert top < bottom
    assert error_bars(axes, "x") == around(rows)


def test_the_parts_of_a_time_stand_on_each_other():
    parts = dict.fromkeys((f"{part}_s" for part in attribution.PARTS), 0.5)
    rows = table(**parts | {"launch_s": [1.0, 2.0, 3.0]}, predicted_s=[7.0, 3.0, 2.0], attributed_s=MEANS)
    (axes,) = attribution.draw(rows, "Tesla T4").axes
    for i in range(len(rows)):
        *bars, outline = [bar for bar in axes.patches if abs(bar.get_y() + bar.get_height() / 2 - i) < 1e-9]
        ends = [bar.get_x() + bar.get_width() for bar in bars]
        assert [bar.get_x() for bar in bars] == pytest.approx([0.0, *ends[:-1]])
        assert ends[-1] == pytest.approx(sum(rows.loc[i, f"{part}_s"] for part in attribution.PARTS))
        assert (outline.get_x(), outline.get_width()) == (
            0,
            pytest.approx(ends[-1]),
        ) and not outline.get_fill()
    assert error_bars(axes, "x") == around(rows)
    predicted = next(line for line in axes.lines if line.get_label() == "predicted")
    assert list(predicted.get_xdata()) == [7.0, 3.0, 2.0]
    assert "The parts add up" not in said_in(axes.figure)
    assert attribution.draw(rows.assign(note=np.nan), "Tesla T4").axes  # as an empty column is read
    notes = ["", "the parts add up to 1.5 times the mean of the runs", np.nan]
    other = rows.assign(note=notes, attributed_s=[8.0, 6.0, 1.0])
    said = said_in(attribution.draw(other, "Tesla T4"))
    assert "The parts add up to 1.5 times the mean in streams, small." in said


def test_a_comparison_has_the_interval_of_each_ratio():
    columns = with_interval("ratio", [1.0, 2.0, 0.5])
    columns |= with_interval("speedup_a", [1.0, 3.0, 7.0]) | with_interval("speedup_b", [1.0, 4.0, 5.0])
    rows = table(**columns)
    drawn = comparison.draw(rows, "one", "other")
    assert faults(drawn) == []
    ratios, own = drawn.axes
    assert error_bars(ratios, "x") == close_to(rows["ratio_ci_low"], rows["ratio_ci_high"])
    for bars, side in ((error_bars(own, "x")[:3], "a"), (error_bars(own, "x")[3:], "b")):
        assert bars == close_to(rows[f"speedup_{side}_ci_low"], rows[f"speedup_{side}_ci_high"])


def test_processor_and_gpu_have_the_intervals_of_their_speedups():
    rows = table(**with_interval("speedup_over_sequential", [1.0, 2.0, 16.0]))
    rows = rows.assign(ran_on=["host", "host", "device"], options="")
    rows["verdict_over_sequential"] = ["", "not significant", "faster"]  # of a single round, say
    (axes,) = cpu.draw(rows, "Tesla T4").axes
    assert [text.get_text() for text in axes.texts] == ["1.00×", "2.00×?", "16.0×"]
    ends = rows["speedup_over_sequential_ci_low"], rows["speedup_over_sequential_ci_high"]
    assert error_bars(axes, "x") == close_to(*ends)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == STRATEGIES[::-1]  # the fastest on top
    fastest_cpu = next(line for line in axes.lines if line.get_linestyle() == "--")
    assert set(fastest_cpu.get_xdata()) == {2.0}


def test_processor_and_gpu_are_in_the_order_of_the_ratio_that_is_drawn_and_unequal_rounds_are_said():
    said = "Rows have unequal rounds: a speedup is over sequential in the same rounds"
    rows = table(**with_interval("speedup_over_sequential", [1.0, 2.0, 1.9])).assign(options="")
    rows = rows.assign(strategy=["sequential", "threads", "blas"], mean_s=[8.0, 4.0, 8 / 1.9], ran_on="host")
    rows["verdict_over_sequential"] = ["", "faster", "faster"]
    assert said not in said_in(cpu.draw(rows, "Tesla T4"))
    rows["mean_s"] = [8.0, 4.0, 3.9]  # blas has a shorter mean, of other rounds
    (axes,) = cpu.draw(rows, "Tesla T4").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["threads", "blas", "sequential"]
    assert said in said_in(axes.figure) and faults(axes.figure) == []


def test_peers_have_their_intervals_and_a_line_at_the_fastest_of_them():
    steps = pd.DataFrame(with_interval("step", [10.0, 20.0, 40.0])).add_suffix("_us")
    rows = table(**steps.to_dict("list"), runtime=["", "torch 2", "jax 1"], kernel="")
    rows["verdict"] = ["faster", "best peer", "not significant"]
    rows["speedup_over_best_peer"] = [2.0, 1.0, 0.5]
    (axes,) = peers.draw(rows, "Tesla T4").axes
    assert error_bars(axes, "x") == close_to(rows["step_ci_low_us"], rows["step_ci_high_us"])
    said = [text.get_text() for text in axes.texts]
    assert said == ["10.0 µs, 2.00×", "20.0 µs, 1.00×", "40.0 µs, 0.500×?"]
    best = next(line for line in axes.lines if line.get_linestyle() == "--")
    assert set(best.get_xdata()) == {20.0}
    assert "cut off" not in said_in(axes.figure)
    rows.loc[0, "step_ci_high_us"] = 1e6  # of few rounds
    assert "interval, cut off at the ends of the axis. On" in said_in(peers.draw(rows, "Tesla T4"))
    assert "Kernels:" not in said_in(axes.figure)
    assert "The precision is fp32 where none is named." in said_in(axes.figure)
    order = "Rows are in the order of the geometric mean over the panels."
    assert order not in said_in(axes.figure)
    two = pd.concat([rows, rows.assign(dataset="large")], ignore_index=True)
    assert order in said_in(peers.draw(two, "Tesla T4"))
    deeper = rows.assign(network="256-256", kernel=["two_layers", "", ""])
    two = pd.concat([rows.assign(kernel=["one_layer", "", ""]), deeper], ignore_index=True)
    kernels = "Kernels: reference one_layer (256), two_layers (256-256)."
    assert kernels in said_in(peers.draw(two, "Tesla T4"))
    assert "A row that is blank in a panel" in said_in(peers.draw(two[1:], "Tesla T4"))
    reduced = pd.concat([rows.assign(precision=name) for name in ("fp32", "tf32")], ignore_index=True)
    assert "The precision is" not in said_in(peers.draw(reduced, "Tesla T4"))
    assert "Kernels: reference one_layer." in said_in(peers.draw(two.head(3), "Tesla T4"))


def test_a_difference_of_losses_is_in_percent_and_so_is_its_interval():
    rows = table(**with_interval("relative_difference", [0.0, 0.02, 0.05]))
    rows = rows.assign(precision=["fp32", "tf32", "bf16"], kernel="naive", convergence=["", "same", "worse"])
    times, losses = precision.draw(rows, "Tesla T4").axes
    assert dots(times) == MEANS
    assert error_bars(times, "x") == around(rows)
    ends = (100 * rows[f"relative_difference_ci_{end}"] for end in ("low", "high"))
    assert error_bars(losses, "x") == close_to(*ends)
    assert dots(losses) == pytest.approx([0.0, 2.0, 5.0])


def test_the_papers_figures_have_their_intervals_and_the_papers_values():
    rows = table(**with_interval("speedup", [1.0, 2.0, 4.0]), neurons=[64, 128, 256])
    rows["paper_speedup"] = [1.5, np.nan, 3.0]
    (axes,) = speedup_vs_neurons.draw(rows, "Tesla T4").axes
    assert error_bars(axes) == close_to(rows["speedup_ci_low"], rows["speedup_ci_high"])
    paper = next(line for line in axes.lines if "published" in line.get_label())
    assert (list(paper.get_xdata()), list(paper.get_ydata())) == ([64, 256], [1.5, 3.0])
    measured = axes.containers[0].lines[0]
    assert paper.get_fillstyle() == "none"  # so that neither covers the other where both are the same
    assert paper.get_markersize() > measured.get_markersize() and paper.get_zorder() > measured.get_zorder()
    assert axes.get_xscale() == "log"
    spreads = {"reference_std_s": [0.1, 0.2, 0.3], "combined_std_s": [0.4, 0.5, 0.6]}
    times = {"reference_s": [2.0, 4.0, 8.0], "combined_s": [1.0, 3.0, 5.0]}
    rows = table(**spreads, **times, paper_reference_s=[9.0, 8.0, 7.0], paper_combined_s=[6.0, 5.0, 4.0])
    rows["verdict"] = "faster"
    measured, paper = time_by_depth.draw(rows, "Tesla T4").axes
    expected = [
        ends
        for name in ("reference", "combined")
        for ends in close_to(
            rows[f"{name}_s"] - rows[f"{name}_std_s"], rows[f"{name}_s"] + rows[f"{name}_std_s"]
        )
    ]
    assert error_bars(measured) == expected
    assert [bar.get_height() for bar in paper.patches] == [9.0, 8.0, 7.0, 6.0, 5.0, 4.0]


def test_the_figure_by_depth_says_what_is_of_a_single_run_and_what_is_not_significant():
    spreads = {"reference_std_s": [0.1, np.nan], "combined_std_s": [0.4, 0.5]}
    times = {"reference_s": [2.0, 4.0], "combined_s": [1.0, 3.0], "network": ["256", "256-256"]}
    papers = {"paper_reference_s": [9.0, 8.0], "paper_combined_s": [6.0, 5.0]}
    rows = pd.DataFrame({**spreads, **times, **papers, "verdict": ["faster", "not significant"]})
    rows = rows.assign(**{**DEVICE, "network": ["256", "256-256"]})
    said = " ".join(said_in(time_by_depth.draw(rows, "Tesla T4")).split())
    assert (
        said.count("A mean without a bar is of a single run. Not significant: the difference for 256-256.")
        == 1
    )
    said = " ".join(said_in(time_by_depth.draw(rows[:1], "Tesla T4")).split())
    assert "single run" not in said and "Not significant" not in said
    drawn = time_by_depth.draw(rows, "Tesla T4")
    drawn.draw_without_rendering()
    lines = [line for axes in drawn.axes for line in axes.get_ygridlines()]
    assert lines and not any(line.get_visible() for line in lines)  # none runs through a number


def test_rows_in_common_are_named_once_and_panels_share_them():
    rows = pd.concat([table(dataset=name, kernel="naive") for name in ("one", "two")], ignore_index=True)
    rows["dataset"] = ["one"] * 3 + ["two"] * 3
    drawn = ranking.draw(rows, "Tesla T4")
    left, right = drawn.axes
    assert [left.get_title(), right.get_title()] == ["one", "two"]
    assert dots(left) == dots(right) == MEANS
    shown = [
        sum(tick.label1.get_visible() for tick in axes.yaxis.get_major_ticks()) for axes in (left, right)
    ]
    assert shown == [3, 0]
    assert faults(drawn) == []
