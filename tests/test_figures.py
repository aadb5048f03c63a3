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
    learning_rates,
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
        bars = [bar for bar in axes.patches if abs(bar.get_y() + bar.get_height() / 2 - i) < 1e-9]
        ends = [bar.get_x() + bar.get_width() for bar in bars]
        assert [bar.get_x() for bar in bars] == pytest.approx([0.0, *ends[:-1]])
        assert ends[-1] == pytest.approx(sum(rows.loc[i, f"{part}_s"] for part in attribution.PARTS))
    assert error_bars(axes, "x") == around(rows)
    predicted = next(line for line in axes.lines if line.get_label() == "predicted")
    assert list(predicted.get_xdata()) == [7.0, 3.0, 2.0]


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
    (axes,) = cpu.draw(rows, "Tesla T4").axes
    ends = rows["speedup_over_sequential_ci_low"], rows["speedup_over_sequential_ci_high"]
    assert error_bars(axes, "x") == close_to(*ends)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == STRATEGIES[::-1]  # the fastest on top
    fastest_cpu = next(line for line in axes.lines if line.get_linestyle() == "--")
    assert set(fastest_cpu.get_xdata()) == {2.0}


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
    order = "Rows are in the order of the geometric mean over the panels."
    assert order not in said_in(axes.figure)
    two = pd.concat([rows, rows.assign(dataset="large")], ignore_index=True)
    assert order in said_in(peers.draw(two, "Tesla T4"))


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
