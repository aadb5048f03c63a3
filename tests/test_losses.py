"""Huber's loss and the binary cross-entropy, by PyTorch's definitions and by every strategy."""

from dataclasses import replace

import layer_oracle as oracle
import numpy as np
import pytest
from conftest import PEERS, ROOT, STRATEGIES
from deferred import DeferredBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from in_float64 import Training, agree, backend_of
from real_records import measured
from test_optimizers import REMEDIES

from snn import backends
from snn.backends.cpu import ops
from snn.config import groups
from snn.errors import DataError
from snn.models.layers import Linear, ReLU, Tanh
from snn.models.losses import LOSSES
from snn.models.network import Network
from snn.strategies import factory

TRAINING = Training(rows=30, batch=12, epochs=17, rate=0.01)  # 51 steps
CASES = {"huber": ("huber", 1), "binary": ("binary_cross_entropy", 1), "several": ("binary_cross_entropy", 3)}
"""The loss and the outputs."""

ALL = [*STRATEGIES, *PEERS]
KINDS = {name: factory.class_of(groups.load("strategy", name)) for name in ALL}
TRAINERS = [name for name in ALL if KINDS[name].any_network and not KINDS[name].side_by_side]


def network_of(case, reduction="mean"):
    loss, outputs = CASES[case]
    layers = (Linear(7), Tanh(), Linear(6), ReLU(), Linear(outputs))
    given = {"init": "he_uniform", "update_order": "simultaneous", "reduction": reduction}
    return Network((5,), layers, LOSSES[loss], **given)


def train_and_compare(name, backend, case, reduction="mean"):
    """Weights after 51 steps, and the losses of the last epoch, against float64; the plan."""
    network = network_of(case, reduction)
    training = replace(TRAINING, rate=0.001) if reduction == "sum" else TRAINING
    exact = training.exact(network)
    with training.started(name, backend, network, keeps_losses=True) as strategy:
        for _ in range(training.epochs):
            strategy.epoch()
        agree(strategy.weights(), exact.weights)
        np.testing.assert_allclose(strategy.epoch_losses(), exact.losses, rtol=1e-5)
        return strategy.plan


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", TRAINERS)
def test_weights_after_50_steps_are_those_of_float64(name, case):
    plan = train_and_compare(name, backend_of(name), case)
    assert name != "persistent" or not plan.startswith("graph: ")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "name", ["resident", "persistent", "reference", "blas", "torch_eager", "torch_loader", "jax_scan"]
)
def test_the_gradient_of_a_sum_is_of_all_outputs(name, case):
    train_and_compare(name, DeferredBackend(), case, "sum")


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", REMEDIES)
def test_weights_on_a_gpu_are_those_of_float64(name, case):
    train_and_compare(name, backends.make("cuda", groups.load("kernel", "naive"), ROOT), case)


# ---- the formulae


def losses_and_slopes(name, P, Y):
    E, D = np.empty_like(P), np.empty_like(P)
    getattr(ops, name)(P, Y, E, D, len(P), 1.0)
    return E, D


@settings(max_examples=50)
@given(st.sampled_from([*oracle.CRITERIA]), st.lists(st.floats(-30, 30), min_size=1, max_size=5))
def test_the_gradient_is_the_slope_of_the_losses(name, outputs):
    P = np.array(outputs)
    Y = np.arange(len(P)) % 2.0
    (low, _), (high, _) = (losses_and_slopes(name, P + step, Y) for step in (-1e-5, 1e-5))
    np.testing.assert_allclose(losses_and_slopes(name, P, Y)[1], (high - low) / 2e-5, atol=1e-5)
    assert LOSSES[name].evaluate(P, Y) == pytest.approx(losses_and_slopes(name, P, Y)[0].mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "module"), [("huber", "HuberLoss"), ("binary_cross_entropy", "BCEWithLogitsLoss")]
)
def test_losses_and_gradients_are_those_of_pytorch(name, module):
    torch = pytest.importorskip("torch")
    P, Y = np.linspace(-4, 4, 33), np.arange(33) % 2.0
    at = torch.tensor(P, requires_grad=True)
    losses = getattr(torch.nn, module)(reduction="none")(at, torch.tensor(Y))
    losses.sum().backward()
    for found, right in zip(losses_and_slopes(name, P, Y), (losses.detach(), at.grad), strict=True):
        np.testing.assert_allclose(found, right.numpy(), atol=1e-12)


@pytest.mark.parametrize("name", oracle.CRITERIA)
def test_large_outputs_have_finite_losses_and_a_nan_stays(name):
    E, D = losses_and_slopes(name, np.array([1e4, -1e4, np.nan], np.float32), np.zeros(3, np.float32))
    assert np.isfinite(E[:2]).all() and np.isfinite(D[:2]).all()
    assert np.isnan(E[2]) and np.isnan(D[2])


def test_targets_of_a_binary_cross_entropy_are_labels():
    loss = LOSSES["binary_cross_entropy"]
    labels = np.array([[0], [1]], np.float32)
    assert loss.targets(labels, 1).tolist() == [[0], [1]]
    assert loss.targets(labels, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(DataError, match=r"row 2 is 2.*0 to 1"):
        loss.targets(np.array([[1], [2]], np.float32), 1)


def test_a_record_of_a_binary_cross_entropy_has_accuracies(tmp_path):
    rows = np.random.default_rng(1).normal(size=(40, 2))
    lines = [f"{a:.3f},{b:.3f},{'high' if a + b > 0 else 'low'}" for a, b in rows]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,kind", *lines]))
    network = ("network=layers", "network.layers=[linear 1]", "network.loss=binary_cross_entropy")
    settings = ("dataset=csv", f"dataset.path={tmp_path}/data.csv", "dataset.target=kind", *network)
    more = ("strategy=resident", "training.learning_rate=1", "training.epochs=9", "training.batch_size=8")
    record = measured(*settings, *more)
    assert record["summary"]["mean_test_accuracy"] >= 0.75
    assert record["cell"]["dataset"]["task"] == "classification"
    losses = [epoch["mean_loss"] for epoch in record["runs"][0]["epochs"]]
    assert losses == sorted(losses, reverse=True) and "final_mse" not in record["runs"][0]
