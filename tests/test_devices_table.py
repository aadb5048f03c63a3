"""Several devices side by side: what one row is of, however a record names it, and the figure of them."""

import figure_layout
import numpy as np
import pandas as pd
import pytest
from figure_layout import error_bars, faults, said_in
from published_tables import table as published
from records_of import CPU, record
from test_merge import H200, PAPER, T4, cells_on, records_of

from snn.config import groups
from snn.config.groups import CONFIG, read_yaml
from snn.figures import devices as figure_of_devices
from snn.tables import cards as cards_table
from snn.tables import devices
from snn.tables.devices import as_published

THRESHOLDS = read_yaml(CONFIG / "verdicts.yaml")


def built(*changes):
    """The table of two GPUs whose cells have these changes: sections for each cell."""
    records = {}
    for (name, uuid), change in zip(((H200, "GPU-1"), (T4, "GPU-2")), changes, strict=True):
        cells = [cell | change(cell) for cell in cells_on("cuda", name)]
        made = records_of(cells, device=name, device_uuid=uuid)
        records[name] = {f"{name} {i}": one for i, one in enumerate(made)}
    return devices.build(records, PAPER, "Tesla T4", THRESHOLDS)


def own_file(path, sha256):
    return lambda cell: {"dataset": cell["dataset"] | {"path": path, "sha256": sha256}}


def test_a_file_is_known_by_its_digest_wherever_it_stands():
    here, there = (own_file(f"/{place}/mine.csv", "ab" * 32) for place in "ab")
    table = built(here, there)
    assert len(table) == 5 and table[[f"speedup {H200}", f"speedup {T4}"]].notna().all(axis=None)
    table = built(here, own_file("/a/mine.csv", "cd" * 32))
    assert len(table) == 10 and table[f"speedup {H200}"].isna().sum() == 5


def test_an_older_record_without_the_work_of_a_thread_is_of_one_output_for_each():
    def older(cell):
        is_old = cell["strategy"]["name"] == "reference"
        return {
            "kernel": {key: value for key, value in cell["kernel"].items() if key != "work" or not is_old}
        }

    table = built(older, lambda cell: {"kernel": cell["kernel"] | {"work": [1, 1]}})
    assert len(table) == 5 and table[[f"speedup {H200}", f"speedup {T4}"]].notna().all(axis=None)


@pytest.mark.parametrize("longer_first", [True, False])
def test_of_two_protocols_with_as_many_runs_the_one_with_the_longer_limit_is_shown(longer_first):
    cells = cells_on("cuda", H200)
    longer = [cell | {"protocol": cell["protocol"] | {"max_seconds": 1e4}} for cell in cells]
    found = [records_of(cells, {"combined": 4.0}), records_of(longer, {"combined": 0.25})]
    made = [one for records in (found[::-1] if longer_first else found) for one in records]
    records = {H200: {str(i): one for i, one in enumerate(made)}}
    table = devices.build(records, PAPER, "Tesla T4", THRESHOLDS).set_index("strategy")
    assert len(table) == 5
    assert table.loc["combined", f"verdict {H200}"] == "faster"


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ((2.0, 2.001), "slower than"),
        ((0.5, 0.501), "faster than"),
        ((1.0, 1.001), "same as"),
        ((0.9, 1.1), "not significant against"),
    ],
)
def test_advice_names_a_baseline_that_is_not_the_reference(rounds, said):
    cell, records = cells_on("cpu", "AMD EPYC")[0], {}
    for name, means in (("sequential", (1.0, 1.0)), ("blas", rounds)):
        for number, mean in enumerate(means, 1):
            of_strategy = cell | {"strategy": groups.load("strategy", name)}
            records[f"{name} {number}"] = record(of_strategy, [mean] * 4, number=number)
    table = devices.build({CPU: records}, PAPER, "Tesla T4", THRESHOLDS).set_index("strategy")
    assert table["advice"].to_dict() == {"sequential": "", "blas": f"blas {said} sequential on {CPU}"}


# ---- the figure: panels, the names of rows, and where each device's dots stand

A, B = "NVIDIA H200", "Tesla T4"
PUBLISHED = as_published("Tesla T4")


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
    figure = figure_of_devices.draw(pd.DataFrame(rows))
    assert faults(figure) == []
    return figure


def names(figure):
    return [tick.get_text().replace("\n", " ") for tick in figure.axes[0].get_yticklabels()]


def dots(axes):
    """The dots of a panel by the label of their device: row and speedup."""
    found = {}
    for container in axes.containers:
        points = [(float(at), float(value)) for value, at in container.lines[0].get_xydata()]
        found.setdefault(container.get_label(), []).extend(points)
    return found


def looks(figure):
    """Colour and marker of each device, by its label."""
    lines = [(each.get_label(), each.lines[0]) for axes in figure.axes for each in axes.containers]
    return {label: (one.get_color(), one.get_marker()) for label, one in lines if "published" not in label}


def test_data_sets_with_the_same_rows_are_panels_with_the_largest_speedups_on_top():
    figure = drawn(
        row("small", "combined", {A: 2.0, B: 1.6}),
        row("small", "graph", {A: 30.0, B: 20.0}),
        row("large", "combined", {A: 1.8, B: 1.5}),
        row("large", "graph", {A: 27.0, B: 18.0}),
        row("large", "streams", {A: 0.8, B: 0.9}),
    )
    assert [axes.get_title() for axes in figure.axes] == ["small", "large"]
    assert names(figure) == ["graph", "combined", "streams"]
    small, large = map(dots, figure.axes)
    assert [round(at) for at, _ in small[A]] == [1, 0]
    assert {round(at): value for at, value in large[A]} == {0: 27.0, 1: 1.8, 2: 0.8}
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()


def test_dots_of_a_row_stand_below_each_other_around_its_middle_and_the_unclear_ones_are_hollow():
    figure = drawn(
        row("large", "pinned", {A: 1.1, B: 1.2}, paper=1.15) | {f"verdict {A}": "not significant"},
        row("large", "combined", {A: 1.8, B: 1.6, CPU: 0.9}) | {f"verdict {A}": "faster"},
        row("large", "graph", {A: 27.0, CPU: 1.3}),
    )
    (axes,) = figure.axes
    assert names(figure) == ["large, pinned", "large, combined", "large, graph"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [A, B, CPU, PUBLISHED]
    faces = {value: face for value, _, marker, face in figure_layout.dots(axes) if marker == "o"}
    assert faces[1.1] == "white" != faces[1.8]
    ends = [bar for bar in error_bars(axes) if not np.isnan(bar).any()]
    assert ends[:2] == [pytest.approx(ends) for ends in ((0.99, 1.21), (1.62, 1.98))]
    values = {device: [value for _, value in some] for device, some in dots(axes).items()}
    assert values == {A: [1.1, 1.8, 27.0], B: [1.2, 1.6], CPU: [0.9, 1.3], PUBLISHED: [1.15]}
    heights = {device: [at for at, _ in some] for device, some in dots(axes).items()}
    for number, on in ((0, (A, B, PUBLISHED)), (1, (A, B, CPU)), (2, (A, CPU))):
        found = [at for device in on for at in heights[device] if abs(at - number) < 0.5]
        assert np.diff(found) == pytest.approx(0.25) and np.mean(found) == pytest.approx(number)


def test_rows_are_named_by_what_sets_them_apart():
    figure = drawn(
        row("large", "graph", {A: 27.0, B: 20.0}, network="128"),
        row("large", "graph", {A: 98.0, B: 80.0}, kernel="tiled_fused"),
        row("large", "threads", {CPU: 1.9, B: 1.1}, threads=8, baseline="sequential, kernel naive"),
    )
    assert names(figure) == [
        "large, 128, graph",
        "large, 256, graph, tiled_fused",
        "large, 256, threads, 8 threads, over sequential",
    ]
    said = said_in(figure)
    assert "Baseline: each device's own reference, kernel naive, unless a row names another." in said
    assert "The kernel is naive where none is named." in said
    alike = [row("large", name, {A: 2.0, B: 1.8}) for name in ("graph", "resident")]
    other = row("large", "pool", {A: 2.0, B: 1.8}, baseline="reference, kernel tiled")  # in its kernel alone
    assert names(drawn(*alike, other))[2] == "large, pool, over reference, kernel tiled"


def test_rows_of_one_device_are_left_out_where_others_are_of_two_and_a_table_of_none_says_so():
    both, one = row("large", "combined", {A: 1.8, B: 1.6}), row("large", "pool", {A: 2.0})
    assert names(drawn(both, one)) == ["large, combined"]
    assert names(drawn(one)) == ["large, pool"]
    figure = figure_of_devices.draw(pd.DataFrame([row("large", "reference", {A: 1.0}) | {"advice": np.nan}]))
    assert figure.axes[0].texts[0].get_text().startswith("no row has a value: speedup")


@pytest.mark.parametrize("diverged", [True, False])
def test_what_diverged_has_a_ring_and_what_has_no_interval_is_said_to_be_of_one_run(diverged):
    found = row("large", "streams", {A: 0.8, B: 0.9})
    found |= {f"status {A}": np.nan, f"status {B}": "ok, diverged" if diverged else "ok"}
    if not diverged:
        found |= {f"speedup_ci_low {A}": np.nan, f"speedup_ci_high {A}": np.nan}
    figure = drawn(found, row("large", "combined", {A: 1.8, B: 1.6}))
    (axes,) = figure.axes
    rings = [line.get_xydata().tolist() for line in axes.lines if line.get_markersize() == 9]
    assert rings == [[[0.9, at] for at, value in dots(axes)[B] if value == 0.9]] * diverged
    said = said_in(figure)
    assert ("Circles around markers: the training diverged." in said) == diverged
    assert ("A marker without a bar has no interval: it is of one run each." in said) == (not diverged)


def test_a_device_looks_the_same_beside_whichever_others_and_no_two_look_alike():
    few = looks(drawn(row("large", "combined", {B: 1.6, A: 1.8})))
    several = {CPU: 0.9, "NVIDIA Z1": 1.2, A: 1.8, "CPU of a host": 1.1, B: 1.6}
    more = looks(drawn(row("large", "combined", several)))
    assert len(set(more.values())) == len(more) == 5
    assert {device: more[device] for device in few} == few
    assert more[CPU] == looks(drawn(row("large", "combined", {A: 1.8, CPU: 0.9})))[CPU]


def test_the_published_figures_agree_on_their_devices_and_fit_on_a_page():
    one, other = (figure_of_devices.draw(published(name)) for name in ("devices", "devices_strategies"))
    for figure in (one, other):
        assert faults(figure) == [] and len(set(looks(figure).values())) == len(looks(figure))
    both = looks(one).keys() & looks(other).keys()
    assert both == {"NVIDIA H200", "NVIDIA H100 80GB HBM3"}
    assert all(looks(one)[device] == looks(other)[device] for device in both)
    assert other.get_figheight() <= 9.5
    said = said_in(other)
    assert "CPU Intel(R) Xeon(R) Processor beside the NVIDIA H200" in said and "nvidia-h200/" not in said
    assert "Published, of large, combined: elsewhere in the paper 2.14." in said
    assert "A row begins with the widths of its hidden layers." in said_in(one)


# ---- cards of one model as units


def on_cards(*cards):
    """A device per card: two rounds of five cells, of which ``combined`` takes so many times as long."""
    return {
        card: {str(i): one for i, one in enumerate(made)}
        for card, factor, changes in cards
        for made in [records_of(cells_on("cuda", H200), {"combined": factor}, device_uuid=card, **changes)]
    }


def over_cards(*cards):
    return cards_table.build(on_cards(*cards), THRESHOLDS).set_index("strategy")


def test_a_row_is_the_geometric_mean_over_cards_with_their_spread():
    """Usually ``combined`` takes half as long as the reference."""
    table = over_cards(("GPU-1", 1.0, {}), ("GPU-2", 2.0, {}), ("GPU-3", 2.0, {}))
    row, other = table.loc["combined"], table.loc["pinned"]
    assert "reference" not in table.index
    assert row["speedup"] == pytest.approx(2 / 2 ** (2 / 3), rel=1e-3)
    assert (row["lowest"], row["highest"]) == pytest.approx((1.0, 2.0), rel=1e-3)
    assert (row["cards"], row["rounds"], row["pairs"], row["pairs_apart"]) == (3, 6, 3, 2)
    reach = 4.3027 * np.std(np.log([2, 1, 1]), ddof=1) / np.sqrt(3)  # Student's with two degrees of freedom
    assert np.log(row["speedup_ci_high"] / row["speedup"]) == pytest.approx(reach, rel=1e-2)
    assert (row["verdict"], other["verdict"], other["pairs_apart"]) == ("not significant", "faster", 0)


def test_two_cards_that_are_equal_by_chance_have_the_interval_of_their_rounds():
    records = on_cards(("GPU-1", 1.0, {"spread": 0.1}), ("GPU-2", 1.0, {"spread": 0.1}))
    row = cards_table.build(records, THRESHOLDS).set_index("strategy").loc["combined"]
    assert row["lowest"] == row["highest"]
    alone = devices.build({H200: records["GPU-1"]}, PAPER, "Tesla T4", THRESHOLDS).set_index("strategy")
    one = alone.loc["combined", [f"speedup_ci_high {H200}", f"speedup {H200}"]].astype(float)
    reach = np.log(one.iloc[0] / one.iloc[1]) / np.sqrt(2)
    assert np.log(row["speedup_ci_high"] / row["speedup"]) == pytest.approx(reach)


def test_only_cards_of_one_model_with_two_rounds_are_units():
    assert cards_table.build(on_cards(("GPU-1", 1.0, {})), THRESHOLDS).empty
    assert cards_table.build(on_cards(("GPU-1", 1.0, {}), ("GPU-2", 1.0, {"device": T4})), THRESHOLDS).empty
    records = on_cards(("GPU-1", 1.0, {}), ("GPU-2", 1.0, {}))
    first = {place: one for place, one in records["GPU-2"].items() if one["round"] == 1}
    assert cards_table.build({"all": records["GPU-1"], "more": first}, THRESHOLDS).empty


def test_cards_that_share_a_column_of_devices_are_still_units():
    first, second = on_cards(("GPU-1", 1.0, {}), ("GPU-2", 1.0, {})).values()
    together = first | {f"{place} on another": one for place, one in second.items()}
    assert set(cards_table.build({H200: together}, THRESHOLDS)["cards"]) == {2}
