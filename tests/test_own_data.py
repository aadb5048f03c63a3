"""A user's CSV file: standardised, with text or missing values, with rows held out, and their score."""

import json
from dataclasses import replace

import numpy as np
import pytest
from csv_tables import LABELS, ONCE, arguments, of_rows, refused

from snn import cli, datasets
from snn.analysis import frame
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.config.compose import composed
from snn.config.groups import read_yaml
from snn.errors import ConfigError, DataError
from snn.measurement import cell
from snn.measurement.accuracy import errors
from snn.measurement.passes import job_of
from snn.measurement.protocol import Round
from snn.measurement.runs import measure
from snn.models.network import without_defaults
from snn.planning.plan import planned
from snn.records import store
from snn.strategies.factory import start
from snn.tables.sweep import sweep

# ---- a wine-quality-like table, with nothing said but its path and its target


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """1,600 rows of 11 skewed columns of scales from 0.001 to 300, and whole numbers 3 to 8 to predict."""
    random = np.random.RandomState(0)
    z = random.normal(size=(1600, 11))
    X = np.exp(0.5 * z) * [0.001, 0.01, 0.05, 0.3, 1, 3, 10, 30, 60, 120, 300]
    quality = 5.6 + 0.7 * z[:, 0] - 0.5 * z[:, 3] + 0.4 * z[:, 10] + 0.6 * random.normal(size=1600)
    rows = np.column_stack([X, np.clip(np.round(quality), 3, 8)])
    names = [*(f"f{i}" for i in range(11)), "quality"]
    return of_rows(tmp_path_factory.mktemp("wine"), rows.tolist(), names)


@pytest.mark.parametrize("more", [[], ["network.hidden=[256]"], ["training.learning_rate=0.005"]])
def test_a_table_of_unequal_scales_is_learned_out_of_the_box(wine, more):
    settings = composed(arguments(wine, "quality", "training.batch_size=64", "strategy=blas", *more))
    record = cell.run(settings)
    store.checked(json.loads(json.dumps(record)), "the record")
    assert record["status"] == "ok"
    assert 0.4 < record["summary"]["mean_test_r2"] < 1
    assert (record["data"]["rows"], record["data"]["test_rows"]) == (1280, 320)
    run, scale = record["runs"][0], record["data"]["target_scale"]
    assert run["test_rmse"] == pytest.approx(scale * run["test_mse"] ** 0.5)
    assert record["data"]["target_mean"] == pytest.approx(5.6, abs=0.2)


def test_the_score_is_that_of_predictions_in_the_units_of_the_file(wine):
    """By the definitions: from the file's numbers, and a forward pass that is written here."""
    settings = composed(arguments(wine, "quality", "training.batch_size=64", "training.epochs=3"))
    job = job_of(settings, datasets.make(settings["dataset"]))
    table = np.loadtxt(wine, delimiter=",", skiprows=1)[np.random.RandomState(1).permutation(1600)]
    mean, scale = table[:1280].mean(axis=0), table[:1280].std(axis=0)
    strategy = start(replace(job, strategy=groups.load("strategy", "blas")), CpuBackend())
    strategy.load(next(strategy.starts(job.network, job.seed)))
    strategy.epoch()
    weights = strategy.weights()
    strategy.close()
    z = (table[1280:, :-1] - mean[:-1]) / scale[:-1]
    for W in weights[:-1]:
        z = np.maximum(z @ W, 0)
    wrong = mean[-1] + scale[-1] * (z @ weights[-1])[:, 0] - table[1280:, -1]
    found = errors(job.network, weights, *job.test)
    assert found.rmse == pytest.approx(np.sqrt(np.mean(wrong**2)), rel=1e-5)
    assert found.mse == pytest.approx(np.mean(wrong**2) / scale[-1] ** 2, rel=1e-5)
    assert found.r2 == pytest.approx(1 - np.mean(wrong**2) / table[1280:, -1].var(), abs=1e-5)


@pytest.mark.parametrize("name", ["streams", "resident", "persistent", "blas"])
def test_every_strategy_has_the_score_of_reference(wine, name):
    settings = composed(arguments(wine, "quality", "training.batch_size=64", "training.epochs=2"))
    job = job_of(settings, datasets.make(settings["dataset"]))
    one, other = (
        measure(replace(job, strategy=groups.load("strategy", each)), Round(runs=1), CpuBackend()).runs[0]
        for each in ("reference", name)
    )
    assert one.test_errors.r2 > 0
    assert other.test_errors == pytest.approx(one.test_errors, rel=1e-3)


def test_a_diverged_training_has_no_score(wine):
    often = ["training.batch_size=64", "training.epochs=20", "training.learning_rate=10", "strategy=blas"]
    record = cell.run(composed(arguments(wine, "quality", *often)))
    store.checked(json.loads(json.dumps(record)), "the record")
    assert record["status"] == "diverged"
    assert record["summary"]["mean_test_r2"] is None
    assert record["runs"][0]["test_rmse"] is None


def test_equal_targets_have_no_r2(tmp_path):
    """Nor is one computed by dividing by 0."""
    path = of_rows(tmp_path, [(i, i % 3 if i < 8 else 5) for i in range(10)], "xy")
    few = ["dataset.shuffle_seed=null", "training.batch_size=4", "training.epochs=1"]
    record = cell.run(composed(arguments(path, "y", *few)))
    store.checked(json.loads(json.dumps(record)), "the record")
    assert record["runs"][0]["test_r2"] is None
    assert record["runs"][0]["test_rmse"] > 0


def test_tables_have_the_scores_where_a_row_has_them(wine):
    few = ["training.batch_size=64", "training.epochs=2", "strategy=blas"]
    other = ["dataset=small", *few, *ONCE]
    cells = [arguments(wine, "quality", *few), arguments(wine, "quality", *few, "network.hidden=[8]"), other]
    records = {str(i): cell.run(composed(one)) for i, one in enumerate(cells)}
    thresholds = read_yaml(groups.CONFIG / "verdicts.yaml")
    table = sweep.build(frame.tabulate(records, thresholds), ("dataset", "network.hidden"), thresholds)
    for name in ("test_r2", "test_rmse"):
        scores = [record["summary"].get(f"mean_{name}", np.nan) for record in records.values()]
        assert table[name].tolist() == pytest.approx(scores, nan_ok=True)
        assert np.isnan(scores).tolist() == [False, False, True]
    alone = sweep.build(frame.tabulate({"2": records["2"]}, thresholds), (), thresholds)
    assert not {"test_r2", "test_rmse"} & set(alone)


def test_a_plan_counts_the_rows_that_are_trained_on(wine):
    settings = composed(arguments(wine, "quality", "training.batch_size=64"))
    assert planned(settings).rows == 1280
    settings = composed(arguments(wine, "quality", "training.batch_size=64", "training.drop_last=true"))
    assert planned({**settings, "dataset": {**settings["dataset"], "held_out": 0.0}}).rows == 1600


# ---- what is trained on


def test_a_batch_is_at_most_what_is_left_to_train_on(tmp_path):
    settings = composed(arguments(of_rows(tmp_path, [(i, i) for i in range(50)], "xy"), "y"))
    with pytest.raises(
        DataError,
        match=r"csv has 40 rows to train on.* 10 test rows.*batch_size is 256, it must be at most 40",
    ):
        job_of(settings, datasets.make(settings["dataset"]))


def test_a_text_target_is_learned_with_cross_entropy_and_the_record_names_its_classes(tmp_path):
    random = np.random.RandomState(1)
    X = random.normal(size=(200, 2)) * [1000, 0.01]
    rows = [(*x, "left" if x[0] < 0 else "right") for x in X.tolist()]
    path = of_rows(tmp_path, rows, ["a", "b", "side"])
    assert "network=layers network.loss=cross_entropy" in refused(path, "side")
    few = [*LABELS, "training.batch_size=16", "training.epochs=8", "strategy=blas"]
    of_cell = arguments(
        path, "side", *few, "network.layers=[linear 8, relu, linear 2]", "training.learning_rate=0.3"
    )
    settings, prepared = composed(of_cell), tmp_path / "t.npy"
    assert settings["dataset"]["task"] == "classification"
    record = cell.run(settings)
    store.checked(json.loads(json.dumps(record)), "the record")
    assert record["data"]["classes"] == ["left", "right"]
    assert record["data"]["test_rows"] == 40
    held = np.random.RandomState(1).permutation(200)
    sides = np.array([row[2] for row in rows])[held]
    commonest = "left" if (sides[:160] == "left").sum() >= 80 else "right"
    assert record["data"]["majority_accuracy"] == np.mean(sides[160:] == commonest)
    assert record["summary"]["mean_test_accuracy"] > 0.9
    assert "test_r2" not in record["runs"][0]
    of_data = [
        argument for argument in of_cell if argument.startswith("dataset")
    ]  # as the workflow prepares it
    of_data += ["dataset.task=classification", "training.batch_size=16", f"output={prepared}"]
    assert cli.main(["prepare", *of_data]) == 0
    again = cell.run(composed([*of_cell, f"data={prepared}"]))
    assert again["data"] == record["data"]
    assert [run["test_accuracy"] for run in again["runs"]] == [run["test_accuracy"] for run in record["runs"]]


def test_a_task_that_is_not_that_of_the_loss_is_refused(tmp_path):
    few = of_rows(tmp_path, [(i, i % 3) for i in range(20)], "xy")
    for task, more in (("classification", []), ("regression", LABELS)):
        settings = composed(arguments(few, "y", f"dataset.task={task}", "training.batch_size=4", *more))
        table = datasets.make(settings["dataset"])
        with pytest.raises(ConfigError, match=f"dataset.task is {task}, but the network learns a"):
            job_of(settings, table)


# ---- the network that goes with it


def test_the_default_network_of_a_users_data_is_not_the_papers(tmp_path):
    path = of_rows(tmp_path, [(i, i) for i in range(20)], "xy")
    assert composed(arguments(path, "y"))["network"] == without_defaults(groups.load("network", "mlp"))
    assert composed(arguments(path, "y", "network.hidden=[8]"))["network"]["init"] == "he_uniform"
    assert composed(arguments(path, "y", "network=one_hidden"))["network"]["init"] == "uniform01"
    assert composed(["device=cpu"])["network"] == without_defaults(groups.load("network", "one_hidden"))
