"""The tables of the CNN report: what the archived ones don't show, from records of our choosing."""

import pytest
from cnn_cells import AS_PUBLISHED, MEAN, NAIVE, OPTIMISED, cells_of, loaders, published_values, rows_of
from records_of import HOST, THRESHOLDS, frame_of, record

from snn.tables.cnn import cnn_block_size, cnn_epochs, cnn_loader, cnn_programs

TITLES = {cnn_block_size: "cnn_block_size", cnn_epochs: "cnn_epochs", cnn_loader: "cnn_loader"}


def build(table, cells, seconds, **changed):
    return of_rows(table, rows_of(cells, seconds, **changed))


def of_rows(table, rows):
    return table.build(rows, published_values(TITLES.get(table, "cnn_programs")), THRESHOLDS)


# ---- Tables 3 to 6


def test_published_values_stand_beside_what_trains_as_published():
    cells = cells_of(NAIVE, OPTIMISED, {"strategy": "synchronous"} | MEAN)
    table = build(cnn_programs, cells, [20.0, 5.0, 20.0], accuracies=[[0.8718], [0.9], [0.8753]])
    assert table["gradient"].tolist() == ["as published", "as published", "exact"]
    assert table["published_a40_step_us"][0] == pytest.approx(23.45e6 / 4685)
    assert table["published_speedup_max"][1] == pytest.approx(41.65 / 8.47)
    assert table["agreement"].tolist() == ["agrees", "differs", ""]
    assert table["images_apart"].tolist()[:2] == [0, round((0.9 - 0.8753) * 9984)]
    assert table.loc[2, [name for name in table if name.startswith("published_")]].isna().all()


def test_a_speedup_is_over_the_naive_program_that_trains_alike():
    both = [{"strategy": "synchronous"}, {"strategy": "pipelined", "kernel": "fused"}]
    exact, summed = ([one | how for one in both] for how in (MEAN, AS_PUBLISHED))
    best = {"strategy": "graph", "kernel": "tiled_fused"} | MEAN
    alone = {"strategy": "pipelined", "kernel": "fused", "training.learning_rate": 0.5}
    cells = cells_of(NAIVE, OPTIMISED, *exact, *summed, best, alone)
    rows = rows_of(cells, [[one, one] for one in (20.0, 5.0, 30.0, 10.0, 32.0, 16.0, 2.0, 1.0)])
    table = of_rows(cnn_programs, rows)
    assert table["speedup"].tolist()[:-1] == [1.0, 4.0, 1.0, 3.0, 1.0, 2.0, 15.0]
    assert table["verdict"].tolist() == [*["baseline", "faster"] * 3, "faster", ""]
    assert cnn_programs.pairs(rows) == [(0, 0), (0, 1), (2, 2), (2, 3), (4, 4), (4, 5), (2, 6)]
    assert table["program"].tolist()[-2:] == ["graph, tiled_fused", "optimised"]


def test_the_first_run_is_the_counterpart_and_all_runs_have_a_spread():
    (cell,) = cells_of(NAIVE, **{"protocol.rounds": 2, "protocol.runs": 3})
    rows = frame_of(
        record(cell, [1.0, 1.0], number=2, accuracies=[0.5, 0.9], epoch_losses=[2, 2, 2, 2, 2.0]),
        record(cell, [3.0], accuracies=[0.7], epoch_losses=[5, 4, 3, 2, 1.0]),
    )
    (row,) = of_rows(cnn_programs, rows).to_dict("records")
    assert (row["accuracy"], row["loss"]) == (0.7, 1.0)
    assert (row["mean_accuracy"], row["accuracy_std"]) == pytest.approx((0.7, 0.2))
    (pooled,) = rows["curve"]
    assert [entry["epoch"] for entry in pooled] == [1, 2, 3, 4, 5]
    assert pooled[1]["cumulative_s"] == pytest.approx((0.4 + 0.4 + 1.2) / 3)
    assert pooled[1]["seconds"] == pytest.approx((0.2 + 0.2 + 0.6) / 3)
    assert pooled[0]["mean_loss"] == pytest.approx(3.0) and pooled[0]["first_mean_loss"] == 5.0
    assert pooled[0]["mean_loss_std"] == pytest.approx(3**0.5)


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


def test_published_curves_without_a_counterpart_are_there_and_say_so():
    table = build(cnn_epochs, cells_of(NAIVE, dataset="mnist"), [5.0])
    rest = table[table["cumulative_s"].isna()]
    assert list(dict.fromkeys(rest["program"])) == ["optimised", "PyTorch on the GPU", "PyTorch on the CPU"]
    assert (rest["reason"] == "published only: not measured on this device").all()
    assert rest["device"].isna().all()
    of_cpu = rest["program"] == "PyTorch on the CPU"
    assert set(rest.loc[of_cpu, "dataset"]) == {"not stated"} != set(rest.loc[~of_cpu, "dataset"])
    assert rest["published_cumulative_s"].tolist()[-5:] == [36, 73, 109, 145, 181]


def test_a_curve_of_a_data_set_that_is_not_stated_has_no_counterpart():
    """A row of MNIST on a CPU with four workers is not the published 181 s, whose data set nobody knows."""
    table = build(cnn_epochs, loaders((4, False), device=HOST, dataset="mnist"), [100.0])
    measured = table["cumulative_s"].notna()
    assert measured.sum() == 5 and table.loc[measured, "published_cumulative_s"].isna().all()
    assert (table["program"] == "PyTorch on the CPU").sum() == 5


def test_a_cell_without_a_time_is_one_row_with_its_reason():
    cells = cells_of(OPTIMISED, dataset="patterns")
    (row,) = build(cnn_epochs, cells, [[]], ended=[("unsupported", "there is none")]).to_dict("records")
    assert (row["status"], row["reason"]) == ("unsupported", "there is none")
    assert row["cumulative_s"] != row["cumulative_s"]  # NaN


# ---- the block size, and the loader of Tables 1 and 2


def test_a_block_size_decides_how_much_of_the_gradient_there_is():
    """The report's figures, by arithmetic: 64 rows of 10 outputs, and whole blocks for 64 threads."""
    sizes = {"kernel.block": [[16, 8], [16, 16], [32, 16], [32, 32]]}
    cells = cells_of(NAIVE | sizes, {"strategy": "synchronous"} | MEAN | sizes, dataset="mnist")
    rows = rows_of(cells, [2.0, 4.0, 8.0, 16.0] * 2)
    table = of_rows(cnn_block_size, rows)
    assert table["logit_gradients"].tolist() == [128, 256, 512, 640, *[640] * 4]
    assert table["samples_used"].tolist() == pytest.approx([12.8, 25.6, 51.2, 64.0, *[64.0] * 4])
    assert table["mean_loss_step"].tolist() == pytest.approx([0.128, 0.256, 0.512, 0.64, *[0.25] * 4])
    assert cnn_block_size.pairs(rows) == [(1, i) for i in range(4)] + [(5, i) for i in range(4, 8)]


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
