"""A convolutional network's training in one launch against the oracle, on the CPU and on a GPU."""

from contextlib import closing
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import one_step
import pytest
from conftest import further
from convolutional_shapes import (
    CNN,
    COLOUR,
    FEW,
    FURTHER,
    H200,
    SMALL,
    buffers_of,
    check,
    launched,
    made,
    network_of,
    on_cpu,
    oracle,
)
from emulated_launch import faulty
from layered_shapes import steps_of

from snn.backends.cpu import trainings
from snn.backends.launches import Steps
from snn.backends.launches.convolution import SOURCE
from snn.strategies.one_launch import Persistent

LONG = {
    "fifty steps": (replace(SMALL["square"], height=8, width=8), 17),
    "one": (SMALL["one"], 17),
    **{name: (FURTHER[name], 3) for name in FURTHER},
    **{name: (SMALL[name], 2) for name in ("uneven", "threes", "unpooled")},
}
"""Epochs of three batches: with more, rounding would decide units of this data."""

# ---- the kernel, on the CPU


@on_cpu
@pytest.mark.parametrize(
    ("name", "limits"),
    [
        *((name, H200) for name in SMALL),
        *((name, FEW) for name in ("square", "uneven")),
        *(further(name, FEW) for name in ("threes", "unpooled", "one")),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.multiprocessors} SMs",
)
def test_the_kernel_and_numpy_train_as_the_oracle(name, limits, random):
    shape, rate = SMALL[name], 0.05
    rows, epochs = shape.batch + 1, 1
    X, labels, Y, weights = made(shape, rows, random)
    buffers, by_numpy = (buffers_of(shape, X, Y, weights) for _ in range(2))
    steps = Steps(rows, 0, epochs * 2, rate)
    launched(shape, buffers, rows, epochs, rate, limits=limits)
    trainings.train(shape, by_numpy, steps)
    expected, losses = oracle(shape, X, labels, weights, epochs, rate)
    for found in (buffers, by_numpy):
        check(shape, found[2:8], found[8], rows, expected, losses, 3e-6)
    exactly = [buffer.astype(np.float64) for buffer in buffers_of(shape, X, Y, weights)]
    trainings.train(shape, exactly, steps)
    check(shape, exactly[2:8], exactly[8], rows, expected, losses, 1e-7)  # what one_step rests on


@on_cpu
@pytest.mark.parametrize("name", FURTHER)
def test_so_they_do_with_other_optimizers_and_orders(name, random):
    shape, rate, epochs = FURTHER[name], 0.02, 2
    rows = shape.batch + 1
    X, labels, Y, weights = made(shape, rows, random)
    buffers, by_numpy = (buffers_of(shape, X, Y, weights) for _ in range(2))
    launched(shape, buffers, rows, epochs, rate)
    trainings.train(shape, by_numpy, steps_of(shape, rows, epochs, rate))
    expected, losses = oracle(shape, X, labels, weights, epochs, rate)
    for found in (buffers, by_numpy):
        check(shape, found[2:8], found[-2], rows, expected, losses, 1e-5)


@on_cpu
@pytest.mark.parametrize("steps", [0, 40])
@pytest.mark.parametrize("name", SMALL)
def test_each_gradient_is_float64s_but_for_rounding(name, steps, random):
    shape = SMALL[name]
    X, _, Y, weights = made(shape, 4 * shape.batch, random)
    state = one_step.state_after(shape, X, Y, weights, steps)
    X, Y = one_step.batch_of(shape, X, state)
    buffers = buffers_of(shape, X, Y, state)
    launched(shape, buffers, len(X), 1, one_step.RATE)
    one_step.check(shape, X, Y, state, buffers[2:8], buffers[8].mean())


@on_cpu
@pytest.mark.parametrize(
    ("line", "instead"),
    [
        further("for (int which = 2; which >= 0; --which)", "for (int which = 1; which >= 0; --which)"),
        ("small[i] = __float_as_uint(x - __uint_as_float(big[i]))", "small[i] = 0"),
        further("value.y > 0.0f ? sum[i][c][2 * half + 1] : 0.0f", "sum[i][c][2 * half + 1]"),
        further("tap == TAPS1 ? 1.0f : 0.0f", "tap == TAPS1 ? 1.00001f : 0.0f"),
    ],
    ids=["two products", "one product", "a ReLU", "a bias"],
)
def test_an_error_of_a_hundred_thousandth_is_seen(line, instead, tmp_path, random):
    shape = SMALL["square"]
    X, _, Y, weights = made(shape, 4 * shape.batch, random)
    X, Y = one_step.batch_of(shape, X, weights)
    buffers = buffers_of(shape, X, Y, weights)
    launched(shape, buffers, len(X), 1, one_step.RATE, faulty(SOURCE, line, instead, tmp_path))
    with pytest.raises(AssertionError):
        one_step.check(shape, X, Y, weights, buffers[2:8], buffers[8].mean())


@on_cpu
def test_many_steps_are_the_oracles(random):
    shape, epochs = LONG["fifty steps"][0], 7
    X, labels, Y, weights = made(shape, 5, random)
    buffers = buffers_of(shape, X, Y, weights)
    launched(shape, buffers, 5, epochs, 0.02)
    expected, losses = oracle(shape, X, labels, weights, epochs, 0.02)
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
        ('training.barrier.wait("update", training.step);\n        training.update();', "training.update();"),
        (
            'training.forward_first();\n        training.barrier.wait("linear", training.step);',
            "training.forward_first();",
        ),
        ("training.hear_weights();\n        __syncthreads();\n", "training.hear_weights();\n"),
    ],
    ids=["before the update", "after the update", "of a block"],
)
def test_a_missing_barrier_is_a_race(line, instead, tmp_path, random):
    shape = SMALL["square"]
    X, _, Y, weights = made(shape, 4, random)
    broken = faulty(SOURCE, line, instead, tmp_path)
    with pytest.raises(cuda_on_cpu.KernelError, match="a race"):
        launched(shape, buffers_of(shape, X, Y, weights), 4, 2, 0.05, broken)


# ---- on a GPU


def trained(backend, shape, X, Y, rate, weights, epochs):
    """Parameters and the losses of the last epoch's batches, after each number of epochs in one launch."""
    with closing(Persistent(backend)) as strategy:
        strategy.setup(network_of(shape), X.reshape(len(X), -1), Y, shape.batch, rate)
        assert "blocks together" in strategy.plan
        found = []
        for each in epochs:
            strategy.load(weights)
            strategy.train(each)
            found.append([*strategy.weights(), strategy.epoch_losses()])
        return found


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*SMALL, "colour", "cnn"])
def test_each_gradient_is_float64s_but_for_rounding_on_a_gpu(name, random, cuda_backend):
    shape = (SMALL | {"colour": COLOUR, "cnn": CNN})[name]
    images, _, targets, weights = made(shape, 3 * shape.batch, random)
    for steps in (0, 3, 15, 39):
        state = one_step.state_after(shape, images, targets, weights, steps)
        X, Y = one_step.batch_of(shape, images, state)
        [(*found, losses)] = trained(cuda_backend, shape, X, Y, one_step.RATE, state, [1])
        one_step.check(shape, X, Y, state, found, np.mean(losses))


@pytest.mark.gpu
@pytest.mark.parametrize("name", LONG)
def test_many_steps_are_the_oracles_on_a_gpu(name, random, cuda_backend):
    (shape, epochs), rate = LONG[name], 0.02
    X, labels, Y, weights = made(shape, 2 * shape.batch + 1, random)
    [(*found, batches)] = trained(cuda_backend, shape, X, Y, rate, weights, [epochs])
    expected, losses = oracle(shape, X, labels, weights, epochs, rate)
    for W, exact in zip(found, expected, strict=True):
        assert np.linalg.norm(W - exact) < 1e-5 * max(np.linalg.norm(exact), 1e-3)
    np.testing.assert_allclose(batches, losses, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*SMALL, *FURTHER, "colour", "cnn"])
def test_runs_have_the_same_bits_on_a_gpu(name, random, cuda_backend):
    shape = (SMALL | FURTHER | {"colour": COLOUR, "cnn": CNN})[name]
    X, _, Y, weights = made(shape, 2 * shape.batch + 1, random)
    first, *others = trained(cuda_backend, shape, X, Y, 0.02, weights, [17] * 3)
    for other in others:
        for one, another in zip(first, other, strict=True):
            np.testing.assert_array_equal(one, another)


@pytest.mark.gpu
def test_not_a_number_ends_cleanly_on_a_gpu(random, cuda_backend):
    shape = SMALL["square"]
    X, _, Y, weights = made(shape, 4, random)
    X[1, 0, 4, 4] = np.nan
    with closing(Persistent(cuda_backend)) as strategy:
        strategy.setup(network_of(shape), X.reshape(4, -1), Y, shape.batch, 0.05)
        strategy.load(weights)
        strategy.train(3)
        assert np.isnan(strategy.loss())
