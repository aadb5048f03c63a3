"""Micro-batches and outputs that are computed again: the same numbers, in no more memory."""

import itertools
from contextlib import closing
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from conftest import LIKE_GRAPH, ROOT, STRATEGIES
from deferred import DeferredBackend
from emulated import EmulatedBackend
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from in_float64 import KERNELS, Training
from test_layers import compare, networks
from test_training import trained

from snn import backends
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.errors import Unsupported
from snn.measurement import runs
from snn.models.glibc_random import GlibcRandom
from snn.models.gradients import EXACT
from snn.models.layers import Conv2d, Linear, MaxPool2d, ReLU, parse
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network, draw_weights, mlp
from snn.models.remedies import AGAIN, sharing
from snn.models.training_step import batch_steps, training_step
from snn.profiling.ledger import MemoryMap
from snn.profiling.observed import ObservedBackend
from snn.profiling.rehearsal import rehearse
from snn.strategies import factory
from snn.strategies.factory import Job

TRAINERS = [
    n for n in STRATEGIES if factory.class_of(groups.load("strategy", n)).remedies and n not in LIKE_GRAPH
]
OTHERS = [n for n in groups.names("strategy") if n not in (*TRAINERS, *LIKE_GRAPH)]
DEEP_MLP = mlp((12, 96, 80, 96, 80, 96, 1), init="he_uniform", update_order="simultaneous")
_CONV = (Conv2d(4, 3, 1), ReLU())
DEEP_CNN = Network(
    (1, 12, 12),
    (*_CONV, *_CONV, *_CONV, *_CONV, MaxPool2d(2), Linear(3)),
    CROSS_ENTROPY,
    init="kaiming_uniform",
    update_order="simultaneous",
)


class NoProductInPlace(CpuBackend):
    def launch(self, op, buffers, numbers, stream=None):
        assert not op.startswith("matmul") or buffers[2] not in buffers[:2]
        super().launch(op, buffers, numbers, stream)


def test_a_prediction_writes_no_output_over_its_input():
    """It has no dropout, after which the input of the next layer would be elsewhere."""
    layers = map(parse, ("linear 8", "layernorm", "dropout 0.2", "linear 8", "layernorm", "linear 1"))
    network = Network((5,), tuple(layers), recompute=(1, 3), update_order="simultaneous")
    X, Y = np.ones((9, 5), np.float32), np.ones((9, 1), np.float32)
    with closing(factory.make(groups.load("strategy", "resident"), NoProductInPlace())) as strategy:
        strategy.setup(network, X, Y, 4, 0.1)
        strategy.load(draw_weights(network, GlibcRandom(1)))
        strategy.predict(X)


@st.composite
def recomputed(draw, network):
    """The network, with some of its layers computed again."""
    made = [i for i, layer in enumerate(network.layers) if not layer.in_place][:-1]
    chosen = draw(st.lists(st.sampled_from(made), unique=True)) if made else []
    return replace(network, gradient=EXACT, recompute=tuple(chosen))


def data_of(network, rows, seed):
    """Rows and targets, and weights."""
    training = Training(rows, 1, 1, 0.01, seed, seed % 1000 + 1)
    return training.arrays(network), training.data(network)[-1]


def run(name, backend, network, rows, batch, seed=3, epochs=2, rate=0.01):
    """Weights and loss after some epochs, and the memory map of the device."""
    (X, Y), weights = data_of(network, rows, seed)
    memory = MemoryMap()
    observed = ObservedBackend(backend, memory)
    result = trained(name, observed, network, X, Y, epochs, batch, rate, weights)
    observed.live.check_nothing_held()
    return *result, memory.device.describe()


def same_bits(some, others):
    return all(np.array_equal(a, b) for a, b in zip(some, others, strict=True))


def far(some, others):
    return max(np.abs(a - b).max() for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=12)
@given(
    network=networks(),
    rows=st.integers(1, 9),
    micro=st.integers(1, 3),
    times=st.integers(2, 4),
    seed=st.integers(0, 2**31),
)
def test_any_network_in_micro_batches_agrees_with_the_oracle(name, kernel, network, rows, micro, times, seed):
    """Batches of several sizes: the last one is short, and so may its last micro-batch be."""
    network = replace(network, update_order="simultaneous", gradient=EXACT, accumulate=times)
    compare(name, DeferredBackend(*kernel), network, rows, micro * times, seed)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=12)
@given(data=st.data(), network=networks(), rows=st.integers(1, 7), batch=st.integers(1, 4))
def test_any_network_computed_again_has_the_same_bits_in_no_more_memory(
    name, kernel, data, network, rows, batch
):
    kept = replace(network, gradient=EXACT)
    dropped = data.draw(recomputed(kept))
    seed = data.draw(st.integers(0, 2**31))
    weights, loss, memory = run(name, DeferredBackend(*kernel), kept, rows, batch, seed)
    found, again, less = run(name, DeferredBackend(*kernel), dropped, rows, batch, seed)
    assert same_bits(weights, found) and (loss == again or loss != loss)
    assert less["peak_bytes"] <= memory["peak_bytes"]
    for kind, nbytes in less["peak_by_kind"].items():
        assert nbytes <= memory["peak_by_kind"][kind]


@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=10)
@given(data=st.data(), network=networks(), rows=st.integers(1, 7), seed=st.integers(0, 2**31))
def test_both_together_agree_with_the_oracle(name, data, network, rows, seed):
    network = replace(data.draw(recomputed(network)), update_order="simultaneous", accumulate=2)
    kernel = data.draw(st.sampled_from(KERNELS))
    compare(name, DeferredBackend(*kernel), network, rows, 4, seed)


@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=20)
@given(network=networks(), batch=st.integers(2, 12), rows=st.integers(12, 30), seed=st.integers(0, 2**31))
def test_micro_batches_hold_no_more_than_a_batch_and_what_they_add(name, network, batch, rows, seed):
    """Beside the gradients that are added up, there is those of a micro-batch: of one layer at a time."""
    network = replace(network, update_order="simultaneous", gradient=EXACT)
    divisor = next(n for n in range(2, batch + 1) if batch % n == 0)
    _, _, whole = run(name, DeferredBackend(), network, rows, batch, seed)
    _, _, parts = run(name, DeferredBackend(), replace(network, accumulate=divisor), rows, batch, seed)
    by_kind, of_whole = parts["peak_by_kind"], whole["peak_by_kind"]
    for kind in ("activations", "workspace"):
        assert by_kind.get(kind, 0) <= of_whole.get(kind, 0)
    largest = {
        kind: max((np.prod(p.shape) for p in network.parameters if p.name[0] == kind), default=0)
        for kind in "Wb"
    }
    assert parts["peak_bytes"] <= whole["peak_bytes"] + 4 * sum(largest.values())


@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=10)
@given(
    data=st.data(),
    network=networks(),
    micro=st.integers(1, 4),
    times=st.integers(1, 3),
    batches=st.integers(1, 6),
    rest=st.integers(0, 11),
)
def test_predicted_memory_is_what_they_hold(name, data, network, micro, times, batches, rest):
    network = replace(data.draw(recomputed(network)), update_order="simultaneous", accumulate=times)
    kernel, batch = data.draw(st.sampled_from(KERNELS)), micro * times
    rows = batch * batches + rest % batch
    (X, Y), _ = data_of(network, rows, 1)
    job = Job(groups.load("strategy", name), network, X, Y, 1, 2, batch, 0.01)
    _, memory = runs.count(job, DeferredBackend(*kernel))
    assert rehearse(job, rows, DeferredBackend(*kernel)).nbytes == memory["device"]["peak_bytes"]


CASES = [(DEEP_MLP, 1000, 256, (0, 4, 8)), (DEEP_CNN, 40, 16, (0, 4))]


@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[-1]])
@pytest.mark.parametrize(("network", "rows", "batch", "layers"), CASES, ids=["mlp", "cnn"])
def test_fifty_steps_of_four_micro_batches_are_those_of_one_batch(kernel, network, rows, batch, layers):
    epochs = -(-50 // -(-rows // batch))
    one, loss, whole = run("resident", CpuBackend(*kernel), network, rows, batch, epochs=epochs)
    four, close, parts = run(
        "resident", CpuBackend(*kernel), replace(network, accumulate=4), rows, batch, epochs=epochs
    )
    assert far(one, four) <= 1e-5 and close == pytest.approx(loss, rel=1e-5)
    assert parts["peak_by_kind"]["activations"] <= whole["peak_by_kind"]["activations"] / 3.9


@pytest.mark.parametrize(("network", "rows", "batch", "layers"), CASES, ids=["mlp", "cnn"])
def test_the_layers_that_are_computed_again_share_one_output(network, rows, batch, layers):
    kept, _, memory = run("resident", CpuBackend(), network, rows, batch)
    found, _, less = run("resident", CpuBackend(), replace(network, recompute=layers), rows, batch)
    assert same_bits(kept, found)
    saved = {
        kind: memory["peak_by_kind"][kind] - less["peak_by_kind"][kind] for kind in memory["peak_by_kind"]
    }
    of_each = 4 * batch * int(np.prod(network.layer_shapes[1]))
    assert saved["activations"] == saved["gradients"] == (len(layers) - 1) * of_each
    assert saved["weights"] == saved["data"] == 0


def test_what_is_computed_again_is_in_the_step_right_before_it_is_read():
    step = training_step(replace(DEEP_MLP, recompute=(0, 2)), 8, 0.1)
    again = [(n, launch) for n, launch in enumerate(step.launches) if launch.label.endswith(AGAIN)]
    assert [launch.op for _, launch in again] == ["matmul", "relu"] * 2
    assert [n for n, _ in again] == list(range(again[0][0], again[0][0] + 4))
    first, after = again[0][0], again[-1][0] + 1
    assert all("H2" not in launch.operands for launch in step.launches[step.forward : first])
    assert "H2" in step.launches[after].operands
    assert not any(launch.label.endswith(AGAIN) for launch in training_step(DEEP_MLP, 8, 0.1).launches)


def test_buffers_in_use_together_share_nothing():
    """Of what the launches name between a buffer's first and last use, nothing lies where it lies."""
    for network, layers in ((DEEP_MLP, (0, 2, 6)), (DEEP_CNN, (0, 2, 6)), (DEEP_CNN, (0, 4, 8))):
        for kernel in KERNELS:
            dropped = replace(network, recompute=layers)
            steps = batch_steps(dropped, 8, 4, 0.1, *kernel)
            sizes = dict.fromkeys(itertools.chain(*(step.transient for step in steps)), 1)
            for group in sharing(steps, sizes):
                for step, (a, b) in itertools.product(steps, itertools.combinations(group, 2)):
                    for start, end in ((0, step.forward), (step.forward, len(step.launches))):
                        named = [(a in one.operands, b in one.operands) for one in step.launches[start:end]]
                        of_a, of_b = ([n for n, both in enumerate(named) if both[i]] for i in (0, 1))
                        assert not of_a or not of_b or of_a[-1] < of_b[0] or of_b[-1] < of_a[0], (a, b)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("remedy", [{"accumulate": 2}, {"recompute": (0,)}])
def test_a_strategy_without_launches_of_its_own_says_so(name, remedy):
    strategy = factory.make(groups.load("strategy", name), CpuBackend())
    network = mlp((4, 3, 1), update_order="simultaneous")
    key = "training.accumulate" if "accumulate" in remedy else "network.recompute"
    with pytest.raises(Unsupported, match=f"{key} changes the launches.*choose resident, graph, pipelined"):
        strategy.check_network(replace(network, **remedy))


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", [name for name in groups.names("kernel") if name != "tensor_core"])
@pytest.mark.parametrize(("network", "rows", "batch", "layers"), CASES, ids=["mlp", "cnn"])
def test_on_a_gpu_fifty_steps_are_close_and_the_same_bits(kernel, network, rows, batch, layers):
    def on(backend, name, **changed):
        epochs = -(-50 // -(-rows // batch))
        return run(name, backend, replace(network, **changed), rows, batch, epochs=epochs)

    backend = backends.make("cuda", groups.load("kernel", kernel), ROOT)
    for name in TRAINERS if kernel == "tiled_fused" else ["resident"]:
        one, loss, whole = on(backend, name)
        four, close, parts = on(backend, name, accumulate=4)
        assert far(one, four) <= 1e-5 and close == pytest.approx(loss, rel=1e-4)
        assert parts["peak_by_kind"]["activations"] <= whole["peak_by_kind"]["activations"] / 3.9
        again, same, less = on(backend, name, recompute=layers)
        assert same_bits(one, again) and same == loss and less["peak_bytes"] < whole["peak_bytes"]
        both, _, least = on(backend, name, recompute=layers, accumulate=4)
        assert same_bits(four, both) and least["peak_bytes"] < parts["peak_bytes"]


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_on_a_gpu_reduced_precision_computes_the_same_bits_again(precision):
    backend = backends.make("cuda", groups.load("kernel", "tensor_core"), ROOT, precision)
    for network, rows, batch, layers in CASES:
        kept, _, memory = run("graph", backend, network, rows, batch)
        found, _, less = run("graph", backend, replace(network, recompute=layers), rows, batch)
        assert same_bits(kept, found) and less["peak_bytes"] < memory["peak_bytes"]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks(), rows=st.integers(2, 9), seed=st.integers(0, 2**31), data=st.data())
@pytest.mark.parametrize("name", TRAINERS)
def test_both_on_every_backend(name, backend, network, rows, seed, data):
    network = replace(data.draw(recomputed(network)), update_order="simultaneous", accumulate=2)
    assume(rows > 1)
    compare(name, backend, network, rows, 4, seed)


# ---- whole steps in micro-batches and with recomputed outputs, by the CUDA kernels' source, run on the CPU


needs_compiler = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")


@needs_compiler
@pytest.mark.parametrize(
    ("network", "layers", "batch", "rows"),
    [(*CASES[0][::3], 16, 21), (*CASES[1][::3], 4, 5)],
    ids=["mlp", "cnn"],
)
def test_the_sources_train_the_same_weights(network, layers, batch, rows):
    """One batch and a smaller one, of which the last micro-batch of ``mlp`` is smaller, too."""
    backend = EmulatedBackend(groups.load("kernel", "tiled_fused"))

    def trained(**changed):
        return run("resident", backend, replace(network, **changed), rows, batch, epochs=1)[0]

    one, four = trained(), trained(accumulate=4)
    assert 0 < far(one, four) <= 1e-6
    assert same_bits(one, trained(recompute=layers))
    assert same_bits(four, trained(recompute=layers, accumulate=4))


@needs_compiler
def test_a_buffer_that_is_too_small_is_noticed():
    network = CASES[0][0]
    backend = EmulatedBackend(groups.load("kernel", "naive"))

    def malloc(nbytes, purpose=None):
        return CpuBackend.malloc(backend, nbytes - 4 * (purpose == "activations"), purpose)

    backend.malloc = malloc
    with pytest.raises(cuda_on_cpu.KernelError, match=r"argument \d"):
        run("resident", backend, network, 8, 8, epochs=1)
