"""``persistent``: which plan a shape gets, and on a GPU that every plan trains as a float64 oracle does."""

import runpy
from contextlib import closing

import numpy as np
import pytest
from conftest import ROOT
from deferred import DeferredBackend
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle import train
from test_launch_configurations import A100, H200, T4, first, perceptron

from snn import datasets
from snn.analysis.cell_line import kernel_used
from snn.backends.launches import LaunchConfiguration, TrainingLaunch
from snn.config.compose import composed
from snn.errors import Unsupported
from snn.measurement.passes import job_of
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.records.store import lift
from snn.strategies import one_launch
from snn.strategies.one_launch import Persistent


def test_the_sanitizer_watches_every_kernel_of_whole_trainings():
    script = runpy.run_path(str(ROOT / "scripts/sanitize.py"))
    planned = [
        first(perceptron(31, *hidden, 1, batch=script["BATCH"], clipped=clipped))[0]
        for hidden in script["WHOLE"]
        for clipped in (False, True)
    ]
    neurons, batch = script["IN_PARTS"]
    in_parts, _ = first(perceptron(31, *neurons, 1, batch=batch))
    assert dict(in_parts.defines)["PARTS"] == "2"
    kernels = {path.stem for path in ROOT.glob("kernels/persistent/**/*.cu")}
    planned.append(first(one_launch.convolutional_shape(script["IMAGES"], 4))[0])
    planned += [first(one_launch.layered_shape(one, script["BATCH"]))[0] for one in script["CLASSIFIERS"]]
    of_members = [
        first(perceptron(31, *hidden, 1, batch=script["BATCH"], members=3))[0]
        for hidden in script["OF_MEMBERS"]
    ]
    assert [launch.kernel for launch in of_members] == ["members", "members", "one_layer"]
    held = [(network, None) for network in script["HELD"]] + [(script["HELD"][0], script["MEMBERS"])]
    X = np.ones((333, 19), np.float32)
    of_networks = [
        first(one_launch.whole_shape(network, script["BATCH"], X, members))[0] for network, members in held
    ]
    assert [launch.cluster > 1 for launch in of_networks[:2]] == [True, False]
    assert {launch.kernel for launch in planned + of_members + of_networks} == kernels


# ---- on a GPU

SHAPES = [
    (32, 256, 1),
    (7, 45, 1),
    (31, 130, 1),
    (33, 24, 40, 1),
    (32, 256, 256, 1),
    (20, 120, 64, 1),
    (20, 48, 100, 33, 1),
    (20, 120, 1024, 250, 1),
    (32, 256, 1024, 256, 1),
]


def trained(backend, layers, batch, rows, order, clip, epochs=10):
    random = np.random.default_rng(sum(layers) + batch)
    X = random.uniform(-1, 1, (rows, layers[0])).astype(np.float32)
    Y = np.square(X).sum(axis=1, keepdims=True).astype(np.float32)
    network = mlp(layers, init="he_uniform", update_order=order, clip_norm=clip)
    weights = draw_weights(network, GlibcRandom(5))
    rate = 0.01 if max(layers) < 1024 else 0.001  # with which the loss falls
    with closing(Persistent(backend)) as strategy:
        strategy.setup(network, X, Y, batch, rate)
        found = []
        for _ in range(2):
            strategy.load(weights)
            strategy.train(epochs)
            found.append((strategy.weights(), strategy.loss()))
        plan = strategy.plan
    expected = train(
        weights, X, Y, epochs=epochs, batch_size=batch, rate=rate, update_order=order, clip_norm=clip
    )
    return found, expected, plan


@pytest.mark.gpu
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("batch, rows", [(256, 2560), (97, 1000)])
@pytest.mark.parametrize("layers", SHAPES)
def test_after_a_hundred_steps_the_weights_are_the_oracles(layers, batch, rows, order, clip, cuda_backend):
    found, (expected, loss), plan = trained(cuda_backend, layers, batch, rows, order, clip)
    assert not plan.startswith("graph")
    (weights, first_loss), (again, second_loss) = found
    assert first_loss == second_loss
    assert first_loss == pytest.approx(loss, rel=1e-4)
    for one, other, exact in zip(weights, again, expected, strict=True):
        assert np.array_equal(one, other)
        assert np.linalg.norm(one - exact) < 1e-4 * np.linalg.norm(exact)


@pytest.mark.gpu
@pytest.mark.parametrize("layers", [(32, 256, 1), (32, 64, 64, 1), (32, 256, 1024, 256, 1)])
def test_what_is_not_a_number_ends_cleanly(layers, cuda_backend):
    X, Y = np.ones((600, 32), dtype=np.float32), np.ones((600, 1), dtype=np.float32)
    X[300, 3] = np.nan
    with closing(Persistent(cuda_backend)) as strategy:
        strategy.setup(mlp(layers, init="he_uniform"), X, Y, 256, 0.01)
        strategy.load(draw_weights(mlp(layers, init="he_uniform"), GlibcRandom(1)))
        strategy.train(3)
        assert np.isnan(strategy.loss())


@pytest.mark.gpu
@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("scale", [1e-3, 1e-5, 1e-7, 1e-9])
@pytest.mark.parametrize("layer", range(4))
def test_a_tiny_layer_trains_as_in_float64(layer, scale, order, cuda_backend, random):
    """It grows beyond what its scale allows for, and is then trained on by another kernel.

    Many Z of such a network are close to 0, so float64 itself trains differently from weights that differ by
    a few roundings: the measure of what may differ.
    """
    X = random.uniform(-1, 1, (1000, 32)).astype(np.float32)
    Y = np.square(X).sum(axis=1, keepdims=True).astype(np.float32)
    network = mlp((32, 256, 1024, 256, 1), init="he_uniform", update_order=order)
    weights = draw_weights(network, GlibcRandom(5))
    weights[layer] *= np.float32(scale)

    def exact(weights):
        return train(weights, X, Y, epochs=5, batch_size=256, rate=0.001, update_order=order)

    def errors(found, loss):
        distances = (np.linalg.norm(W - E) / np.linalg.norm(E) for W, E in zip(found, expected, strict=True))
        return np.array([abs(loss - right) / right, *distances])

    expected, right = exact(weights)
    close = [[W * (1 + random.normal(0, 2e-6, W.shape)) for W in weights] for _ in range(6)]
    allowed = np.max([errors(*exact(other)) for other in close], axis=0)
    with closing(Persistent(cuda_backend)) as strategy:
        strategy.setup(network, X, Y, 256, 0.001)
        strategy.load(weights)
        strategy.prepare(5)
        strategy.train(5)
        assert (errors(strategy.weights(), strategy.loss()) < 5e-6 + 4 * allowed).all()


@pytest.mark.gpu
@pytest.mark.parametrize("outlier", [1e6, 1e8])
def test_an_outlier_in_another_batch_costs_no_precision(outlier, cuda_backend, random):
    X = random.uniform(-1, 1, (1000, 32)).astype(np.float32)
    Y = np.square(X).sum(axis=1, keepdims=True).astype(np.float32)
    X[3, 7] = outlier
    network = mlp((32, 256, 1024, 256, 1), init="he_uniform")
    weights = draw_weights(network, GlibcRandom(5))
    weights[0][7] = 0
    _, right = train(weights, X, Y, epochs=1, batch_size=256, rate=0.0)
    with closing(Persistent(cuda_backend)) as strategy:
        strategy.setup(network, X, Y, 256, 0.0)
        strategy.load(weights)
        strategy.train(1)
        assert strategy.loss() == pytest.approx(right, rel=5e-6)


@pytest.mark.gpu
def test_a_shape_that_does_not_fit_is_trained_by_a_graph(cuda_backend):
    found, (_, loss), plan = trained(cuda_backend, (8, 16384, 64, 1), 64, 128, "sequential", None, epochs=2)
    assert plan.startswith("graph: no cluster: 2 hidden layers")
    assert "widths of up to 16384: both may be at most 2048" in plan
    assert found[0][1] == pytest.approx(loss, rel=1e-4)


class Planned(DeferredBackend):
    """A CPU that plans as a GPU does, and says which kernel it would launch."""

    def __init__(self, limits):
        super().__init__()
        self.limits, self.kernel = limits, None

    def training_launch(self, shape):
        reasons = []
        for one in shape.configurations(self.limits):
            if isinstance(one, LaunchConfiguration):
                self.kernel = self.kernel or one.kernel  # the next one is for after a stop
                return TrainingLaunch("; ".join([one.words, *reasons]), one)
            reasons.append(one)
        raise Unsupported("; ".join(reasons))


IMAGES = ("dataset=patterns", "network=cnn", "dataset.rows=64", "training.batch_size=64")
LAYERED = ("network=layers", "training.batch_size=64")


@settings(max_examples=25)
@given(
    limits=st.sampled_from([H200, A100, T4]),
    hidden=st.lists(st.sampled_from([16, 64, 128, 256, 600]), min_size=1, max_size=3),
    features=st.sampled_from([8, 32, 100]),
    batch=st.sampled_from([16, 64, 256]),
    more=st.lists(st.sampled_from(["network.clip_norm=1", "training.reduction=sum"]), max_size=1),
)
@example(H200, [256, 256], 32, 256, [])
@example(H200, [256, 1024, 256], 32, 256, [])
@example(H200, [600], 100, 256, [])
def test_a_record_is_of_the_kernel_that_its_plan_launches(limits, hidden, features, batch, more):
    of_data = (f"dataset.features={features}", "dataset.rows=300", f"training.batch_size={batch}")
    check_kernel(limits, f"network.hidden={hidden}", *of_data, *more)


@pytest.mark.parametrize("settings", [IMAGES, LAYERED], ids=["images", "layers"])
@pytest.mark.parametrize("limits", [H200, A100, T4])
def test_so_is_one_of_other_layers(limits, settings):
    check_kernel(limits, *settings)


def check_kernel(limits, *settings):
    cell = composed(["device=cpu", "strategy=persistent", "kernel=tiled_fused", *settings])
    job, backend = job_of(cell, datasets.make(cell["dataset"])), Planned(limits)
    with closing(Persistent(backend)) as strategy:
        strategy.setup(job.network, job.X, job.Y, job.batch_size, job.learning_rate)
    record = {"cell": cell, "plan": strategy.plan}
    expected = backend.kernel or "tiled_fused"
    assert kernel_used(record | {"launch": strategy.launch}) == expected, strategy.plan
    assert kernel_used(lift(record)) == expected, strategy.plan  # one without the field
