"""The table and figure of ways to train in less memory, and the plan's remedies."""

import json

import numpy as np
import pytest
from figure_layout import dots, faults, said_in
from records_of import LEDGER, MEMORY, THRESHOLDS, frame_of, record, sweep_of

from snn import cli
from snn.figures import draw
from snn.planning import remedies as changes
from snn.records.store import sealed
from snn.tables import overview
from snn.tables.memory import batch_sizes, memory_remedies

SWEEP = {
    "dataset": "medium",
    "network.update_order": "simultaneous",
    "protocol.rounds": 2,
    "kernel": "tiled_fused",
    "strategy": "resident",
    "union": [
        {"network.hidden": [64, 64, 64], "training.accumulate": [1, 4], "network.recompute": [[], [1, 3]]},
        {"network.hidden": [64, 64, 64], "kernel": "tensor_core", "precision": "bf16"},
        {"network.hidden": [64, 64, 64], "strategy": "pipelined"},
        {"network.hidden": [32]},
    ],
}
SECONDS = (1.0, 1.2, 1.5, 1.8, 0.5, 2.0, 0.1)
PEAKS = (1000, 700, 400, 300, 1000, 900, 50)


@pytest.fixture
def records():
    cells = sorted(sweep_of(SWEEP).cells, key=lambda cell: len(cell["network"]["hidden"]) == 1)
    found = {}
    for cell, seconds, peak in zip(cells, SECONDS, PEAKS, strict=True):
        kinds = {"activations": peak // 2, "gradients": peak - peak // 2}
        device = MEMORY["device"] | {"peak_bytes": peak, "peak_by_kind": kinds, "reserved_bytes": peak}
        for number in (1, 2):
            one = record(cell, [seconds * (1 + 0.001 * number)] * 2, mse=40 + peak / 1000, number=number)
            one |= {"memory": MEMORY | {"device": device}, "ledger": LEDGER | {"launches": 7}}
            found[f"{len(found)}"] = sealed(one)
    return found


@pytest.fixture
def table(records):
    return memory_remedies.build(frame_of(*records.values()), {}, THRESHOLDS)


def test_losses_are_compared_over_the_draws_that_both_rows_have(records):
    of_plain = records["0"]["runs"]
    of_plain[1] |= {"final_loss": 9 * of_plain[1]["final_loss"]}  # of a draw that hardly any row has
    for name in sorted(records.keys() - {"0", "2", "3"}):  # of which the latter two have all draws
        if records[name]["round"] == 1:
            del records[name]["runs"][1:]
        else:
            del records[name]
    table = memory_remedies.build(frame_of(*records.values()), {}, THRESHOLDS)
    assert table["draws"].tolist() == ["1 to 2", "1 to 2, 6 to 7", *["1"] * 5]
    assert table["final_loss"][0] == pytest.approx(5 * 41)
    np.testing.assert_allclose(
        table["loss_difference"][:6], np.array([205, 40.7, 40.4, 40.3, 41, 40.9]) / [205, 205, *[41] * 4] - 1
    )


def test_activations_in_16_bits_are_a_remedy_and_batches_have_times_per_row():
    sizes = {"dataset.rows": 1024, "network.hidden": [64], "strategy": "resident", "protocol.rounds": 2}
    halves = {"training.storage": ["fp32", "bf16", "fp16"], "training.batch_size": [64, 256]}
    records = [
        record(cell, [2.0, 2.1], number=number)
        | {"memory": MEMORY | {"device": MEMORY["device"] | {"peak_bytes": 640000}}}
        for cell in sweep_of(sizes | halves | {"dataset": "medium"}).cells
        for number in (1, 2)
    ]
    frame = frame_of(*map(sealed, records))
    remedies = memory_remedies.build(frame, {}, THRESHOLDS)
    assert {*remedies["remedy"]} == {"plain", "bf16 activations", "fp16 activations"}
    table = batch_sizes.build(frame, {}, THRESHOLDS)
    epochs = records[0]["cell"]["training"]["epochs"]
    for row in table.to_dict("records"):
        assert row["row_ns"] == pytest.approx(1e9 * 2.05 / epochs / 1024)
        assert row["row_bytes"] == 640000 / row["batch_size"]
    assert {*table["storage"]} == {"fp32", "bf16", "fp16"} and {*table["batch_size"]} == {64, 256}
    largest = (table["batch_size"] == 256) & (table["storage"] == "fp32")
    table.loc[largest, ["row_ns", "row_ci_low_ns", "row_ci_high_ns", "peak_bytes"]] = np.nan
    table.loc[largest, "status"] = "out_of_memory"
    drawn = draw("batch_sizes", table, "")
    assert faults(drawn) == []
    assert [axes.get_ylabel() for axes in drawn.axes] == [
        "time per row (ns)",
        "device memory at the peak (GiB)",
    ]
    assert draw("batch_sizes", table.head(0), "") is not None


def titles(drawn):
    return [axes.get_title().removesuffix(": memory") for axes in drawn.axes[::2]]


def test_the_figure_shows_bytes_and_times_of_each_network(table):
    def labels(drawn):
        return [label.get_text() for label in drawn.axes[0].get_yticklabels()]

    drawn = draw("memory_remedies", table, "Tesla T4")
    assert faults(drawn) == []
    assert [len(dots(axes)) for axes in drawn.axes] == [6, 6, 1, 1]
    assert labels(drawn) == table["remedy"].tolist()[:6]
    names = [axes.get_xlabel() for axes in drawn.axes]
    assert names == ["device memory at the peak (MiB)", "time of a step over that of plain"] * 2
    own = table.drop_duplicates("network")[["network", "batch_size"]].to_numpy().tolist()
    assert titles(drawn) == [f"{network}, batch of {size}" for network, size in own]  # of the same data
    assert "unless a row names another" not in said_in(drawn)
    other = draw("memory_remedies", table.assign(dataset=[*["large"] * 6, "small"]), "")
    assert titles(other) == ["large, batch of 256", "small, batch of 256"]
    batches = draw("memory_remedies", table.assign(batch_size=[64, *table["batch_size"][1:]]), "")
    assert labels(batches)[:2] == ["plain, batch of 64", "accumulate 4"]
    assert "The batch is that of the panel's title, unless a row names another." in said_in(batches)
    empty = draw("memory_remedies", table.assign(time_ratio=np.nan), "")
    assert "no row has a value" in empty.axes[0].texts[0].get_text()


def test_they_are_not_the_work_of_a_plain_training(records):
    points = overview.points_of(records, THRESHOLDS)
    cells = [row for point in points for _, row in point.iterrows()]
    assert {(row["training.accumulate"], row["network.recompute"]) for row in cells} == {(1, "")}
    assert len(cells) == 3  # plain, pipelined, and the other network


BF16 = "precision=bf16 kernel=tensor_core"
DEEP = ("dataset=large", "network.hidden=[512,512,512,512]", "training.batch_size=2048")


def plan_of(tmp_path, *arguments):
    """What is planned, and its remedies by their setting."""
    file = tmp_path / "plan.json"
    assert cli.main(["plan", *arguments, "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    return found, {one["setting"]: one for one in found["remedies"]}


def test_the_plan_says_what_each_remedy_saves_and_costs(tmp_path, capsys):
    settings = ("dataset.rows=10000", "network.update_order=simultaneous", "strategy=graph")
    found, remedies = plan_of(tmp_path, *DEEP, *settings, "--free", "4GiB")
    saved = [one["saves_bytes"] for one in found["remedies"]]
    assert saved == sorted(saved, reverse=True)
    output = 4 * 2048 * 512
    again = remedies["network.recompute=[1,3]"]
    assert again["saves_bytes"] == pytest.approx(2 * output, rel=0.1)  # an output and its gradient
    assert "MFLOP again, " in again["cost"] and "% of a step's" in again["cost"]
    for n in (2, 4, 8):
        one = remedies[f"training.accumulate={n}"]
        assert one["saves_bytes"] == pytest.approx(8 * output * (1 - 1 / n), rel=0.15)
        assert "more launches" in one["cost"]
    assert "every array is held as before" in remedies[BF16]["cost"]
    assert "strategy=synchronous" in remedies
    assert found["largest_batch"] == 10000
    _, others = plan_of(tmp_path, *DEEP, "dataset.rows=2048", "strategy=reference", "--free", "4GiB")
    assert not any("accumulate" in one or "recompute" in one for one in others)  # it has no launches


def test_what_is_said_of_a_remedy_is_what_the_plan_of_it_says(tmp_path, capsys):
    usual = (*DEEP, "dataset.rows=4096", "strategy=resident", "kernel=tiled_fused", "--free", "609MiB")
    found, remedies = plan_of(tmp_path, *usual)
    assert not found["fits"]
    settings = [one for setting, one in remedies.items() if "training.accumulate" in setting]
    assert any(one["fits"] for one in settings)
    assert all("network.update_order=simultaneous" in one["setting"] for one in settings)
    (both,) = (one for one in settings if "network.recompute" in one["setting"])
    assert "and other weights" in both["cost"]
    for one in (both, next(one for one in settings if one != both)):
        other, _ = plan_of(tmp_path, *usual, *one["setting"].split(" "))
        assert (other["peak_bytes"], other["fits"]) == (one["peak_bytes"], one["fits"])
        assert other["largest_batch"] % int(one["setting"].partition("=")[2].split(" ")[0]) == 0


def test_what_another_kernel_saves_is_not_ascribed_to_bf16(tmp_path, capsys):
    images = ("dataset=mnist", "dataset.rows=100", "network=cnn", "training.batch_size=100")
    images += ("strategy=resident", "--free", "15GiB")
    found, remedies = plan_of(tmp_path, *images)
    fused, of_fused = plan_of(tmp_path, *images, "kernel=tiled_fused")
    kernel, bf16 = remedies["kernel=tiled_fused"], remedies[BF16]
    assert kernel["peak_bytes"] == bf16["peak_bytes"] == fused["peak_bytes"]
    assert kernel["saves_bytes"] == found["peak_bytes"] - fused["peak_bytes"] > 10e6
    assert bf16["saves_bytes"] <= 0 and bf16["than"] in remedies and not of_fused[BF16]["than"]
    assert f"nothing  less with {BF16} than with kernel=" in capsys.readouterr().out


@pytest.mark.parametrize(("drop_last", "times"), [("false", "200"), ("true", "267")])
def test_a_smaller_batch_costs_the_steps_that_it_has_more(drop_last, times, tmp_path, capsys):
    """Of 25,600 rows 8192 fill three batches and leave a partial one."""
    wide = ("dataset=large", "network.hidden=[8192]", "training.batch_size=8192", "strategy=resident")
    device = ("--device", "Tesla T4", "--free", "600MiB")
    _, remedies = plan_of(tmp_path, *wide, f"training.drop_last={drop_last}", *device)
    cost = remedies["training.batch_size=32"]["cost"]
    assert cost == f"{times} times as many steps an epoch, and other weights"
    assert changes.steps(2, 2) == "as many steps an epoch, and other weights"


@pytest.mark.parametrize(("hidden", "saving"), [("[8]", False), ("[4096]", True)])
def test_what_saves_nothing_is_listed_apart_also_where_something_saves(hidden, saving, capsys):
    cell = ["dataset=small", f"network.hidden={hidden}", "strategy=resident"]
    assert cli.main(["plan", *cell, "--free", "4GiB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    others = lines.index("what would not reduce it:")
    nothing = [number for number, line in enumerate(lines) if line.lstrip().startswith("nothing ")]
    assert nothing == list(range(others + 1, len(lines)))
    assert any("less with precision=bf16" in line for line in lines[others:])
    assert ("what would reduce it:" in lines[: others - 1]) == saving
