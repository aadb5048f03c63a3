"""Networks with norms and dropout, by every strategy, against float64."""

import cuda_on_cpu
import layer_oracle as oracle
import numpy as np
import pytest
from conftest import DIFFERENT, PEERS, ROOT
from deferred import DeferredBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from in_float64 import Training, backend_of
from test_kernels import run
from test_layers import TRAINERS
from test_other_trainers import SLOW_TO_COMPILE

from snn.backends.cpu import ops
from snn.backends.cpu.backend import CpuBackend
from snn.backends.ops import OPS, THREADS
from snn.config import groups
from snn.config.compose import composed
from snn.errors import ConfigError, Unsupported
from snn.models.dropout import dropped
from snn.models.layers import Dropout, parse
from snn.models.network import Network, network_label, trained
from snn.models.remedies import choices
from snn.models.training_step import training_step
from snn.strategies import factory

FEATURES, SEED = 5, 2**31 - 2
TRAINING = Training(rows=22, batch=8, epochs=17, rate=0.02, seed=3, start=7)
IMAGES = 2, 5, 6
PLACES = {
    "layernorm": ("linear 7", "layernorm", "relu", "linear 6", "tanh", "layernorm", "linear 1"),
    "batchnorm1d": ("batchnorm1d", "linear 7", "batchnorm1d", "relu", "linear 6", "tanh", "linear 1"),
    "batchnorm2d": ("batchnorm2d", "conv2d 3 3", "batchnorm2d", "relu", "linear 1"),
    "images": ("conv2d 4 3 1 2", "relu", "avgpool2d 2", "flatten", "linear 6", "layernorm", "linear 1"),
    "dropout": ("linear 7", "relu", "dropout 0.25", "linear 3", "tanh", "dropout .5", "linear 1"),
    "dropout of the data": ("dropout 0.25", "linear 7", "tanh", "linear 1"),
    "both": ("dropout 0.1", "layernorm", "linear 7", "gelu", "dropout 0.5", "linear 1"),
}
AT_THE_END = {
    "dropout at the end": ("linear 7", "tanh", "linear 1", "dropout 0.25"),
    "norm at the end": ("linear 7", "tanh", "linear 1", "batchnorm1d"),
}
"""Outputs that no product computes, by strategies that do element-wise work on the host."""


def network_of(place, **further):
    return Network(
        IMAGES if place in ("images", "batchnorm2d") else (FEATURES,),
        tuple(map(parse, (PLACES | AT_THE_END)[place])),
        init="he_uniform",
        dropout_seed=SEED,
        **further,
    )


def train_and_compare(name, backend, place, **further):
    """The second run of a strategy is within 1e-5 of the oracle."""
    network = network_of(place, **further)
    with TRAINING.started(name, backend, network) as strategy:
        for epochs in (1, TRAINING.epochs):
            TRAINING.load(strategy, network)
            strategy.train(epochs)
        TRAINING.check(strategy, network)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (name, place)
        for name in (*TRAINERS, *(name for name in PEERS if name not in SLOW_TO_COMPILE))
        for place in (PLACES if name in DIFFERENT else ("batchnorm1d", "both"))
        if name != "ensemble"  # whose members have no common outputs
    ],
)
def test_fifty_steps_stay_within_a_hundred_thousandth_of_float64(name, backend, place):
    order = "simultaneous" if name == "torch_loader" else "sequential"
    train_and_compare(name, backend_of(name) if backend.is_processor else backend, place, update_order=order)


@pytest.mark.parametrize("place", AT_THE_END)
@pytest.mark.parametrize("name", ["reference", "preallocated", "resident"])
def test_outputs_may_be_those_of_a_layer_without_a_product(name, backend, place):
    train_and_compare(name, backend, place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("accumulate", "recompute"), [(3, False), (1, True), (2, True)])
def test_micro_batches_and_layers_that_are_computed_again_drop_the_same_elements(
    place, accumulate, recompute
):
    if accumulate > 1 and any(name.startswith("batchnorm") for name in PLACES[place]):
        with pytest.raises(ConfigError, match=r"training\.accumulate"):
            network_of(place, accumulate=accumulate, update_order="simultaneous")
        return
    again = [i - 1 for i in choices({"layers": PLACES[place]})] if recompute else ()
    further = {"accumulate": accumulate, "recompute": again, "update_order": "simultaneous"}
    train_and_compare("resident", DeferredBackend(True, True), place, **further)


def test_relu_before_dropout_is_differentiated_in_a_products_launch():
    step = training_step(network_of("dropout"), 8, 0.02, fused=True)
    used = [launch.op for launch in step.launches]
    assert "matmul_nt_mask" in used and "mask" not in used


def test_each_step_counts_once_and_mostly_without_a_launch():
    def counts(place):
        launches = training_step(network_of(place, update_order="simultaneous"), 8, 0.02).launches
        return [one.op == "count_dropout" for one in launches if "dropout steps" in one.operands]

    assert not any(counts("dropout")) and not any(counts("both"))
    assert counts("dropout of the data") == [False, True]


@given(first=st.integers(0, 9), n=st.integers(1, 40), layer=st.integers(0, 9), seed=st.integers(0, 2**31 - 1))
def test_elements_are_dropped_by_their_places(first, n, layer, seed):
    """As the oracle says, and any part of a batch as in the whole."""
    whole = dropped(0, first + n, layer, seed, 2**32 - 1, 0.3)
    assert np.array_equal(dropped(first, n, layer, seed, 2**32 - 1, 0.3), whole[first:])
    places = oracle.Dropout(0.3, layer, seed)
    places.step = 2**32 - 1
    assert np.array_equal(places.forward(np.ones(first + n)) == 0, whole)


def test_the_right_share_is_dropped_and_each_step_drops_others():
    each = [dropped(0, 100_000, layer, 1, step, 0.2) for layer, step in ((0, 0), (0, 1), (1, 0))]
    assert all(abs(one.mean() - 0.2) < 0.004 for one in each)
    assert all(abs((one & each[0]).mean() - 0.04) < 0.002 for one in each[1:])


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
@pytest.mark.parametrize("op", ["dropout", "dropout_gradient", "count_dropout"])
@settings(max_examples=15)
@given(
    n=st.integers(1, 1100),
    first=st.integers(0, 5),
    steps=st.tuples(*2 * [st.integers(0, 2**32 - 1)]),
    data=st.data(),
)
def test_the_kernel_drops_what_numpy_drops(op, n, first, steps, data):
    C, random = np.array(steps, np.uint32).view(np.float32), np.random.default_rng(n)
    numbers = (n, first, 3, SEED, data.draw(st.integers(0, 1)), 0.25) if op != "count_dropout" else ()
    operands = [random.standard_normal(n, dtype=np.float32) for _ in OPS[op].operands[1:]]
    mine, right = ([*map(np.copy, operands), C.copy()] for _ in range(2))
    values = [np.float32(number) if isinstance(number, float) else number for number in numbers]
    blocks = -(-OPS[op].threads(*numbers) // THREADS)
    arguments = *mine[:-1], mine[-1].view(np.uint32), *values
    cuda_on_cpu.load(ROOT / OPS[op].source)[op]((blocks,), (THREADS,), arguments)
    getattr(ops, op)(*right, *numbers)
    for one, other in zip(mine, right, strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.gpu
@pytest.mark.parametrize("op", ["dropout", "dropout_gradient", "count_dropout"])
@pytest.mark.parametrize(("n", "first", "turn"), [(1, 0, 0), (1_000_003, 6, 1), (4096, 3, 0)])
def test_a_gpu_drops_what_numpy_drops(op, n, first, turn, cuda_backend):
    C, X = np.array([7, 9], np.uint32).view(np.float32), np.random.default_rng(n).random(n, np.float32)
    numbers = (n, first, 3, SEED, turn, 0.25) if op != "count_dropout" else ()
    operands = [X for _ in OPS[op].operands[1:]] + [C]
    found, right = run(cuda_backend, op, operands, numbers), run(CpuBackend(), op, operands, numbers)
    for one, other in zip(found, right, strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def test_a_last_batch_of_one_row_has_no_variance(backend):
    strategy = factory.make(groups.load("strategy", "resident"), backend)
    with pytest.raises(Unsupported, match=r"batchnorm1d.*training\.batch_size"):
        strategy.setup(network_of("batchnorm1d"), np.zeros((5, 5), "f4"), np.zeros((5, 1), "f4"), 4, 0.1)
    strategy.close()


def test_a_cell_names_its_dropout_and_its_seed_decides():
    cell = composed(["network=layers", "network.layers=[linear 4, dropout 0.5, linear 1]", "network.seed=9"])
    network = trained(cell, (4,))
    assert network.layers[1] == Dropout(0.5) and network.dropout_seed == 9
    assert network_label(cell["network"]) == "linear4-dropout0.5-linear1"


@pytest.mark.parametrize(
    ("layers", "named"),
    [
        ("linear 2, dropout, linear 1", ["dropout P", "between 0 and 1"]),
        ("linear 2, dropout 1, linear 1", ["dropout 1", "between 0 and 1"]),
        ("linear 2, dropout 0.0, linear 1", ["dropout 0.0", "between 0 and 1"]),
        ("linear 2, dropout 0.5 2, linear 1", ["dropout 0.5 2"]),
        ("linear 2, layernorm 3, linear 1", ["layernorm 3"]),
        ("dropout 0.5, relu, linear 1", ["relu", "overwrite the data"]),
        ("linear 2, relu, dropout 0.5, tanh, linear 1", ["tanh follows relu"]),
        ("linear 2, batchnorm1d, linear 1", ["accumulate", "batchnorm1d", "layernorm"]),
        ("linear 2, batchnorm2d, linear 1", ["batchnorm2d", "images"]),
        ("conv2d 2 3 0 0, linear 1", ["conv2d 2 3 0 0", "[STRIDE]"]),
    ],
)
def test_what_is_wrong_is_named(layers, named):
    more = ["training.accumulate=2", "network.update_order=simultaneous"] if "accumulate" in named else []
    with pytest.raises(ConfigError) as refused:
        composed(["network=layers", f"network.layers=[{layers}]", *more])
    assert all(word in str(refused.value) for word in named)


@pytest.mark.parametrize("name", [name for name in PEERS if name not in (*SLOW_TO_COMPILE, "jax_scan")])
def test_a_peer_says_that_it_would_drop_others(name):
    strategy = factory.make(groups.load("strategy", name), CpuBackend())
    with pytest.raises(Unsupported, match=r"dropout|import|CUDA"):
        strategy.setup(network_of("dropout"), np.zeros((4, 5), "f4"), np.zeros((4, 1), "f4"), 4, 0.1)


def test_values_and_slopes_of_layernorm_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(1).normal(size=(3, 2, 4, 3))
    W, b = np.random.default_rng(2).normal(size=(2, 24))
    mine, theirs = oracle.LayerNorm(W, b), torch.nn.LayerNorm((2, 4, 3)).double()
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(W).reshape(2, 4, 3))
        theirs.bias.copy_(torch.tensor(b).reshape(2, 4, 3))
    at = torch.tensor(x, requires_grad=True)
    y = theirs(at)
    (y * y).sum().backward()
    np.testing.assert_allclose(mine.forward(x), y.detach(), atol=1e-12)
    dy = 2 * y.detach().numpy()
    np.testing.assert_allclose(mine.backward(dy), at.grad, atol=1e-12)
    for one, other in zip(mine.gradients(dy), (theirs.weight.grad, theirs.bias.grad), strict=True):
        np.testing.assert_allclose(one, other.reshape(-1), atol=1e-12)
