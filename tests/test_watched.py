"""Launches that compute losses of epochs, end early and report to the host: on the CPU and on a GPU."""

import threading
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from layered_shapes import (
    FURTHER,
    OPTIMIZERS,
    check,
    losses_of,
    made,
    network_of,
    oracle_epochs,
    oracle_step,
    shape,
    steps_of,
)
from test_whole import H200, buffers_of, configuration, launched, on_cpu, sends_rows, whole

from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches import HEAD, TRAINED, LaunchConfiguration, Steps, TrainingLaunch
from snn.backends.launches.whole import Telemetry
from snn.config import groups
from snn.errors import Unsupported
from snn.measurement import runs
from snn.measurement.protocol import Round
from snn.models.layers import ACTIVATIONS
from snn.models.members import MemberArrays
from snn.strategies import factory
from snn.strategies.base import Watched
from snn.strategies.one_launch import LaunchedTraining, OneLaunch, whole_shape
from snn.training import fit

RATE = 0.005


def watched(one, rows, held, epochs, members=1, **more):
    return whole(one, rows, members, watched=True, held_rows=held, most_epochs=epochs, **more)


def by_oracle(one, X, Y, weights, held, epochs, patience, rate=RATE):
    """Losses of each epoch and of rows held out, until the patience ends; the best and the last weights."""
    found, best, last, lowest, best_epoch = [], None, None, np.inf, 0
    held_X, held_Y = (M.astype(np.float64) for M in held)
    for epoch, (last, errors) in enumerate(oracle_epochs(one, X, Y, weights, epochs, rate), 1):
        each, of_batch = losses_of(one, errors), one.batch * len(errors) // len(X)
        loss = np.mean([np.mean(each[at : at + of_batch]) for at in range(0, len(each), of_batch)])
        there = oracle_step(one, [W.copy() for W in last], held_X, held_Y, lambda *_: None)
        found.append((loss, np.mean(losses_of(one, np.array(there)))))
        if found[-1][1] < lowest:
            lowest, best_epoch, best = found[-1][1], epoch, last
        if epoch - best_epoch >= patience:
            break
    return np.array(found), best, last


def data(one, rows, held, random):
    """X and Y of rows to train on and of rows held out, whose X are larger, and weights."""
    X, _, Y, weights = made(one, rows + held, random)
    X[rows:] *= 3
    return (X[:rows], Y[:rows]), (X[rows:], Y[rows:]), weights


def agrees(of, flat, expected, within=1e-5):
    check(of, [None, None, flat, np.zeros(1), None], expected, np.zeros(1), within)


def check_launch(one, blocks, rows, held, epochs, patience, random):
    """Train in one launch, and compare with the oracle; returns how many epochs that took."""
    (X, Y), held_out, weights = data(one, rows, held, random)
    losses, best, last = by_oracle(one, X, Y, weights, held_out, epochs, patience)
    of = watched(one, rows, held, epochs)
    steps = steps_of(one, rows, epochs, RATE)._replace(patience=patience)
    together = [np.concatenate(pair) for pair in zip(held_out, (X, Y), strict=True)]
    buffers = buffers_of(of, *together, [weights], steps)
    launched(of, blocks, buffers, steps)
    telemetry = Telemetry(buffers[-1], 1)
    (ended,) = telemetry.ended
    assert ended == len(losses)
    np.testing.assert_allclose(telemetry.epochs(0, ended)[:, :2], losses, rtol=2e-5)
    assert (telemetry.epochs(0, ended)[:, 2:] > 0).all()
    agrees(of, buffers[2], last)
    agrees(of, buffers[6][: buffers[2].size], best)
    assert buffers[5][TRAINED].view(np.uint64)[0] == ended * -(-rows // one.batch)
    return ended


LAUNCHES = {
    "one block": (shape(20, 17, 24, 10, update="adam_update", shuffled=True), 1, 33),
    "few outputs": (shape(18, 9, 20, 3, loss="huber", activations=("tanh",), update="momentum_update"), 1, 5),
    "one layer": (shape(18, 30, 4, loss="binary_cross_entropy"), 1, 41),
    "in turn": (FURTHER["adamw in turn"], 1, 7),
    "chunks": (shape(70, 6, 12, 40, 1, loss="error", activations=("silu",), update="adam_update"), 1, 150),
    "two blocks": (shape(20, 17, 24, 40, mean=False, shuffled=True), 2, 37),
    "rows sent": (shape(31, 11, 32, 20, 2, loss="error", update="adam_update", shuffled=True), 4, 37),
    "four blocks": (shape(*(33, 17, 70, 24, 1), **{"activations": ("gelu",), "loss": "error"}), 4, 90),
}
"""Shapes, blocks and rows held out. Some end early, some do not."""


@on_cpu
@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_ends_by_its_patience_and_keeps_the_best_weights(name, random):
    one, blocks, held = LAUNCHES[name]
    assert sends_rows(whole(one, 2 * one.batch + 7), blocks) == (name == "rows sent")
    ended = check_launch(one, blocks, 2 * one.batch + 7, held, 12, 2, random)
    assert (ended < 12) == (name in ("one block", "in turn", "chunks", "two blocks", "rows sent"))


@on_cpu
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_awkward_shapes_end_with_the_epoch_of_the_oracle(data, random):
    draw = data.draw
    sizes = draw(st.lists(st.integers(1, 40), min_size=2, max_size=4))
    optimizer = draw(st.sampled_from(sorted(OPTIMIZERS)))
    function = draw(st.sampled_from(sorted({*ACTIVATIONS} - {"relu", "leaky_relu"})))  # without kinks
    loss, outputs = draw(
        st.sampled_from(
            [("error", 1), ("huber", 1), ("binary_cross_entropy", 3), ("softmax_cross_entropy", 7)]
        )
    )
    one = shape(
        *(draw(st.integers(1, 50)), *sizes, outputs),
        **{"loss": loss, "activations": (function,), "update": optimizer, "shuffled": draw(st.booleans())},
    )
    blocks = draw(st.sampled_from([1, 2])) if one.batch >= 16 else 1
    rows, held = one.batch + draw(st.integers(1, 40)), draw(st.integers(1, 70))
    launches = watched(one, rows, held, 6).configurations(H200)  # none if a block has too few registers
    assume(blocks in {launch.cluster for launch in launches if isinstance(launch, LaunchConfiguration)})
    check_launch(one, blocks, rows, held, 6, 1, random)


@on_cpu
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("batches", [1, 2])
def test_bits_are_those_without_losses_however_launches_are_split(batches, blocks, random):
    one, held = FURTHER["adam"], 9
    rows = batches * one.batch
    (X, Y), held_out, weights = data(one, rows, held, random)
    weights[2] *= np.float32(1e-9)  # it grows a million times in the first step: its scale changes
    steps, most = steps_of(one, rows, 4, RATE), max(1.0, float(np.abs(held_out[0]).max()))
    plain, of = whole(one, rows), watched(one, rows, held, 4)
    alone = buffers_of(replace(plain, largest=most), X, Y, [weights], steps)
    launched(replace(plain, largest=most), blocks, alone, steps)
    of, found = replace(of, largest=most), []
    both = [np.concatenate(pair) for pair in zip(held_out, (X, Y), strict=True)]
    for parts in ([4 * batches], [1, 1, 4 * batches - 2]):
        buffers, done = buffers_of(of, *both, [weights], steps), 0
        for number in parts:
            epoch, first = divmod(done, batches)
            now = steps._replace(epoch=epoch, first=first, number=number, patience=9)
            launched(of, blocks, buffers, now)
            done += number
        for without, with_losses in zip(alone[2:5], buffers[2:5], strict=True):
            np.testing.assert_array_equal(without, with_losses)
        telemetry = Telemetry(buffers[-1], 1)
        assert telemetry.ended == 4
        found.append((buffers[6], telemetry.epochs(0, 4)[:, :2]))
    for together, apart in zip(*found, strict=True):
        np.testing.assert_array_equal(together, apart)
    expected, *_ = by_oracle(one, X, Y, weights, held_out, 4, 9)
    np.testing.assert_allclose(found[0][1], expected, rtol=2e-5)


@on_cpu
@pytest.mark.parametrize("growth, outputs, blocks", [(150, 6, 2), (300, 6, 2), (300, 3, 4)])
def test_gradients_are_right_if_a_scale_of_weights_changes_after_an_epoch(growth, outputs, blocks, random):
    """A feature's weights become far larger than the others, and then the feature is 0."""
    batch = 8 * blocks
    one = shape(batch, 17, 24, 24, outputs, loss="error", activations=("identity",), bare=(0, 1, 2))
    (X, Y), held_out, weights = data(one, 2 * batch, 5, random)
    X[:], held_out[0][:] = 0.005 * X, 0.005 * held_out[0]
    X[:batch, 0] = held_out[0][:, 0] = weights[0][0] = 0
    X[batch:, 0] = random.uniform(0.5, 1, batch)
    gradients = []
    exact = [M.astype(np.float64) for M in (X[batch:], Y[batch:], *weights)]
    oracle_step(one, exact[2:], *exact[:2], lambda W, dW: gradients.append(dW))
    rate = growth / np.abs(gradients[-1][0]).max()  # of the first layer
    steps = steps_of(one, 2 * batch, 2, rate)._replace(number=3)
    plain, of = whole(one, 2 * batch), watched(one, 2 * batch, 5, 2)
    assert sends_rows(of, blocks) == (outputs == 3)
    both = [np.concatenate(pair) for pair in zip(held_out, (X, Y), strict=True)]
    alone, found = (buffers_of(*one, [weights], steps) for one in ((plain, X, Y), (of, *both)))
    launched(plain, blocks, alone, steps)
    launched(of, blocks, found, steps)
    for without, with_losses in zip(alone[2:5], found[2:5], strict=True):
        np.testing.assert_array_equal(without, with_losses)


def of_two_batches(epochs, random):
    """A shape with its watched form, data, weights, steps and buffers for so many epochs of two batches."""
    one = FURTHER["adam"]
    rows = 2 * one.batch
    (X, Y), _, weights = data(one, rows, 1, random)
    of, steps = watched(one, rows, 0, epochs), steps_of(one, rows, epochs, RATE)
    return one, of, (X, Y), weights, steps, buffers_of(of, X, Y, [weights], steps)


@on_cpu
@pytest.mark.parametrize("blocks", [1, 2])
def test_a_launch_that_is_asked_to_ends_with_its_epoch(blocks, random):
    one, of, (X, Y), weights, steps, buffers = of_two_batches(5, random)
    telemetry = Telemetry(buffers[-1], 1)
    telemetry.request_stop()
    launched(of, blocks, buffers, steps)
    assert telemetry.ended == 1 and buffers[5][TRAINED].view(np.uint64)[0] == 2
    (loss, of_held, *_) = telemetry.epochs(0, 1)[0]
    assert np.isnan(of_held)
    ((_, errors),) = oracle_epochs(one, X, Y, weights, 1, RATE)
    assert loss == pytest.approx(np.mean(errors**2), rel=1e-5)
    launched(of, blocks, buffers, steps._replace(epoch=1, number=8))
    assert telemetry.ended == 1  # it remains ended
    telemetry.clear()
    launched(of, blocks, buffers, steps)
    assert telemetry.ended == 5


@on_cpu
@pytest.mark.parametrize("blocks", [1, 2])
def test_an_epoch_of_several_launches_has_their_seconds(blocks, random):
    _, of, _, _, steps, buffers = of_two_batches(2, random)
    launched(of, blocks, buffers, steps._replace(number=1))
    assert 0 < buffers[5][HEAD + 3] < 100
    buffers[5][HEAD + 3] += 100
    launched(of, blocks, buffers, steps._replace(first=1, number=3))
    of_first, of_second = Telemetry(buffers[-1], 1).epochs(0, 2)[:, 2]
    assert of_first > 100 > of_second


@on_cpu
def test_members_end_after_epochs_of_their_own(random):
    one, held, epochs = replace(FURTHER["adam"], update="adamw_update"), 21, 8
    rates, seeds = np.array([0.0001, 0.02, 0.2], np.float32), np.array([3, 4, 5], np.uint32)
    (X, Y), held_out, weights = data(one, 70, held, random)
    its = MemberArrays(rates, None, seeds, None)
    of = watched(one, 70, held, epochs, 3)
    steps = steps_of(one, 70, epochs, RATE)._replace(patience=1)
    both = [np.concatenate(pair) for pair in zip(held_out, (X, Y), strict=True)]
    buffers = buffers_of(of, *both, 3 * [weights], steps, its)
    launched(of, 1, buffers, steps)
    telemetry, ended = Telemetry(buffers[-1], 3), []
    per = buffers[2].size // 3
    for member in range(3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("layered_shapes.SEED", int(seeds[member]))
            losses, best, last = by_oracle(one, X, Y, weights, held_out, epochs, 1, float(rates[member]))
        ended.append(len(losses))
        np.testing.assert_allclose(telemetry.epochs(member, len(losses))[:, :2], losses, rtol=1e-4)
        agrees(of, buffers[2][member * per :][:per], last, 1e-4)
        agrees(of, buffers[6][member * per :][:per], best, 1e-4)
    assert telemetry.ended.tolist() == ended and len(set(ended)) > 1
    assert buffers[5][TRAINED].view(np.uint64)[0] == sum(ended) * -(-70 // one.batch)


# ---- by a strategy


class Emulated(CpuBackend):
    """A backend that trains whole networks by the CUDA source on the CPU, with so many blocks each."""

    is_processor = False
    fails_to_pin = False

    def __init__(self, blocks=1, most=1000):
        super().__init__()
        self._blocks, self._most, self.launches = blocks, most, 0

    def training_launch(self, one):
        if not hasattr(one, "watched"):
            raise Unsupported("another kernel")
        found = configuration(one, self._blocks)
        return TrainingLaunch(found.words, found, 1)

    def steps_per_launch(self, one):
        return self._most

    def train(self, one, buffers, steps, stream=None):
        arrays = [buffer.words for buffer in buffers]
        if one.watched:
            arrays[-1] = arrays[-1].view(np.float64)
        self.launches += 1
        launched(one, self._blocks, arrays, steps)

    def shared_buffer(self, array):
        if self.fails_to_pin:
            raise Unsupported("no page-locked memory")
        return super().shared_buffer(array)


def job_for(one, epochs, patience, random, strategy="persistent", held=21, **more):
    rows = 2 * one.batch + 7
    (X, Y), held_out, _ = data(one, rows, held, random)
    return factory.Job(
        *(
            groups.load("strategy", strategy),
            network_of(one, init="he_uniform"),
            X,
            Y,
            1,
            epochs,
            one.batch,
            0.02,
        ),
        **{"validation": held_out if held else None, "patience": patience, **more},
    )


def in_one_by_one(job, backend):
    """The same job by a strategy whose losses the host computes."""
    return fit._fit(replace(job, strategy=groups.load("strategy", "resident")), backend, None, fit.silent)


@on_cpu
@pytest.mark.parametrize("most", [1000, 4, 2])
@pytest.mark.parametrize("blocks, patience, clipped", [(1, 1, True), (2, None, False)])
def test_a_job_has_the_losses_and_weights_of_other_strategies(blocks, patience, clipped, most, random):
    job = job_for(replace(FURTHER["adam"], clipped=clipped), 6, patience, random)
    backend, reports = Emulated(blocks, most), []
    found = fit._fit(job, backend, None, lambda *report: reports.append(report))
    expected = in_one_by_one(job, CpuBackend())
    assert found.plan.startswith(f"{blocks} blocks" if blocks > 1 else "one block")
    assert len(found.losses) == len(expected.losses) and (len(found.losses) < 6) == (patience == 1)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-4)
    np.testing.assert_allclose(found.validation_losses, expected.validation_losses, rtol=1e-4)
    for W, exact in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(W, exact, rtol=1e-3, atol=1e-4)
    assert reports[-1] == (len(found.losses), found.losses[-1], found.validation_losses[-1])
    batches = -(-len(job.X) // job.batch_size)
    least = -(-len(found.losses) * batches // max(most // batches * batches or most, 1))
    assert backend.launches == least


@on_cpu
def test_a_measured_run_shares_out_its_time(random):
    job = job_for(FURTHER["adam"], 6, 1, random)
    measured = runs.measure(job, Round(runs=2), Emulated())
    assert measured.status == "ok"
    first, second = measured.runs
    assert first.losses and first.epochs[0].mean_loss > first.epochs[-1].mean_loss
    assert len(second.epochs) < 6 and second.validation_seconds > 0
    assert second.seconds == pytest.approx(sum(epoch.seconds for epoch in second.epochs))
    assert all(epoch.seconds > 0 for epoch in second.epochs)


def test_epochs_between_two_ticks_of_a_clock_take_some_time():
    none = np.zeros(3)
    strategy = SimpleNamespace(
        watch=lambda *_: [Watched(np.ones(3), np.ones(3), none, none, None)], side_by_side=False
    )
    job = SimpleNamespace(epochs=3, patience=None, validation=())
    epochs, of_validation, *_ = runs._watched(job, strategy, CpuBackend(), lambda *_: None)
    assert min(epoch.seconds for epoch in epochs) > 0 and of_validation > 0


def test_trial_launches_have_steps_without_losses():
    one = FURTHER["adam"]
    assert watched(replace(one, shuffled=False), 6400, 640, 9).timed_rows == 400


@on_cpu
@pytest.mark.parametrize("backend", [Emulated(), CpuBackend()], ids=["launch", "numpy"])
@pytest.mark.parametrize("lists", [{"learning_rates": [0.0002, 0.05]}, {"folds": 2}], ids=["rates", "folds"])
def test_each_member_of_an_ensemble_ends_as_it_does_alone(lists, backend, random):
    job = job_for(FURTHER["adam"], 7, 1, random, "ensemble", keeps_losses=True)
    job = replace(job, batch_size=30, strategy=job.strategy | {"starts": 1, **lists})
    measured = runs.measure(job, Round(runs=1), backend)
    assert measured.status == "ok", measured.reason
    assert measured.plan.startswith("NumPy" if backend.is_processor else "one block")
    (run,), epochs = measured.runs, []
    for i, member in enumerate(measured.members):
        rows = np.arange(len(job.X))
        if "folds" in lists:
            rows = rows[np.r_[np.arange(len(rows) // 2 * 2) % 2 != i, np.ones(len(rows) % 2, bool)]]
        alone = replace(job, X=job.X[rows], Y=job.Y[rows], learning_rate=member["learning_rate"])
        expected = in_one_by_one(alone, CpuBackend())
        epochs.append(len(expected.losses))
        assert member["epochs"] == epochs[-1]
        assert member["validation_loss"] == pytest.approx(min(expected.validation_losses), rel=1e-4)
    assert len(run.epochs) == max(epochs)
    assert run.validation_seconds > 0 and len(run.losses) == len(epochs)


def test_a_strategy_says_so_if_the_host_cannot_share_memory(random):
    job, backend = job_for(FURTHER["adam"], 2, None, random), Emulated()
    backend.fails_to_pin = True
    with pytest.raises(Unsupported, match=r"no launch trains instead: .*no page-locked memory"):
        factory.start(job, backend)


class Reporting(SimpleNamespace):
    """A backend whose launch ends an epoch whenever the host has looked, until it is asked to stop."""

    def __init__(self, epochs):
        numbers = np.zeros(Telemetry.numbers(1, epochs))
        super().__init__(
            numbers=numbers, epochs=epochs, telemetry=Telemetry(numbers, 1), looked=threading.Event()
        )

    def steps_per_launch(self, one):
        return 2 * self.epochs

    def train(self, one, buffers, steps, stream):
        assert steps.patience == 7

    def stream_synchronize(self, stream):
        for number in range(1, self.epochs + 1):
            self.numbers[2 + 4 * (number - 1) :][:4] = number, -number, 1, 1
            self.numbers[1] = number
            assert self.looked.wait(60)
            self.looked.clear()
            if self.numbers[0]:
                return


def test_the_host_sees_epochs_while_a_launch_runs():
    backend, seen = Reporting(4), []
    training = LaunchedTraining(backend, whole(FURTHER["adam"], 33), Steps(33, 0, 0, RATE))
    training.telemetry = backend.telemetry

    def look():
        seen.append(int(backend.telemetry.ended[0]))
        backend.looked.set()

    training.watch(4, 7, (), None, look)
    assert sorted(set(seen)) >= [1, 2, 3, 4] and backend.numbers[0] == 0


def test_the_host_sees_epochs_between_short_launches(monkeypatch):
    monkeypatch.setattr("snn.strategies.one_launch._BETWEEN_LOOKS", 0.0)
    backend, seen = Reporting(4), []
    backend.steps_per_launch = lambda shape: 1
    backend.stream_synchronize = lambda stream: np.add.at(backend.numbers, 1, 1)
    training = LaunchedTraining(backend, whole(FURTHER["adam"], 33), Steps(33, 0, 0, RATE))
    training.telemetry = backend.telemetry
    training.watch(4, 7, (), None, lambda: seen.append(int(backend.telemetry.ended[0])))
    assert set(seen) >= {1, 2, 3, 4}


def test_an_interrupt_ends_the_launch_with_its_epoch():
    backend = Reporting(4)
    training = LaunchedTraining(backend, whole(FURTHER["adam"], 33), Steps(33, 0, 0, RATE))
    training.telemetry = backend.telemetry

    def look():
        backend.looked.set()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.watch(4, 7, (), None, look)
    assert backend.numbers[0] == 1 and backend.telemetry.ended[0] < 4


# ---- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("blocks", [1, 2, 8])
def test_a_launch_on_a_gpu_ends_as_the_oracle(blocks, clipped, random, cuda_backend, monkeypatch):
    one = shape(
        *(150, 11, 64, 40, 1),
        **{"loss": "error", "activations": ("tanh",), "update": "adam_update", "shuffled": True},
    )
    one = replace(one, clipped=clipped)
    (X, Y), held_out, weights = data(one, 1003 + blocks, 333, random)  # a backend keeps the launch of a shape
    losses, best, last = by_oracle(one, X, Y, weights, held_out, 30, 2, 0.02)
    assert len(losses) < 30
    monkeypatch.setattr("snn.backends.launches.whole._CLUSTERS", (blocks,))
    with closing(OneLaunch(cuda_backend, whole_shape)) as strategy:
        strategy.validation = held_out
        strategy.setup(network_of(one, run_steps=30 * 7), X, Y, one.batch, 0.02)
        assert strategy.launch["cluster"] == blocks and strategy.watches
        found = []
        for _ in range(2):
            strategy.load(weights)
            (watched,) = strategy.watch(30, 2, lambda *_: None)
            strategy.check_trained()
            found.append((*watched[:2], *watched.best, *strategy.weights()))
    for once, again in zip(*found, strict=True):
        np.testing.assert_array_equal(once, again)
    np.testing.assert_allclose(np.stack(found[0][:2], axis=1), losses, rtol=1e-3)
    for W, exact in zip(found[0][2:], [*best, *last], strict=True):
        assert np.linalg.norm(W - exact) < 1e-3 * max(np.linalg.norm(exact), 1e-2)


@pytest.mark.gpu
def test_members_on_a_gpu_end_as_each_alone(random, cuda_backend):
    job = job_for(FURTHER["adam"], 40, 1, random, "ensemble", keeps_losses=True)
    rates = np.geomspace(1e-4, 0.05, 150).tolist()
    job = replace(job, strategy=job.strategy | {"starts": 1, "learning_rates": rates})
    measured = runs.measure(job, Round(runs=1), cuda_backend)
    assert measured.status == "ok", measured.reason
    assert measured.launch["kernel"] == "whole" and len({one["epochs"] for one in measured.members}) > 2
    for member in measured.members[::49]:
        alone = in_one_by_one(replace(job, learning_rate=member["learning_rate"]), CpuBackend())
        assert member["validation_loss"] == pytest.approx(min(alone.validation_losses), rel=1e-3)


@pytest.mark.gpu
def test_a_gpu_reports_epochs_and_ends_when_it_is_interrupted(random, cuda_backend):
    one = shape(*(64, 11, 64, 64, 1), loss="error", update="adam_update", shuffled=True)
    (X, Y), held_out, weights = data(one, 6400, 640, random)
    seen, epochs = [], 20_000  # a few seconds

    def report(done, loss, held):
        seen.append(done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with closing(OneLaunch(cuda_backend, whole_shape)) as strategy:
        strategy.validation = held_out
        strategy.setup(network_of(one, run_steps=100 * epochs), X, Y, one.batch, 1e-4)
        strategy.load(weights)
        with pytest.raises(KeyboardInterrupt):
            strategy.watch(epochs, None, report)
        assert 0 < seen[0] < seen[1] < seen[2] < epochs
        strategy.load(weights)
        strategy.train(1)  # the device is as before
        assert np.isfinite(strategy.loss())
