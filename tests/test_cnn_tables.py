"""The tables of the CNN report, from records whose times, losses and accuracies are of our choosing."""

from functools import partial

import pytest
from cnn_cells import AS_PUBLISHED, HOST, MEAN, NAIVE, OPTIMISED, THRESHOLDS, cells_in, loaders, rows_of
from cnn_cells import published_values as published
from records_of import record

from snn.analysis import frame
from snn.tables.cnn import cnn_block_size, cnn_epochs, cnn_loader, cnn_programs


@pytest.fixture
def cells_of(tmp_path):
    return partial(cells_in, tmp_path)


# ---- Tables 3 to 6


def programs(rows):
    return cnn_programs.build(rows, published("cnn_programs"), THRESHOLDS)


def test_published_values_stand_beside_what_trains_as_published(cells_of):
    cells = cells_of(NAIVE, OPTIMISED, {"strategy": "synchronous"} | MEAN)
    table = programs(rows_of(cells, [[20.0], [5.0], [20.0]], accuracies=[[0.8718], [0.9], [0.8753]]))
    assert table["program"].tolist() == ["naive", "optimised", "naive"]
    assert table["gradient"].tolist() == ["as published", "as published", "exact"]
    assert table["published_accuracy"].tolist()[:2] == [0.8718, 0.8753]
    assert table["published_v100_s"].tolist()[:2] == [41.65, 8.47]
    assert table["published_a40_step_us"][0] == pytest.approx(23.45e6 / 4685)
    assert table["published_speedup_min"][1] == pytest.approx(25.09 / 6.43)
    assert table["published_speedup_max"][1] == pytest.approx(41.65 / 8.47)
    assert table["agreement"].tolist() == ["agrees", "differs", ""]
    assert table["images_apart"].tolist()[:2] == [0, round((0.9 - 0.8753) * 9984)]
    of_published = [name for name in table if name.startswith("published_")]
    assert table.loc[2, of_published].isna().all()


def test_a_speedup_is_over_the_naive_program_that_trains_alike(cells_of):
    both = [{"strategy": "synchronous"}, {"strategy": "pipelined", "kernel": "fused"}]
    exact = [one | MEAN for one in both]
    summed = [one | AS_PUBLISHED for one in both]
    best = {"strategy": "graph", "kernel": "tiled_fused"} | MEAN
    cells = cells_of(NAIVE, OPTIMISED, *exact, *summed, best)
    seconds = [[20.0, 20.0], [5.0, 5.0], [30.0, 30.0], [10.0, 10.0], [32.0, 32.0], [16.0, 16.0], [2.0, 2.0]]
    rows = rows_of(cells, seconds)
    table = programs(rows)
    assert table["speedup"].tolist() == [1.0, 4.0, 1.0, 3.0, 1.0, 2.0, 15.0]
    assert table["verdict"].tolist() == ["baseline", "faster"] * 3 + ["faster"]
    assert cnn_programs.pairs(rows) == [(0, 0), (0, 1), (2, 2), (2, 3), (4, 4), (4, 5), (2, 6)]
    assert table["program"].iloc[-1] == "graph, tiled_fused"


def test_a_program_without_a_naive_one_that_trains_alike_has_no_speedup(cells_of):
    cells = cells_of(NAIVE, {"strategy": "pipelined", "kernel": "fused"} | MEAN)
    rows = rows_of(cells, [[20.0, 20.0], [5.0, 5.0]])
    assert programs(rows)["speedup"].isna().tolist() == [False, True]
    assert cnn_programs.pairs(rows) == [(0, 0)]


def test_the_first_run_is_the_counterpart_and_all_runs_have_a_spread(cells_of):
    (cell,) = cells_of(NAIVE, **{"protocol.rounds": 2, "protocol.runs": 3})
    records = {
        "second": record(cell, [1.0, 1.0], number=2, accuracies=[0.5, 0.9], epoch_losses=[2, 2, 2, 2, 2.0]),
        "first": record(cell, [3.0], accuracies=[0.7], epoch_losses=[5, 4, 3, 2, 1.0]),
    }
    (row,) = programs(frame.tabulate(records, THRESHOLDS)).to_dict("records")
    assert (row["accuracy"], row["loss"]) == (0.7, 1.0)
    assert (row["mean_accuracy"], row["accuracy_std"]) == pytest.approx((0.7, 0.2))
    (pooled,) = frame.tabulate(records, THRESHOLDS)["curve"]
    assert [entry["epoch"] for entry in pooled] == [1, 2, 3, 4, 5]
    assert pooled[1]["cumulative_s"] == pytest.approx((0.4 + 0.4 + 1.2) / 3)
    assert pooled[1]["seconds"] == pytest.approx((0.2 + 0.2 + 0.6) / 3)
    assert pooled[0]["mean_loss"] == pytest.approx(3.0) and pooled[0]["first_mean_loss"] == 5.0
    assert pooled[0]["mean_loss_std"] == pytest.approx(3**0.5)


def test_few_images_have_nothing_published_beside_them_and_say_so(cells_of):
    few = {"dataset.rows": 256, "dataset.test_rows": 100}
    table = programs(rows_of(cells_of(NAIVE, dataset="patterns", device=HOST, **few), [[1.0]]))
    assert table["data"][0] == (
        "256 images of patterns, 5 epochs, tested on 100: "
        "not the report's data, so nothing published is shown"
    )
    assert table["published_accuracy"].isna().all() and table["agreement"].tolist() == [""]
    assert programs(rows_of(cells_of(NAIVE), [[1.0]]))["data"][0] == (
        "60000 images of fashion, 5 epochs, tested on 10000"
    )


def test_a_loss_that_is_not_finite_is_none(cells_of):
    (cell,) = cells_of(NAIVE)
    lost = record(cell, [1.0], mse=float("nan"), epoch_losses=[1.0, 2.0, *[float("nan")] * 3])
    rows = frame.tabulate({"a": lost}, THRESHOLDS)
    assert [entry["mean_loss"] for entry in rows["curve"][0]] == [1.0, 2.0, None, None, None]
    table = programs(rows)
    assert table["loss"].isna().all() and table["status"].tolist() == ["diverged"]


def test_the_cpu_runs_both_programs_under_their_names(cells_of):
    cells = cells_of(NAIVE, OPTIMISED | {"kernel": "naive"}, device=HOST)
    table = programs(rows_of(cells, [[2.0], [1.0]]))
    assert table["program"].tolist() == ["naive", "optimised"]
    on_gpu = cells_of(OPTIMISED | {"kernel": "naive"})
    assert programs(rows_of(on_gpu, [[1.0]]))["program"].tolist() == ["pipelined, naive"]


# ---- Figures 1 to 4, by epoch


def epochs(rows, name="cnn_epochs"):
    return cnn_epochs.build(rows, published(name), THRESHOLDS)


def test_published_curves_without_a_counterpart_are_there_and_say_so(cells_of):
    table = epochs(rows_of(cells_of(NAIVE, dataset="mnist"), [[5.0]]))
    rest = table[table["cumulative_s"].isna()]
    assert list(dict.fromkeys(rest["program"])) == ["optimised", "PyTorch on the GPU", "PyTorch on the CPU"]
    assert (rest["reason"] == "published only: not measured on this device").all()
    assert rest["device"].isna().all()
    of_cpu = rest["program"] == "PyTorch on the CPU"
    assert set(rest.loc[~of_cpu, "published_device"]) == {"RTX 6000"}
    assert set(rest.loc[of_cpu, "published_device"]) == {"CPU of the RTX 6000's host"}
    assert set(rest.loc[~of_cpu, "dataset"]) == {"mnist"}
    assert set(rest.loc[of_cpu, "dataset"]) == {"not stated"}
    assert rest["published_cumulative_s"].tolist()[-5:] == [36, 73, 109, 145, 181]


def test_a_curve_of_a_data_set_that_is_not_stated_has_no_counterpart(cells_of):
    """A row of MNIST on a CPU with four workers is not the published 181 s, whose data set nobody knows."""
    cells = loaders(cells_of, (4, False), device=HOST, dataset="mnist")
    table = epochs(rows_of(cells, [[100.0]]))
    measured = table["cumulative_s"].notna()
    assert measured.sum() == 5 and table.loc[measured, "published_cumulative_s"].isna().all()
    assert (table["program"] == "PyTorch on the CPU").sum() == 5


@pytest.mark.parametrize("change", [{"training.epochs": 4}, {"dataset.rows": 59999}, {"dataset": "fashion"}])
def test_nothing_published_is_shown_beside_another_training(cells_of, change):
    (cell,) = cells_of(NAIVE, **({"dataset": "mnist"} | change))
    table = epochs(rows_of([cell], [[5.0]]))
    assert len(table) == cell["training"]["epochs"]
    assert table["published_loss"].isna().all() and (table["program"] == "naive").all()


def test_the_block_sizes_curves_are_found_by_their_threads(cells_of):
    blocks = {"kernel.block": [[16, 8], [32, 32]]}
    cells = cells_of(NAIVE | blocks, {"strategy": "synchronous"} | MEAN | blocks, dataset="mnist")
    table = epochs(rows_of(cells, [[5.0]] * 4), "cnn_block_size")
    by_block = table[table["cumulative_s"].notna() & (table["gradient"] == "as published")]
    last = by_block[by_block["epoch"] == 5].set_index("threads")["published_cumulative_s"]
    assert last.to_dict() == {128: 23.47, 1024: 47.95}
    assert table.loc[table["gradient"] == "exact", "published_loss"].isna().all()
    assert set(table.loc[table["cumulative_s"].isna(), "program"]) == {"256", "512"}


def test_a_cell_without_a_time_is_one_row_with_its_reason(cells_of):
    (cell,) = cells_of(OPTIMISED, dataset="patterns")
    table = epochs(rows_of([cell], [[]], ended=[("unsupported", "there is none")]))
    (row,) = table.to_dict("records")
    assert (row["status"], row["reason"]) == ("unsupported", "there is none")
    assert pytest.approx(float("nan"), nan_ok=True) == row["cumulative_s"]


# ---- the block size


def test_a_block_size_decides_how_much_of_the_gradient_there_is(cells_of):
    """The report's figures, by arithmetic: 64 rows of 10 outputs, and whole blocks for 64 threads."""
    sizes = {"kernel.block": [[16, 8], [16, 16], [32, 16], [32, 32]]}
    products = NAIVE | sizes, {"strategy": "synchronous"} | MEAN | sizes
    rows = rows_of(cells_of(*products, dataset="mnist"), [[2.0], [4.0], [8.0], [16.0]] * 2)
    table = cnn_block_size.build(rows, published("cnn_block_size"), THRESHOLDS)
    assert table["threads"].tolist() == [128, 256, 512, 1024] * 2
    assert table["logit_gradients"].tolist() == [128, 256, 512, 640, *[640] * 4]
    assert table["samples_used"].tolist() == pytest.approx([12.8, 25.6, 51.2, 64.0, *[64.0] * 4])
    assert table["mean_loss_step"].tolist() == pytest.approx([0.128, 0.256, 0.512, 0.64, *[0.25] * 4])
    assert table["speedup"].tolist() == [2.0, 1.0, 0.5, 0.25] * 2
    assert table["published_s"].tolist()[:4] == [23.47, 25.10, 32.11, 47.95]
    assert table["published_step_us"][1] == pytest.approx(25.10e6 / 4685)
    assert table["published_loss"].tolist()[:4] == [0.092, 0.0723, 0.108, 2.3035]
    assert table.loc[4:, "published_s"].isna().all()
    assert cnn_block_size.pairs(rows) == [(1, i) for i in range(4)] + [(5, i) for i in range(4, 8)]


# ---- Tables 1 and 2


def test_the_loaders_rows_stand_beside_the_reports(cells_of):
    options = [(2, False), (4, True), (8, True)]
    rows = rows_of(loaders(cells_of, *options), [[2.0], [1.0], [0.5]])
    table = cnn_loader.build(rows, published("cnn_loader"), THRESHOLDS)
    measured = table[table["mean_s"].notna()]
    assert measured["published_s"].tolist() == [24.84, 19.15, 19.37]
    assert measured["published_test_s"].tolist() == [0.86, 0.66, 0.73]
    assert measured["step_us"].tolist() == pytest.approx([2e6 / 4690, 1e6 / 4690, 0.5e6 / 4690])
    assert measured["speedup"].tolist() == [1.0, 2.0, 4.0]
    assert set(measured["published_accuracy"]) == {0.7491} and set(measured["published_device"]) == {"V100"}
    assert cnn_loader.pairs(rows) == [(0, 0), (0, 1), (0, 2)]
    rest = table[table["mean_s"].isna()]
    assert len(rest) == 9 - 3 and rest["published_s"].notna().all()
    why = dict(zip(rest["ran_on"], rest["reason"], strict=True))
    assert why["CPU"] == "published only: --config device=cpu measures it"
    assert why["GPU"] == "published only: not in the sweep"


def test_on_the_cpu_pinned_memory_does_not_count_and_the_gpus_rows_are_the_reports_alone(cells_of):
    cells = loaders(cells_of, (4, False), device=HOST, dataset="mnist")
    table = cnn_loader.build(rows_of(cells, [[100.0]]), published("cnn_loader"), THRESHOLDS)
    (row,) = table[table["mean_s"].notna()].to_dict("records")
    assert (row["ran_on"], row["published_s"]) == ("CPU", 159.26)
    on_gpu = table[table["ran_on"] == "GPU"]
    assert len(on_gpu) == 6 and on_gpu["mean_s"].isna().all() and on_gpu["device"].isna().all()
    assert set(on_gpu["reason"]) == {"published only: --config device=cuda measures it"}


def test_few_images_have_no_rows_of_the_report(cells_of):
    cells = loaders(cells_of, (2, False), (4, True), dataset="patterns")
    table = cnn_loader.build(rows_of(cells, [[1.0], [1.0]]), published("cnn_loader"), THRESHOLDS)
    assert len(table) == 2 and table["published_s"].isna().all()


def test_the_published_files_hold_what_the_report_prints():
    """Counted and summed up, so that a digit that is changed is seen."""
    loader, programs_of = published("cnn_loader"), published("cnn_programs")
    total = {name: sum(row["seconds"] for row in loader[name]["rows"]) for name in ("mnist", "fashion")}
    assert total == pytest.approx({"mnist": 627.43, "fashion": 686.45})
    assert sum(row["test_seconds"] for name in total for row in loader[name]["rows"]) == pytest.approx(27.88)
    seconds = [
        time
        for name in ("mnist", "fashion")
        for program in ("naive", "optimised")
        for time in programs_of[name][program]["seconds"].values()
    ]
    assert sum(seconds) == pytest.approx(90.35 + 20.11 + 90.19 + 20.07)
    for name in ("cnn_epochs", "cnn_block_size"):
        for curve in published(name)["curves"].values():
            assert len(curve["cumulative_s"]) == len(curve["mean_loss"]) == 5
