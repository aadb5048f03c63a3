"""Training a convolutional network in one launch: its plan, and the strategy on NumPy."""

import math
import re
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT
from convolutional_shapes import CNN, FEW, H200, SMALL, T4, made, network_of, on_cpu, plan_for
from deferred import DeferredBackend

from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches import DeviceCapability, LaunchConfiguration
from snn.backends.launches.convolution import SOURCE, Layout
from snn.errors import Unsupported
from snn.models.gradients import PublishedNaive
from snn.models.layers import parse
from snn.profiling.observed import ObservedBackend
from snn.strategies.common.one_launch import OneLaunch, convolutional_shape
from snn.strategies.persistent import Persistent
from snn.strategies.resident import Resident

# ---- the plan

A100 = DeviceCapability(108, 166912, (8, 0))
ROWS = CNN.pooled[0]


def test_a_block_trains_a_part_of_an_image():
    plan = plan_for(CNN)
    assert isinstance(plan, LaunchConfiguration)
    assert (plan.source, plan.blocks, plan.cluster) == (SOURCE, 128, 0)
    assert plan.words == "128 blocks together, one for each of 2 parts of an image"
    small = replace(CNN, batch=128, height=20, width=20)
    assert plan_for(small).words == "128 blocks together, one for each image"
    assert plan_for(replace(CNN, batch=20)).blocks == 20 * 6  # rows of 12: of 6 parts each has two
    assert plan_for(replace(CNN, batch=1)).blocks == 12


@pytest.mark.parametrize("batch", range(1, 109))
def test_images_are_split_for_the_sms_that_there_are(batch):
    """A part of one row at least, and as many as 108 SMs allow; a block of too many rows has no room."""
    shape = replace(CNN, batch=batch)
    plan = plan_for(shape, A100)
    rows = math.ceil(ROWS / min(ROWS, 108 // batch))
    if isinstance(plan, str):
        assert "bytes of shared memory" in plan and rows > 4
    else:
        assert plan.blocks == batch * math.ceil(ROWS / rows) <= 108


@pytest.mark.parametrize("batch", range(1, 129))
def test_128_blocks_or_fewer_train_on_an_h200(batch):
    """Its 132 SMs, and those of an H100, are more than a launch has blocks: published records have these."""
    shape, rows = replace(CNN, batch=batch), math.ceil(ROWS / max(1, min(ROWS, 128 // batch)))
    parts = math.ceil(ROWS / rows)
    plan = plan_for(shape)
    if not isinstance(plan, str):
        assert plan.blocks == batch * parts
        assert plan == plan_for(shape, DeviceCapability(128, 232448, (9, 0)))
    assert shape.elements(1)[-1] == Layout(shape, parts).workspace


@pytest.mark.parametrize(
    ("reason", "changes", "limits"),
    [
        ("compute capability 7.5, TF32 needs 8.0", {}, T4),
        ("109 blocks would run together, the device has 108 SMs", {"batch": 109}, A100),
        ("bytes of shared memory, the device has 166912", {"batch": 64}, A100),
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
        ("its layers are conv2d, linear", {"layers": "conv2d 2 3,linear 10"}),
    ],
)
def test_another_network_is_trained_by_a_graph_and_the_plan_says_why(reason, changes):
    if "layers" in changes:
        changes = {"layers": tuple(map(parse, changes["layers"].split(",")))}
    network = replace(network_of(CNN), **changes)
    with pytest.raises(Unsupported, match=re.escape(reason)):
        convolutional_shape(network, 64)
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
    for limits in (H200, FEW):
        plan = plan_for(shape, limits)
        layout = Layout(shape, int(dict(plan.defines)["PARTS"]))
        assert layout.shared_bytes == plan.shared_bytes
        constants = cuda_on_cpu.load(ROOT / SOURCE, **dict(plan.defines))
        assert layout.shared_bytes == constants["shared_bytes"]
        assert layout.workspace == constants["workspace_floats"] <= shape.elements(1)[-1]


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
    strategies = OneLaunch(CpuBackend(), convolutional_shape), Resident(CpuBackend())
    found, expected = (trained_by(strategy, shape, X, Y, weights) for strategy in strategies)
    assert strategies[0].plan == "NumPy, all epochs in one call"
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_one_launch_frees_what_it_held(random):
    shape = SMALL["square"]
    X, _, Y, weights = made(shape, 3, random)
    strategy = OneLaunch(ObservedBackend(CpuBackend()), convolutional_shape)
    strategy.setup(network_of(shape), X.reshape(3, -1), Y, shape.batch, 0.1)
    strategy.load(weights)
    strategy.epoch()
    strategy.close()
    strategy.backend.live.check_nothing_held()
