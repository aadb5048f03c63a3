"""The figures of the CNN report: what is drawn is what the table holds, the published curves beside it."""

import pandas as pd
import pytest
from figure_layout import said_in
from matplotlib.container import ErrorbarContainer

from snn.figures import loss_by_epoch, time_by_epoch

MEASURED = {"device": "NVIDIA H200", "backend": "cuda", "status": "ok", "data": "60000 images of mnist"}
AT = {"dataset": "mnist", "gradient": "as published", "strategy": "synchronous", "threads": 256}
FALLING = [0.4, 0.2, 0.1]


def curve(program, times, losses=FALLING, published=None, **changes):
    """The rows of one program by epoch, with the published curve of that many times its own."""
    epochs = range(1, len(times) + 1)
    rows = pd.DataFrame({"epoch": epochs, "cumulative_s": times, "loss": losses[: len(times)]})
    rows = rows.assign(cumulative_std_s=0.1, mean_loss=9.0, program=program, **MEASURED | AT)
    rows = rows.assign(**{"reduction": "sum", "learning_rate": 0.01, "published_device": None} | changes)
    for column, of in (("published_cumulative_s", "cumulative_s"), ("published_loss", "loss")):
        rows[column] = published * rows[of] if published else float("nan")
    return rows.assign(published_device="RTX 6000") if published else rows


def lines(axes):
    """The lines with more than a point, by label."""
    bars = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    named = {one.get_label(): list(one.lines[0].get_ydata()) for one in bars}
    plain = {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}
    return named | {label: list(line.get_ydata()) for label, line in plain.items()}


def ends(axes, number=0):
    bars = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    return [tuple(segment[:, 1]) for segment in bars[number].lines[2][0].get_segments()]


def test_times_have_their_spread_and_the_published_curve_is_dashed():
    table = curve("naive", [1.0, 2.0, 3.0], published=4)
    (axes,) = time_by_epoch.draw(table, "Tesla T4").axes
    assert lines(axes) == {"naive": [1.0, 2.0, 3.0], "naive, published": [4.0, 8.0, 12.0]}
    assert ends(axes) == [pytest.approx((time - 0.1, time + 0.1)) for time in (1.0, 2.0, 3.0)]
    dashed = next(line for line in axes.lines if line.get_label() == "naive, published")
    assert dashed.get_linestyle() == "--"
    assert axes.get_yscale() == "log" and axes.get_xlabel() == "epoch"
    assert axes.get_ylabel() == "cumulative time (s)"
    axes.figure.draw_without_rendering()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "3"]


def test_losses_are_those_of_the_run_from_the_published_weights():
    (axes,) = loss_by_epoch.draw(curve("naive", [1.0, 2.0, 3.0], published=2), "Tesla T4").axes
    assert lines(axes) == {"naive": FALLING, "naive, published": [2 * loss for loss in FALLING]}
    assert not axes.containers[0].has_yerr


@pytest.mark.parametrize(("ends", "expected"), [((1.0, 12.0), {"1", "5"}), ((0.01, 300.0), {"0.01", "100"})])
def test_a_log_axis_is_labelled_with_plain_numbers(ends, expected):
    (axes,) = loss_by_epoch.draw(curve("naive", [1.0, 2.0], list(ends)), "Tesla T4").axes
    axes.figure.canvas.draw()
    low, high = sorted(axes.get_ylim())
    shown = [label.get_text() for label in axes.get_yticklabels() if low <= label.get_position()[1] <= high]
    assert expected <= set(shown) and "$" not in "".join(shown) and 3 <= len(shown) <= 7
    assert not axes.yaxis.get_minor_ticks()


def test_the_exact_gradient_has_a_panel_of_its_own_and_labels_tell_what_differs():
    table = pd.concat(
        [
            curve("naive", [1.0, 2.0]),
            curve("naive", [3.0, 4.0], gradient="exact"),
            curve("naive", [5.0, 6.0], gradient="exact", reduction="mean", learning_rate=0.25),
        ],
        ignore_index=True,
    )
    left, right = time_by_epoch.draw(table, "Tesla T4").axes
    assert (left.get_title(), right.get_title()) == ("mnist, as published", "mnist, exact")
    assert lines(left) == {"naive": [1.0, 2.0]}
    assert lines(right) == {
        "naive, sum, learning rate 0.01": [3.0, 4.0],
        "naive, mean, learning rate 0.25": [5.0, 6.0],
    }
    said = said_in(right.figure)
    assert (
        "As published: the gradient that the published programs compute; exact: the gradient that they"
        in said
    )
    assert "Sum, mean: of the losses of a batch." in said
    alone = said_in(time_by_epoch.draw(table[:2], "Tesla T4"))
    assert "exact:" not in alone and "Sum, mean" not in alone
    unnamed = table.drop(index=[2, 3])  # a reduction for each panel
    assert "Sum, mean" not in said_in(time_by_epoch.draw(unnamed, "Tesla T4"))
    shades = [one.lines[0].get_color() for one in right.containers if isinstance(one, ErrorbarContainer)]
    assert shades[0] != shades[1]


def test_block_sizes_are_labelled_with_their_threads():
    rows = [curve("naive", [float(threads)] * 2, threads=threads) for threads in (128, 1024)]
    figure = time_by_epoch.draw(pd.concat(rows, ignore_index=True), "Tesla T4")
    (axes,) = figure.axes
    assert list(lines(axes)) == ["naive, 128 threads", "naive, 1024 threads"]
    assert figure.get_suptitle() == "Cumulative time by epoch and block size"


def test_curves_that_coincide_stand_side_by_side_and_published_markers_on_top():
    rows = [curve(name, [1.0, 2.0, 3.0], published=1) for name in ("naive", "optimised")]
    figure = loss_by_epoch.draw(pd.concat(rows, ignore_index=True), "Tesla T4")
    (axes,) = figure.axes
    measured = [one.lines[0] for one in axes.containers]
    published = [line for line in axes.lines if line.get_label().endswith("published")]
    at = [list(line.get_xdata()) for line in measured]
    assert at == [list(line.get_xdata()) for line in published]
    assert at == [pytest.approx([epoch + aside for epoch in (1, 2, 3)]) for aside in (-0.045, 0.045)]
    assert min(line.get_zorder() for line in published) > max(line.get_zorder() for line in measured)
    assert "Markers of an epoch stand side by side." in said_in(figure)
    assert figure.get_suptitle() == "Mean loss by epoch and program"
    alone = loss_by_epoch.draw(rows[0], "Tesla T4")
    assert list(alone.axes[0].containers[0].lines[0].get_xdata()) == [1, 2, 3]
    assert "side by side" not in said_in(alone) and alone.get_suptitle() == "Mean loss by epoch"


def test_what_has_no_time_is_named_with_its_status_and_what_was_only_published_is_drawn():
    unsupported = curve("optimised", [float("nan")], [float("nan")], status="unsupported")
    unsupported["epoch"] = float("nan")
    only = curve("PyTorch on the CPU", [1.0, 2.0], published=36)
    only[["cumulative_s", "cumulative_std_s", "strategy", "device", "backend", "status", "data"]] = None
    table = pd.concat([curve("naive", [1.0, 2.0]), unsupported, only], ignore_index=True)
    figure = time_by_epoch.draw(table.astype({"cumulative_s": float, "cumulative_std_s": float}), "Tesla T4")
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert set(labels) == {"naive", "optimised (unsupported)", "PyTorch on the CPU, published"}
    assert lines(axes)["PyTorch on the CPU, published"] == [36.0, 72.0]
    assert "RTX 6000" in said_in(figure) and "NVIDIA H200" in said_in(figure)


def test_a_published_curve_of_an_unknown_data_set_shares_the_panel_and_names_that():
    only = curve("PyTorch on the CPU", [1.0, 2.0], published=36, dataset="not stated")
    only[["cumulative_s", "cumulative_std_s", "strategy", "device", "backend", "status", "data"]] = None
    table = pd.concat([curve("naive", [1.0, 2.0]), only], ignore_index=True)
    figure = time_by_epoch.draw(table.astype({"cumulative_s": float, "cumulative_std_s": float}), "Tesla T4")
    (axes,) = figure.axes
    (label,) = [text.get_text() for text in axes.get_legend().get_texts() if "CPU" in text.get_text()]
    assert "not stated" in label and "published" in label
    assert axes.get_title() == "mnist, as published"


def test_few_images_and_a_cpu_are_said_above_the_figure():
    where = {"device": "AMD EPYC", "backend": "cpu", "data": "256 images of patterns: not the report's data"}
    figure = loss_by_epoch.draw(curve("naive", [1.0, 2.0], **where), "Tesla T4")
    assert "AMD EPYC (CPU backend)" in said_in(figure)
    assert "256 images of patterns" in said_in(figure)


def test_without_any_time_the_figure_says_so():
    table = curve("naive", [float("nan")], status="unsupported")
    (axes,) = time_by_epoch.draw(table, "Tesla T4").axes
    assert "no cell has a time" in axes.texts[0].get_text()
