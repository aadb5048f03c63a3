"""Workload for compute-sanitizer: every strategy trains with every kernel; limits; microbenchmarks.

    compute-sanitizer --tool memcheck python scripts/sanitize.py [--without STRATEGY|layers|limits|... ...]

Sizes are not multiples of any tile, and the last batch is smaller than the others.
"""

import argparse
import math
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from snn import backends  # noqa: E402
from snn.config import groups  # noqa: E402
from snn.measurement import runs  # noqa: E402
from snn.measurement.protocol import Round  # noqa: E402
from snn.models.glibc_random import GlibcRandom  # noqa: E402
from snn.models.layers import ACTIVATIONS, parse  # noqa: E402
from snn.models.losses import LOSSES  # noqa: E402
from snn.models.members import MemberArrays  # noqa: E402
from snn.models.network import Network, draw_weights, mlp  # noqa: E402
from snn.models.optimizers import Adam, AdamW, Sgd  # noqa: E402
from snn.models.schedules import Cosine  # noqa: E402
from snn.profiling.observed import ObservedBackend  # noqa: E402
from snn.profiling.profile import profile  # noqa: E402
from snn.strategies.factory import Job, class_of, own_runtime  # noqa: E402
from snn.strategies.one_launch import (  # noqa: E402
    Describe,
    OneLaunch,
    convolutional_shape,
    layered_shape,
    whole_shape,
)

OURS = [
    name
    for name in groups.names("strategy")
    if not own_runtime(choice := groups.load("strategy", name)) and not class_of(choice).several_devices
]
HIDDEN = (45, 129)
BATCH = 150
FEW = 60  # a batch so small that the blocks of a cluster exchange activations
MANY = 600  # a batch so large that rows are prepared during the forward pass
# Hidden layers of networks that one launch trains: at least one shape for every kernel of kernels/persistent.
WHOLE = ((45,), (300,), (60, 120), (45, 129), (120, 630, 250), (70, 130, 33))
OF_MEMBERS = (45,), (300,), (600,)  # of networks side by side: in a warp, in several, in a cluster
IN_PARTS = (200,), 250  # hidden layers and batch of one whose blocks exchange a batch in two parts

IMAGES = Network(
    (2, 9, 11),
    tuple(map(parse, ("conv2d 5 3 1", "relu", "conv2d 9 2", "relu", "maxpool2d 2", "linear 3"))),
    LOSSES["cross_entropy"],
    init="he_uniform",
    update_order="simultaneous",
)
"""A convolutional network that is trained in one launch."""


CLASSIFIERS = [
    Network(
        (19,),
        tuple(map(parse, ("linear 45", function, f"linear {width}", function, "linear 10"))),
        LOSSES["cross_entropy"],
        init="he_uniform",
        update_order=order,
        **further,
    )
    for order, width, function, further in (
        ("sequential", 30, "relu", {}),
        ("simultaneous", 2048, "relu", {}),
        ("simultaneous", 30, "gelu", {"optimizer": Adam(), "order_seed": 1}),
    )
]
"""Networks with biases and several outputs that are trained in one launch."""

HELD = [
    mlp((19, 45, 30, 3), True, "tanh", init="he_uniform", optimizer=Adam(), order_seed=1, update_order=order)
    for order in ("simultaneous", "sequential")
]
"""Networks that a block holds: the first in a cluster of blocks, the second in a single one."""

DEEP = replace(HELD[0], layers=mlp((19, 20, 20, 20, 20, 3), True, "tanh").layers)
"""A deep network: a warp updates parts of several layers in turn."""

CLIPPED = replace(HELD[0], optimizer=replace(AdamW(), clip_norm=0.05))
"""One whose gradients are clipped together."""

MEMBERS = MemberArrays(
    np.geomspace(0.001, 0.01, 20, dtype=np.float32),
    np.linspace(0, 0.1, 20, dtype=np.float32),
    np.arange(20, dtype=np.uint32),
    np.random.default_rng(7).integers(0, 333, (20, 301), np.int32),
)


def cells() -> Iterator[tuple[str, str, str, float | None, tuple[int, ...]]]:
    """Kernel, precision, strategy, clipping and hidden layers of each training."""
    yield from (("naive", "fp32", strategy, 3.0, HIDDEN) for strategy in OURS)
    for kernel in groups.names("kernel"):
        for precision in groups.load("kernel", kernel)["precisions"]:
            yield from ((kernel, precision, "resident", clip_norm, HIDDEN) for clip_norm in (None, 3.0))
    for hidden in WHOLE:
        yield from (("tiled_fused", "fp32", "persistent", clip_norm, hidden) for clip_norm in (None, 3.0))
    yield from (("tiled_fused", "fp32", "ensemble", None, hidden) for hidden in OF_MEMBERS)


def train(
    kernel: str,
    precision: str,
    strategy: str,
    clip_norm: float | None,
    hidden: tuple[int, ...],
    batch: int = BATCH,
) -> None:
    """Train one of the cells for two epochs; AssertionError if its status is neither ok nor unsupported."""
    random = np.random.default_rng(7)
    X, Y = (random.uniform(-1, 1, (333, n)).astype(np.float32) for n in (31, 1))
    backend = backends.make("cuda", groups.load("kernel", kernel), ROOT, precision)
    job = Job(
        strategy=groups.load("strategy", strategy),
        network=mlp((31, *hidden, 1), init="he_uniform", clip_norm=clip_norm),
        X=X,
        Y=Y,
        seed=1,
        epochs=2,
        batch_size=batch,
        learning_rate=0.002,
    )
    measured = runs.measure(job, Round(runs=1), backend)
    outcome = measured.reason or measured.runs[0].final_loss
    cell = (kernel, precision, strategy, clip_norm, hidden)
    print(*cell, measured.status, outcome, measured.plan or "", flush=True)
    if measured.status != "unsupported":
        assert measured.status == "ok"
        if strategy == "combined":
            profile(job, backend)


def layers() -> None:
    """A network with every layer, by every kernel and precision, two epochs of two batches."""
    random, texts = np.random.default_rng(7), ["conv2d 5 3 1", "relu", "conv2d 9 2", "relu", "maxpool2d 2"]
    texts += ["batchnorm2d", "conv2d 4 2 1 2", "avgpool2d 2", "flatten", "batchnorm1d", "layernorm"]
    texts.append("dropout 0.3")
    for activation in ACTIVATIONS:
        texts += ["linear 10", activation]
    texts.append("linear 3")
    network = Network((2, 9, 7), tuple(map(parse, texts)), LOSSES["cross_entropy"], init="he_uniform")
    X = random.uniform(-1, 1, (33, 126)).astype(np.float32)
    Y = network.loss.targets(random.integers(0, 3, (33, 1)).astype(np.float32), network.outputs)
    cells = [("combined", "naive", "fp32")]
    for kernel in groups.names("kernel"):
        cells += [
            ("resident", kernel, precision) for precision in groups.load("kernel", kernel)["precisions"]
        ]
    for strategy, kernel, precision in cells:
        backend = backends.make("cuda", groups.load("kernel", kernel), ROOT, precision)
        choice = groups.load("strategy", strategy)
        for clip_norm in (None, 0.5):
            clipped = replace(network, clip_norm=clip_norm)
            job = Job(choice, clipped, X, Y, seed=1, epochs=2, batch_size=20, learning_rate=0.01)
            measured = runs.measure(job, Round(runs=1), backend)
            print("layers", strategy, kernel, precision, clip_norm, measured.status, flush=True)
            assert measured.status in ("ok", "unsupported")


def in_one_launch(
    describe: Describe,
    network: Network,
    rows: int,
    batch: int,
    members: MemberArrays | None = None,
    watched: bool = False,
) -> None:
    """A network or its members in one launch, two epochs, the last batch smaller than the others.

    ``watched``: with the losses of both epochs, and of rows held out after them.
    """
    random = np.random.default_rng(7)
    X = random.uniform(-1, 1, (rows, math.prod(network.inputs))).astype(np.float32)
    Y = LOSSES["cross_entropy"].targets(
        random.integers(0, network.outputs, (rows, 1)).astype(np.float32), network.outputs
    )
    backend = backends.make("cuda", groups.load("kernel", "tiled_fused"), ROOT)
    with closing(OneLaunch(ObservedBackend(backend), describe)) as strategy:
        strategy.of_members = members
        strategy.validation = (X[:77], Y[:77]) if watched else None
        strategy.setup(replace(network, run_steps=2 * math.ceil(rows / batch)), X, Y, batch, 0.01)
        strategy.load(draw_weights(network, GlibcRandom(1)))
        if watched:
            for found in strategy.watch(2, 2, lambda *_: None):
                assert len(found.losses) == 2 and np.isfinite(found.validation_losses).all()
        else:
            strategy.train(2)
        strategy.check_trained()
        print("one launch", strategy.plan, strategy.losses()[0], flush=True)
        assert np.isfinite(strategy.losses()).all()


def remedies() -> None:
    """Micro-batches, and layers computed again, of a perceptron and of a network with convolutions."""
    random = np.random.default_rng(7)
    texts = "conv2d 5 3 1", "relu", "conv2d 5 3 1", "relu", "conv2d 5 3 1", "maxpool2d 2", "linear 3"
    of_images = Network((2, 9, 7), tuple(map(parse, texts)), LOSSES["cross_entropy"], init="he_uniform")
    for network in (mlp((31, 45, 129, 45, 1), init="he_uniform"), of_images):
        X = random.uniform(-1, 1, (83, math.prod(network.inputs))).astype(np.float32)
        Y = network.loss.targets(random.integers(0, 3, (83, 1)).astype(np.float32), network.outputs)
        changed = replace(network, update_order="simultaneous", accumulate=3, recompute=(0, 4))
        cells = [("naive", name) for name in ("synchronous", "pipelined", "graph")]
        for kernel, strategy in [*cells, *((name, "resident") for name in groups.names("kernel"))]:
            for precision in groups.load("kernel", kernel)["precisions"]:
                backend = backends.make("cuda", groups.load("kernel", kernel), ROOT, precision)
                choice = groups.load("strategy", strategy)
                job = Job(choice, changed, X, Y, seed=1, epochs=2, batch_size=51, learning_rate=0.01)
                measured = runs.measure(job, Round(runs=1), backend)
                print("remedies", strategy, kernel, precision, measured.status, flush=True)
                assert measured.status in ("ok", "unsupported")


def storage() -> None:
    """Activations in 16 bits, by every kernel and precision, two epochs of two batches."""
    random = np.random.default_rng(7)
    texts = "linear 45", "layernorm", "gelu", "dropout 0.3", "linear 29", "batchnorm1d", "relu", "linear 3"
    layers = tuple(map(parse, texts))
    X = random.uniform(-1, 1, (83, 31)).astype(np.float32)
    for kernel in groups.names("kernel"):
        for precision in groups.load("kernel", kernel)["precisions"]:
            backend = backends.make("cuda", groups.load("kernel", kernel), ROOT, precision)
            for held, optimizer in (("bf16", Sgd()), ("fp16", Adam(clip_norm=1.0))):
                network = Network((31,), layers, LOSSES["cross_entropy"], init="he_uniform")
                how = {"update_order": "simultaneous", "optimizer": optimizer, "order_seed": 1}
                network = replace(network, storage=held, loss_scale=8.0, **how)
                Y = network.loss.targets(random.integers(0, 3, (83, 1)).astype(np.float32), network.outputs)
                choice = groups.load("strategy", "resident")
                job = Job(choice, network, X, Y, seed=1, epochs=2, batch_size=51, learning_rate=0.01)
                measured = runs.measure(job, Round(runs=1), backend)
                print("storage", held, kernel, precision, measured.status, flush=True)
                assert measured.status in ("ok", "unsupported")


def losses() -> None:
    """Losses of single outputs, with rows held out for validation."""
    random = np.random.default_rng(9)
    X = random.uniform(-1, 1, (83, 31)).astype(np.float32)
    for name, width in (("huber", 1), ("binary_cross_entropy", 1), ("binary_cross_entropy", 3)):
        layers = tuple(map(parse, ("linear 45", "relu", f"linear {width}")))
        network = Network((31,), layers, LOSSES[name], init="he_uniform")
        Y = network.loss.targets(random.integers(0, 2, (83, 1)).astype(np.float32), width)
        for kernel, strategy in (("naive", "graph"), ("tiled_fused", "resident")):
            backend = backends.make("cuda", groups.load("kernel", kernel), ROOT)
            choice, held_out = groups.load("strategy", strategy), (X[:37], Y[:37])
            job = Job(choice, network, X, Y, 1, 2, 20, 0.01, validation=held_out)
            measured = runs.measure(job, Round(runs=1), backend)
            print("losses", name, strategy, kernel, measured.status, flush=True)
            assert measured.status == "ok"


def optimizers() -> None:
    """Every optimiser, with gradients clipped one by one or together."""
    random = np.random.default_rng(8)
    X, Y = (random.uniform(-1, 1, (83, width)).astype(np.float32) for width in (31, 1))
    together = Adam(schedule=Cosine(2), clip_norm=0.5)
    for optimizer in (Sgd(weight_decay=0.1), Sgd(0.9), Sgd(0.9, True), Adam(), AdamW(), together):
        rest = {"update_order": "simultaneous"} if optimizer is together else {"clip_norm": 0.5}
        network = mlp((31, 45, 129, 1), init="he_uniform", optimizer=optimizer, **rest)
        for kernel, strategy in (
            ("naive", "graph"),
            ("pretransposed", "resident"),
            ("tiled_fused", "pipelined"),
        ):
            backend = backends.make("cuda", groups.load("kernel", kernel), ROOT)
            choice = groups.load("strategy", strategy)
            job = Job(choice, network, X, Y, seed=1, epochs=2, batch_size=51, learning_rate=0.01)
            measured = runs.measure(job, Round(runs=1), backend)
            print("optimizers", optimizer.name, strategy, kernel, measured.status, flush=True)
            assert measured.status == "ok"


def limits() -> None:
    """Run the kernels of all limits, as briefly as possible."""
    from snn.backends.cuda import limits as limits_cuda

    brief = limits_cuda.Effort(
        least_seconds=0, warm_up_seconds=0, repeats=1, launches=10, most_copied_bytes=1 << 20
    )
    for limit in limits_cuda.measure(ROOT, brief).limits:
        print("limits", limit.what, limit.blocks, limit.reason or "ok", flush=True)
        assert limit.reason or all(sample > 0 for sample in limit.samples)


def memory_access() -> None:
    """Every pattern of access on a buffer that is not a multiple of any block."""
    from snn.backends.access import accesses
    from snn.backends.cuda import access as access_cuda

    values = {
        "strides": (1, 2, 33, 1024),
        "fields": (1, 2, 4, 8),
        "offsets": (0, 31),
        "vectors": (1, 2, 4),
    }
    with access_cuda.timed(4 * 100_003, ROOT, least_seconds=0, warm_up_seconds=0) as seconds:
        for access in accesses(values):
            print("memory_access", access.kernel, access.value, flush=True)
            assert all(sample > 0 for sample in seconds(access, 1))


def memory_calls() -> None:
    """Every memory call, with few bytes."""
    from snn.microbenchmarks import memory_calls as calls

    settings = {"sizes": [300, 70_001], "overlapped": 100_003, "streams": [1, 3], "samples": 6, "seconds": 0}
    for reading in calls.measure("cuda", settings):
        print("memory_calls", *reading.point.values(), reading.reason or "ok", flush=True)
        assert reading.reason or all(sample > 0 for sample in reading.seconds)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    known = [*groups.names("strategy"), "layers", "remedies", "storage", "optimizers", "limits"]
    known += ["memory_access", "memory_calls"]
    options.add_argument("--without", nargs="+", default=[], choices=known, metavar="STRATEGY")
    left_out = options.parse_args().without
    # The pass that counts leaves out repeated launches, and so copies what nothing has written: launch all.
    patch.object(runs, "Unlaunched", lambda backend: backend).start()
    for cell in cells():
        if cell[2] not in left_out:
            train(*cell)
    if "persistent" not in left_out:
        train("tiled_fused", "fp32", "persistent", None, *IN_PARTS)
        in_one_launch(convolutional_shape, IMAGES, 9, 4)
        for network in CLASSIFIERS:
            in_one_launch(layered_shape, network, 333, BATCH)
        for network in (*HELD, CLIPPED):
            in_one_launch(whole_shape, network, 333, BATCH)
            in_one_launch(whole_shape, network, 333, BATCH, watched=True)
        for network in (HELD[0], CLIPPED):
            in_one_launch(whole_shape, network, 333, FEW)
            in_one_launch(whole_shape, network, 333, FEW, watched=True)
            in_one_launch(whole_shape, network, 333, BATCH, MEMBERS)
        in_one_launch(whole_shape, HELD[0], 333, BATCH, MEMBERS, watched=True)
        in_one_launch(whole_shape, DEEP, 999, MANY)
        in_one_launch(whole_shape, DEEP, 999, MANY, watched=True)
    if "layers" not in left_out:
        layers()
    if "remedies" not in left_out:
        remedies()
    if "storage" not in left_out:
        storage()
    if "optimizers" not in left_out:
        optimizers()
    if "losses" not in left_out:
        losses()
    if "limits" not in left_out:
        limits()
    if "memory_access" not in left_out:
        memory_access()
    if "memory_calls" not in left_out:
        memory_calls()
