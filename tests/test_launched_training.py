"""Trainings split into launches: the same bits wherever they are split, and steps that the device counts."""

import convolutional_shapes
import layered_shapes
import numpy as np
import pytest
import test_layered_launch
from conftest import ROOT
from emulated_launch import emulated
from hypothesis import example, given
from hypothesis import strategies as st
from test_persistent_on_cpu import H200, SMALL, launched, made, plan_for, pytestmark, two_clusters_of_two

from snn.backends import trainings
from snn.backends.cpu import ops
from snn.backends.persistent_plans import HEAD, Shape
from snn.backends.trainings import MOST_STEPS, TRAINED, launches, steps_within
from snn.errors import Unsupported

on_cpu = pytestmark
RATE = 0.05

# ---- which steps a launch trains


@given(steps=st.integers(1, 1 << 40), batches=st.integers(1, 1 << 20), most=st.integers(1 << 22, MOST_STEPS))
@example(1_000_000 * 5_000, 5_000, MOST_STEPS)  # a million epochs of 40,000 rows in batches of 8
@example(7, 3, 2)
def test_launches_go_on_where_the_last_one_ended(steps, batches, most):
    trained = 0
    for first, of_launch in launches(steps, batches, most):
        assert first == trained % batches
        assert 1 <= of_launch <= most and first + of_launch < 1 << 31
        assert first == 0 or most < batches
        trained += of_launch
    assert trained == steps


def test_a_training_that_fits_is_one_launch():
    assert list(launches(1000, 10, 1000)) == [(0, 1000)]
    assert list(launches(1000, 10, 999)) == [(0, 990), (0, 10)]
    assert list(launches(5, 10, 2)) == [(0, 2), (2, 2), (4, 1)]


@pytest.mark.parametrize("step", [1e-7, 2e-6, 3e-3, 0.4, 5.0])
def test_a_launch_is_no_longer_than_it_may_be(step):
    """Nor is any that finds out how long a step takes, unless it is of one step."""
    asked = []

    def timed(steps):
        asked.append(steps)
        return 1e-5 + steps * step

    found = steps_within(0.7, timed)
    assert found == 1 or 0.5 < found * step <= 0.7
    assert asked[0] == 1 and max(asked) * step < max(0.05, 1.01 * step)


def test_a_device_that_raises_its_clocks_is_measured_when_it_has():
    times = iter([9.0, 0.02, 0.015, 0.01, 0.01])
    assert steps_within(1.0, lambda steps: next(times)) == 100


def test_a_device_with_a_time_limit_gets_launches_of_half_the_time():
    assert trainings.launch_seconds(True) == trainings.launch_seconds(False) / 2 < 1


@pytest.mark.parametrize("size", [-1, 1 << 31, 1 << 32, 5_000_000_000])
def test_a_size_that_does_not_fit_a_kernels_int_is_not_cut(size):
    with pytest.raises(Unsupported, match=f"rows is {size}"):
        trainings.checked("rows", size)
    assert trainings.checked("rows", (1 << 31) - 1) == (1 << 31) - 1


# ---- the bits of a split training


PERCEPTRONS = {
    "cluster": ("one_layer", (20, 24, 1), 32, 70, "sequential", None),
    "cluster in parts": ("one_layer", (13, 200, 1), 140, 300, "sequential", None),
    "clusters": ("one_layer", (9, 100, 1), 60, 200, "sequential", None),
    "two layers": ("two_layers", (20, 60, 64, 1), 33, 80, "sequential", None),
    "two layers clipped": ("two_layers", (20, 60, 64, 1), 33, 80, "sequential", 0.5),
    "two layers at once": ("two_layers", (20, 60, 64, 1), 33, 80, "simultaneous", 0.5),
    "three layers": ("three_layers", (20, 120, 120, 250, 1), 20, 50, "sequential", None),
    "three layers clipped": ("three_layers", (20, 120, 120, 250, 1), 20, 50, "sequential", 0.5),
    "three layers at once": ("three_layers", (20, 120, 120, 250, 1), 20, 50, "simultaneous", None),
    "three layers at once clipped": ("three_layers", (20, 120, 120, 250, 1), 20, 50, "simultaneous", 0.5),
    "grid of one layer": ("grid", (20, 24, 1), 32, 70, "sequential", 0.5),
    "grid of one layer at once": ("grid", (20, 24, 1), 32, 70, "simultaneous", 0.5),
    "grid": ("grid", (33, 24, 40, 17, 1), 40, 90, "sequential", None),
    "grid clipped": ("grid", (33, 24, 40, 17, 1), 40, 90, "sequential", 0.5),
    "grid at once": ("grid", (33, 24, 40, 17, 1), 40, 90, "simultaneous", None),
    "grid at once clipped": ("grid", (33, 24, 40, 17, 1), 40, 90, "simultaneous", 0.5),
}
STEPS = 7  # of epochs of three batches, or four
SPLITS = [(1, 6), (2, 3, 2), (3, 3, 1), (1,) * 7]  # in the middle of an epoch and at its end; odd and even


def check_splits(train, buffers, batches, state):
    """``train(buffers, first, steps)``; ``state``: which of the buffers stay."""
    once = [buffer.copy() for buffer in buffers]
    train(once, 0, STEPS)
    for split in SPLITS:
        again, done = [buffer.copy() for buffer in buffers], 0
        for steps in split:
            train(again, done % batches, steps)
            done += steps
        for which in state:
            np.testing.assert_array_equal(again[which], once[which], err_msg=str(split))
        assert trained(again[-1]) == trained(once[-1]) == STEPS


def trained(workspace):
    return int(workspace.reshape(-1)[TRAINED].view(np.uint64)[0])


@on_cpu
@pytest.mark.parametrize("name", PERCEPTRONS)
def test_a_perceptron_ends_with_the_same_bits_wherever_it_is_split(name, random):
    kernel, layers, batch, rows, order, clip = PERCEPTRONS[name]
    *_, buffers, numbers = made(layers, batch, rows, 1, order, clip, random)
    plan = plan_for(Shape.of(numbers), SMALL if kernel == "grid" else H200, kernel)
    if name == "clusters":
        plan = two_clusters_of_two(plan)
    if kernel == "one_layer":
        buffers[4].fill(0)
    buffers[3].fill(0)  # what padding rows have is nobody's

    def train(own, first, steps):
        launched(plan, own, (*numbers[:2], first, steps, *numbers[4:]))

    batches = -(-rows // batch)
    check_splits(train, buffers, batches, [2])
    by_numpy = [buffer.reshape(-1) for buffer in buffers]
    check_splits(
        lambda own, first, steps: ops.train(*own, *numbers[:2], first, steps, *numbers[4:]),
        *(by_numpy, batches, [2]),
    )


@on_cpu
@pytest.mark.parametrize("name", ["classifier", "in turn", "deep", "regression"])
def test_so_does_a_stack_of_layers(name, random):
    one = layered_shapes.SHAPES[name]
    rows = 2 * one.batch + 5
    X, _, Y, weights = test_layered_launch.made(one, rows, random)
    plan = layered_shapes.plan_for(one)

    def train(own, first, steps):
        emulated(plan, own, rows, first, steps, RATE, ROOT / plan.source)

    check_splits(train, test_layered_launch.buffers_of(one, X, Y, weights), 3, [2, 3])


@on_cpu
@pytest.mark.parametrize("name", ["square", "uneven"])
def test_so_does_a_convolutional_network(name, random):
    shape = convolutional_shapes.SMALL[name]
    rows = 2 * shape.batch + 1
    X, _, Y, weights = convolutional_shapes.made(shape, rows, random)
    plan = convolutional_shapes.plan_for(shape)

    def train(own, first, steps):
        emulated(plan, own, rows, first, steps, RATE, ROOT / plan.source)

    buffers = convolutional_shapes.buffers_of(shape, X, Y, weights)
    check_splits(train, buffers, 3, range(2, 9))


@on_cpu
def test_the_device_counts_beyond_32_bits(random):
    *_, buffers, numbers = made((20, 24, 1), 32, 70, 1, "sequential", None, random)
    for train in (
        lambda: launched(plan_for(Shape.of(numbers), H200, "one_layer"), buffers, numbers),
        lambda: ops.train(*(buffer.reshape(-1) for buffer in buffers), *numbers),
    ):
        buffers[4][:HEAD].view(np.uint32)[:] = 0, 0, (1 << 32) - 1, 5
        train()
        assert trained(buffers[4]) == (6 << 32) + 2
