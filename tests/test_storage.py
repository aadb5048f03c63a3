"""``training.storage``: activations and error signals in 16 bits on the device, weights in float32."""

from contextlib import closing
from itertools import cycle

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT
from emulated import EmulatedBackend
from real_records import measured
from rounding import rounded

from snn import backends
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.config.compose import composed
from snn.errors import ConfigError, Unsupported
from snn.models.glibc_random import GlibcRandom
from snn.models.layers import parse
from snn.models.losses import LOSSES
from snn.models.network import Network, draw_weights, mlp
from snn.models.optimizers import Adam, Sgd
from snn.models.storage import BF16, FP16, FP32, packed, unpacked
from snn.planning import gpus
from snn.planning.gpus import PlannedGpu
from snn.planning.plan import predicted
from snn.strategies import factory

UNIT = {FP32: 2**-24, BF16: 2**-9, FP16: 2**-12}
"""Half the distance between neighbouring numbers, relative to the larger power of two."""

PLAIN = {"init": "he_uniform"}
FURTHER = {"bias": True, "activation": "gelu", "update_order": "simultaneous"}
WAYS = (PLAIN, Sgd()), (FURTHER | PLAIN, Adam(eps=0.1, clip_norm=0.5))
"""Such a large eps keeps Adam's step from following the sign of a gradient that is almost 0."""

KERNELS = [name for name in groups.names("kernel") if groups.load("kernel", name)["source"]]
ROWS, BATCH, RATE = 19, 8, 0.05
GPU = gpus.named("NVIDIA H200")


def data(features=5, outputs=1, rows=ROWS):
    random = np.random.default_rng(1)
    return tuple(random.uniform(-1, 1, (rows, n)).astype(np.float32) for n in (features, outputs))


def trained(network, backend=None, epochs=1, batch=BATCH, strategy="resident", **options):
    """Weights, losses of an epoch, predictions, and the loss of rows held out."""
    X, Y = data()
    if network.loss.is_classification:
        Y = network.loss.targets(np.arange(ROWS, dtype=np.float32)[:, None] % 3, 3)
    choice = groups.load("strategy", strategy) | options
    with closing(factory.make(choice, backend or CpuBackend())) as one:
        one.check_network(network)
        one.keeps_losses, one.validation = True, (X[:3], Y[:3])
        one.setup(network, X, Y, batch, RATE)
        one.load(draw_weights(network, GlibcRandom(2)))
        for _ in range(epochs):
            one.epoch()
        return one.weights(), one.epoch_losses(), one.predict(X), one.validation_loss()


def as_stored(matrix, storage):
    """Float64 values rounded to float32, and to 16 bits, bit by bit."""
    single = matrix.astype(np.float32)
    return (single.astype(np.float16) if storage == FP16 else rounded(single, storage)).astype(np.float64)


def one_step(weights, X, Y, storage, loss_scale):
    """The weights after a step of naive kernels: each array that they write is rounded, in float64."""

    def keep(matrix):
        return as_stored(matrix, storage)

    H = [keep(X)]
    for i, W in enumerate(weights):
        Z = keep(H[-1] @ W)
        H.append(Z if i == len(weights) - 1 else np.maximum(Z, 0))
    dZ, after = keep(2 * loss_scale / len(X) * (H[-1] - Y)), list(weights)
    for i in reversed(range(len(weights))):
        after[i] = weights[i] - RATE / loss_scale * (H[i].T @ dZ)
        dZ = np.where(H[i] > 0, keep(dZ @ after[i].T), 0)
    return after


@pytest.mark.parametrize(("storage", "scale"), [(BF16, 1.0), (FP16, 1.0), (FP16, 2.0**18)])
def test_a_step_is_that_of_numbers_rounded_bit_by_bit(storage, scale):
    """A sum within float32's rounding of a tie may be rounded the other way: by a unit of one element."""
    network = mlp((5, 7, 6, 1), storage=storage, loss_scale=scale, **PLAIN)
    X, Y = data()
    weights = draw_weights(network, GlibcRandom(2))
    found, *_ = trained(network, batch=ROWS)
    expected = one_step([W.astype(np.float64) for W in weights], X, Y, storage, scale)
    exact = one_step([W.astype(np.float64) for W in weights], X, Y, FP32, 1.0)
    for W, right, unrounded, before in zip(found, expected, exact, weights, strict=True):
        step = np.linalg.norm(unrounded - before)
        assert np.linalg.norm(W - right) < UNIT[storage] * step / 4 + 1e-7
        assert np.linalg.norm(W - unrounded) < 8 * UNIT[storage] * step + 1e-7


def test_rounding_is_to_nearest_even_and_reading_exact():
    bits = np.arange(2**16, dtype=np.uint16)
    for storage in (BF16, FP16):
        values = unpacked(bits, storage)
        np.testing.assert_array_equal(unpacked(packed(values, storage), storage), values)
    floats = np.random.default_rng(3).integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        np.testing.assert_array_equal(unpacked(packed(floats, BF16), BF16), rounded(floats, "bf16"))


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
@pytest.mark.parametrize(("name", "storage"), [*zip(KERNELS, cycle([FP16, BF16]))])
def test_kernels_round_as_numpy_does(name, storage):
    """But for sums that differ in float32, and tensor cores, which also round the weights."""
    choice = groups.load("kernel", name)
    for more, optimizer in WAYS if choice["fused"] else WAYS[1:]:
        network = mlp((5, 8, 6, 1), storage=storage, loss_scale=8.0, optimizer=optimizer, **more)
        own, others = (
            trained(network, backend, batch=ROWS)
            for backend in (
                CpuBackend(choice["fused"], choice["pretransposed"]),
                EmulatedBackend(choice, choice["precisions"][-1]),
            )
        )
        bound = 1e-5 if choice["precisions"] == ["fp32"] else 0.02
        for mine, other in zip((*own[0], *own[1:3]), (*others[0], *others[1:3]), strict=True):
            np.testing.assert_allclose(mine, other, rtol=bound, atol=bound)


WIDE = ("linear 8", "layernorm", "tanh", "dropout 0.2", "linear 8", "batchnorm1d", "relu", "linear 3")
"""Every kind of layer that can be held in 16 bits."""


def network_of(storage, **further):
    rest = {"layers": tuple(map(parse, WIDE)), "update_order": "simultaneous", "storage": storage} | PLAIN
    return Network((5,), loss=LOSSES["cross_entropy"], **(rest | further))


def distance(found, others):
    """The largest distance of the trained parameters, relative to their norm."""
    pairs = zip(found[0], others[0], strict=True)
    return max(np.linalg.norm(W - other) / (np.linalg.norm(other) + 0.1) for W, other in pairs)


@pytest.mark.parametrize("storage", [BF16, FP16])
def test_every_layer_and_remedy_is_near_float32(storage):
    exact = trained(network_of(FP32), epochs=2)
    plain = trained(network_of(storage), epochs=2)
    assert 0 < distance(plain, exact) < 20 * UNIT[storage]
    np.testing.assert_allclose(plain[2], exact[2], atol=80 * UNIT[storage])
    assert plain[3] == pytest.approx(exact[3], abs=20 * UNIT[storage])
    again = trained(network_of(storage, recompute=(1, 4)), epochs=2)
    assert all(map(np.array_equal, plain[0], again[0]))
    scaled = trained(network_of(storage, loss_scale=2.0**12), epochs=2)
    assert distance(scaled, exact) < 20 * UNIT[storage]
    shuffled = [trained(network_of(kind, order_seed=3), epochs=2) for kind in (FP32, storage)]
    assert distance(*shuffled) < 20 * UNIT[storage]
    networks = (
        mlp((5, 8, 8, 1), storage=kind, accumulate=parts, loss_scale=4.0, **FURTHER, **PLAIN)
        for kind, parts in ((FP32, 1), (storage, 2))
    )
    assert distance(*(trained(network) for network in networks)) < 20 * UNIT[storage]


def test_updates_undo_the_scale_of_the_loss_to_the_bit_in_float32():
    """A power of two is exact; Adam, momentum and clipping see gradients without it."""
    for optimizer in (Sgd(), Sgd(0.9), Adam(), Adam(clip_norm=0.1)):
        for fused in (False, True):
            plain, scaled = (
                trained(
                    mlp((5, 8, 8, 1), loss_scale=scale, optimizer=optimizer, **FURTHER), CpuBackend(fused)
                )
                for scale in (1.0, 1024.0)
            )
            assert all(map(np.array_equal, plain[0], scaled[0])), (optimizer, fused)


@pytest.mark.parametrize("storage", [BF16, FP16])
def test_bytes_are_counted_and_planned(storage):
    """X, every H and every dH take half; E, Y, weights and their gradients do not."""
    more = ["strategy=resident", "training.epochs=1", "network.hidden=[64,32]"]
    full, half = (measured(*more, f"training.storage={kind}") for kind in (FP32, storage))
    kinds = [record["memory"]["device"]["peak_by_kind"] for record in (full, half)]
    assert kinds[1]["activations"] * 2 == kinds[0]["activations"]
    rows, batch = full["data"]["rows"], full["cell"]["training"]["batch_size"]
    saved = kinds[0]["gradients"] - kinds[1]["gradients"]
    assert saved == 2 * min(rows, batch) * (64 + 32 + 1)
    assert kinds[0]["data"] - kinds[1]["data"] == 2 * rows * full["data"]["features"]
    assert kinds[0]["weights"] == kinds[1]["weights"]
    planned = predicted(half["cell"], GPU)
    assert {kind: planned[kind] for kind in kinds[1]} == kinds[1]


@pytest.mark.parametrize(
    ("strategy", "layers", "kernel"),
    [
        ("pipelined", ["linear 4", "linear 1"], "naive"),
        ("reference", ["linear 4", "linear 1"], "naive"),
        ("persistent", ["linear 4", "linear 1"], "naive"),
        ("resident", ["conv2d 2 2", "relu", "linear 1"], "naive"),
        ("graph", ["linear 4", "linear 1"], "cublas"),
    ],
)
def test_others_are_unsupported(strategy, layers, kernel):
    inputs = (1, 3, 3) if layers[0].startswith("conv") else (5,)
    network = Network(inputs, tuple(map(parse, layers)), storage=BF16)
    backend = PlannedGpu(groups.load("kernel", kernel), "fp32", GPU.capability)
    with pytest.raises(Unsupported, match=r"training\.storage"):
        one = factory.make(groups.load("strategy", strategy), backend)
        one.check_network(network)
        one.setup(network, *data(network.inputs[0] * 9 if len(inputs) > 1 else 5), BATCH, RATE)


def test_fp16_rejects_inputs_that_it_cannot_hold():
    strategy = factory.make(groups.load("strategy", "resident"), CpuBackend())
    with pytest.raises(Unsupported, match="65504"):
        strategy.setup(mlp((5, 4, 1), storage=FP16), 1e5 * data()[0], data()[1], BATCH, RATE)


def test_cells_have_the_keys_only_if_they_change_something():
    more = "device=cpu", "strategy=resident"
    plain, half, scaled, fp32 = (
        composed([*more, *given])["training"]
        for given in (
            ["training.storage=fp32"],
            ["training.storage=bf16"],
            ["training.storage=fp16"],
            ["training.loss_scale=null"],
        )
    )
    assert plain == fp32 == {key: half[key] for key in plain} and half["storage"] == BF16
    assert scaled == plain | {"storage": FP16, "loss_scale": 1024}
    for given in (["training.loss_scale=8"], ["training.storage=fp16", "training.loss_scale=9"]):
        with pytest.raises(ConfigError, match=r"training\.loss_scale is"):
            composed([*more, *given])


@pytest.mark.gpu
@pytest.mark.parametrize("storage", [BF16, FP16])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("strategy", ["resident", "graph"])
def test_a_gpu_rounds_as_numpy_does(strategy, name, storage):
    choice = groups.load("kernel", name)
    precision = choice["precisions"][-1]
    for more, optimizer in WAYS:
        network = mlp((5, 70, 65, 1), storage=storage, loss_scale=8.0, optimizer=optimizer, **more)
        expected = trained(network, CpuBackend(choice["fused"], choice["pretransposed"]))
        found = trained(network, backends.make("cuda", choice, ROOT, precision), strategy=strategy)
        assert distance(found, expected) < (0.5 if precision == "fp32" else 20) * UNIT[storage]


@pytest.mark.gpu
def test_every_layer_is_near_float32_on_a_gpu(cuda_backend):
    for storage in (BF16, FP16):
        expected = trained(network_of(storage, order_seed=3))
        found = trained(network_of(storage, order_seed=3), cuda_backend, strategy="graph")
        assert distance(found, expected) < 4 * UNIT[storage]


PEERS = {
    # a bias before a batch norm has no gradient but noise
    "torch_loader": ["linear 8", "layernorm", "tanh", "linear 8", "relu", "linear 3"],
    "torch_eager": ["linear 8", "gelu", "linear 8", "relu", "linear 3"],
    "torch_graph": ["linear 8", "relu", "linear 3"],
}


@pytest.mark.parametrize(
    ("strategy", "device"),
    [
        ("torch_loader", "cpu"),
        ("torch_eager", "cpu"),
        *(pytest.param(name, "cuda", marks=pytest.mark.gpu) for name in PEERS),
    ],
)
def test_pytorchs_mixed_precision_is_near_float32(strategy, device, request):
    pytest.importorskip("torch")
    backend = request.getfixturevalue("cuda_backend") if device == "cuda" else CpuBackend()
    layers, options = PEERS[strategy], {"workers": 0} if strategy == "torch_loader" else {}
    for storage, scale in ((BF16, 1.0), (FP16, 64.0)):
        how = {"layers": tuple(map(parse, layers)), "optimizer": Adam(eps=0.1, clip_norm=0.5)}
        networks = network_of(FP32, **how), network_of(storage, loss_scale=scale, **how)
        exact, amp = (trained(one, backend, 2, strategy=strategy, **options) for one in networks)
        assert 0 < distance(amp, exact) < 20 * UNIT[storage]
        assert distance(amp, trained(networks[1], epochs=2)) < 20 * UNIT[storage]
