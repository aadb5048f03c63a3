"""What figures have in common: log axes, what was trained, colours seen on white and none, equal bytes."""

import numpy as np
import pandas as pd
import pytest
from figure_layout import faults
from matplotlib import pyplot as plt

from snn.figures import breakdown, form, layout, names, style
from snn.figures.ticks import hold, log_axis
from snn.figures.trained import of_records, trained
from snn.profiling.profile import TimingBackend


@pytest.mark.parametrize("low", [1e-6, 0.03, 0.72, 7.0, 12_000.0])
@pytest.mark.parametrize("factor", [1.02, 1.7, 2.05, 4.0, 60.0, 1e5, 1e12])
@pytest.mark.parametrize("inches", [0.9, 3.0])
def test_a_log_axis_of_any_span_has_labels_that_do_not_touch(low, factor, inches):
    figure, (axes,) = layout.panels(1, 2.0)
    figure.set_layout_engine("none")
    axes.set_position([0.2, 0.3, inches / layout.WIDTH, 0.5])
    log_axis(axes.xaxis)
    axes.set_xlim(low, factor * low)
    assert faults(figure) == []
    plt.close(figure)
    assert len([tick for tick in axes.get_xticks() if low <= tick <= factor * low]) >= (
        2 if inches > 1 else 1
    )


@pytest.mark.parametrize(
    ("values", "ends"),
    [([1.0, 2.0], (0, 2.2)), ([-1.0, 9.0], (-2, 10)), ([-4.0, -2.0], (-4.4, 0.4)), ([0.0], (0, 1))],
)
def test_a_linear_axis_has_zero_and_room_around_what_is_on_either_side(values, ends):
    figure, (axes,) = layout.panels(1, 2.0)
    hold(axes.yaxis, np.array([*values, np.nan]), log=False)
    assert axes.get_ylim() == pytest.approx(ends)
    plt.close(figure)


def test_what_was_trained_is_said_in_words():
    cells = [
        {"dataset": {"name": name, "rows": count}, "network": {"hidden": hidden}, "training": trained_so}
        for name, count, hidden, trained_so in (
            ("small", 256, [256], {"batch_size": 64, "epochs": 10}),
            ("large", 25_600, [64, 64], {"batch_size": 64, "epochs": 100}),
        )
    ]
    data = "Data: small (256 rows), large (25,600 rows)."
    assert trained(cells) == f"{data} Hidden layers: 256, 64-64. Batch: 64. Epochs: 10 (small), 100 (large)."
    again = cells[1] | {"dataset": cells[0]["dataset"]}
    assert trained([*cells, again]).endswith(" Epochs: 10, 100.")
    images = {"name": "patterns", "rows": 60, "shape": [1, 28, 28]}
    convolutions = {"layers": ["conv2d 16 3", "linear 10"]}
    of_images = [cells[0] | {"dataset": images, "network": convolutions}]
    assert trained(of_images).startswith("Data: patterns (60 images). Network: conv16x3-linear10. ")
    many = [cells[0] | {"network": {"hidden": [width]}} for width in range(1, 10)]
    assert "Hidden layers: 1, 2, 3, 4, 5, 6 and 3 more." in trained(many)
    assert trained([]) == ""
    reduced, plain = cells[0] | {"precision": {"name": "tf32"}}, cells[0] | {"precision": {"name": "fp32"}}
    assert trained([reduced]).endswith(" Precision: tf32.")
    assert "Precision" not in trained([plain]) + trained([plain, reduced])


def test_of_records_a_users_table_is_named_with_its_target_and_size():
    dataset = {"name": "csv", "path": "/home/me/wine.csv", "target": "quality"}
    cell = {"dataset": dataset, "network": {"hidden": [8]}, "training": {"batch_size": 64, "epochs": 3}}
    assert trained([cell]).startswith("Data: wine.csv, target quality. Hidden layers: 8.")
    data = {"rows": 1279, "test_rows": 320, "features": 11}
    said = of_records([{"cell": cell, "data": data}, {"cell": cell, "data": data}])
    assert said.startswith("Data: wine.csv, target quality (1,279 rows, 11 features, 320 rows held out). Hid")
    left_out = data | {"left_out_rows": 1168, "left_out_columns": ["Name", "Cabin"]}
    said = of_records([{"cell": cell, "data": left_out}])
    assert "320 rows held out, 1,168 rows left out, left out: Name, Cabin). Hid" in said


def test_a_figure_is_the_same_bytes_whatever_the_last_bits_of_its_layout(tmp_path):
    """Matplotlib names clip boxes by their exact sizes."""
    written, as_named = [], []
    for shift in (0.0, 1e-13):
        figure, (axes,) = layout.panels(1, 2.0)
        axes.plot([1, 2], [1, 2], "o-")
        layout.framed(figure, "a title", ["a device"], "a note", axes.lines)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        axes.set_position([0.2 + shift, 0.3, 0.6, 0.5])
        figure.savefig(tmp_path / "named.svg", metadata={"Date": None})
        as_named.append((tmp_path / "named.svg").read_bytes())
        layout.save(figure, [str(tmp_path / "saved.svg")])
        written.append((tmp_path / "saved.svg").read_bytes())
    assert as_named[0] != as_named[1]
    assert written[0] == written[1]
    assert written[0].count(b'clip-path="url(#p') == as_named[0].count(b'clip-path="url(#p') > 0


def test_every_part_of_a_time_and_every_strategy_has_a_colour():
    assert set(breakdown.PARTS) == {*TimingBackend.PARTS, "kernels", "host_arithmetic"}
    assert style.look("combined").colour == style.LOOKS["combined"].colour
    assert style.look("mine") == style.look("mine")


@pytest.mark.parametrize(
    ("kernels", "of_host", "said"),
    [
        (["naive", "tiled", "naive"], [], "The kernel is naive where none is named."),
        (["naive", "tiled"], [], ""),  # each of half of the rows
        (["naive", "naive"], [], ""),
        ([], ["naive", "tiled", "tiled"], "The kernel is tiled where none is named."),  # no GPU, so no host
        (["naive", "tiled", "tiled"], ["naive"] * 4, "The kernel is tiled where none is named."),
    ],
)
def test_the_kernel_that_is_not_named_is_that_of_most_rows_on_the_device(kernels, of_host, said):
    backends = ["cuda"] * len(kernels) + ["cpu"] * len(of_host)
    assert names.usual_kernel(pd.DataFrame({"kernel": kernels + of_host, "backend": backends})) == said


def drawn_with(name, folder):
    """How often a name is drawn above and below, in titles, in front of rows, in the key and beside dots."""
    figure, panels = layout.panels(2, 1.5, 1, sharey=True)
    for axes in panels:
        form.name_rows(axes, [name, "other"])
        axes.plot([1, 100], [0, 1], label=name)
        axes.annotate(name, (2, 0.5))
        layout.set_title(axes, name, 3.0)
    log_axis(axes.xaxis)
    axes.set_xlabel(name)
    layout.framed(figure, name, [name], name, axes.get_legend_handles_labels()[0])
    layout.save(figure, [str(folder / "saved.svg"), str(folder / "saved.png")])
    return (folder / "saved.svg").read_text().count(f"<!-- {name} -->")


def test_a_dollar_sign_in_a_name_begins_no_formula(tmp_path):
    drawn = ["A B", r"A $\frac{$ B", r"A $x$ \$ B"]
    plain, *others = [drawn_with(name, tmp_path) for name in drawn]
    assert others == [plain, plain] and plain > 9
