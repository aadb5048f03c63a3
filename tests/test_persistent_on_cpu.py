"""The kernels of whole trainings, on the CPU by cuda_on_cpu, against the NumPy op and a float64 oracle."""

from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from conftest import further
from emulated_launch import faulty, launched
from oracle import train

from snn.backends.cpu import trainings
from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches import DeviceCapability, LaunchConfiguration, Steps, TrainingLaunch, padded
from snn.backends.launches.linear import PerceptronShape
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.strategies import one_launch
from snn.strategies.one_launch import OneLaunch, in_batches

pytestmark = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")

H200, TURING = DeviceCapability(132, 227 * 1024, (9, 0)), DeviceCapability(40, 64 * 1024, (7, 5))
SMALL = DeviceCapability(20, 227 * 1024, (8, 0))
RATE = np.float32(0.01)


def plan_for(shape, limits, kernel):
    found = [
        one
        for one in shape.configurations(limits)
        if isinstance(one, LaunchConfiguration) and one.kernel == kernel
    ]
    return found[-1]  # of clusters the smallest, which is the most for each block to do


def by_the_oracle(shape, buffers, steps):
    trainings.train(shape, [buffer.reshape(-1) for buffer in buffers], steps)


def made(layers, batch, rows, epochs, order, clip, random):
    X = random.uniform(-1, 1, (rows, layers[0])).astype(np.float32)
    Y = (np.square(X).sum(axis=1, keepdims=True) + random.normal(0, 0.1, (rows, 1))).astype(np.float32)
    weights = draw_weights(mlp(layers, init="he_uniform", update_order=order, clip_norm=clip), GlibcRandom(3))
    widths = tuple(map(padded, layers[:-1]))
    shape = PerceptronShape(widths, batch, order == "sequential", clip is not None)
    W = np.concatenate(
        [
            in_batches(matrix, len(matrix), k_n[1], k_n[0])[0, : k_n[0]].ravel()
            for matrix, k_n in zip(weights, zip(widths, (*widths[1:], 1), strict=True), strict=True)
        ]
    )
    sizes = shape.elements(rows)
    assert len(W) == sizes[2]
    E, S = np.full(sizes[3], np.nan, np.float32), np.full(sizes[4], np.nan, np.float32)
    S[:32] = 0  # the head
    buffers = [
        in_batches(X, batch, widths[0], padded(batch)),
        in_batches(Y, batch, 1, padded(batch)),
        W,
        E,
        S,
    ]
    return X, Y, weights, buffers, shape, Steps(rows, 0, epochs * -(-rows // batch), RATE, clip or 0.0)


# kernel, layers, batch, rows, order, clip, epochs. A shape that two tests have is built once.
TRAININGS = [
    ("one_layer", (20, 24, 1), 32, 70, "sequential", None, 2),
    ("one_layer", (31, 45, 1), 150, 333, "sequential", None, 2),
    ("one_layer", (7, 100, 1), 100, 1001, "sequential", None, 2),
    ("one_layer", (32, 70, 1), 256, 300, "sequential", None, 2),
    ("one_layer", (40, 12, 1), 256, 300, "sequential", None, 2),
    ("one_layer", (1, 1, 1), 1, 3, "sequential", None, 2),
    ("one_layer", (13, 200, 1), 140, 300, "sequential", None, 2),  # in two parts
    # Two hidden layers that divide evenly, with more rows than neurons and the other way round.
    further("two_layers", (20, 60, 64, 1), 70, 100, "sequential", None, 2),
    ("two_layers", (32, 64, 190, 1), 33, 50, "sequential", 0.5, 2),
    further("two_layers", (9, 128, 62, 1), 64, 100, "simultaneous", None, 1),
    ("two_layers", (9, 128, 62, 1), 64, 100, "simultaneous", 0.5, 1),
    # Some have blocks without columns of the first layer to update, some more than two.
    ("three_layers", (20, 120, 120, 250, 1), 20, 30, "sequential", None, 2),
    further("three_layers", (9, 250, 256, 256, 1), 64, 100, "sequential", None, 1),
    further("three_layers", (9, 120, 380, 250, 1), 90, 90, "sequential", None, 1),
    ("three_layers", (20, 120, 120, 250, 1), 20, 30, "sequential", 0.5, 1),
    ("three_layers", (9, 250, 256, 256, 1), 64, 100, "simultaneous", 0.5, 1),
    further("three_layers", (20, 120, 120, 250, 1), 20, 30, "simultaneous", None, 1),
    # Every depth, both orders, with clipping and without; further ones are left to `make kernels`.
    ("grid", (20, 24, 1), 32, 70, "sequential", 0.5, 2),
    ("grid", (20, 24, 1), 32, 70, "simultaneous", None, 2),
    further("grid", (20, 24, 40, 1), 32, 70, "sequential", None, 2),
    ("grid", (20, 24, 40, 1), 32, 70, "simultaneous", 0.5, 2),
    further("grid", (33, 24, 40, 17, 1), 40, 90, "sequential", None, 2),
    ("grid", (33, 24, 40, 17, 1), 40, 90, "sequential", 0.5, 2),
    further("grid", (33, 24, 40, 17, 1), 40, 90, "simultaneous", None, 2),
    further("grid", (33, 24, 40, 17, 1), 40, 90, "simultaneous", 0.5, 2),
    ("grid", (1, 1, 1, 1), 1, 5, "sequential", None, 2),
]


@pytest.mark.parametrize("kernel, layers, batch, rows, order, clip, epochs", TRAININGS)
def test_a_kernel_trains_as_the_oracle(kernel, layers, batch, rows, order, clip, epochs, random):
    limits = SMALL if kernel == "grid" else H200
    check(kernel, limits, layers, batch, rows, order, clip, random, epochs)


def test_the_grid_trains_without_tensor_cores(random):
    check("grid", TURING, (33, 24, 40, 1), 40, 90, "sequential", 0.5, random, __CUDA_ARCH__=750)


def two_clusters_of_two(plan):
    defines = dict(plan.defines) | {"CLUSTER": "2", "CLUSTERS": "2"}
    return replace(plan, blocks=4, cluster=2, clusters=2, defines=tuple(defines.items()))


def in_one_block(plan):
    defines = dict(plan.defines) | {"CLUSTER": "1", "PARTS": "1"}
    return replace(plan, blocks=1, cluster=1, defines=tuple(defines.items()))


@pytest.mark.parametrize(
    "change, layers, batch, rows",
    [
        (in_one_block, (60, 30, 1), 70, 150),  # all the weights that its registers hold
        (in_one_block, (30, 60, 1), 140, 300),
        (two_clusters_of_two, (9, 100, 1), 60, 200),
    ],
)
def test_clusters_of_other_sizes_train_as_the_oracle(change, layers, batch, rows, random):
    check("one_layer", H200, layers, batch, rows, "sequential", None, random, change=change)


def unpadded(expected, W):
    """The matrices in W, without their padding, which is zero."""
    at = 0
    for i, matrix in enumerate(expected):
        k, n = padded(matrix.shape[0]), padded(matrix.shape[1]) if i < len(expected) - 1 else 1
        found = W[at : at + k * n].reshape(k, n)
        at += k * n
        assert not found[matrix.shape[0] :].any() and not found[:, matrix.shape[1] :].any()
        yield found[: matrix.shape[0], : matrix.shape[1]]


def check(
    kernel, limits, layers, batch, rows, order, clip, random, epochs=2, change=lambda plan: plan, **further
):
    X, Y, weights, buffers, shape, steps = made(layers, batch, rows, epochs, order, clip, random)
    if kernel == "one_layer":
        buffers[4].fill(0)  # what clusters tell each other says when it was written
    by_numpy = [buffer.copy() for buffer in buffers]
    plan = change(plan_for(shape, limits, kernel))
    launched(plan, buffers, steps, **further)
    expected, loss = train(
        weights, X, Y, epochs=epochs, batch_size=batch, rate=RATE, update_order=order, clip_norm=clip
    )
    by_the_oracle(shape, by_numpy, steps)
    last = rows % batch or batch
    for W, E in ((buffers[2], buffers[3]), (by_numpy[2], by_numpy[3])):
        np.testing.assert_allclose(np.mean(np.square(E[:last])), loss, rtol=5e-6)
        for found, matrix in zip(unpadded(expected, W), expected, strict=True):
            assert np.linalg.norm(found - matrix) < 1e-6 * np.linalg.norm(matrix)


@pytest.mark.parametrize(
    "kernel, layers, batch, rows, clip",
    [
        ("one_layer", (20, 24, 1), 32, 70, None),
        ("one_layer", (13, 200, 1), 140, 300, None),
        ("two_layers", (32, 64, 190, 1), 33, 50, 0.5),
        ("three_layers", (20, 120, 120, 250, 1), 20, 30, None),
        ("grid", (20, 24, 1), 32, 70, 0.5),
    ],
)
def test_what_is_not_a_number_ends_as_such(kernel, layers, batch, rows, clip, random):
    *_, buffers, shape, steps = made(layers, batch, rows, 1, "sequential", clip, random)
    buffers[0][0, 3, 2] = np.nan
    launched(plan_for(shape, SMALL if kernel == "grid" else H200, kernel), buffers, steps)
    assert np.isnan(buffers[3][: rows % batch]).all()


@pytest.mark.parametrize(
    "features, targets, rate", [(2.0**20, 2.0**20, 0.01), (2.0**-20, 2.0**-20, 0.01), (1.0, 2.0**20, 0.002)]
)
def test_three_layers_scale_numbers_far_outside_the_range_of_fp16(features, targets, rate, random):
    layers, batch, rows = (20, 120, 120, 250, 1), 20, 30
    X, Y, weights, buffers, shape, steps = made(layers, batch, rows, 1, "sequential", None, random)
    X, Y = X * np.float32(features), Y * np.float32(targets)
    buffers[0] *= np.float32(features)
    buffers[1] *= np.float32(targets)
    rate = np.float32(rate / (features * max(features, targets)))
    launched(plan_for(shape, H200, "three_layers"), buffers, steps._replace(rate=rate))
    expected, loss = train(weights, X, Y, epochs=1, batch_size=batch, rate=rate)
    np.testing.assert_allclose(np.mean(np.square(buffers[3][: rows % batch])), loss, rtol=5e-6)
    for found, matrix, before in zip(unpadded(expected, buffers[2]), expected, weights, strict=True):
        assert np.linalg.norm(found - matrix) < 1e-6 * np.linalg.norm(matrix)
        assert np.linalg.norm(found - matrix) < 1e-4 * np.linalg.norm(matrix - before)


def test_three_layers_that_diverge_do_so_after_the_same_step_as_numpy(random):
    """From the paper's weights, uniform in [0, 1), predictions are huge at first and then not numbers."""
    finite = []
    for rows in (20, 40, 60):
        *_, buffers, shape, steps = made((20, 120, 120, 250, 1), 20, rows, 1, "sequential", None, random)
        buffers[2][:] = np.where(buffers[2], random.uniform(0, 1, buffers[2].shape), 0)
        by_numpy = [buffer.copy() for buffer in buffers]
        launched(plan_for(shape, H200, "three_layers"), buffers, steps)
        with np.errstate(all="ignore"):
            by_the_oracle(shape, by_numpy, steps)
        assert np.isfinite(buffers[3][:20]).all() == np.isfinite(by_numpy[3][:20]).all()
        finite.append(bool(np.isfinite(buffers[3][:20]).all()))
        if finite[-1]:
            np.testing.assert_allclose(buffers[3][:20], by_numpy[3][:20], rtol=1e-4)
    assert finite[0] and not finite[-1]


@pytest.mark.parametrize("bits", [0x7F800000, 0xFFFFFFFF])
def test_three_layers_end_with_any_bits_of_what_is_not_a_number(bits, random):
    *_, buffers, shape, steps = made((20, 120, 120, 250, 1), 20, 30, 1, "sequential", None, random)
    for buffer in buffers[:3]:
        buffer.reshape(-1)[:3].view(np.uint32)[...] = bits
    launched(plan_for(shape, H200, "three_layers"), buffers, steps)
    assert np.isnan(buffers[3][: 30 % 20]).all()


class Emulated(CpuBackend):
    """Launches the kernels that the CUDA backend plans, of so many steps at most, on the CPU."""

    def __init__(self, most=1000):
        super().__init__()
        self.most, self.launches = most, []

    def steps_per_launch(self, shape):
        return self.most

    def training_launch(self, shape):
        kernel, limits = ("grid", SMALL) if shape.outliers else ("three_layers", H200)
        return TrainingLaunch("", plan_for(shape, limits, kernel))

    def train(self, shape, buffers, steps, stream=None):
        one = self.training_launch(shape).configuration
        launched(one, [buffer.words.view(np.float32) for buffer in buffers], steps)
        self.launches.append((one.kernel, *steps[1:3]))


def trained_by_launches(layers, batch, rows, weights, X, Y, order, epochs, most=1000, rate=RATE):
    backend = Emulated(most)
    strategy = OneLaunch(backend)
    network = mlp(layers, update_order=order)
    try:
        strategy.setup(network, X, Y, batch, float(rate))
        strategy.load(weights)
        strategy.train(epochs)
        strategy.check_trained()
        return strategy.weights(), strategy.loss(), backend.launches
    finally:
        strategy.close()


@pytest.mark.parametrize(
    "layer, scale, order",
    [
        (0, 1e-9, "sequential"),
        *(further(layer, 1e-9, "sequential") for layer in (1, 2)),
        *(further(2, scale, "sequential") for scale in (1e-3, 1e-4, 1e-5)),
        *(further(layer, 1e-9, "simultaneous") for layer in (0, 2)),
        (2, 1e-4, "simultaneous"),
    ],
)
def test_a_tiny_layer_grows_as_in_float64(layer, scale, order, random):
    """Its scale follows from the weights before, so that FP16 would not hold the new ones, or dZ_2."""
    layers, batch, rows = (20, 120, 120, 250, 1), 20, 30
    X, Y, weights, *_ = made(layers, batch, rows, 1, order, None, random)
    tiny = [W * np.float32(scale) if i == layer else W for i, W in enumerate(weights)]
    found, loss, launches = trained_by_launches(layers, batch, rows, tiny, X, Y, order, 1)
    expected, right = train(tiny, X, Y, epochs=1, batch_size=batch, rate=RATE, update_order=order)
    assert launches == [("three_layers", 0, 2), ("grid", 0, 2)]
    np.testing.assert_allclose(loss, right, rtol=5e-6)
    distance = np.linalg.norm(found[layer] - expected[layer])
    assert distance < 1e-5 * np.linalg.norm(expected[layer])


def test_a_stop_is_at_the_same_step_wherever_a_training_is_split(random, monkeypatch):
    """Targets of 0 keep W_3 tiny in the first batch; in the second it grows.

    That step is within a launch, the first of one, or the last of one.
    """
    monkeypatch.setattr(one_launch, "_AFTER_STOP", 1)
    layers, batch, rows = (20, 120, 120, 250, 1), 20, 40
    X, Y, weights, *_ = made(layers, batch, rows, 1, "sequential", None, random)
    weights[2] *= np.float32(1e-9)
    Y[:20] = 0
    once, *others = (
        trained_by_launches(layers, batch, rows, weights, X, Y, "sequential", 2, most)
        for most in (1000, 1, 2)
    )
    assert once[2] == [("three_layers", 0, 4), ("three_layers", 0, 1), ("grid", 1, 1), ("three_layers", 0, 2)]
    for other in others:
        assert all(map(np.array_equal, once[0], other[0]))
        assert [launch for launch in other[2] if launch[0] == "grid"] == [("grid", 1, 1)]
    expected, _ = train(weights, X, Y, epochs=2, batch_size=batch, rate=RATE)
    assert np.linalg.norm(once[0][2] - expected[2]) < 1e-5 * np.linalg.norm(expected[2])


def test_a_missing_barrier_of_the_grid_is_a_race(tmp_path, random):
    *_, buffers, shape, steps = made((20, 24, 40, 1), 32, 70, 1, "sequential", None, random)
    plan = plan_for(shape, SMALL, "grid")
    broken = faulty(plan.source, "cuda_on_cpu::grid_barrier();", "__syncthreads();", tmp_path)
    with pytest.raises(cuda_on_cpu.KernelError, match="a race"):
        launched(plan, buffers, steps, broken)
