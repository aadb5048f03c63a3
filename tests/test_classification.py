"""Cells that learn labels: every epoch's time and loss, the accuracy on test rows, and their records."""

import json
import math
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
from real_records import disagreements

from snn import datasets
from snn.backends.cpu.backend import CpuBackend
from snn.config import compose
from snn.errors import DataError, RecordError
from snn.measurement import cell, runs
from snn.measurement.accuracy import accuracy
from snn.measurement.passes import job_of
from snn.measurement.protocol import Round
from snn.models.network import trained
from snn.records.store import checked, sealed
from snn.strategies import factory
from snn.strategies.base import unwatched

ARGUMENTS = (
    *("dataset=patterns", "dataset.rows=22", "dataset.test_rows=10", "network=layers"),
    *("network.layers=[maxpool2d 7,conv2d 2 2,relu,linear 10]", "network.loss=cross_entropy"),
    *("training.epochs=3", "training.batch_size=8", "training.learning_rate=0.1", "device=cpu"),
    *("protocol=glance", "protocol.rounds=1", "protocol.runs=2", "strategy=resident"),
)


def composed(*arguments):
    """The cell with some arguments in place of those of the same keys."""
    usual = (*ARGUMENTS, "protocol.max_warmup_seconds=0", "protocol.warmup_seconds=0")
    keys = {argument.partition("=")[0] for argument in arguments}
    if "network" in keys:
        keys |= {"network.layers", "network.loss"}
    return compose.composed([*(one for one in usual if one.partition("=")[0] not in keys), *arguments])


@pytest.fixture(scope="module")
def record():
    return json.loads(json.dumps(cell.run(composed())))


def job(*arguments):
    values = composed(*arguments)
    return job_of(values, datasets.make(values["dataset"]))


def test_a_run_has_every_epoch_and_an_accuracy(record):
    assert record["status"] == "ok"
    for run in record["runs"]:
        assert len(run["epochs"]) == 3
        assert math.isclose(math.fsum(epoch["seconds"] for epoch in run["epochs"]), run["seconds"])
        assert run["test_accuracy"] * 10 == pytest.approx(round(run["test_accuracy"] * 10))
        assert run["test_seconds"] > 0
        assert "final_mse" not in run
    mean = sum(run["test_accuracy"] for run in record["runs"]) / 2
    assert record["summary"]["mean_test_accuracy"] == pytest.approx(mean)
    assert record["data"]["test_rows"] == 10
    assert checked(record, "here") == record


def test_losses_of_epochs_are_the_means_of_batches_before_their_updates():
    """Taken one batch at a time, from a strategy that trains on one batch per epoch."""
    whole = job()
    measured = runs.measure(whole, Round(runs=1), CpuBackend()).runs[0]
    weights = None
    for epoch in measured.epochs:
        losses = []
        for start in range(0, 22, 8):
            part = job(f"training.batch_size={len(whole.X[start : start + 8])}")
            strategy = factory.make(part.strategy, CpuBackend())
            X, Y = (matrix[start : start + 8] for matrix in (whole.X, whole.Y))
            strategy.setup(whole.network, X, Y, len(X), whole.learning_rate)
            strategy.load(weights or next(strategy.starts(whole.network, whole.seed)))
            strategy.epoch()
            losses.append(strategy.loss())
            weights = strategy.weights()
            strategy.close()
        assert epoch.mean_loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert measured.final_loss == pytest.approx(losses[-1], rel=1e-5)
    assert measured.test_accuracy == accuracy(whole.network, weights, *whole.test[:2])


def test_losses_are_read_and_rows_predicted_outside_of_the_clock(monkeypatch):
    events = []
    for name in ("epoch", "epoch_losses", "predict"):
        of_class = factory.class_of(job().strategy)
        usual = getattr(of_class, name)
        monkeypatch.setattr(
            of_class, name, lambda *a, name=name, usual=usual: events.append(name) or usual(*a)
        )
    clock = SimpleNamespace(perf_counter=lambda: events.append("clock") or float(len(events)))
    monkeypatch.setattr(runs, "time", clock)
    job_ = job("training.epochs=2")
    strategy = runs.start(job_, CpuBackend())
    weights = next(strategy.starts(job_.network, 1))
    events.clear()
    runs._run(job_, strategy, CpuBackend(), weights, unwatched, after_epoch=False)
    timed = ["clock", "epoch", "clock", "epoch_losses"]
    began = "clock"
    assert events == [began, *timed, *timed, "predict", "clock", "predict", "clock"]


def test_a_long_epoch_is_not_repeated_before_a_run(monkeypatch):
    epochs = []
    of_class = factory.class_of(job().strategy)
    usual = of_class.epoch
    monkeypatch.setattr(of_class, "epoch", lambda self: epochs.append(1) or usual(self))
    monkeypatch.setattr(runs, "count", lambda *_: ({}, {}))
    counts = {}
    for limit in (0.0, 1e9):
        monkeypatch.setattr(runs, "_LONG_EPOCH", limit)
        epochs.clear()
        runs.measure(job(), Round(runs=2, warmup_seconds=1e-9), CpuBackend())
        counts[limit] = len(epochs)
    assert counts == {0.0: 1 + 2 * 3, 1e9: 1 + 2 * (1 + 3)}


def test_drop_last_leaves_out_rows_that_fill_no_batch():
    whole, dropped = job(), job("training.drop_last=true")
    assert (len(whole.X), len(whole.test.X)) == (22, 10)
    assert [len(part) for part in (dropped.X, dropped.Y, *dropped.test[:2])] == [16, 16, 8, 8]
    assert np.array_equal(dropped.X, whole.X[:16])
    assert np.array_equal(dropped.test.targets, whole.test.targets[:8])
    assert job("training.drop_last=true", "training.batch_size=12").test is None


def test_a_network_without_labels_has_no_epochs_and_no_accuracy():
    other = job("network=one_hidden")
    assert other.test is None
    run = runs.measure(other, Round(runs=1), CpuBackend()).runs[0]
    assert (run.epochs, run.test_accuracy, run.test_seconds) == ((), None, None)


@pytest.mark.parametrize(
    ("setting", "found"),
    [("reduction=sum", ("sum", "exact")), ("gradient=published_naive", ("mean", "published_naive"))],
)
def test_training_decides_the_network_that_is_trained(setting, found):
    network = trained(composed(f"training.{setting}", "kernel.block=[4,8]"), (1, 28, 28))
    assert (network.reduction, network.gradient.name) == found
    assert getattr(network.gradient, "block", 32) == 32


def test_a_block_has_a_meaning_on_the_cpu_where_it_decides_what_is_trained():
    naive = cell.run(composed("training.gradient=published_naive", "kernel.block=[4,1]", "protocol.runs=1"))
    exact = cell.run(composed("kernel.block=[4,1]", "protocol.runs=1"))
    assert (naive["status"], exact["status"]) == ("ok", "unsupported")


def test_labels_without_an_output_are_refused_before_training():
    with pytest.raises(DataError, match="needs labels, 0 to 1"):
        job("network.layers=[maxpool2d 14,linear 2]")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda runs, _: runs[0].pop("epochs"), "some runs have epochs, and others do not"),
        (lambda runs, _: [run["epochs"].pop() for run in runs], r"runs\[0\] has 2 epochs, but .*epochs is 3"),
        (
            lambda runs, _: [run.pop("test_seconds") for run in runs],
            "only one of test_accuracy and test_seconds",
        ),
        (lambda runs, _: runs[0].pop("test_accuracy"), "some runs have test_accuracy"),
        (lambda runs, _: runs[0].update(test_accuracy=1.5), "test_accuracy is 1.5: it must be .* equal to 1"),
    ],
)
def test_a_record_whose_epochs_or_accuracies_disagree_is_refused(record, change, said):
    changed = deepcopy(record)
    change(changed["runs"], changed["summary"])
    with pytest.raises(RecordError, match=said):
        checked(sealed(changed), "here")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda runs, _: runs[1]["epochs"][2].update(seconds=9.0), "epochs"),
        (lambda _, summary: summary.pop("mean_test_accuracy"), "summary"),
        (lambda runs, _: runs[0].update(test_accuracy=0.123), "summary"),
    ],
)
def test_a_record_whose_numbers_follow_from_its_runs_is_written(record, change, rule):
    assert not disagreements(record)
    changed = deepcopy(record)
    change(changed["runs"], changed["summary"])
    assert disagreements(changed) == [rule]
