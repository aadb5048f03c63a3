"""Trainings split into launches: the same bits wherever they are split, and steps that the device counts."""

import ctypes
import os
import pty
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from importlib import import_module
from select import select
from types import SimpleNamespace

import convolutional_shapes
import layered_shapes
import numpy as np
import pytest
from conftest import ROOT, further
from emulated_launch import launched
from hypothesis import example, given
from hypothesis import strategies as st
from test_measure import JOB
from test_persistent_on_cpu import H200, SMALL, by_the_oracle, made, plan_for, two_clusters_of_two
from test_persistent_on_cpu import pytestmark as on_cpu

from snn import backends, cli
from snn.backends import launches as launches_of_kernels
from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches import MOST_STEPS, TRAINED, Steps, steps_within
from snn.backends.launches.linear import PerceptronShape
from snn.config import groups
from snn.errors import MeasurementError, Unsupported
from snn.measurement.protocol import Round
from snn.measurement.runs import count, measure
from snn.models.glibc_random import GlibcRandom
from snn.models.layers import parse
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network, draw_weights, mlp
from snn.strategies.one_launch import (
    Ensemble,
    LaunchedTraining,
    OneLaunch,
    Persistent,
    convolutional_shape,
    layered_shape,
)

RATE = 0.05

# ---- which steps a launch trains


class Recorder(SimpleNamespace):
    """A backend whose launches train nothing."""

    def steps_per_launch(self, shape):
        return self.most

    def train(self, shape, buffers, steps, stream):
        self.launches.append(steps[1:3])

    def stream_synchronize(self, stream):
        pass


def launches(epochs, batches, most):
    """The first batch and the steps of each launch."""
    backend = Recorder(most=most, launches=[])
    training = LaunchedTraining(backend, PerceptronShape((16, 16), 1, True, False), Steps(batches, 0, 0, 0.1))
    training.train(epochs, (), None, lambda *_: None)
    return backend.launches


@given(epochs=st.integers(1, 1 << 28), batches=st.integers(1, 1 << 20), most=st.integers(1 << 22, MOST_STEPS))
@example(1_000_000, 5_000, MOST_STEPS)  # 40,000 rows in batches of 8
@example(7, 3, 2)
def test_launches_go_on_where_the_last_one_ended(epochs, batches, most):
    epochs, trained = min(epochs, 500 * most // batches), 0
    for first, of_launch in launches(epochs, batches, most):
        assert first == trained % batches
        assert 1 <= of_launch <= most and first + of_launch < 1 << 31
        assert first == 0 or most < batches
        trained += of_launch
    assert trained == epochs * batches


def test_a_training_that_fits_is_one_launch():
    assert launches(100, 10, 1000) == [(0, 1000)]
    assert launches(100, 10, 999) == [(0, 990), (0, 10)]
    assert launches(1, 5, 2) == [(0, 2), (2, 2), (4, 1)]


def test_what_is_counted_does_not_depend_on_how_long_a_launch_is():
    """It is measured, and the rounds of a cell must count the same."""
    job = replace(JOB, strategy=groups.load("strategy", "persistent"), epochs=6)
    counts = []
    for most in (3, 5, 1000):
        backend = CpuBackend()
        backend.steps_per_launch = lambda shape, most=most: most
        counts.append(count(job, backend)[0])
    assert counts[0] == counts[1] == counts[2]


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
    assert launches_of_kernels.launch_seconds(True) == launches_of_kernels.launch_seconds(False) / 2 < 1


@pytest.mark.parametrize("size", [-1, 1 << 31, 1 << 32, 5_000_000_000])
def test_a_size_that_does_not_fit_a_kernels_int_is_not_cut(size):
    with pytest.raises(Unsupported, match=f"rows is {size}"):
        launches_of_kernels.checked("rows", size)
    assert launches_of_kernels.checked("rows", (1 << 31) - 1) == (1 << 31) - 1


# ---- the bits of a split training


PERCEPTRONS = {
    "cluster": ("one_layer", (20, 24, 1), 32, 70, "sequential", None),
    "cluster in parts": ("one_layer", (13, 200, 1), 140, 300, "sequential", None),
    "clusters": ("one_layer", (9, 100, 1), 60, 200, "sequential", None),
    "two layers": ("two_layers", (20, 60, 64, 1), 70, 180, "sequential", None),
    "two layers clipped": ("two_layers", (32, 64, 190, 1), 33, 80, "sequential", 0.5),
    "two layers at once": ("two_layers", (9, 128, 62, 1), 64, 150, "simultaneous", 0.5),
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
FURTHER = (
    *("cluster in parts", "two layers", "two layers at once", "grid of one layer at once"),
    *("three layers", "three layers at once", "three layers at once clipped"),
    *("grid", "grid clipped", "grid at once"),
)
STEPS = 4  # of epochs of three batches
SPLIT = (1, 2, 1)  # in the middle of an epoch and at its end; odd and even


def check_splits(train, shape, buffers, steps, state):
    """``train(buffers, steps)``; ``state``: which of the buffers stay."""
    once, batches = [buffer.copy() for buffer in buffers], -(-steps.rows // shape.batch)
    train(once, steps._replace(number=STEPS))
    again, done = [buffer.copy() for buffer in buffers], 0
    for number in SPLIT:
        train(again, steps._replace(first=done % batches, number=number, epoch=done // batches))
        done += number
    for which in state:
        np.testing.assert_array_equal(again[which], once[which])
    assert trained(again[-1]) == trained(once[-1]) == STEPS


def trained(workspace):
    return int(workspace.reshape(-1)[TRAINED].view(np.uint64)[0])


@on_cpu
@pytest.mark.parametrize("name", [further(name) if name in FURTHER else name for name in PERCEPTRONS])
def test_a_perceptron_ends_with_the_same_bits_wherever_it_is_split(name, random):
    kernel, layers, batch, rows, order, clip = PERCEPTRONS[name]
    *_, buffers, shape, steps = made(layers, batch, rows, 1, order, clip, random)
    plan = plan_for(shape, SMALL if kernel == "grid" else H200, kernel)
    if name == "clusters":
        plan = two_clusters_of_two(plan)
    if kernel == "one_layer":
        buffers[4].fill(0)
    buffers[3].fill(0)  # what padding rows have is nobody's
    check_splits(partial(launched, plan), shape, buffers, steps, [2])
    check_splits(partial(by_the_oracle, shape), shape, buffers, steps, [2])


@on_cpu
def test_three_layers_keep_their_scales_from_launch_to_launch():
    """Scales follow from the weights one step before: here the largest of W_3 grows beyond 0.125."""
    random = np.random.default_rng(1)
    *_, buffers, shape, steps = made((20, 120, 120, 250, 1), 20, 50, 1, "sequential", None, random)
    buffers[2] *= (10.0 ** random.uniform(-6, 0, buffers[2].shape)).astype(np.float32)  # some below 2^-14
    launch = plan_for(shape, H200, "three_layers")
    check_splits(partial(launched, launch), shape, buffers, steps._replace(rate=np.float32(0.3)), [2])


def family_of(name):
    """The module of a shape, and the shape."""
    layered = layered_shapes.SHAPES | layered_shapes.FURTHER
    if name in layered:
        return layered_shapes, layered[name]
    if name == "adam on images":
        return convolutional_shapes, convolutional_shapes.FURTHER["adam"]
    return convolutional_shapes, convolutional_shapes.SMALL[name]


@on_cpu
@pytest.mark.parametrize(
    ("name", "batches"),
    [
        *(("classifier", 3), ("deep", 3), ("square", 3), ("adam", 3), ("shuffled", 2)),
        *(further(name, 3) for name in ("in turn", "regression", "uneven", "momentum", "adam on images")),
        further("adam", 1),
    ],
)
def test_so_does_a_network_of_layers(name, batches, random):
    family, one = family_of(name)
    steps = Steps((batches - 1) * one.batch + 1, 0, 1, RATE)
    steps = layered_shapes.steps_of(one, steps.rows, 1, RATE)
    X, _, Y, weights = family.made(one, steps.rows, random)
    launch, buffers = family.plan_for(one), family.buffers_of(one, X, Y, weights)
    check_splits(partial(launched, launch), one, buffers, steps, range(2, len(buffers) - 1))


@on_cpu
def test_the_device_counts_beyond_32_bits(random):
    *_, buffers, shape, steps = made((20, 24, 1), 32, 70, 1, "sequential", None, random)
    for train in (
        lambda: launched(plan_for(shape, H200, "one_layer"), buffers, steps),
        lambda: by_the_oracle(shape, buffers, steps),
    ):
        buffers[4][:4].view(np.uint32)[:] = 0, 0, (1 << 32) - 1, 5
        train()
        assert trained(buffers[4]) == (6 << 32) + 2


# ---- the strategies, on NumPy and on a GPU


class InLaunchesOf:
    """A backend with launches of so many steps."""

    def __init__(self, inner, most):
        self._inner, self.most = inner, most
        self.launched = []

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def steps_per_launch(self, shape):
        return self.most

    def train(self, shape, buffers, steps, stream=None):
        self.launched.append(steps[1:3])
        self._inner.train(shape, buffers, steps, stream)


QUADRATIC = (  # layers, batch, order, clip: a kernel each, and what it does differently
    ((32, 256, 1), 97, "sequential", None),
    ((32, 1024, 1), 256, "sequential", None),
    ((32, 256, 1), 97, "sequential", 0.5),
    ((32, 256, 256, 1), 97, "sequential", None),
    ((32, 256, 256, 1), 97, "simultaneous", 0.5),
    ((32, 256, 1024, 256, 1), 256, "sequential", None),
    ((32, 256, 1024, 256, 1), 256, "simultaneous", 0.5),
    ((20, 48, 100, 33, 1), 97, "sequential", 0.5),
    ((20, 48, 100, 33, 1), 97, "simultaneous", None),
    ((20, 48, 100, 33, 1), 97, "simultaneous", 0.5),
)


def trained_in(strategy, network, X, Y, weights, batch, epochs=4):
    """Weights and losses after two trainings, of which the second goes on where the first ended."""
    try:
        strategy.setup(network, X, Y, batch, 0.001)
        strategy.load(weights)
        for _ in range(2):
            strategy.train(epochs)
        strategy.check_trained()
        return [*strategy.weights(), np.array(strategy.losses())]
    finally:
        strategy.close()


def check_in_launches(backend, make, network, X, Y, weights, batch):
    in_one = InLaunchesOf(backend, MOST_STEPS)
    expected = trained_in(make(in_one), network, X, Y, weights, batch)
    steps = 4 * -(-len(X) // batch)
    assert in_one.launched == [(0, steps)] * 2
    for most in (7, steps // 2):
        in_some = InLaunchesOf(backend, most)
        found = trained_in(make(in_some), network, X, Y, weights, batch)
        assert len(in_some.launched) > 2
        assert sum(of_launch for _, of_launch in in_some.launched) == 2 * steps
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


RATES = list(np.geomspace(1e-4, 1e-2, 40))  # of more members than a GPU trains at the same time
KINDS = [(one, OneLaunch) for one in QUADRATIC]
KINDS.append((((32, 256, 1), 97, "sequential", None), partial(Ensemble, learning_rates=RATES)))


@pytest.mark.parametrize(("of", "kind"), KINDS)
def test_a_strategy_trains_the_same_in_one_launch_and_in_many(of, kind, random, backend):
    layers, batch, order, clip = of
    rows = 2 * batch + 1 if backend.is_processor else 1000
    X = random.uniform(-1, 1, (rows, layers[0])).astype(np.float32)
    Y = np.square(X).sum(axis=1, keepdims=True).astype(np.float32)
    network = mlp(layers, init="he_uniform", update_order=order, clip_norm=clip)
    check_in_launches(backend, kind, network, X, Y, draw_weights(network, GlibcRandom(5)), batch)


@pytest.mark.parametrize("name", ["deep", "deep in turn", "regression", "uneven"])
def test_so_does_that_of_layers(name, random, backend):
    family, one = family_of(name)
    rows, describe = 9 * one.batch + 1, convolutional_shape if name == "uneven" else layered_shape
    X, _, Y, weights = family.made(one, rows, random)
    kind = partial(OneLaunch, describe=describe)
    check_in_launches(backend, kind, family.network_of(one), X.reshape(rows, -1), Y, weights, one.batch)


# ---- what the protocol makes of it


class TrainsOnly(CpuBackend):
    """A device whose launches train a share of their steps."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def train(self, shape, buffers, steps, stream=None):
        super().train(shape, buffers, steps._replace(number=int(self.share * steps.number)), stream)


LAYERS = tuple(map(parse, ("linear 5", "relu", "linear 2")))
CLASSIFIER = replace(
    JOB,
    network=Network((4,), LAYERS, CROSS_ENTROPY, "he_uniform"),
    Y=np.eye(2, dtype=np.float32)[np.arange(10) % 2],
)


@pytest.mark.parametrize("share", [0, 0.5])
@pytest.mark.parametrize("job", [JOB, CLASSIFIER], ids=["perceptron", "classifier"])
@pytest.mark.parametrize("name", ["persistent", "ensemble"])
def test_a_device_that_did_not_train_has_no_record(name, job, share):
    if name == "ensemble" and job is CLASSIFIER:
        return
    job = replace(job, strategy=groups.load("strategy", name), epochs=3)
    assert measure(job, Round(runs=2), CpuBackend()).status == "ok"
    with pytest.raises(MeasurementError, match="steps"):
        measure(job, Round(runs=2), TrainsOnly(share))


def test_a_command_ends_with_the_status_of_an_error_if_the_device_did_not_train(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(backends, "make", lambda *arguments: TrainsOnly(0))
    output = tmp_path / "cell.json"
    small = ["dataset=small", "dataset.rows=64", "training.epochs=2", "training.batch_size=32"]
    status = cli.main(["run", "device=cpu", "strategy=persistent", *small, f"output={output}"])
    assert (status, output.exists()) == (2, False)
    assert "trained 0 steps" in capsys.readouterr().err


def test_progress_is_told_between_the_launches_of_a_run():
    job, told = replace(JOB, strategy=groups.load("strategy", "persistent"), epochs=9), []
    backend = InLaunchesOf(CpuBackend(), 6)  # of epochs of three batches

    def note(done, epochs, seconds):
        told.append((done, epochs))
        assert seconds > 0

    assert measure(job, Round(runs=2), backend, of_run=note).status == "ok"
    assert told == [(2, 9), (4, 9), (6, 9), (8, 9)] * 2
    told.clear()
    assert measure(job, Round(runs=2), CpuBackend(), of_run=note).status == "ok"
    assert told == []
    assert measure(replace(CLASSIFIER, epochs=3), Round(runs=1), CpuBackend(), of_run=note).status == "ok"
    assert told == [(1, 3), (2, 3)]


# ---- how it is launched


class Driver:
    """A CUDA driver that keeps the attributes of launches and questions, and says yes to all."""

    def __init__(self):
        self.seen = []

    def __getattr__(self, name):
        return lambda *arguments: 0

    def _keep(self, call, config):
        config = config._obj
        self.seen.append((call, [config.attributes[i].id for i in range(config.count)]))
        return 0

    def cuOccupancyMaxActiveClusters(self, count, pointer, config):
        count._obj.value = 8
        return self._keep("question", config)

    def cuLaunchKernelEx(self, config, pointer, arguments, extra):
        return self._keep("launch", config)


@pytest.mark.parametrize(
    "cluster, how, asked, at_launch",
    [
        (16, {"together": True}, [4], [4, 2]),  # 4: clusters, 2: cooperative
        (16, {}, [4], [4]),
        (0, {}, None, [2]),
        (0, {"independent": True}, None, []),
    ],
)
def test_clusters_that_wait_for_each_other_are_launched_cooperatively(
    cluster, how, asked, at_launch, monkeypatch
):
    driver = Driver()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    monkeypatch.delitem(sys.modules, "snn.backends.cuda.cooperative", raising=False)
    cooperative = import_module("snn.backends.cuda.cooperative")
    monkeypatch.delitem(sys.modules, "snn.backends.cuda.cooperative")  # not for other tests
    function = SimpleNamespace(kernel=SimpleNamespace(ptr=1))
    launch = cooperative.CooperativeLaunch(function, 64, 160, cluster, 1024, **how)
    if cluster:
        assert launch.held_clusters() == 8
    launch([ctypes.c_int(1)])
    assert driver.seen == [("question", asked)] * bool(cluster) + [("launch", at_launch)]


# ---- on a GPU


def setting_up(backend, layers, rows, batch):
    random, network = np.random.default_rng(3), mlp(layers, init="he_uniform")
    X = random.uniform(-1, 1, (rows, layers[0])).astype(np.float32)
    strategy = Persistent(backend)
    strategy.setup(network, X, np.square(X).sum(axis=1, keepdims=True), batch, 1e-4)
    strategy.load(draw_weights(network, GlibcRandom(5)))
    return strategy


@pytest.mark.gpu
@pytest.mark.alone
@pytest.mark.parametrize("layers", [(32, 256, 1), (32, 256, 256, 1)])
def test_no_launch_takes_longer_than_the_device_allows(layers, monkeypatch):
    persistent = pytest.importorskip("snn.backends.cuda.persistent")

    def trained_for(limit):
        monkeypatch.setattr(persistent, "longest_launch", lambda: limit)
        strategy = setting_up(backends.make("cuda", groups.load("kernel", "naive")), layers, 25600, 256)
        told = [0.0]
        strategy.progress = lambda done, epochs, seconds: told.append(seconds)
        try:
            strategy.train(3000)
            strategy.check_trained()
            return strategy.weights(), np.diff(told)
        finally:
            strategy.close()

    (short, between), (long, none) = trained_for(0.05), trained_for(100.0)
    assert len(between) >= 5 and len(none) == 0
    assert 0.02 < np.median(between) < 0.08 and max(between) < 0.2
    for one, other in zip(short, long, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.gpu
def test_a_launch_of_many_members_is_as_long_as_all_of_them_take(cuda_backend):
    few, many = (
        cuda_backend.steps_per_launch(PerceptronShape((32, 256), 256, True, False, members))
        for members in (2, 2000)
    )
    assert few > 5 * many


@pytest.mark.gpu
@pytest.mark.alone
def test_an_interrupt_is_heard_during_a_long_training_which_shows_its_progress(tmp_path):
    """On a terminal: `snn run` says how far it is, is interrupted a second later, and ends soon after."""
    command = [sys.executable, "-m", "snn", "run", "device=cuda", "strategy=persistent", "dataset=large"]
    output = tmp_path / "cell.json"
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*command, "training.epochs=1000000", "protocol.runs=1", f"output={output}"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stderr=theirs,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    ) as run:
        os.close(theirs)
        said, until = "", time.monotonic() + 120
        while " of 1000000 epochs (" not in said:
            assert select([ours], [], [], max(0.0, until - time.monotonic()))[0], said
            said += os.read(ours, 4096).decode()
        time.sleep(1)
        run.send_signal(signal.SIGINT)
        interrupted = time.monotonic()
        try:
            assert run.wait(30) == 130
        finally:
            run.kill()
        assert time.monotonic() - interrupted < 1.5
    os.close(ours)
    assert not output.exists()


_THREE_STREAMS = """
import numpy as np
from cupy.cuda import runtime
from snn.backends.cuda import persistent
from snn.backends.cuda.cooperative import CooperativeLaunch
from snn.backends.launches import LaunchConfiguration, Steps
from snn.backends.launches.linear import PerceptronShape
from snn.config.groups import ROOT

STEPS, LAUNCHES, SHARED = 500, 40, 120 * 1024  # of a block: one fits an SM
shape = PerceptronShape((32, 1024), 256, True, False)
trainer = persistent.Trainer(shape, ROOT)
found = shape.configurations(persistent.device_capability())
plan = next(one for one in found if isinstance(one, LaunchConfiguration))
assert plan.clusters == 4, plan.words
function = persistent._module(plan, ROOT).get_function("train_persistent")
launch = CooperativeLaunch(function, plan.blocks, plan.threads, plan.cluster, SHARED, together=True)
assert launch.held_blocks() == 1
assert 4 <= launch.held_clusters() < 12, "three trainings have 12 clusters, and should not all fit"
trainer._best.launch = launch

steps = Steps(2560, 0, STEPS, 1e-4)
sizes = shape.elements(steps.rows)
random = np.random.default_rng(1)
arrays = [random.uniform(-0.1, 0.1, size).astype(np.float32) for size in sizes[:3]]
arrays += [np.zeros(size, np.float32) for size in sizes[3:]]
arrays[2] = [arrays[2] * np.float32(1 + 0.1 * member) for member in range(3)]

def upload(member):
    buffers = []
    for array in (*arrays[:2], arrays[2][member], *arrays[3:]):
        buffers.append(runtime.malloc(array.nbytes))
        runtime.memcpy(buffers[-1], array.ctypes.data, array.nbytes, runtime.memcpyHostToDevice)
    return buffers

def weights(buffers):
    found = np.empty(sizes[2], np.float32)
    runtime.memcpy(found.ctypes.data, buffers[2], found.nbytes, runtime.memcpyDeviceToHost)
    return found

streams = [runtime.streamCreateWithPriority(runtime.streamNonBlocking, priority) for priority in (0, -1, -2)]
alone = []
for member, stream in enumerate(streams):
    buffers = upload(member)
    for _ in range(LAUNCHES):
        trainer.train(buffers, steps, stream)
        runtime.streamSynchronize(stream)
    alone.append(weights(buffers))
print("alone", flush=True)
together = [upload(member) for member in range(3)]
for _ in range(LAUNCHES):
    for buffers, stream in zip(together, streams):
        trainer.train(buffers, steps, stream)
runtime.deviceSynchronize()
assert np.isfinite(alone).all() and len({one.tobytes() for one in alone}) == 3
for one, buffers in zip(alone, together):
    np.testing.assert_array_equal(one, weights(buffers))
print("together", flush=True)
"""


@pytest.mark.gpu
def test_clusters_that_wait_for_each_other_run_together(cuda_backend):
    """Three trainings that do not fit the device together, on streams of three priorities, all end."""
    try:
        plan = cuda_backend.training_launch(PerceptronShape((32, 1024), 256, True, False)).words
    except Unsupported as error:
        pytest.skip(str(error))
    if not plan.startswith("4 clusters"):
        pytest.skip(f"this device trains it otherwise: {plan}")
    program = [sys.executable, "-c", _THREE_STREAMS]
    done = subprocess.run(  # killed if it takes longer
        program,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.stdout.split() == ["alone", "together"], done.stderr
