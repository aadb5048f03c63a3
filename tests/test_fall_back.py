"""What the driver refuses: errors by CUDA's names, and ``persistent`` that trains by ``graph`` instead."""

import ctypes
import importlib.util
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT
from convolutional_shapes import SMALL, network_of
from deferred import DeferredBackend
from layered_shapes import SHAPES
from layered_shapes import network_of as layered_network_of
from test_training import trained

from snn.analysis.cell_line import kernel_used
from snn.backends.launches import TrainingLaunch
from snn.config import groups
from snn.errors import DeviceError, OutOfMemory, Unsupported
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.profiling.observed import ObservedBackend
from snn.records.store import lift
from snn.strategies import factory
from snn.strategies.device_driven import Graph
from snn.strategies.one_launch import Persistent

TOO_LARGE = 720
NAMES = {
    1: (b"CUDA_ERROR_INVALID_VALUE", b"invalid argument"),
    2: (b"CUDA_ERROR_OUT_OF_MEMORY", b"out of memory"),
    700: (b"CUDA_ERROR_ILLEGAL_ADDRESS", b"an illegal memory access was encountered"),
    TOO_LARGE: (b"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", b"too many blocks in cooperative launch"),
}


class FakeDriver:
    """The functions of libcuda that a cooperative launch calls; those in ``answers`` fail."""

    def __init__(self):
        self.answers = {}

    def __getattr__(self, name):
        return lambda *arguments: self.answers.get(name, 0)

    def _text(self, status, text, which):
        text._obj.value = NAMES[status][which] if status in NAMES else None
        return 0 if status in NAMES else 1

    def cuGetErrorName(self, status, text):
        return self._text(status, text, 0)

    def cuGetErrorString(self, status, text):
        return self._text(status, text, 1)


@pytest.fixture
def faked(monkeypatch):
    """The module of cooperative launches on a fake driver, and that driver."""
    driver, load = FakeDriver(), ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name, *of: driver if "libcuda" in name else load(name, *of))
    path = ROOT / "snn/backends/cuda/cooperative.py"
    spec = importlib.util.spec_from_file_location("cooperative_on_a_fake_driver", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, driver


FUNCTION = SimpleNamespace(kernel=SimpleNamespace(ptr=1))


def launched(module):
    launch = module.CooperativeLaunch(FUNCTION, 132, 256, shared_bytes=100_000)
    launch.held_blocks()
    launch([ctypes.c_int(1)])


@pytest.mark.parametrize(
    ("call", "status", "kind"),
    [
        ("cuLaunchKernelEx", TOO_LARGE, Unsupported),
        ("cuFuncSetAttribute", 1, Unsupported),
        ("cuOccupancyMaxActiveBlocksPerMultiprocessor", 1, Unsupported),
        ("cuLaunchKernelEx", 2, OutOfMemory),
        ("cuLaunchKernelEx", 700, DeviceError),
        ("cuLaunchKernelEx", 12345, DeviceError),
    ],
)
def test_a_call_that_fails_is_named_as_cuda_names_it(call, status, kind, faked):
    module, driver = faked
    launched(module)
    driver.answers[call] = status
    with pytest.raises(kind) as failed:
        launched(module)
    named = [text.decode() for text in NAMES.get(status, ())] or [str(status)]
    assert all(word in str(failed.value) for word in (call, *named))


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="no Numba on this machine")
def test_a_compiled_loop_launches_as_often_as_it_is_told(faked):
    module, driver = faked
    seen = []

    def launch(*arguments):
        seen.append(arguments)
        return TOO_LARGE if len(seen) > 5 else 0

    kinds = [ctypes.c_uint64, *7 * [ctypes.c_uint32], *3 * [ctypes.c_uint64]]
    driver.cuLaunchKernel = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(launch)
    loop = module.compiled_launches()
    loop(2**40, 5)
    assert seen == 5 * [(2**40, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)]
    with pytest.raises(Unsupported, match="cuLaunchKernel"):
        loop(2**40, 3)
    assert len(seen) == 6


# ---- persistent


class Refusing(DeferredBackend):
    """Refuses the first launch of a whole training, as under a limit of MPS, or has no memory for it."""

    def __init__(self, error, at="steps_per_launch"):
        super().__init__()
        self.error, self.at = error, at
        self.planned = False

    def training_launch(self, shape):
        self.planned = True
        if self.at == "training_launch":
            raise self.error
        return TrainingLaunch("132 blocks together")

    def steps_per_launch(self, shape):
        if self.at == "steps_per_launch":
            raise self.error
        return super().steps_per_launch(shape)

    def malloc(self, nbytes, kind=None):
        if self.planned and self.at == "malloc" and kind == "workspace":
            self.planned = False
            raise self.error
        return super().malloc(nbytes, kind)


REFUSED = Unsupported("the driver refuses cuLaunchKernelEx: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE")
FULL = OutOfMemory("cudaMalloc of 800 bytes failed: 3 of 4 bytes are free")
FAILURES = [
    (REFUSED, "steps_per_launch"),
    (FULL, "malloc"),
    (FULL, "training_launch"),
    (FULL, "steps_per_launch"),
]
NETWORKS = {
    "perceptron": (mlp((7, 20, 1), init="he_uniform"), (90, 7)),
    "layers": (layered_network_of(SHAPES["classifier"]), (50, 17)),
    "convolution": (network_of(SMALL["uneven"]), (7, 2 * 11 * 9)),
}


def data_of(network, sizes):
    random = np.random.default_rng(5)
    X = random.normal(size=sizes).astype(np.float32)
    outputs = network.outputs
    Y = np.eye(outputs, dtype=np.float32)[np.arange(len(X)) % outputs] if outputs > 1 else X[:, :1].copy()
    return X, Y, draw_weights(network, GlibcRandom(3))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("error", "at"), FAILURES, ids=str)
def test_a_graph_trains_what_the_driver_refuses_or_has_no_memory_for(error, at, name):
    network, X_shape = NETWORKS[name]
    X, Y, weights = data_of(network, X_shape)
    given = (network, X, Y, 3, 20, 0.01, weights)
    found, expected = (trained(one, Refusing(error, at), *given) for one in ("persistent", "graph"))
    assert found[1] == expected[1]
    assert all(map(np.array_equal, found[0], expected[0]))
    with closing(Persistent(ObservedBackend(Refusing(error, at)))) as strategy:
        strategy.setup(network, X, Y, 20, 0.01)
        assert strategy.plan.startswith("graph: ") and str(error) in strategy.plan
        assert ("132 blocks" in strategy.plan) == (at != "training_launch")
        record = {"plan": strategy.plan, "cell": CELL}
        assert strategy.launch is None
        assert kernel_used(record) == kernel_used(lift(record)) == "naive"
    strategy.backend.live.check_nothing_held()


CELL = {"strategy": groups.load("strategy", "persistent"), "kernel": groups.load("kernel", "naive")}


class WithoutFallback(Persistent):
    fallback = None


class NoRoom(Refusing):
    """Has no memory for a graph either."""

    def malloc(self, nbytes, kind=None):
        raise FULL


def ensemble(backend):
    return factory.make(groups.load("strategy", "ensemble"), backend)


@pytest.mark.parametrize(
    ("make", "backend", "error"),
    [
        *((make, Refusing(*one), one[0]) for make in (WithoutFallback, ensemble) for one in FAILURES),
        (Persistent, NoRoom(REFUSED), FULL),
    ],
)
def test_without_a_fallback_the_reason_is_the_outcome(make, backend, error):
    network, X_shape = NETWORKS["perceptron"]
    X, Y, _ = data_of(network, X_shape)
    strategy = make(ObservedBackend(backend))
    try:
        with pytest.raises(type(error), match=str(error)[:20]):
            strategy.setup(network, X, Y, 20, 0.01)
    finally:
        strategy.close()
    strategy.backend.live.check_nothing_held()


# ---- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("invalid", [False, True], ids=["by an exception", "by a forbidden call"])
def test_a_capture_that_fails_says_why_and_frees_everything(invalid, cuda_backend, monkeypatch):
    from cupy.cuda import runtime

    network, X_shape = NETWORKS["perceptron"]
    X, Y, weights = data_of(network, X_shape)
    expected = trained("graph", cuda_backend, network, X, Y, 3, 20, 0.01, weights)
    capturing, launch, begin = [], cuda_backend.launch, cuda_backend.graph_begin

    def begins(stream):
        begin(stream)
        capturing.append(stream)

    def launches(*arguments):
        launch(*arguments)
        if capturing and invalid:
            runtime.deviceSynchronize()
        if capturing:
            raise RuntimeError("planted")

    with monkeypatch.context() as patched:
        patched.setattr(cuda_backend, "graph_begin", begins)
        patched.setattr(cuda_backend, "launch", launches)
        strategy = Graph(ObservedBackend(cuda_backend))
        with pytest.raises(RuntimeError, match="StreamCapture" if invalid else "planted"):
            try:
                strategy.setup(network, X, Y, 20, 0.01)
            finally:
                strategy.close()
        strategy.backend.live.check_nothing_held()
    again = trained("graph", cuda_backend, network, X, Y, 3, 20, 0.01, weights)
    assert all(map(np.array_equal, again[0], expected[0]))


@pytest.mark.gpu
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("call", "status", "word"),
    [
        ("cuLaunchKernelEx", TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"),
        ("cuLaunchKernelEx", 2, "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuFuncSetAttribute", 1, "CUDA_ERROR_INVALID_VALUE"),
    ],
)
def test_a_gpu_trains_by_a_graph_what_its_driver_refuses(call, status, word, name, cuda_backend, monkeypatch):
    from snn.backends.cuda import cooperative

    network, X_shape = NETWORKS[name]
    X, Y, weights = data_of(network, X_shape)
    expected = trained("graph", cuda_backend, network, X, Y, 3, 20, 0.01, weights)

    class Refused:
        def __getattr__(self, name):
            return (lambda *arguments: status) if name == call else getattr(driver, name)

    driver = cooperative._driver
    monkeypatch.setattr(cooperative, "_driver", Refused())
    monkeypatch.setattr(cuda_backend, "_trainers", {})
    found = trained("persistent", cuda_backend, network, X, Y, 3, 20, 0.01, weights)
    assert found[1] == expected[1]
    assert all(map(np.array_equal, found[0], expected[0]))
    with closing(Persistent(ObservedBackend(cuda_backend))) as strategy:
        strategy.setup(network, X, Y, 20, 0.01)
        assert strategy.plan.startswith("graph: ") and word in strategy.plan
    strategy.backend.live.check_nothing_held()
