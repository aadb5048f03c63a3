"""The tables of the CNN report: what the archived ones don't show, from records of our choosing."""

import pytest
from cnn_cells import MEAN, NAIVE, OPTIMISED, cells_of, loaders, published_values, rows_of
from records_of import HOST, THRESHOLDS, frame_of, record

from snn.tables.cnn import cnn_block_size, cnn_epochs, cnn_loader, cnn_programs

TITLES = {cnn_block_size: "cnn_block_size", cnn_epochs: "cnn_epochs", cnn_loader: "cnn_loader"}


def build(table, cells, seconds, **changed):
    return of_rows(table, rows_of(cells, seconds, **changed))


def of_rows(table, rows):
    return table.build(rows, published_values(TITLES.get(table, "cnn_programs")), THRESHOLDS)


# ---- Tables 3 to 6


def test_a_loss_that_is_not_finite_is_none():
    losses = [[1.0, 2.0, *[float("nan")] * 3]]
    rows = rows_of(cells_of(NAIVE), [1.0], mse=[float("nan")], epoch_losses=losses)
    assert [entry["mean_loss"] for entry in rows["curve"][0]] == [1.0, 2.0, None, None, None]
    table = of_rows(cnn_programs, rows)
    assert table["loss"].isna().all() and table["status"].tolist() == ["diverged"]


@pytest.mark.parametrize(
    ("products", "device", "programs"),
    [
        ([NAIVE, OPTIMISED | {"kernel": "naive"}], {"device": HOST}, ["naive", "optimised"]),
        ([OPTIMISED | {"kernel": "naive"}], {}, ["pipelined, naive"]),
        ([{"strategy": "torch_eager"} | MEAN], {}, ["torch_eager"]),
    ],
    ids=["a CPU has NumPy in place of every kernel", "a GPU", "a peer"],
)
def test_the_names_of_programs(products, device, programs):
    cells = cells_of(*products, **device)
    assert build(cnn_programs, cells, [1.0] * len(cells))["program"].tolist() == programs


# ---- other data than the report's

FEW = {"dataset": "patterns", "device": HOST, "dataset.rows": 256, "dataset.test_rows": 100}


@pytest.mark.parametrize(
    ("table", "cells"),
    [
        (cnn_programs, cells_of(NAIVE, **FEW)),
        (cnn_loader, loaders((2, False), (4, True), dataset="patterns")),
        *(
            (cnn_epochs, cells_of(NAIVE, **({"dataset": "mnist"} | change)))
            for change in ({"training.epochs": 4}, {"dataset.rows": 59999}, {"dataset": "fashion"})
        ),
    ],
    ids=["few images", "other images", "fewer epochs", "fewer rows", "another data set of the report"],
)
def test_nothing_published_is_shown_beside_another_training(table, cells):
    found = build(table, cells, [1.0] * len(cells))
    assert len(found) == (cells[0].epochs if table is cnn_epochs else len(cells))
    assert found[[name for name in found if name.startswith("published_")]].isna().all(axis=None)
    assert found["data"].str.endswith(": not the report's data, so nothing published is shown").all()


# ---- Figures 1 to 4, by epoch


def test_a_curve_of_a_data_set_that_is_not_stated_has_no_counterpart():
    """A row of MNIST on a CPU with four workers is not the published 181 s, whose data set nobody knows."""
    table = build(cnn_epochs, loaders((4, False), device=HOST, dataset="mnist"), [100.0])
    measured = table["cumulative_s"].notna()
    assert measured.sum() == 5 and table.loc[measured, "published_cumulative_s"].isna().all()
    assert (table["program"] == "PyTorch on the CPU").sum() == 5


# ---- the block size, and the loader of Tables 1 and 2


@pytest.mark.parametrize(
    ("options", "where", "published_s", "others"),
    [
        (
            [(2, False), (4, True), (8, True)],
            {},
            [24.84, 19.15, 19.37],
            {"CPU": "--config device=cpu measures it", "GPU": "not in the sweep"},
        ),
        (
            [(4, False)],
            {"device": HOST, "dataset": "mnist"},
            [159.26],
            {"GPU": "--config device=cuda measures it"},
        ),
    ],
    ids=["GPU", "CPU, where pinned memory does not count"],
)
def test_the_loaders_rows_stand_beside_the_reports_and_the_reports_alone_after_them(
    options, where, published_s, others
):
    rows = rows_of(loaders(*options, **where), [2.0 / 2**i for i in range(len(options))])
    table = of_rows(cnn_loader, rows)
    measured = table["mean_s"].notna()
    assert table.loc[measured, "published_s"].tolist() == published_s
    rest = table[~measured]
    assert len(table) == 9 and rest["published_s"].notna().all()
    assert rest["device"].isna().all()
    said = rest.groupby("ran_on")["reason"].unique().map(list).to_dict()
    assert {name: said[name] for name in others} == {
        name: [f"published only: {why}"] for name, why in others.items()
    }
    assert cnn_loader.pairs(rows) == ([(0, i) for i in range(3)] if len(options) == 3 else [])


def test_the_published_files_hold_what_the_report_prints():
    """Counted and summed up, so that a digit that is changed is seen."""
    loader, programs_of = published_values("cnn_loader"), published_values("cnn_programs")
    total = {name: sum(row["seconds"] for row in loader[name]["rows"]) for name in ("mnist", "fashion")}
    assert total == pytest.approx({"mnist": 627.43, "fashion": 686.45})
    assert sum(row["test_seconds"] for name in total for row in loader[name]["rows"]) == pytest.approx(27.88)
    seconds = [
        sum(programs_of[name][of]["seconds"].values()) for name in total for of in ("naive", "optimised")
    ]
    assert seconds == pytest.approx([90.35, 20.11, 90.19, 20.07])
    for name in ("cnn_epochs", "cnn_block_size"):
        for curve in published_values(name)["curves"].values():
            assert len(curve["cumulative_s"]) == len(curve["mean_loss"]) == 5


def test_a_result_on_either_side_of_the_published_one():
    """Whether it agrees, and the images; a program without a time is a row with its reason."""
    cells = cells_of(NAIVE, OPTIMISED)
    table = build(cnn_programs, cells, [20.0, 5.0], accuracies=[[0.8718], [0.9]])
    assert table["agreement"].tolist() == ["agrees", "differs"]
    assert table["images_apart"].tolist() == [0, round((0.9 - 0.8753) * 9984)]
    untimed = build(cnn_epochs, cells[1:], [[]], ended=[("unsupported", "there is none")])
    (row,) = untimed[untimed["status"] == "unsupported"].to_dict("records")
    assert row["reason"] == "there is none" and row["cumulative_s"] != row["cumulative_s"]  # NaN


def test_the_curves_of_two_rounds_are_pooled_by_epoch():
    (cell,) = cells_of(NAIVE, **{"protocol.rounds": 2, "protocol.runs": 3})
    rows = frame_of(
        record(cell, [1.0, 1.0], number=2, accuracies=[0.5, 0.9], epoch_losses=[2, 2, 2, 2, 2.0]),
        record(cell, [3.0], accuracies=[0.7], epoch_losses=[5, 4, 3, 2, 1.0]),
    )
    first, second, *_ = rows["curve"][0]
    wanted = {"cumulative_s": (0.4 + 0.4 + 1.2) / 3, "seconds": (0.2 + 0.2 + 0.6) / 3, "mean_loss": 8 / 3}
    assert {name: second[name] for name in wanted} == pytest.approx(wanted)
    assert (first["mean_loss_std"], first["first_mean_loss"]) == (pytest.approx(3**0.5), 5.0)
    (row,) = of_rows(cnn_programs, rows).to_dict("records")
    assert (row["accuracy"], row["loss"]) == (0.7, 1.0)
