"""Rows held out of training, their loss after each epoch, and runs that it ends."""

import json
from dataclasses import replace

import cuda_on_cpu
import layer_oracle as oracle
import numpy as np
import pandas as pd
import pytest
from conftest import PEERS, ROOT, STRATEGIES
from deferred import DeferredBackend
from emulated import EmulatedBackend
from in_float64 import Training, agree, backend_of, oracles_of
from real_records import disagreements, measured, refusal, without

from snn import backends, datasets
from snn.analysis import frame, roofline
from snn.backends.cpu.backend import CpuBackend
from snn.config import compose, groups
from snn.config.groups import CONFIG, read_yaml
from snn.errors import ConfigError, SnnError, Unsupported
from snn.measurement import runs
from snn.measurement.passes import job_of
from snn.measurement.protocol import Round
from snn.models.layers import Conv2d, Linear, MaxPool2d, ReLU
from snn.models.losses import LOSSES
from snn.models.network import Network, mlp
from snn.models.optimizers import Adam
from snn.models.validation import best_epoch
from snn.planning import gpus
from snn.planning.plan import predicted
from snn.records import store
from snn.records.store import sealed
from snn.strategies import factory

TRAINING, HELD = Training(rows=30, batch=12, epochs=3, rate=0.02), Training(19, 12, 3, 0.02, seed=19)
ALL = [*STRATEGIES, *PEERS]
KINDS = {name: factory.class_of(groups.load("strategy", name)) for name in ALL}
VALIDATING = [name for name in ALL if KINDS[name].any_network and not KINDS[name].side_by_side]
LAYERS = Linear(7), ReLU(), Linear(6), ReLU()
IMAGES = Conv2d(2, 3, 1), ReLU(), MaxPool2d(2), Linear(3)
CASES = {
    "mean_squared_error": Network((5,), (*LAYERS, Linear(1))),
    "huber": Network((5,), (*LAYERS, Linear(1)), LOSSES["huber"], optimizer=Adam()),
    "cross_entropy": Network((5,), (*LAYERS, Linear(3)), LOSSES["cross_entropy"], order_seed=7),
    "binary_cross_entropy": Network((5,), (*LAYERS, Linear(3)), LOSSES["binary_cross_entropy"]),
    "images": Network((1, 6, 6), IMAGES, LOSSES["cross_entropy"]),
    "perceptron": mlp((5, 7, 6, 1)),
}
FEW, DEVICES = ("huber", "images"), ("resident", "graph", "persistent", "reference")
"""Cases for every strategy, and strategies for every case."""
CASES = {name: replace(case, init="he_uniform", update_order="simultaneous") for name, case in CASES.items()}


def train(name, backend, network, validation):
    """The validation loss after each epoch, the weights then, and at the end the loss by another call."""
    with TRAINING.started(name, backend, network, validation=validation) as strategy:
        found = []
        for _ in range(TRAINING.epochs):
            strategy.epoch()
            found.append((strategy.validation_loss() if validation else None, strategy.weights()))
        return found, strategy.plan


def check(name, backend, network):
    """Losses are of the held-out rows with each epoch's weights, which are as without these rows."""
    X, Y = held_out = HELD.arrays(network)
    found, plan = train(name, backend, network, held_out)
    without, _ = train(name, backend, network, None)
    for (loss, weights), (_, expected) in zip(found, without, strict=True):
        agree(weights, expected, within=1e-4 if name == "persistent" else 0)  # by another kernel
        outputs = oracle.predict(oracles_of(network, weights), X.reshape(-1, *network.inputs))
        assert loss == pytest.approx(network.loss.evaluate(outputs, Y), rel=1e-5)
    return plan


@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for case in CASES for name in VALIDATING if case in FEW or name in DEVICES],
)
def test_losses_are_of_the_rows_held_out_with_the_weights_of_each_epoch(name, case):
    network = CASES[case]
    if not KINDS[name].any_optimizer:
        network = replace(network, optimizer=CASES["images"].optimizer)
    plan = check(name, backend_of(name), network)
    if name == "persistent":
        assert plan.startswith("graph: ") == (case == "images")


@pytest.mark.parametrize("kernel", [(True, False, False), (False, True, False), (True, True, True)])
@pytest.mark.parametrize("changed", [{"accumulate": 3}, {"recompute": (0, 2)}])
@pytest.mark.parametrize("case", ["huber", "images"])
def test_with_kernels_of_every_kind_micro_batches_and_recomputed_outputs(case, changed, kernel):
    for name in ("resident", "graph"):
        check(name, DeferredBackend(*kernel), replace(CASES[case], **changed))


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
def test_the_kernels_themselves_on_a_cpu():
    check("resident", EmulatedBackend(groups.load("kernel", "tiled_fused")), CASES["mean_squared_error"])


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["resident", "graph", "pipelined", "reference", "persistent"])
def test_losses_on_a_gpu(name, case):
    check(name, backends.make("cuda", groups.load("kernel", "naive"), ROOT), CASES[case])


def test_a_strategy_that_cannot_validate_several_networks_says_so():
    strategy = factory.make(groups.load("strategy", "jax_vmap"), CpuBackend())
    strategy.validation = HELD.arrays(CASES["huber"])
    network = compose_network("network.hidden=[4]")
    with pytest.raises(Unsupported, match=r"training\.validation"):
        strategy.check_network(network)


def compose_network(*settings):
    return job_of(*cell_and_table(*settings)).network


def cell_and_table(*settings):
    cell = compose.composed(["dataset=small", "training.batch_size=32", *settings])
    return cell, datasets.make(cell["dataset"])


def test_the_last_rows_are_held_out_before_others_are_dropped():
    cell, table = cell_and_table("training.validation=0.25", "training.drop_last=true", "strategy=resident")
    job = job_of(cell, table)
    np.testing.assert_array_equal(job.X, table.values[:192, :-1])
    X, Y = job.validation
    np.testing.assert_array_equal(np.hstack([X, Y]), table.values[192:])


def test_a_record_has_the_loss_of_each_epoch_and_its_time_apart():
    settings = ("strategy=resident", "training.batch_size=32", "network.init=he_uniform")
    record = measured(*settings, "training.validation=0.25", "training.epochs=3")
    assert not disagreements(record)
    assert (record["data"]["rows"], record["data"]["validation_rows"]) == (192, 64)
    for run in record["runs"]:
        losses = [epoch["validation_loss"] for epoch in run["epochs"]]
        assert len(losses) == 3 and run["validation_loss"] == losses[-1]
        assert losses[run["best_epoch"] - 1] == min(losses) and run["validation_seconds"] > 0
        assert "test_accuracy" not in run
    assert record["summary"]["mean_validation_loss"] > 0
    for lacking in (("runs", 0, "best_epoch"), ("runs", 0, "epochs", 1, "validation_loss")):
        assert lacking[-1] in refusal(store.checked, sealed(without(record, lacking)), "a record")


def test_cells_without_validation_have_no_key_of_it():
    plain, none, some = (
        compose.composed(["dataset=medium", *more])
        for more in ([], ["training.validation=0"], ["training.validation=0.5"])
    )
    assert plain == none and "validation" not in plain["training"]
    assert some["training"] == plain["training"] | {"validation": 0.5}


NORMED = ["network=layers", "network.layers=[linear 4, batchnorm1d, linear 1]"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["training.validation=1"], "training.validation"),
        (["training.validation=-0.1"], "training.validation"),
        (["training.validation=0.001"], "training.validation is 0.001.* 0 of 256 rows"),
        (["training.validation=0.2"], "training.batch_size is 256.* at most 205"),
        (["strategy=ensemble", "strategy.folds=257"], "strategy.folds is 257.* at most 256"),
        (["strategy=ensemble", "strategy.folds=2"], "training.batch_size is 256.* at most 128"),
        (
            [*NORMED, "training.batch_size=51"],
            "training.batch_size is 51.* last batch of 256 rows.*batchnorm1d",
        ),
        ([*NORMED, "training.batch_size=1"], "training.batch_size is 1: .*batchnorm1d"),
        (
            [*NORMED, "training.batch_size=73", "strategy=ensemble", "strategy.folds=7"],
            "training.batch_size is 73.* last batch of 220 rows",
        ),
    ],
)
def test_shares_that_leave_too_few_rows_are_rejected(given, named):
    with pytest.raises(SnnError, match=named):
        compose.composed(["dataset=small", *given])


@pytest.mark.parametrize("name", ["resident", "graph"])
def test_a_plan_counts_the_rows_held_out(name):
    settings = ["dataset=small", f"strategy={name}", "device=cpu", "training.batch_size=64"]
    plain, held = (
        predicted(compose.composed([*settings, f"training.validation={share}"]), gpus.named("NVIDIA H200"))
        for share in (0, 0.25)
    )
    assert held["data"] == plain["data"] == 4 * 256 * 33
    assert held["gradients"] == plain["gradients"] + 4 * (192 - 64) + 4 * 64


def test_steps_are_of_the_rows_that_are_trained_on():
    cells = pd.DataFrame(
        {"dataset.rows": [256, 256], "training.validation": [0.0, 0.25]}
        | {"training.batch_size": 64, "training.epochs": 10}
    )
    assert roofline.steps(cells).tolist() == [40, 30]


# ---- patience


class Losses:
    """A strategy whose validation losses are given; its only weight is the number of epochs trained."""

    side_by_side = watches = False

    def __init__(self, losses):
        self.given, self.epochs = losses, 0

    def load(self, weights):
        self.epochs = int(weights[0].item())

    def epoch(self):
        self.epochs += 1

    def epoch_losses(self):
        return np.array([self.epochs])

    def validation_loss(self):
        return self.given[self.epochs - 1]

    def check_trained(self):
        pass

    def losses(self):
        return [1.0]

    def weights(self):
        return [np.full((1, 1), self.epochs, np.float32)]


@pytest.mark.parametrize(
    ("losses", "patience", "trained", "kept"),
    [
        ([5, 4, 3, 2, 1], 2, 5, 5),
        ([5, 4, 4.5, 4, 1], 2, 4, 2),
        ([5, 4, 4.5, 3, 3], 2, 5, 4),
        ([5, 6, 1, 1, 1], 1, 2, 1),
        ([np.nan, np.nan, 1, 1, 1], 2, 2, 2),
        ([np.nan, 2, np.inf, 1, 2], 2, 5, 4),
        ([5, 4, 6, 6, 6], None, 5, 5),
    ],
)
def test_a_run_ends_after_so_many_epochs_without_gain_and_keeps_the_best_weights(
    losses, patience, trained, kept
):
    network = Network((1,), (Linear(1, bias=False),))
    ones = np.ones((1, 1), np.float32)
    test = factory.Test(ones, np.zeros(1, np.float32))
    validation = {"validation": (ones, ones), "patience": patience}
    job = factory.Job({}, network, ones, ones, 1, 5, 1, 0.1, test, **validation)
    strategy = Losses(losses)
    run = runs._run(job, strategy, CpuBackend(), [0 * ones], lambda *_: None, after_epoch=True)
    assert len(run.epochs) == trained
    assert run.test_errors.mse == kept**2 and strategy.weights()[0] == kept
    assert best_epoch([epoch.validation_loss for epoch in run.epochs]) == (
        None if np.isnan(losses[1]) else kept if patience else 2
    )


def test_members_end_after_epochs_of_their_own():
    settings = (
        "strategy=ensemble",
        "training.batch_size=32",
        "network.init=he_uniform",
        "training.epochs=60",
    )
    settings += ("training.validation=0.25", "training.patience=1", "strategy.learning_rates=[0.0001,0.03]")
    record = measured(*settings, "strategy.starts=2")
    assert not disagreements(record) and store.checked(record, "a record")
    members, (*_, run) = record["members"], record["runs"]
    assert len(run["epochs"]) == max(member["epochs"] for member in members) == 60
    assert min(member["epochs"] for member in members) < 60
    assert run["validation_loss"] == pytest.approx(np.mean([one["validation_loss"] for one in members]))
    for member in members:
        assert member["epochs"] in (60, member["best_epoch"] + 1)
    earlier = json.loads(json.dumps(record))
    for member in earlier["members"]:
        member["epochs"] = min(member["epochs"], 59)
    earlier["runs"][0]["epochs"] = earlier["runs"][0]["epochs"][:-1]
    assert "epochs" in refusal(store.checked, sealed(earlier), "a record")


def patient(patience, epochs):
    settings = ("strategy=resident", "training.batch_size=32", "network.init=he_uniform")
    settings += ("training.validation=0.25", "training.learning_rate=0.02", f"training.patience={patience}")
    return measured(*settings, f"training.epochs={epochs}")


def test_a_record_of_an_early_end_has_the_epochs_trained_and_times_of_all():
    record = patient(2, 400)
    assert not disagreements(record)
    assert store.checked(record, "a record") and record["cell"]["training"]["patience"] == 2
    for run, seconds in zip(record["runs"], store.run_seconds(record), strict=True):
        trained = len(run["epochs"])
        assert trained == run["best_epoch"] + 2 < 400
        assert seconds == pytest.approx(run["seconds"] / trained * 400)
        assert run["validation_loss"] == min(epoch["validation_loss"] for epoch in run["epochs"])
    longer = json.loads(json.dumps(record))
    longer["runs"][0]["epochs"] = longer["runs"][0]["epochs"][:-1]
    assert "epochs" in refusal(store.checked, sealed(longer), "a record")
    row = frame.pool({"one": record}, read_yaml(CONFIG / "verdicts.yaml"))
    assert row["trained_epochs"] == np.mean([len(run["epochs"]) for run in record["runs"]])
    assert row["mean_s"] == pytest.approx(np.mean(store.run_seconds(record)))
    assert len(row["curve"]) == min(len(run["epochs"]) for run in record["runs"])


def test_patience_needs_rows_held_out():
    with pytest.raises(ConfigError, match=r"training\.validation"):
        compose.composed(["dataset=small", "training.patience=3"])
    assert "patience" not in compose.composed(["dataset=small", "training.patience=null"])["training"]


def test_the_spread_that_ends_a_round_is_of_times_per_epoch():
    rules = Round(runs=9, relative_error=0.1)
    assert rules.stop([1.0, 5.0, 9.0]) is None
    assert rules.stop([1.0, 5.0, 9.0], [10.0, 10.01, 10.0]) == "relative_error"
