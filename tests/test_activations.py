"""Networks with biases and any activation function, by every strategy, against float64."""

import layer_oracle as oracle
import numpy as np
import pytest
from conftest import OWN_LOOPS, PEERS
from deferred import DeferredBackend
from hypothesis import given
from hypothesis import strategies as st
from in_float64 import Training, backend_of
from test_layers import TRAINERS, OfPerceptrons
from test_other_trainers import SLOW_TO_COMPILE

from snn.backends.cpu import ops
from snn.backends.cpu.backend import CpuBackend
from snn.config.compose import composed
from snn.errors import ConfigError, Unsupported
from snn.measurement.accuracy import predicted
from snn.models.layers import ACTIVATIONS, parse
from snn.models.network import Network, build, mlp, network_label
from snn.models.remedies import layers as recomputed

FEATURES, HIDDEN = 5, [7, 3]
TRAINING = Training(rows=22, batch=8, epochs=17, rate=0.02, seed=3, start=7)
QUICK_PEERS = [name for name in PEERS if name not in SLOW_TO_COMPILE]
BOTH = [(name, bias) for name in ACTIVATIONS for bias in (False, True) if bias or name != "relu"]


def network_of(activation, bias, **further):
    """An MLP as a cell describes it."""
    section = {"hidden": HIDDEN, "bias": bias, "activation": activation, "init": "he_uniform"}
    section |= {"update_order": "sequential", "clip_norm": None, "recompute": []} | further
    return build(section, (FEATURES,))


def train_and_compare(name, backend, activation, bias, **further):
    """51 steps of a strategy: its weights are within 1e-5 of the oracle's."""
    network = network_of(activation, bias, **further)
    with TRAINING.started(name, backend, network) as strategy:
        strategy.train(TRAINING.epochs)
        TRAINING.check(strategy, network)
        return strategy.plan


@pytest.mark.parametrize(
    ("name", "activation", "bias"),
    [
        (name, activation, bias)
        for name in (*TRAINERS, *QUICK_PEERS)
        for activation, bias in (BOTH if name in OWN_LOOPS else [("gelu", True)])
    ],
)
def test_fifty_steps_stay_within_a_hundred_thousandth_of_float64(name, backend, activation, bias):
    order = "simultaneous" if name == "torch_loader" else "sequential"
    on_cpu = backend_of(name) if backend.is_processor else None
    plan = train_and_compare(name, on_cpu or backend, activation, bias, update_order=order)
    assert name != "persistent" or not on_cpu or not plan.startswith("graph:")


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kernel", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("further", [{"clip_norm": 0.5}, {"update_order": "simultaneous"}])
def test_every_kind_of_kernel_and_order(activation, kernel, further):
    train_and_compare("resident", DeferredBackend(*kernel), activation, True, **further)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_hidden_layers_are_computed_again_to_the_same_bits(activation):
    train_and_compare("resident", CpuBackend(), activation, True, recompute=[1], update_order="simultaneous")
    outputs = [0, 1] if activation in ("silu", "gelu") else [0]
    assert [*recomputed({"hidden": [4], "activation": activation, "recompute": [1]})] == outputs


@pytest.mark.parametrize(("activation", "bias"), [("tanh", False), ("relu", True)])
def test_a_strategy_of_the_papers_mlps_says_so(activation, bias):
    with pytest.raises(Unsupported, match=r"network\.bias.*network\.activation"):
        OfPerceptrons(CpuBackend()).check_network(network_of(activation, bias))


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name not in ("relu", "identity")])
@given(x=st.floats(-30, 30, width=32))
def test_a_derivative_is_the_slope(name, x):
    """Of the values in float64, by a central difference; a kink at 0 has the slope of its left."""
    if name in ("leaky_relu", "elu") and abs(x) < 1e-5:
        return
    is_in_place, forward = ACTIVATIONS[name].in_place, getattr(ops, f"{name}_forward")

    def value(at):
        X, Z = np.array([at]), np.array([at])
        forward(*((Z,) if is_in_place else (X, Z)), 1)
        return Z

    D, eps = np.ones(1), 1e-3  # the error function is a fit, whose slope is less accurate over less
    getattr(ops, f"{name}_gradient")(D, value(x) if is_in_place else np.array([x]), 1)
    if name in ("leaky_relu", "elu"):
        eps = min(eps, abs(x) / 2)
    slope = (value(x + eps) - value(x - eps)) / (2 * eps)
    np.testing.assert_allclose(D, slope, rtol=1e-5, atol=3e-4 if name == "gelu" else 1e-5)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_and_slopes_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    network = Network((1,), tuple(map(parse, ("linear 1", name, "linear 1"))))
    x = np.linspace(-6, 6, 241, dtype=np.float32)[:, None]
    module = getattr(torch.nn, ACTIVATIONS[name].__name__)()
    at = torch.tensor(x, requires_grad=True)
    y = module(at)
    y.sum().backward()
    one, zero = np.ones((1, 1), np.float32), np.zeros(1, np.float32)
    np.testing.assert_allclose(predicted(network, [one, zero, one, zero], x), y.detach(), atol=1e-6)
    smooth = oracle.__dict__[ACTIVATIONS[name].__name__]()
    smooth.forward(x.astype(np.float64))
    inner = np.abs(x) > 1e-6  # at a kink either side is right
    np.testing.assert_allclose(smooth.backward(np.ones_like(x))[inner], at.grad.numpy()[inner], atol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 200.0, -200.0])
@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name not in ("relu", "identity")])
def test_large_inputs_do_not_warn_and_a_nan_stays(name, value):
    X, Z = np.full(1, value, np.float32), np.full(1, value, np.float32)
    is_in_place = ACTIVATIONS[name].in_place
    with np.errstate(invalid="ignore" if np.isinf(value) else "raise", over="raise", divide="raise"):
        getattr(ops, f"{name}_forward")(*((Z,) if is_in_place else (X, Z)), 1)
    assert np.isnan(Z[0]) == (np.isnan(value) or (np.isinf(value) and value < 0 and not is_in_place))


@pytest.mark.parametrize(
    ("section", "label"),
    [
        ({"hidden": [64, 64]}, "64-64"),
        ({"hidden": [64, 64], "bias": False, "activation": "relu"}, "64-64"),
        ({"hidden": [64], "bias": True}, "64-bias"),
        ({"hidden": [64], "bias": True, "activation": "gelu"}, "64-bias-gelu"),
    ],
)
def test_a_network_is_named_by_what_differs_from_the_papers(section, label):
    assert network_label(section) == label


def test_a_cell_names_only_what_differs():
    usual, other = composed([]), composed(["network.activation=tanh", "network.bias=true"])
    assert composed(["network.activation=relu", "network.bias=false"]) == usual
    assert not {"bias", "activation"} & usual["network"].keys()
    assert other["network"] == usual["network"] | {"bias": True, "activation": "tanh"}
    assert build(usual["network"], (4,)).widths and build(other["network"], (4,)).widths is None
    assert mlp((4, 3, 1), bias=True).widths is None


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["network.activation=swish"], ["network.activation", "swish", "silu"]),
        (["network.bias=1"], ["network.bias", "true or false"]),
        (["network=layers", "network.activation=tanh"], ["network.activation", "layers"]),
        (["network=layers", "network.layers=[linear 3, relu, tanh, linear 1]"], ["tanh", "relu"]),
        (["network=layers", "network.layers=[sigmoid, linear 1]"], ["sigmoid"]),
    ],
)
def test_what_is_wrong_is_named(settings, named):
    with pytest.raises(ConfigError) as refused:
        composed(settings)
    assert all(word in str(refused.value) for word in named)


def test_activations_may_follow_what_does_not_need_their_input():
    for layers in ("relu relu", "gelu tanh", "silu gelu", "tanh identity", "sigmoid silu"):
        one, other = layers.split()
        Network((4,), tuple(map(parse, ("linear 3", one, other, "linear 1"))))
