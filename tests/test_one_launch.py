"""A whole training in one launch: what lies where on the device, and which numbers the launch is given."""

import inspect
from collections.abc import Callable
from dataclasses import replace

import convolutional_shapes as convolutional
import layered_shapes as layered
import numpy as np
import pytest
from conftest import STRATEGIES
from deferred import DeferredBackend
from hypothesis import given
from hypothesis import strategies as st

from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches import HEAD, Steps, TrainingLaunch, padded
from snn.backends.launches.linear import PerceptronShape
from snn.config import groups
from snn.errors import Unsupported
from snn.models.members import MemberArrays
from snn.models.network import mlp
from snn.profiling.observed import ObservedBackend
from snn.strategies import cpu, factory
from snn.strategies.device_driven import Resident
from snn.strategies.one_launch import OneLaunch, Persistent, in_batches, words_of_padding


class Spied(CpuBackend):
    """Keeps what it was asked for, and trains nothing: a launch writes its number of rows as each error."""

    def __init__(self):
        super().__init__()
        self.launched, self.shapes, self.allocated, self.buffers = [], [], [], []

    def training_launch(self, shape):
        self.shapes.append(shape)
        return TrainingLaunch("a plan")

    def malloc(self, nbytes, purpose=None):
        self.allocated.append((nbytes, purpose))
        self.buffers.append(super().malloc(nbytes, purpose))
        return self.buffers[-1]

    def train(self, shape, buffers, steps, stream=None):
        assert shape == self.shapes[-1] and stream is not None
        self.launched.append(steps)
        buffers[3].words[:] = np.arange(buffers[3].words.size)


X = np.arange(1, 22, dtype=np.float32).reshape(7, 3)
Y = np.arange(7, dtype=np.float32).reshape(7, 1)


@pytest.fixture
def launching():
    """A strategy on a backend that keeps what is asked, set up for batches of three; closed afterwards."""
    made = []

    def setup(rates=(), network=None, batch=3, rate=0.1):
        backend = Spied()
        strategy = OneLaunch(ObservedBackend(backend))
        if rates:
            strategy.of_members = MemberArrays(np.array(rates, np.float32), None, None, None)
        strategy.setup(network or mlp((3, 5, 2, 1)), X, Y, batch, rate)
        made.append(strategy)
        return backend, strategy

    yield setup
    for strategy in made:
        strategy.close()
        strategy.backend.live.check_nothing_held()


def words(backend):
    return [buffer.words for buffer in backend.buffers]


def test_a_plan_says_what_padding_takes():
    words = words_of_padding((1, 32), (16, 32), 16.0)
    assert "1 x 32 padded to 16 x 32" in words and "16.00 times" in words
    assert "rows of 30 numbers padded to 32:" in words_of_padding((256, 30), (256, 32), 1.1)
    assert words_of_padding((256, 32), (256, 32), 1.0) == ""


def test_the_device_holds_padded_batches_and_zeros(launching):
    backend, strategy = launching()
    assert strategy.plan.startswith("a plan; batches of 3 x 3 padded to 16 x 16: ")
    assert backend.shapes == [PerceptronShape((16, 16, 16), 3, True, False, 1)]
    data, targets, weights, errors, workspace = words(backend)
    assert [purpose for _, purpose in backend.allocated] == [
        *("data", "data", "weights", "gradients", "workspace")
    ]
    assert [nbytes for nbytes, _ in backend.allocated[:4]] == [
        *(4 * 3 * 16 * 16, 4 * 3 * 16, 4 * (2 * 16 * 16 + 16), 4 * 16)
    ]
    np.testing.assert_array_equal(data.reshape(3, 16, 16), in_batches(X, 3, 16, 16))
    np.testing.assert_array_equal(targets.reshape(3, 16, 1), in_batches(Y, 3, 1, 16))
    assert not errors.any() and not workspace.any()
    assert [array.nbytes for array in strategy._host] == [weights.nbytes, errors.nbytes]


@given(rows=st.integers(1, 40), columns=st.integers(1, 5), batch=st.integers(1, 20), extra=st.integers(0, 3))
def test_batches_are_padded_by_zeros(rows, columns, batch, extra):
    matrix = np.arange(1, 1 + rows * columns, dtype=np.float32).reshape(rows, columns)
    found = in_batches(matrix, batch, columns + extra, padded(batch))
    batches = -(-rows // batch)
    assert found.shape == (batches, padded(batch), columns + extra) and found.dtype == np.float32
    for i, one in enumerate(found):
        inside = matrix[i * batch : (i + 1) * batch]
        np.testing.assert_array_equal(one[: len(inside), :columns], inside)
        assert one.sum() == inside.sum()


@pytest.mark.parametrize(
    ("network", "batch", "shape", "epoch", "max_norm"),
    [
        (mlp((3, 5, 2, 1)), 3, PerceptronShape((16, 16, 16), 3, True, False), 3, 0.0),
        (mlp((3, 20, 1), clip_norm=2.5), 99, PerceptronShape((16, 32), 7, True, True), 1, 2.5),
        (mlp((3, 5, 1), update_order="simultaneous"), 7, PerceptronShape((16, 16), 7, False, False), 1, 0.0),
    ],
)
def test_the_steps_of_a_launch(launching, network, batch, shape, epoch, max_norm):
    backend, strategy = launching(network=network, batch=batch)
    strategy.load([np.ones(shape, np.float32) for shape in network.shapes])
    strategy.epoch()
    strategy.train(4)
    one = Steps(7, 0, epoch, float(np.float32(0.1)), max_norm)
    assert backend.launched == [one, one._replace(number=4 * epoch, epoch=1)]
    assert backend.shapes == [shape]


def test_rates_of_members_stand_in_the_workspace(launching):
    backend, strategy = launching(rates=(0.5, 0.25, 2.0))
    *_, workspace = words(backend)
    np.testing.assert_array_equal(workspace[:-1], [*HEAD * [0], 0.5, 0.25, 2.0])
    assert 2.0**10 <= workspace[-1] * backend.shapes[0].largest < 2.0**11
    assert backend.shapes[0].members == 3
    strategy.train(1)
    assert backend.launched[0][3:5] == (0.5, 0.0)
    for rates, expected in (((0.5, 0.25), [0.5, 0.25]), ((0.5,), [0.0])):
        backend, _ = launching(rates=rates)
        assert words(backend)[4][HEAD : HEAD + len(rates)].tolist() == expected


def test_weights_come_back_as_they_were_loaded(launching):
    backend, strategy = launching(rates=(0.5, 0.25))
    random = np.random.default_rng(1)
    shapes = mlp((3, 5, 2, 1)).shapes
    one, other = ([random.normal(size=shape).astype(np.float32) for shape in shapes] for _ in range(2))
    for given_, expected in (([*one, *other], [*one, *other]), (one, [*one, *one])):
        strategy.load(given_)
        for W, wanted in zip(strategy.weights(), expected, strict=True):
            np.testing.assert_array_equal(W, wanted)
        device = words(backend)[2]
        assert np.count_nonzero(device) == sum(W.size for W in expected)
    with pytest.raises(ValueError, match="zip"):
        strategy.load([*one, *one, *one])


def test_a_loss_is_of_the_last_batch_of_each_member_once_it_was_trained(launching):
    backend, strategy = launching(rates=(0.5, 0.25), batch=5)
    shapes = mlp((3, 5, 2, 1)).shapes
    assert np.isnan(strategy.losses()).tolist() == [True, True] and np.isnan(strategy.loss())
    strategy.epoch()
    lines = words(backend)[3].size // 2
    expected = [np.mean([(member * lines + row) ** 2 for row in range(2)]) for member in (0, 1)]
    assert strategy.losses() == pytest.approx(expected)
    assert strategy.loss() == pytest.approx(np.mean(expected))
    strategy.load([np.ones(shape, np.float32) for shape in shapes])
    assert np.isnan(strategy.losses()).all()


def test_of_batches_that_divide_the_rows_the_last_is_whole(launching):
    _, strategy = launching(batch=7)
    strategy.epoch()
    assert strategy.losses() == pytest.approx([np.mean(np.arange(7.0) ** 2)])


# ---- networks of layers, on NumPy

LAYERED = {name: (layered, one) for name, one in (layered.SHAPES | layered.FURTHER).items()}
IMAGES = {name: (convolutional, convolutional.SMALL[name]) for name in ("square", "uneven")}
IMAGES |= {f"{name} on images": (convolutional, one) for name, one in convolutional.FURTHER.items()}
FAMILIES = LAYERED | IMAGES


@pytest.mark.parametrize("name", FAMILIES)
def test_one_launch_trains_as_launches_of_every_step_do(name, random):
    family, one = FAMILIES[name]
    X, _, Y, weights = family.made(one, 3 * one.batch + 1, random)
    found, X = [], X.reshape(len(X), -1)
    for kind in (Persistent, Resident):
        strategy = kind(CpuBackend())
        strategy.keeps_losses = True
        try:
            strategy.setup(family.network_of(one), X, Y, one.batch, 0.05)
            assert np.isnan(strategy.loss())
            for epochs in (1, 2):
                strategy.load(weights)
                strategy.train(epochs)
            outputs = strategy.predict(X[: one.batch + 1])
            found.append([*strategy.weights(), strategy.loss(), strategy.epoch_losses(), outputs])
        finally:
            strategy.close()
        assert (strategy.plan or "").startswith("NumPy, all epochs in one call") == (kind is Persistent)
    for a, b in zip(*found, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["classifier", "square"])
def test_one_launch_frees_what_it_held(name, random):
    family, one = FAMILIES[name]
    X, _, Y, weights = family.made(one, 3 * one.batch, random)
    strategy = Persistent(ObservedBackend(CpuBackend()))
    strategy.setup(family.network_of(one), X.reshape(len(X), -1), Y, one.batch, 0.05)
    strategy.load(weights)
    strategy.epoch()
    strategy.close()
    strategy.backend.live.check_nothing_held()


def test_another_network_is_trained_by_a_graph_and_the_plan_says_why():
    network = replace(convolutional.network_of(convolutional.CNN), clip_norm=1.0)
    strategy = Persistent(ObservedBackend(DeferredBackend()))
    images, targets = np.zeros((3, 784), np.float32), np.eye(10, dtype=np.float32)[:3]
    try:
        strategy.setup(network, images, targets, 2, 0.1)
        said = "graph: no convolutional network in one launch: its kernel updates simultaneously and does not"
        assert strategy.plan.startswith(said) and strategy.launch is None
    finally:
        strategy.close()
    strategy.backend.live.check_nothing_held()


# ---- settings


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_is_made_as_its_file_says_unless_it_is_told_otherwise(name):
    choice = groups.load("strategy", name)
    make: Callable = factory.class_of(choice)
    given_ = {key: value for key, value in choice.items() if key not in ("_target_", "name")}
    if name == "ensemble":
        given_["starts"] = 1  # a launch of one training each, where nothing is chosen
    defaults = {
        key: parameter.default
        for key, parameter in inspect.signature(make).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    without = sorted(given_.keys() - defaults.keys())
    assert not without, (
        f"{make.__name__}: {', '.join(without)} has no default, as config/strategy/{name}.yaml gives it"
    )
    assert type(make(CpuBackend())) is type(factory.make(choice, CpuBackend())) is make
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in defaults.items()}
    assert plain == {key: given_[key] for key in plain}


class Threadpools:
    """A BLAS with so many threads, whatever it is asked for."""

    def __init__(self, *counts):
        self.counts, self.asked = counts, []

    def ThreadpoolController(self):
        return self

    def limit(self, **limits):
        self.asked.append(limits)
        return self

    def select(self, **which):
        assert which == {"user_api": "blas"}
        return self

    def info(self):
        return [{"num_threads": count} for count in self.counts]

    def restore_original_limits(self):
        self.asked.append("restored")


def test_a_blas_that_takes_no_limit_is_named_with_its_threads(monkeypatch):
    for counts, said in (((4, 8), "4, 8"), ((), "no BLAS found")):
        library = Threadpools(*counts)
        monkeypatch.setattr(cpu, "required", lambda name, library=library: library)
        strategy = cpu.Blas(CpuBackend())
        with pytest.raises(Unsupported) as refused:
            strategy.limit_threads()
        assert str(refused.value) == f"NumPy's BLAS cannot be limited to 1 threads; in use: {said}"
        strategy.close()
        strategy.close()
        assert library.asked == [{"limits": 1, "user_api": "blas"}, "restored"]
    monkeypatch.setattr(cpu, "required", lambda name: Threadpools(1))
    cpu.Blas(CpuBackend(), 1).limit_threads()


def test_one_launch_keeps_no_losses_of_batches_and_predicts_nothing():
    strategy = OneLaunch(CpuBackend())
    with pytest.raises(Unsupported, match="the loss of its last batch only"):
        strategy.epoch_losses()
    with pytest.raises(Unsupported, match="kernels only train"):
        strategy.predict(np.zeros((1, 2), np.float32))
