"""Schedules of the rate, and gradients that are clipped together, by every strategy that trains with them."""

from contextlib import closing
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from conftest import OWN_LOOPS, PEERS, ROOT, SINGLE
from deferred import DeferredBackend
from emulated import EmulatedBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from in_float64 import KERNELS, agree, backend_of, rate_factor
from test_optimizers import IMAGES, STACK, TRAINING, begun
from test_strategies import Device as Gpu

from snn import backends
from snn.backends.cpu import ops
from snn.backends.ops import OPS, PARTIAL_SUMS, THREADS
from snn.config import compose, groups
from snn.errors import ConfigError, Unsupported
from snn.models import optimizers, schedules
from snn.models.network import Network, mlp
from snn.models.optimizers import Adam, AdamW, Sgd
from snn.models.schedules import CONSTANT, Cosine, Linear, Schedule, Step
from snn.models.training_step import training_step
from snn.strategies import factory
from snn.strategies.factory import Job

STEPS = 51
ORDERED = replace(STACK, update_order="simultaneous", run_steps=STEPS)
CASES = {
    "cosine": Adam(schedule=Cosine(5, 0.1), clip_norm=0.5),
    "step": Sgd(schedule=Step(0, 7, 0.6)),
    "linear": Sgd(0.9, schedule=Linear(3), clip_norm=0.3),
    "warm-up": AdamW(schedule=Schedule(20)),
}

TRAINERS = [
    name for name in (*SINGLE, *PEERS) if factory.class_of(groups.load("strategy", name)).any_schedule
]
OTHERS = [name for name in (*SINGLE, *PEERS) if name not in TRAINERS]


@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for name in TRAINERS for case in (CASES if name in OWN_LOOPS else ("cosine", "linear"))],
)
def test_weights_after_50_steps_are_those_of_float64(name, case):
    """Also in a second run, which starts with its first step."""
    TRAINING.check_runs(name, backend_of(name), replace(ORDERED, optimizer=CASES[case]))


@pytest.mark.parametrize("name", ["reference", "graph", "blas"])
def test_a_schedule_with_sequential_updates(name):
    network = replace(ORDERED, optimizer=CASES["step"], update_order="sequential")
    agree(TRAINING.weights(name, backend_of(name), network)[0], TRAINING.exact(network).weights)


@pytest.mark.parametrize("kernel", KERNELS)
def test_convolutions_micro_batches_and_recomputed_outputs_with_kernels_of_every_kind(kernel):
    network = replace(ORDERED, inputs=IMAGES.inputs, layers=IMAGES.layers, loss=IMAGES.loss)
    network = replace(network, optimizer=CASES["cosine"])
    for changed in (network, replace(network, accumulate=3), replace(network, recompute=(0,))):
        found = TRAINING.weights("resident", DeferredBackend(*kernel), changed)[0]
        agree(found, TRAINING.exact(network).weights, 2e-5)


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
def test_the_kernels_themselves_on_a_cpu():
    network, once = replace(ORDERED, optimizer=CASES["linear"], run_steps=3), replace(TRAINING, epochs=1)
    backend = EmulatedBackend(groups.load("kernel", "naive"))
    agree(once.weights("resident", backend, network)[0], once.exact(network).weights)


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
def test_a_kernels_sums_of_squares_agree_with_numpy():
    """Each of its blocks has a sum."""
    kernels, random = cuda_on_cpu.load(ROOT / OPS["add_squares"].source), np.random.default_rng(3)
    gradients = [random.standard_normal(n, dtype=np.float32) for n in (1, 700)]
    T, right = begun(264), begun(264)
    for G in gradients:
        kernels["add_squares"]((PARTIAL_SUMS,), (THREADS,), (G, T, len(G)))
        ops.add_squares(G, right, len(G))
    np.testing.assert_allclose(T.sum(), right.sum(), rtol=1e-6)
    kernels["clip_together"]((1,), (THREADS,), (T, np.float32(2)))
    ops.clip_together(right, 2.0)
    np.testing.assert_allclose(T, right, rtol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["resident", "graph", "pipelined", "persistent", "reference"])
def test_weights_on_a_gpu_are_those_of_float64(name, case):
    backend = backends.make("cuda", groups.load("kernel", "naive"), ROOT)
    TRAINING.check_runs(name, backend, replace(ORDERED, optimizer=CASES[case]))


@pytest.mark.parametrize("case", CASES)
def test_pytorch_has_the_same_rates_and_clips_alike(case):
    torch = pytest.importorskip("torch")
    from torch.optim import lr_scheduler

    schedule = CASES[case].schedule
    descend = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    warmup, rest = schedule.warmup_steps, max(STEPS - schedule.warmup_steps, 1)
    after = {
        "step": lambda: lr_scheduler.StepLR(descend, schedule.step_size, schedule.gamma),
        "cosine": lambda: lr_scheduler.CosineAnnealingLR(descend, rest, schedule.end_factor),
        "linear": lambda: lr_scheduler.LinearLR(descend, 1, schedule.end_factor, rest),
        "constant": lambda: lr_scheduler.ConstantLR(descend, 1.0),
    }[schedule.name]()
    if warmup:
        grows = lr_scheduler.LinearLR(descend, 1 / warmup, 1, warmup - 1)
        after = lr_scheduler.SequentialLR(descend, [grows, after], [warmup])
    rates = []
    for _ in range(STEPS):
        rates.append(descend.param_groups[0]["lr"])
        descend.step()
        after.step()
    mine = [float(schedules.factor(done, *schedule.numbers(STEPS))) for done in range(STEPS)]
    np.testing.assert_allclose(mine, rates, rtol=1e-6, atol=1e-9)


SCHEDULES = st.one_of(
    st.builds(Schedule, st.integers(0, 9)),
    st.builds(Step, st.integers(0, 9), st.integers(1, 9), st.floats(0, 1)),
    st.builds(Cosine, st.integers(0, 9), st.floats(0, 2)),
    st.builds(Linear, st.integers(0, 9), st.floats(0, 2)),
)


@settings(max_examples=100)
@given(SCHEDULES, st.integers(1, 60))
def test_the_factors_of_a_rate(schedule, steps):
    numbers = schedule.numbers(steps)
    mine = schedules.factor(np.arange(float(steps)), *numbers)
    expected = [rate_factor(schedule, done, steps) for done in range(steps)]
    np.testing.assert_allclose(mine, expected, rtol=1e-12, atol=1e-12)
    beyond = schedules.factor(np.arange(steps, 2.0 * steps), *numbers)
    if not isinstance(schedule, Step) and steps > schedule.warmup_steps:  # the last rate stays
        np.testing.assert_allclose(beyond, beyond[0])


@settings(max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=9), st.floats(0.125, 1e6, width=32))
def test_a_clipped_norm_is_at_most_the_limit_and_smaller_ones_stay(gradient, limit):
    G, T = np.array(gradient, np.float32), begun(264)
    norm = np.linalg.norm(G.astype(np.float64))
    ops.add_squares(G, T, len(G))
    ops.clip_together(T, limit)
    assert T[4] == pytest.approx(min(1, limit / (norm + 1e-6)), rel=1e-5)
    assert not T[8:].any()


def test_all_gradients_are_clipped_by_two_kinds_of_launches():
    network = replace(ORDERED, optimizer=Sgd(clip_norm=1.0))
    launched = [launch.op for launch in training_step(network, 4, TRAINING.rate, fused=True).launches]
    count = len(network.parameters)
    assert launched[-2 * count - 1 :] == [
        *count * ["add_squares"],
        "clip_together",
        *count * ["decay_update"],
    ]


@pytest.mark.parametrize("optimizer", [Sgd(schedule=Cosine()), Sgd(clip_norm=1.0), Adam(clip_norm=1.0)])
@pytest.mark.parametrize("name", OTHERS)
def test_a_strategy_that_cannot_says_so(name, optimizer):
    strategy = factory.make(groups.load("strategy", name), Gpu())
    with pytest.raises(Unsupported, match=r"training\.(schedule|clip_norm|optimizer)"):
        strategy.check_network(mlp((3, 4, 1), optimizer=optimizer, update_order="simultaneous"))


@pytest.mark.parametrize(("epochs", "end"), [(2, 6), (5, 15)])
def test_the_steps_of_a_run_follow_from_epochs_and_batches(epochs, end):
    network = replace(ORDERED, optimizer=Sgd(schedule=Linear()), run_steps=0)
    X, Y = TRAINING.arrays(network)
    job = Job(groups.load("strategy", "resident"), network, X, Y, 1, epochs, TRAINING.batch, TRAINING.rate)
    with closing(factory.start(job, DeferredBackend())) as strategy:
        assert strategy.network.run_steps == end


@pytest.mark.parametrize(
    ("schedule", "steps", "key"),
    [
        (Schedule(10), 9, "warmup_steps is 10"),
        (Cosine(10), 9, "warmup_steps is 10"),
        (Cosine(10), 10, None),
        (Step(0, 9), 9, "step_size is 9"),
        (Step(0, 8), 9, None),
        (Step(2, 7), 9, "step_size is 7"),
        (CONSTANT, 1, None),
    ],
)
def test_a_schedule_that_is_longer_than_the_run_is_mentioned(schedule, steps, key):
    said = schedules.remark(schedule, steps)
    assert f"training.{key}" in said and f"{steps} steps" in said if key else said == ""
    factors = [float(schedules.factor(np.float64(done), *schedule.numbers(steps))) for done in range(steps)]
    never_falls = isinstance(schedule, Step) and factors[-1] == max(factors)
    assert bool(said) == (max(factors) < 1 or never_falls)


def training_of(*given):
    return compose.composed(["dataset=small", "network.update_order=simultaneous", *given])["training"]


def test_a_cell_has_the_keys_of_its_schedule_and_none_of_a_constant_rate():
    plain, schedule = training_of(), "training.schedule=cosine"
    assert not {"clip_norm", "schedule", *schedules.KEYS} & plain.keys()
    assert training_of("training.schedule=constant", "training.warmup_steps=0") == plain
    cosine = training_of(schedule)
    assert cosine == plain | {"schedule": "cosine", "warmup_steps": 0, "end_factor": 0.0}
    assert training_of("training.clip_norm=1") == plain | {"clip_norm": 1.0}
    assert training_of("training.warmup_steps=9") == plain | {"schedule": "constant", "warmup_steps": 9}
    both = training_of(schedule, "training.optimizer=adam", "training.clip_norm=2")
    assert optimizers.of(both) == Adam(schedule=Cosine(), clip_norm=2.0)
    assert optimizers.settled(both) == both
    assert optimizers.of(plain).schedule == CONSTANT


def test_more_steps_than_can_be_counted_are_rejected():
    with pytest.raises(ConfigError, match=r"training\.schedule=cosine"):
        Network((5,), STACK.layers, optimizer=Sgd(schedule=Cosine()), run_steps=schedules.MOST_STEPS + 1)
