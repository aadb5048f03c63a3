"""The figures of the CNN report: what is drawn is what the table holds, the published curves beside it."""

import pandas as pd
import pytest
from figure_layout import error_bars, said_in

from snn.figures import draw

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


def only_published(**changes):
    """A program that was not measured."""
    rows = curve("PyTorch on the CPU", [1.0, 2.0], published=36, **changes)
    rows[["cumulative_s", "cumulative_std_s", "strategy", "device", "backend", "status", "data"]] = None
    return rows.astype({"cumulative_s": float, "cumulative_std_s": float})


def times(*curves):
    return draw("time_by_epoch", pd.concat(curves, ignore_index=True), "Tesla T4")


def lines(axes):
    """The values of the lines by label."""
    return {bars.get_label(): [y for _, y in bars.lines[0].get_xydata()] for bars in axes.containers}


def key(axes):
    return {text.get_text() for text in axes.get_legend().get_texts()}


def test_times_have_their_spread_and_the_published_curve_is_dashed():
    (axes,) = times(curve("naive", [1.0, 2.0, 3.0], published=4)).axes
    assert lines(axes) == {"naive": [1.0, 2.0, 3.0], "naive, published": [4.0, 8.0, 12.0]}
    assert error_bars(axes, "y") == [pytest.approx((time - 0.1, time + 0.1)) for time in (1.0, 2.0, 3.0)]
    assert axes.containers[1].lines[0].get_linestyle() == "--"
    assert (axes.get_yscale(), axes.get_xlabel(), axes.get_ylabel()) == (
        "log",
        "epoch",
        "cumulative time (s)",
    )
    axes.figure.draw_without_rendering()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "3"]


def test_losses_are_those_of_the_run_from_the_published_weights():
    (axes,) = draw("loss_by_epoch", curve("naive", [1.0, 2.0, 3.0], published=2), "Tesla T4").axes
    assert lines(axes) == {"naive": FALLING, "naive, published": [2 * loss for loss in FALLING]}
    assert not axes.containers[0].has_yerr


@pytest.mark.parametrize(("ends", "expected"), [((1.0, 12.0), {"1", "5"}), ((0.01, 300.0), {"0.01", "100"})])
def test_a_log_axis_is_labelled_with_plain_numbers(ends, expected):
    (axes,) = draw("loss_by_epoch", curve("naive", [1.0, 2.0], list(ends)), "Tesla T4").axes
    axes.figure.canvas.draw()
    low, high = sorted(axes.get_ylim())
    shown = [label.get_text() for label in axes.get_yticklabels() if low <= label.get_position()[1] <= high]
    assert expected <= set(shown) and "$" not in "".join(shown) and 3 <= len(shown) <= 7
    assert not axes.yaxis.get_minor_ticks()


def test_the_exact_gradient_has_a_panel_of_its_own_and_labels_tell_what_differs():
    exact = {"gradient": "exact"}
    curves = [curve("naive", [1.0, 2.0]), curve("naive", [3.0, 4.0], **exact)]
    mean = curve("naive", [5.0, 6.0], reduction="mean", learning_rate=0.25, **exact)
    figure = times(*curves, mean)
    left, right = figure.axes
    assert (left.get_title(), right.get_title()) == ("mnist, as published", "mnist, exact")
    assert lines(left) == {"naive": [1.0, 2.0]}
    labels = "naive, sum, learning rate 0.01", "naive, mean, learning rate 0.25"
    assert lines(right) == dict(zip(labels, ([3.0, 4.0], [5.0, 6.0]), strict=True))
    said = "As published: the gradient that the published programs compute; exact: the gradient that they"
    assert said in said_in(figure) and "Sum, mean: of the losses of a batch." in said_in(figure)
    one, other = (bars.lines[0].get_color() for bars in right.containers)
    assert one != other


def test_block_sizes_are_labelled_with_their_threads():
    figure = times(*[curve("naive", [float(threads)] * 2, threads=threads) for threads in (128, 1024)])
    assert list(lines(figure.axes[0])) == ["naive, 128 threads", "naive, 1024 threads"]
    assert figure.get_suptitle() == "Cumulative time by epoch and block size"


def test_curves_that_coincide_stand_side_by_side_and_published_markers_on_top():
    curves = [curve(name, [1.0, 2.0, 3.0], published=1) for name in ("naive", "optimised")]
    figure, alone = (
        draw("loss_by_epoch", rows, "Tesla T4") for rows in (pd.concat(curves, ignore_index=True), curves[0])
    )
    drawn = {bars.get_label(): bars.lines[0] for bars in figure.axes[0].containers}
    published = [line for label, line in drawn.items() if label.endswith("published")]
    measured = [line for line in drawn.values() if line not in published]
    at = [list(line.get_xdata()) for line in measured]
    assert at == [list(line.get_xdata()) for line in published]
    assert at == [pytest.approx([epoch + aside for epoch in (1, 2, 3)]) for aside in (-0.06, 0.06)]
    assert min(line.get_zorder() for line in published) > max(line.get_zorder() for line in measured)
    assert list(alone.axes[0].containers[0].lines[0].get_xdata()) == [1, 2, 3]
    titles = [each.get_suptitle() for each in (figure, alone)]
    assert titles == ["Mean loss by epoch and program", "Mean loss by epoch"]
    assert ["stand side by side at a number" in said_in(each) for each in (figure, alone)] == [True, False]


def test_what_has_no_time_is_named_with_its_status_and_what_was_only_published_is_drawn():
    unsupported = curve("optimised", [float("nan")], [float("nan")], status="unsupported", epoch=float("nan"))
    figure = times(curve("naive", [1.0, 2.0]), unsupported, only_published())
    (axes,) = figure.axes
    assert key(axes) == {"naive", "optimised (unsupported)", "PyTorch on the CPU, published"}
    assert lines(axes)["PyTorch on the CPU, published"] == [36.0, 72.0]
    assert "RTX 6000" in said_in(figure) and "NVIDIA H200" in said_in(figure)
    (axes,) = times(unsupported).axes
    assert "no row has a value" in axes.texts[0].get_text()


def test_a_published_curve_of_an_unknown_data_set_shares_the_panel_and_names_that():
    (axes,) = times(curve("naive", [1.0, 2.0]), only_published(dataset="not stated")).axes
    (label,) = [label for label in key(axes) if "CPU" in label]
    assert "not stated" in label and "published" in label
    assert axes.get_title() == "mnist, as published"
