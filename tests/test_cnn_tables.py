"""The tables of the CNN report, from records whose times, losses and accuracies are of our choosing."""

import pytest
import yaml
from conftest import ROOT
from records_of import record

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.tables import cnn_programs

GPU, HOST = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")
THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
AS_PUBLISHED = {"training.reduction": "sum", "training.learning_rate": 0.01}
NAIVE = {"strategy": "synchronous", "training.gradient": "published_naive"} | AS_PUBLISHED
OPTIMISED = {"strategy": "pipelined", "kernel": "fused", "training.gradient": "published_optimised"}
OPTIMISED |= AS_PUBLISHED
MEAN = {"training.learning_rate": 0.25}
REPORTS = {"network": "cnn", "training.batch_size": 64, "training.epochs": 5, "training.drop_last": True}


@pytest.fixture
def cells_of(tmp_path):
    """The cells of a sweep with the report's training and these products, of a data set with this name."""

    def read(*products, device=GPU, dataset="fashion", **settings):
        path = tmp_path / "grid.yaml"
        sweep = REPORTS | {"dataset": "patterns", "protocol.rounds": 1} | settings | {"union": list(products)}
        path.write_text(yaml.safe_dump({"sweeps": {"mine": sweep}}))
        cells = sweeps.read(path, device, HOST)["mine"].cells
        return [cell | {"dataset": cell["dataset"] | {"name": dataset}} for cell in cells]

    return read


def rows_of(cells, seconds, **changed):
    """The frame of these cells; ``changed`` are arguments of ``record``, one value for each cell."""
    records = {}
    for i, (cell, times) in enumerate(zip(cells, seconds, strict=True)):
        records[str(i)] = record(cell, times, **{key: values[i] for key, values in changed.items()})
    return frame.tabulate(records, THRESHOLDS)


def published(name):
    return read_yaml(ROOT / f"config/cnn_report/{name}.yaml")


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


def test_a_step_is_one_of_the_batches_that_are_full(cells_of):
    (cell,), (kept,) = cells_of(NAIVE), cells_of(NAIVE, **{"training.drop_last": False})
    table = programs(rows_of([cell, kept], [[4.685], [4.69]]))
    assert table["step_us"].tolist() == pytest.approx([1000.0, 1000.0])


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
