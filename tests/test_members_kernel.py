"""The kernel whose blocks each train one network with one hidden layer, on the CPU by cuda_on_cpu."""

from copy import copy
from dataclasses import dataclass, replace

import cuda_on_cpu
import numpy as np
import pytest
from emulated_launch import launched
from oracle import train

from snn.backends.launches import DeviceCapability, LaunchConfiguration, Steps, padded
from snn.backends.launches.linear import PerceptronShape
from snn.models.glibc_random import GlibcRandom
from snn.models.members import MemberArrays
from snn.models.network import draw_weights, mlp
from snn.strategies.one_launch import in_batches

by_emulation = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")

H200 = DeviceCapability(132, 227 * 1024, (9, 0))


@dataclass(frozen=True)
class Preferred(PerceptronShape):
    """Trained by its first launch, even if another one takes less time for so few members."""

    def configurations(self, device):
        yield next(iter(super().configurations(replace(device, multiprocessors=1))))


class Members:
    """Networks of one shape on the same random rows, each with its own weights and learning rate."""

    def __init__(self, layers, batch, rows, order, random, rates=(0.01, 0.02), scales=(1.0, 1.0)):
        self.order, self.batch, self.rates = order, batch, np.float32(rates)
        self.X = random.uniform(-1, 1, (rows, layers[0])).astype(np.float32) * np.float32(scales[0])
        Y = np.square(self.X / np.float32(scales[0])).mean(axis=1, keepdims=True) + random.normal(
            0, 0.1, (rows, 1)
        )
        self.Y = Y.astype(np.float32) * np.float32(scales[1])
        network = mlp(layers, init="he_uniform", update_order=order)
        self.weights = [draw_weights(network, GlibcRandom(3 + i)) for i in range(len(rates))]
        self.widths = tuple(map(padded, layers[:-1]))
        largest = float(np.abs(self.X).max())
        self.shape = Preferred(self.widths, batch, order == "sequential", False, len(rates), largest=largest)
        pairs = list(zip(self.widths, (*self.widths[1:], 1), strict=True))
        W = [
            in_batches(matrix, len(matrix), n, k)[0, :k].ravel()
            for one in self.weights
            for matrix, (k, n) in zip(one, pairs, strict=True)
        ]
        sizes = self.shape.elements(rows)
        self.steps = Steps(rows, 0, 0, 0.0)
        its = MemberArrays(self.rates, None, None, None)
        self.buffers = [
            in_batches(self.X, batch, self.widths[0], padded(batch)),
            in_batches(self.Y, batch, 1, padded(batch)),
            np.concatenate(W),
            np.full(sizes[3], np.nan, np.float32),
            self.shape.workspace(sizes[4], its, self.steps),
        ]

    def train(self, number, first=0):
        (launch,) = self.shape.configurations(H200)
        assert isinstance(launch, LaunchConfiguration) and launch.kernel == "members", launch
        launched(launch, self.buffers, self.steps._replace(first=first, number=number))

    def train_on(self, backend, number):
        import cupy

        assert backend.training_launch(self.shape).configuration.kernel == "members"
        there = [cupy.asarray(buffer.reshape(-1)) for buffer in self.buffers]
        backend.train(self.shape, tuple(one.data.ptr for one in there), self.steps._replace(number=number))
        self.buffers = [cupy.asnumpy(one) for one in there]

    @property
    def batches(self):
        return -(-len(self.X) // self.batch)

    def check(self, epochs, tolerance=1e-6):
        of_member = np.split(self.buffers[2], len(self.rates))
        errors = np.split(self.buffers[3], len(self.rates))
        last = len(self.X) % self.batch or self.batch
        how = {"epochs": epochs, "batch_size": self.batch, "update_order": self.order}
        for weights, rate, W, E in zip(self.weights, self.rates, of_member, errors, strict=True):
            expected, loss = train(weights, self.X, self.Y, rate=rate, **how)
            np.testing.assert_allclose(np.mean(np.square(E[:last])), loss, rtol=5 * tolerance)
            features, hidden = self.widths
            found = (
                W[: features * hidden].reshape(features, hidden),
                W[features * hidden :].reshape(hidden, 1),
            )
            for matrix, here, before in zip(expected, found, weights, strict=True):
                k, n = matrix.shape
                assert not here[k:].any() and not here[:, n:].any()
                off, moved = np.linalg.norm(here[:k, :n] - matrix), np.linalg.norm(matrix - before)
                assert off < tolerance * max(np.linalg.norm(matrix), np.linalg.norm(before))
                assert off < 100 * tolerance * moved


@by_emulation
@pytest.mark.parametrize(
    "layers, batch, rows, order",
    [
        ((32, 64, 1), 64, 150, "sequential"),  # a warp
        ((20, 24, 1), 32, 70, "simultaneous"),  # 24 neurons in two tiles
        ((7, 100, 1), 100, 333, "sequential"),  # two warps, chunks of 16 rows
        ((13, 200, 1), 96, 200, "simultaneous"),  # four warps
        ((60, 90, 1), 33, 70, "sequential"),  # two tiles in each warp
        ((32, 100, 1), 32, 80, "sequential"),  # one chunk, two warps
        ((40, 12, 1), 48, 100, "sequential"),
        ((1, 1, 1), 1, 3, "sequential"),
    ],
)
def test_members_train_as_the_oracle(layers, batch, rows, order, random):
    members = Members(layers, batch, rows, order, random)
    members.train(2 * members.batches)
    members.check(2)


@by_emulation
def test_a_run_has_the_same_bits_however_it_is_split():
    whole, split = (Members((20, 70, 1), 32, 70, "sequential", np.random.default_rng(5)) for _ in range(2))
    whole.train(5)
    split.train(2)
    split.train(3, first=2)
    for one, other in zip(whole.buffers[2:4], split.buffers[2:4], strict=True):
        assert one.tobytes() == other.tobytes()


@by_emulation
def test_a_member_ends_with_the_same_bits_in_any_company(random):
    seed = random.integers(1 << 30)
    several, two = (
        Members((20, 70, 1), 32, 70, "sequential", np.random.default_rng(seed), rates)
        for rates in ((0.01, 1e30, 0.02), (0.01, 0.005))
    )
    for one in (several, two):
        one.train(4)
    for i in (2, 3):
        of_several, of_two = np.split(several.buffers[i], 3), np.split(two.buffers[i], 2)
        assert of_several[0].tobytes() == of_two[0].tobytes()
    assert np.isfinite(np.split(several.buffers[2], 3)[2]).all()
    assert not np.isfinite(np.split(several.buffers[3], 3)[1][: 70 % 32]).all()


@by_emulation
@pytest.mark.parametrize("scales", [(2.0**20, 2.0**20), (2.0**-20, 2.0**-20), (1.0, 2.0**40)])
def test_numbers_far_outside_the_range_of_fp16_are_scaled(scales, random):
    rates = np.float32([0.01, 0.02]) / np.float32(scales[0]) ** 2
    rates = rates * np.float32(min(1.0, scales[0] / scales[1]))
    members = Members((20, 24, 1), 32, 70, "sequential", random, rates, scales)
    members.train(2)
    members.X, members.Y = members.X[:64], members.Y[:64]  # all rows but the last batch
    members.check(1)


@by_emulation
@pytest.mark.parametrize("layers", [(20, 24, 1), (20, 100, 1)])
def test_errors_that_grow_within_a_batch_are_scaled(layers, random):
    members = Members(layers, 96, 96, "sequential", random, (1e-7, 2e-7))
    members.Y[40:64] *= np.float32(1e6)
    members.buffers[1] = in_batches(members.Y, 96, 1, 96)
    members.train(3)
    members.check(3)


@by_emulation
def test_rows_of_padding_after_large_errors_change_no_scale(random):
    rates = np.array([0.01, 0.02]) / 2.0**60
    members = Members((20, 24, 1), 96, 100, "sequential", random, rates, (1.0, 2.0**60))
    members.train(2)  # the second batch has four rows, and two chunks without any
    members.check(1)


@by_emulation
def test_sums_over_most_rows_lose_few_bits(random):
    """Tensor cores cut off what does not fit a sum, always towards 0 if all numbers are positive."""
    members = Members((16, 16, 1), 256, 256, "sequential", random)
    members.X, members.weights = np.abs(members.X), [[*map(np.abs, one)] for one in members.weights]
    members.buffers[0] = in_batches(members.X, 256, 16, 256)
    members.buffers[2] = np.concatenate([matrix.ravel() for one in members.weights for matrix in one])
    members.train(1)
    members.check(1, tolerance=4e-6)


@by_emulation
@pytest.mark.parametrize("hidden", [24, 100])
def test_what_is_not_a_number_ends_as_such(hidden, random):
    members = Members((20, hidden, 1), 32, 70, "sequential", random)
    members.buffers[0][0, 3, 2] = np.nan
    members.train(members.batches)
    errors = np.split(members.buffers[3], 2)
    assert all(np.isnan(E[: 70 % 32]).all() for E in errors)


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"outliers": True}, "over 4096 times the mean"),
        ({"batch": 257}, "batches of 257 rows, 256 at most"),
        ({"sequential": False}, "8 networks that update simultaneously"),
        ({"widths": (80, 64)}, "80 features, 64 at most"),
        ({"widths": (32, 528)}, "528 hidden neurons, 512 at most"),
        ({"widths": (64, 272)}, "272 hidden neurons, 256 at most"),
        ({"widths": (32, 64, 64)}, "one hidden layer"),
        ({"clipped": True}, "without clipping"),
    ],
)
def test_members_that_it_cannot_train_are_left_to_others(change, reason):
    shape = replace(PerceptronShape((32, 64), 64, True, False, 8), **change)
    first = next(iter(shape.configurations(H200)))
    assert isinstance(first, str) and reason in first


@pytest.mark.parametrize(
    "device, widths, reason",
    [
        (DeviceCapability(84, 99 * 1024, (8, 6)), (32, 512), "151040 bytes of shared memory"),
        (DeviceCapability(108, 163 * 1024, (8, 0)), (64, 256), "167424 bytes of shared memory"),
        (DeviceCapability(40, 64 * 1024, (7, 5)), (32, 64), "compute capability 7.5"),
        (DeviceCapability(84, 99 * 1024, (8, 6)), (32, 256), None),
    ],
)
def test_members_that_do_not_fit_a_block_are_left_to_others(device, widths, reason):
    first = next(iter(PerceptronShape(widths, 256, True, False, 500).configurations(device)))
    assert reason in first if reason else first.kernel == "members"


@pytest.mark.gpu
@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("batch, rows", [(256, 2560), (97, 1000), (32, 333)])
@pytest.mark.parametrize(
    "layers", [(32, 64, 1), (31, 300, 1), (7, 45, 1), (60, 200, 1), (16, 512, 1), (1, 1, 1)]
)
def test_after_a_hundred_steps_on_a_gpu_the_weights_are_the_oracles(
    layers, batch, rows, order, cuda_backend, random
):
    members = Members(layers, batch, rows, order, random, (0.01, 0.005, 0.02))
    again = copy(members)
    members.train_on(cuda_backend, 10 * members.batches)
    again.train_on(cuda_backend, 10 * members.batches)
    for one, other in zip(members.buffers[2:4], again.buffers[2:4], strict=True):
        assert one.tobytes() == other.tobytes()
    members.check(10, tolerance=1e-5)
