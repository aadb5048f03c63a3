"""Training a convolutional network in one launch: its plan, and its kernel on the CPU and on a GPU."""

import re
from dataclasses import replace

import cuda_on_cpu
import layer_oracle
import numpy as np
import pytest
from conftest import ROOT
from deferred import DeferredBackend

from snn.backends import kernel_source
from snn.backends.convolutional_plans import SOURCE, ConvolutionalShape, Layout
from snn.backends.cpu import ops
from snn.backends.cpu.backend import CpuBackend
from snn.backends.persistent_plans import DeviceCapability, LaunchPlan
from snn.errors import Unsupported
from snn.models.gradients import PublishedNaive
from snn.models.layers import parse
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network
from snn.profiling.observed import ObservedBackend
from snn.strategies.common.convolutional_launch import ConvolutionalLaunch, shape_of
from snn.strategies.persistent import Persistent
from snn.strategies.resident import Resident

H200, T4 = DeviceCapability(132, 232448, (9, 0)), DeviceCapability(40, 65536, (7, 5))
CNN = ConvolutionalShape(64, True, 1, 28, 28, 16, 3, 0, 32, 3, 0, 2, 10)

on_cpu = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")

# Sides that no window divides, padding, several channels, even kernels, parts of unequal rows.
SMALL = {
    "square": ConvolutionalShape(2, True, 1, 9, 9, 5, 3, 0, 9, 3, 0, 2, 3),
    "uneven": ConvolutionalShape(3, False, 2, 11, 9, 7, 2, 1, 17, 3, 1, 2, 4),
    "threes": ConvolutionalShape(2, True, 3, 13, 10, 17, 5, 2, 5, 2, 0, 3, 5),
    "unpooled": ConvolutionalShape(2, True, 1, 8, 7, 3, 3, 0, 33, 3, 2, 1, 2),
    "one": ConvolutionalShape(1, True, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 2),
}


def network_of(shape, **others):
    texts = (
        f"conv2d {shape.filters1} {shape.kernel1} {shape.padding1}",
        "relu",
        f"conv2d {shape.filters2} {shape.kernel2} {shape.padding2}",
        "relu",
        f"maxpool2d {shape.window}",
        f"linear {shape.outputs}",
    )
    given = {"loss": CROSS_ENTROPY, "update_order": "simultaneous"}
    given["reduction"] = "mean" if shape.mean else "sum"
    inputs = (shape.channels, shape.height, shape.width)
    return Network(inputs, tuple(map(parse, texts)), **(given | others))


def made(shape, rows, random):
    """Images, labels, one-hot targets and fresh parameters; biases are not zero."""
    X = random.uniform(0, 1, (rows, shape.channels, shape.height, shape.width)).astype(np.float32)
    labels = random.integers(0, shape.outputs, rows)
    weights = []
    for parameter in network_of(shape).parameters:
        limit = np.sqrt(6 / (parameter.fan_in or 100))
        weights.append(random.uniform(-limit, limit, parameter.shape).astype(np.float32))
    return X, labels, np.eye(shape.outputs, dtype=np.float32)[labels], weights


def plan_for(shape, limits=H200):
    found = list(shape.plans(limits))
    assert len(found) == 1
    return found[0]


def oracle(shape, X, labels, weights, epochs, rate):
    """Parameters and losses of the last epoch in float64, by plain loops."""
    W1, b1, W2, b2, W3, b3 = parameters = [W.astype(np.float64) for W in weights]
    layers = [
        layer_oracle.Conv2d(W1, b1, shape.kernel1, shape.padding1),
        layer_oracle.ReLU(),
        layer_oracle.Conv2d(W2, b2, shape.kernel2, shape.padding2),
        layer_oracle.ReLU(),
        layer_oracle.MaxPool2d(shape.window),
        layer_oracle.Linear(W3, b3),
    ]
    losses = layer_oracle.train(
        layers,
        X.astype(np.float64),
        labels,
        steps=epochs,
        batch_size=shape.batch,
        rate=rate,
        sequential=False,
        clip_norm=None,
        cross_entropy=True,
        summed=not shape.mean,
    )
    return parameters, losses


def buffers_of(shape, X, Y, weights):
    """What the op is launched on; what is not read before it is written is not a number."""
    S = np.full(Layout(shape).workspace, np.nan, np.float32)
    S[:4] = 0  # the barrier's
    E = np.full(len(X), np.nan, np.float32)
    return [*(a.reshape(-1).copy() for a in (X, Y, *weights)), E, S]


def launched(shape, buffers, rows, epochs, rate, source=ROOT / SOURCE, **further):
    plan = plan_for(shape)
    kernels = cuda_on_cpu.load(source, **dict(plan.defines), **further)
    kernels["train_persistent"](
        (plan.blocks,),
        (plan.threads,),
        (*buffers, rows, epochs, np.float32(rate)),
        dynamic_shared=kernels["shared_bytes"],
        cooperative=True,
    )


def check(shape, found, E, rows, expected, losses, within):
    for W, exact in zip(found, expected, strict=True):
        assert np.linalg.norm(W - exact.reshape(-1)) < within * max(np.linalg.norm(exact), 1e-3)
    batches = [E[i : i + shape.batch].mean() for i in range(0, rows, shape.batch)]
    np.testing.assert_allclose(batches, losses, rtol=10 * within)


# ---- the plan


def test_a_block_trains_a_part_of_an_image():
    plan = plan_for(CNN)
    assert isinstance(plan, LaunchPlan)
    assert (plan.source, plan.blocks, plan.cluster) == (SOURCE, 128, 0)
    assert plan.words == "128 blocks together, one for each of 2 parts of an image"
    small = replace(CNN, batch=128, height=20, width=20)
    assert plan_for(small).words == "128 blocks together, one for each image"
    assert plan_for(replace(CNN, batch=20)).blocks == 20 * 6  # rows of 12: of 6 parts each has two
    assert plan_for(replace(CNN, batch=1)).blocks == 12


@pytest.mark.parametrize(
    ("reason", "changes", "limits"),
    [
        ("compute capability 7.5, TF32 needs 8.0", {}, T4),
        ("128 blocks would run together, the device has 108 SMs", {}, DeviceCapability(108, 166912, (8, 0))),
        ("batches of 129 images", {"batch": 129}, H200),
        ("conv2d of 65 filters, 64 at most", {"filters1": 65}, H200),
        ("kernels of 3 on 1 channels and of 8", {"kernel2": 8}, H200),
        ("kernels of 7 on 3 channels", {"kernel1": 7, "channels": 3}, H200),
        ("maxpool2d of 4, 3 at most", {"window": 4}, H200),
        ("33 outputs", {"outputs": 33}, H200),
        ("bytes of shared memory, the device has 232448", {"height": 64, "width": 64}, H200),
    ],
)
def test_what_no_block_can_hold_has_no_plan(reason, changes, limits):
    plan = plan_for(replace(CNN, **changes), limits)
    assert isinstance(plan, str) and reason in plan


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("updates simultaneously and does not clip", {"update_order": "sequential"}),
        ("updates simultaneously and does not clip", {"clip_norm": 1.0}),
        ("along the gradient itself", {"gradient": PublishedNaive(256)}),
        (
            "its layers are conv2d, relu, linear, the kernel's conv2d, relu, conv2d",
            {"layers": "conv2d 2 3,relu,linear 10"},
        ),
        ("its layers are linear, relu, linear", {"layers": "linear 3,relu,linear 10"}),
    ],
)
def test_another_network_is_trained_by_a_graph_and_the_plan_says_why(reason, changes):
    if "layers" in changes:
        changes = {"layers": tuple(map(parse, changes["layers"].split(",")))}
    network = replace(network_of(CNN), **changes)
    with pytest.raises(Unsupported, match=re.escape(reason)):
        shape_of(network, 64)
    strategy = Persistent(ObservedBackend(DeferredBackend()))
    X, Y = np.zeros((3, 784), np.float32), np.eye(10, dtype=np.float32)[:3]
    try:
        strategy.setup(network, X, Y, 2, 0.1)
        assert strategy.plan is not None
        assert strategy.plan.startswith("graph: no convolutional network in one launch: its ")
        assert reason in strategy.plan
    finally:
        strategy.close()
    strategy.backend.live.check_nothing_held()


@on_cpu
@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_the_plan_knows_the_kernels_memory(shape):
    constants = cuda_on_cpu.load(ROOT / SOURCE, **dict(plan_for(shape).defines))
    assert Layout(shape).shared_bytes == constants["shared_bytes"]
    assert Layout(shape).workspace == constants["workspace_floats"]


# ---- the strategy, on NumPy


def trained_by(strategy, shape, X, Y, weights):
    strategy.keeps_losses = True
    try:
        strategy.setup(network_of(shape), X.reshape(len(X), -1), Y, shape.batch, 0.1)
        assert np.isnan(strategy.loss())
        for epochs in (1, 2):
            strategy.load(weights)
            strategy.train(epochs)
        outputs = strategy.predict(X.reshape(len(X), -1)[:5])
        return *strategy.weights(), np.float32(strategy.loss()), strategy.epoch_losses(), outputs
    finally:
        strategy.close()


@pytest.mark.parametrize("name", ["square", "uneven"])
def test_one_launch_trains_as_launches_of_every_step_do(name, random):
    shape = SMALL[name]
    X, _, Y, weights = made(shape, 3 * shape.batch + 1, random)
    strategies = ConvolutionalLaunch(CpuBackend()), Resident(CpuBackend())
    found, expected = (trained_by(strategy, shape, X, Y, weights) for strategy in strategies)
    assert strategies[0].plan == "NumPy, all epochs in one call"
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_one_launch_frees_what_it_held(random):
    shape = SMALL["square"]
    X, _, Y, weights = made(shape, 3, random)
    strategy = ConvolutionalLaunch(ObservedBackend(CpuBackend()))
    strategy.setup(network_of(shape), X.reshape(3, -1), Y, shape.batch, 0.1)
    strategy.load(weights)
    strategy.epoch()
    strategy.close()
    strategy.backend.live.check_nothing_held()


# ---- the kernel, on the CPU


@on_cpu
@pytest.mark.parametrize("name", SMALL)
def test_the_kernel_and_numpy_train_as_the_oracle(name, random):
    shape, rate = SMALL[name], 0.05
    rows, epochs = 2 * shape.batch + 1, 2
    X, labels, Y, weights = made(shape, rows, random)
    buffers, by_numpy = (buffers_of(shape, X, Y, weights) for _ in range(2))
    launched(shape, buffers, rows, epochs, rate)
    ops.train_convolutional(*by_numpy, rows, shape.batch, epochs, rate, *shape.sizes)
    expected, losses = oracle(shape, X, labels, weights, epochs, rate)
    for found in (buffers, by_numpy):
        check(shape, found[2:8], found[8], rows, expected, losses, 3e-6)


@on_cpu
def test_the_kernel_goes_on_where_the_last_launch_ended(random):
    shape = SMALL["uneven"]
    X, _, Y, weights = made(shape, 5, random)
    once, twice = (buffers_of(shape, X, Y, weights) for _ in range(2))
    launched(shape, once, 5, 2, 0.05)
    for _ in range(2):
        launched(shape, twice, 5, 1, 0.05)
    for a, b in zip(once[2:9], twice[2:9], strict=True):
        np.testing.assert_array_equal(a, b)


@on_cpu
def test_fifty_steps_are_the_oracles(random):
    shape = replace(SMALL["square"], height=8, width=8)
    X, labels, Y, weights = made(shape, 5, random)
    buffers = buffers_of(shape, X, Y, weights)
    launched(shape, buffers, 5, 17, 0.02)
    expected, losses = oracle(shape, X, labels, weights, 17, 0.02)
    check(shape, buffers[2:8], buffers[8], 5, expected, losses, 1e-5)


@on_cpu
@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFFFFFFF, 0x7F800001])
@pytest.mark.parametrize("which", [0, 2, 4, 6])
def test_any_bits_of_what_is_not_a_number_end_as_such(which, bits, random):
    shape = SMALL["square"]
    X, _, Y, weights = made(shape, 4, random)
    buffers = buffers_of(shape, X, Y, weights)
    buffers[which][-1:].view(np.uint32)[...] = bits
    buffers[which][:1].view(np.uint32)[...] = bits
    launched(shape, buffers, 4, 2, 0.05)
    assert np.isnan(buffers[8]).any()


@on_cpu
@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("training.barrier.wait();\n        training.mark(10);\n", "training.mark(10);\n"),
        ("training.convolve_first();\n        training.barrier.wait();", "training.convolve_first();"),
        ("training.hear_weights();\n        __syncthreads();\n", "training.hear_weights();\n"),
    ],
    ids=["before the update", "after the update", "of a block"],
)
def test_a_missing_barrier_is_a_race(line, instead, tmp_path, random):
    shape = SMALL["square"]
    X, _, Y, weights = made(shape, 4, random)
    text = kernel_source.text(ROOT / SOURCE)
    assert text.count(line) == 1
    broken = tmp_path / "convolution.cu"
    broken.write_text(text.replace(line, instead))
    with pytest.raises(cuda_on_cpu.KernelError, match="a race"):
        launched(shape, buffers_of(shape, X, Y, weights), 4, 2, 0.05, broken)


# ---- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("name", SMALL)
def test_after_fifty_steps_the_parameters_are_the_oracles(name, random, cuda_backend):
    shape, rate = SMALL[name], 0.02
    rows = 2 * shape.batch + 1 if shape.batch > 1 else 3
    X, labels, Y, weights = made(shape, rows, random)
    found = []
    strategy = Persistent(cuda_backend)
    try:
        strategy.setup(network_of(shape), X.reshape(rows, -1), Y, shape.batch, rate)
        assert "blocks together" in strategy.plan
        for _ in range(3):
            strategy.load(weights)
            strategy.train(17)
            found.append((*strategy.weights(), strategy.epoch_losses()))
    finally:
        strategy.close()
    expected, losses = oracle(shape, X, labels, weights, 17, rate)
    for W, exact in zip(found[0], expected, strict=False):
        assert np.linalg.norm(W - exact) < 1e-4 * max(np.linalg.norm(exact), 1e-3)
    np.testing.assert_allclose(found[0][-1], losses, rtol=1e-3)
    for again in found[1:]:
        for one, other in zip(found[0], again, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.gpu
def test_not_a_number_ends_cleanly_on_a_gpu(random, cuda_backend):
    shape = SMALL["square"]
    X, _, Y, weights = made(shape, 4, random)
    X[1, 0, 4, 4] = np.nan
    strategy = Persistent(cuda_backend)
    try:
        strategy.setup(network_of(shape), X.reshape(4, -1), Y, shape.batch, 0.05)
        strategy.load(weights)
        strategy.train(3)
        assert np.isnan(strategy.loss())
    finally:
        strategy.close()
