"""One launch that cannot train or waits in vain: what is refused, the graph instead, and what is reported."""

import ctypes
import importlib
import importlib.util
import json
import re
import secrets
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock, patch

import convolutional_shapes
import cuda_on_cpu
import jsonschema
import numpy as np
import pytest
from conftest import ROOT
from convolutional_shapes import SMALL, network_of
from deferred import DeferredBackend
from emulated_launch import faulty, launched
from layered_shapes import SHAPES
from layered_shapes import network_of as layered_network_of
from test_persistent_on_cpu import H200, made, plan_for, two_clusters_of_two
from test_training import trained

from snn import backends
from snn.analysis.cell_line import kernel_used
from snn.backends.launches import Steps, TrainingLaunch, error_of_wait
from snn.backends.launches.convolution import SOURCE
from snn.backends.launches.linear import PerceptronShape
from snn.config import groups
from snn.errors import DeviceError, LaunchError, OutOfMemory, Unsupported
from snn.models.glibc_random import GlibcRandom
from snn.models.layers import parse
from snn.models.losses import LOSSES
from snn.models.network import Network, draw_weights, mlp
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


def launch_cooperatively(module):
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
    launch_cooperatively(module)
    driver.answers[call] = status
    with pytest.raises(kind) as failed:
        launch_cooperatively(module)
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

    is_processor = False

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


REFUSED = Unsupported("the driver does not allow cuLaunchKernelEx: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE")
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


# ---- waits of kernels that train in one launch: their limit, what is reported, messages with fences


needs_compiler = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")

MESSAGE = ("leave(of(step) + at, value);", "if (blockIdx.x != 1) leave(of(step) + at, value);")
SUMS = ("send_if(!(lane & TWINS), ", "send_if(!(lane & TWINS) && blockIdx.x != 1, ")
WORDS = ("if (lane < PER) publish(", "if (lane < PER && blockIdx.x != 2) publish(")
ARRIVAL = (
    'if (threadIdx.x == 0)\n            asm volatile("fence.acq_rel',
    'if (threadIdx.x == 0 && blockIdx.x != 1)\n            asm volatile("fence.acq_rel',
)
"""What makes a block say nothing: text of a kernel, and what replaces it."""


# ---- on the CPU


@needs_compiler
@pytest.mark.parametrize(
    ("kernel", "layers", "batch", "replaced", "awaited", "change"),
    [
        ("one_layer", (20, 24, 1), 32, SUMS, "(y|g)", lambda plan: plan),
        ("one_layer", (9, 100, 1), 60, WORDS, "(clusters|y|g)", two_clusters_of_two),
        ("two_layers", (20, 60, 64, 1), 70, MESSAGE, r"\w+", lambda plan: plan),
        ("three_layers", (20, 120, 120, 250, 1), 20, MESSAGE, r"\w+", lambda plan: plan),
    ],
    ids=["mbarrier", "words", "two_layers", "three_layers"],
)
def test_who_waits_for_a_block_that_says_nothing_gives_up(
    kernel, layers, batch, replaced, awaited, change, tmp_path, random
):
    *_, buffers, shape, steps = made(layers, batch, batch + 10, 1, "sequential", None, random)
    buffers[4].fill(0)
    plan = change(plan_for(shape, H200, kernel))
    if kernel == "one_layer" and change is not two_clusters_of_two:
        defines = tuple((dict(plan.defines) | {"CLUSTER": "2"}).items())
        plan = replace(plan, blocks=2, cluster=2, defines=defines)
    source = faulty(plan.source, *replaced, tmp_path)
    says = rf"block \(\d+, 0, 0\) has waited too long for {awaited} of layer 0 in step \d"
    with pytest.raises(cuda_on_cpu.KernelError, match=says):
        launched(replace(plan, source=str(source)), buffers, steps, WAIT_LIMIT=5)


@needs_compiler
def test_a_convolution_gives_up(tmp_path, random):
    shape, rate = convolutional_shapes.SMALL["square"], np.float32(0.01)
    X, _, Y, weights = convolutional_shapes.made(shape, 3, random)
    source = faulty(SOURCE, *MESSAGE, tmp_path)
    buffers = convolutional_shapes.buffers_of(shape, X, Y, weights)
    with pytest.raises(cuda_on_cpu.KernelError, match="has waited too long for weights of layer 0 in step 0"):
        convolutional_shapes.launched(shape, buffers, 3, 1, rate, source, WAIT_LIMIT=5)


def test_a_report_is_put_in_words():
    name = int.from_bytes(b"backward", "little")
    text = error_of_wait(name, (131 << 8 | 3) << 32 | 4_000_000_000)
    assert "block 131 " in text and "'backward' of layer 3 in step 4000000000" in text
    assert "layer" not in error_of_wait(int.from_bytes(b"y", "little"), 5)


@pytest.fixture
def persistent(monkeypatch):
    """The module for whole trainings in one launch, over a CUDA that is not there."""
    fake = MagicMock()
    fake.runtime.CUDARuntimeError = RuntimeError
    memory = np.full(2, 7, np.uint64)
    fake.runtime.hostAlloc = lambda nbytes, flags: memory.ctypes.data
    cupy = MagicMock(cuda=fake)
    name = "snn.backends.cuda.persistent"
    package = importlib.import_module("snn.backends.cuda")
    for module in ("cooperative", "modules"):
        monkeypatch.setitem(sys.modules, f"snn.backends.cuda.{module}", MagicMock())
        monkeypatch.setattr(package, module, MagicMock(), raising=False)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", fake)
    monkeypatch.delitem(sys.modules, name, raising=False)
    found = importlib.import_module(name)
    yield found, memory
    monkeypatch.delitem(sys.modules, name, raising=False)
    if hasattr(package, "persistent"):
        del package.persistent


def test_a_call_that_fails_after_a_report_names_the_wait(persistent):
    module, memory = persistent

    def synchronize():
        raise RuntimeError("cudaErrorLaunchFailure: unspecified launch failure")

    call = module.naming_waits(synchronize)
    with pytest.raises(RuntimeError, match="unspecified"):
        call()  # nobody gave up
    assert not memory.any()
    memory[:] = int.from_bytes(b"dZ_2", "little"), (17 << 8) << 32 | 42
    with pytest.raises(LaunchError, match=r"block 17 .*'dZ_2' in step 42.*cudaErrorLaunchFailure"):
        call()


def test_a_kernel_is_not_launched_in_too_small_a_workspace(persistent):
    module, _ = persistent
    shape = PerceptronShape((16, 32), 32, True, False)
    steps, launches = Steps(100, 0, 1, 0.01), []
    launcher = object.__new__(module._Launcher)
    launcher.launch = lambda *given: launches.append(given)
    launcher._workspace = shape.elements(steps.rows)[-1] + 1
    trainer = object.__new__(module.Trainer)
    trainer._best, trainer._shape = launcher, shape
    with pytest.raises(RuntimeError, match=str(launcher._workspace)):
        trainer.train([0] * 5, steps, 0)
    assert not launches
    launcher._workspace -= 1
    trainer.train([0] * 5, steps, 0)
    assert len(launches) == 1


@pytest.mark.parametrize(("members", "size", "together"), [(1, 16, None), (10, 8, 15)])
def test_a_trainer_launches_the_configuration_that_it_records(persistent, members, size, together):
    """Ten networks do not fit with 16 blocks each, but with 8."""
    module, _ = persistent
    device, made = module.cupy.cuda.Device.return_value, {}
    device.compute_capability = "90"
    device.attributes = {"MultiProcessorCount": 132, "MaxSharedMemoryPerBlockOptin": 232448}
    module.modules.constant = lambda module, name: {"workspace_floats": 40, "shared_bytes": 1234}[name]

    def cooperative(function, blocks, threads, cluster, shared, together, independent):
        made[cluster] = MagicMock(given=(blocks, threads, shared, together))
        made[cluster].held_clusters.return_value = 7 if cluster == 16 else 15
        made[cluster].held_blocks.return_value = 1
        return made[cluster]

    module.CooperativeLaunch = cooperative
    outliers = members > 1  # which the kernel with a block for each network does not take
    trainer = module.Trainer(PerceptronShape((32, 256), 256, True, False, members, outliers), ROOT)
    words, record = trainer.launch.words, trainer.launch.record
    assert words.startswith(f"{'one cluster' if members == 1 else '10 clusters'} of {size} blocks")
    assert ("at most 15 networks" in words) == (members > 1)
    expected = {"kernel": "one_layer", "blocks": size * members, "threads": 160, "cluster": size}
    expected |= {"clusters": 1, "together": together, "shared_bytes": record["shared_bytes"]}
    assert record == expected and made[size].given == (size * members, 160, 1234, False)
    schema = json.loads((ROOT / "snn/records/record.schema.json").read_text())["properties"]["launch"]
    jsonschema.validate(record, schema)
    assert record.keys() == schema["properties"].keys()
    trainer.train([1, 2, 3, 4, 5], Steps(2560, 1, 20, 0.5, 0.25), 9)
    (arguments, stream), _ = made[size].call_args
    assert [one.value for one in arguments] == [1, 2, 3, 4, 5, 2560, 1, 20, 0.5, 0.25] and stream == 9


# ---- on a GPU

TRAINING = """
import sys
from unittest.mock import patch
import numpy as np
from snn import backends, command
from snn.backends import kernel_source
from snn.config import groups
from snn.config.groups import ROOT
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.strategies.one_launch import Persistent

layers, options, before, after = eval(sys.argv[1])
text_of = kernel_source.text

def muted(path):
    text = text_of(path)
    if path.suffix != ".cu" or "persistent" not in path.parts:
        return text
    assert text.count(before) == 1 or before not in text, path
    return "#define WAIT_LIMIT 300\\n" + text.replace(before, after)

def work(arguments):
    random = np.random.default_rng(1)
    X = random.uniform(-1, 1, (1000, layers[0])).astype("f")
    Y = np.square(X).sum(axis=1, keepdims=True)
    network = mlp(layers, init="he_uniform", **options)
    backend = backends.make("cuda", groups.load("kernel", "naive"), ROOT)
    strategy = Persistent(backend)
    try:
        strategy.setup(network, X, Y, 256, 0.001)
        print(strategy.plan)
        strategy.load(draw_weights(network, GlibcRandom(5)))
        strategy.train(2)
        strategy.weights()
    finally:
        strategy.close()
    return 0

with patch.object(kernel_source, "text", muted):
    sys.exit(command.answer(lambda: work([])))
"""


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("layers", "options", "replaced", "awaited"),
    [
        ((32, 256, 1), {}, SUMS, "y|g"),
        (
            (32, 1024, 1),
            {},
            ("if (lane < PER) publish(", "if (lane < PER && blockIdx.x / CLUSTER != 1) publish("),
            "y|g|clusters",
        ),
        ((32, 256, 256, 1), {}, MESSAGE, r"\w+"),
        ((32, 256, 1024, 256, 1), {}, MESSAGE, r"\w+"),
        ((32, 256, 1), {"clip_norm": 0.5}, ARRIVAL, "forward' of layer 1|update' of layer 1"),
        ((64, 256, 256, 1), {"clip_norm": 0.5}, ARRIVAL, r"\w+' of layer \d"),
    ],
    ids=["mbarrier", "words", "two_layers", "three_layers", "grid", "grid-of-two"],
)
def test_a_training_of_which_a_block_says_nothing_ends_with_a_message(layers, options, replaced, awaited):
    arguments = repr((layers, options, *replaced))
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2, done.stderr
    (message,) = re.findall(r"^snn: .*$", done.stderr, re.MULTILINE)
    assert re.search(rf"block \d+ waited too long for '({awaited})'?.* in step \d+", message), message
    assert "context" in message


FENCED = [
    ((32, 1024, 1), None),
    ((20, 120, 64, 1), 0.5),
    ((32, 256, 256, 1), None),
    ((20, 120, 1024, 250, 1), 0.5),
    ((32, 256, 1024, 256, 1), None),
]
IMAGES = Network(
    (1, 28, 28),
    tuple(map(parse, ("conv2d 16 3", "relu", "conv2d 32 3", "relu", "maxpool2d 2", "linear 10"))),
    LOSSES["cross_entropy"],
    init="he_uniform",
    update_order="simultaneous",
)


def weights_after_training(network, X, Y, batch, **defines):
    from snn.backends.cuda import persistent

    module_of = persistent._module

    def with_defines(plan, root):
        further = tuple((name, str(value)) for name, value in defines.items())
        return module_of(replace(plan, defines=(*plan.defines, *further)), root)

    strategy = Persistent(backends.make("cuda", groups.load("kernel", "naive"), ROOT))
    with patch.object(persistent, "_module", with_defines), closing(strategy):
        strategy.setup(network, X, Y, batch, 0.001)
        assert not strategy.plan.startswith("graph")
        strategy.load(draw_weights(network, GlibcRandom(5)))
        strategy.train(20)
        return strategy.weights()


@pytest.mark.gpu
@pytest.mark.parametrize(("layers", "clip"), [*FENCED, (None, None)])
def test_messages_with_fences_bring_the_same_bits(layers, clip):
    """On new random data each time: what the memory model does not promise is looked for in many runs."""
    seed = secrets.randbits(32)
    random = np.random.default_rng(seed)
    if layers:
        network = mlp(layers, init="he_uniform", clip_norm=clip)
        X = random.uniform(-1, 1, (2000, layers[0])).astype(np.float32)
        Y, batch = np.square(X).sum(axis=1, keepdims=True), 256
    else:
        network, batch = IMAGES, 64
        X = random.uniform(0, 1, (500, 1, 28, 28)).astype(np.float32)
        Y = np.eye(10, dtype=np.float32)[random.integers(0, 10, 500)]
    plain, fenced = (weights_after_training(network, X, Y, batch, FENCES=fences) for fences in (0, 1))
    for one, other in zip(plain, fenced, strict=True):
        assert np.isfinite(one).all(), seed
        assert np.array_equal(one, other), seed
