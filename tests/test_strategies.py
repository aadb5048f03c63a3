"""What each strategy asks of its backend, call by call, and that it gives everything back."""

import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from conftest import DIAGNOSTICS, FOR_SEVERAL, MANY
from conftest import STRATEGIES as RANKED
from every_source import EverySource
from failing_backend import FailingBackend
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledgers import host_matrices, ledger_of, operands, shapes
from test_measure import JOB

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.config.compose import composed
from snn.errors import OutOfMemory
from snn.measurement import cell
from snn.measurement.protocol import Round
from snn.measurement.runs import measure
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.profiling.observed import ObservedBackend
from snn.strategies import cpu, factory, numba_loops
from snn.strategies.host_driven import Stack, aligned

COUNTED = (
    *("mallocs", "frees", "host_allocs", "host_frees", "pageable_allocs", "pool_allocs", "pool_frees"),
    *("pool_host_allocs", "pool_host_frees", "managed_allocs", "managed_frees", "advices", "prefetches"),
    *("prefetch_bytes", "h2d_copies", "h2d_bytes", "d2h_copies", "d2h_bytes", "launches", "graph_launches"),
    *("synchronizations", "streams_created", "streams_destroyed"),
)
STRATEGIES = [*RANKED, *DIAGNOSTICS]
TILES = ("streams", "combined", "combined_kept")


def both(number, *names):
    """What is made and ended as often."""
    ends = {"mallocs": "frees", "streams_created": "streams_destroyed"}
    return {key: number for name in names for key in (name, ends.get(name, name.replace("alloc", "free")))}


def counts_of(name, hidden, rows, batch, epochs, prefetches_out=True):
    """What a ledger counts of a training, from the equations alone; all else is 0."""
    products = operands(hidden, rows, batch, epochs)
    n, tiles, matrices = len(products), sum(-(-m // 4) for m, _, _ in products), 2 + len(hidden) + 1
    held, kept = host_matrices(hidden, rows, batch, epochs), host_matrices(hidden, rows, rows, 1)
    inputs, results = (
        4 * sum(elements) for elements in zip(*((m * k + k * n, m * n) for m, k, n in products), strict=True)
    )
    alone = {"launches": n, "synchronizations": n}
    copied = {"h2d_copies": 2 * n, "d2h_copies": n, "h2d_bytes": inputs, "d2h_bytes": results}
    per_call = alone | copied | both(3 * n, "mallocs")
    in_tiles = copied | {"launches": tiles, "d2h_copies": tiles, "h2d_copies": n + tiles}
    in_tiles |= {"synchronizations": 2 * n} | both(held, "host_allocs")
    on_stream = alone | copied | both(1, "streams_created")
    back = 2 if prefetches_out else 1
    managed = alone | both(held, "managed_allocs")
    advised = {"advices": 2 + 2 * (len(hidden) + 1)}
    prefetched = {"prefetches": (2 + back) * n, "prefetch_bytes": inputs + back * results}
    pooled = alone | copied | both(3 * n, "pool_allocs")
    return {
        "reference": per_call | {"pageable_allocs": held},
        "keepalive": per_call | both(3 * n + 1, "mallocs") | {"pageable_allocs": held},
        "pinned": per_call | both(n + matrices, "host_allocs") | {"pageable_allocs": held - n - matrices},
        "streams": in_tiles | both(5 * n, "mallocs") | both(2 * n, "streams_created"),
        "combined": in_tiles | both(2, "streams_created"),
        "combined_kept": in_tiles | both(2, "streams_created") | both(kept, "host_allocs"),
        "preallocated": on_stream | both(3, "mallocs") | both(kept, "host_allocs"),
        "mapped": alone | both(1, "streams_created") | both(kept, "host_allocs"),
        "workspace": on_stream | both(1, "mallocs") | both(matrices + 1, "host_allocs"),
        "pool": pooled | both(held, "pool_host_allocs"),
        "pool pageable": pooled | {"pageable_allocs": held},
        "async_pool": on_stream | both(3 * n, "pool_allocs") | {"pageable_allocs": held},
        "async_pool pinned": on_stream | both(3 * n, "pool_allocs") | both(held, "host_allocs"),
        "managed": managed,
        "managed_kept": alone | both(kept, "managed_allocs"),
        "managed_prefetch": managed | advised | prefetched,
        "managed_prefetch advice": managed | advised,
        "managed_prefetch prefetches": managed | prefetched,
    }[name]


OPTIONS = {  # that differ from the files
    **{name: {"streams": 2, "tile_rows": 4} for name in TILES},
    "pool pageable": {"host": "pageable"},
    "async_pool pinned": {"host": "pinned"},
    "managed_prefetch advice": {"hints": "advice"},
    "managed_prefetch prefetches": {"hints": "prefetches"},
    "preallocated streams": {"streams": 3},
    "pipelined registered": {"data": "registered"},
}
OF_SOURCES = ("pool", "async_pool", "managed", "managed_kept", "managed_prefetch")
HOST_DRIVEN = ("reference", "keepalive", "pinned", *TILES, "preallocated", "mapped", "workspace", *OF_SOURCES)
LABELS = (
    *HOST_DRIVEN,
    "pool pageable",
    "async_pool pinned",
    "managed_prefetch advice",
    "managed_prefetch prefetches",
)
on_gpu_too = [pytest.param(name, True, marks=pytest.mark.gpu) for name in OF_SOURCES]


@pytest.mark.parametrize(("name", "on_gpu"), [*((label, False) for label in LABELS), *on_gpu_too])
@shapes
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_host_driven_strategy_asks_for_what_the_equations_say(
    name, on_gpu, hidden, rows, batch, epochs, request
):
    backend = request.getfixturevalue("cuda_backend") if on_gpu else EverySource()
    order = "simultaneous" if epochs == 2 else "sequential"
    options = OPTIONS.get(name, {})
    ledger = ledger_of(name.split()[0], hidden, rows, batch, epochs, backend, order, **options).totals()
    expected = counts_of(name, hidden, rows, batch, epochs, backend.prefetches_out)
    if name.startswith("combined"):  # a malloc for B, and those of the tile buffers, two at a time
        products = operands(hidden, rows, batch, epochs)
        growths = ledger["mallocs"] - len(products)
        widest = max(k for _, k, _ in products), max(n for _, _, n in products)
        assert growths % 2 == 0 and 4 <= growths <= 2 * sum(widest)
        expected |= both(ledger["mallocs"], "mallocs")
    assert {field: ledger[field] for field in COUNTED} == dict.fromkeys(COUNTED, 0) | expected


@pytest.mark.parametrize("on_gpu", [False, pytest.param(True, marks=pytest.mark.gpu)])
def test_no_option_changes_a_weight(on_gpu, request):
    network, random = mlp((5, 8, 3, 1)), np.random.default_rng(1)
    X, Y = (random.random((11, n), dtype=np.float32) for n in (5, 1))
    backend = request.getfixturevalue("cuda_backend") if on_gpu else EverySource()

    def trained(name, **options):
        with closing(factory.make(groups.load("strategy", name) | options, backend)) as strategy:
            strategy.setup(network, X, Y, 4, 0.01)
            strategy.load(draw_weights(network, GlibcRandom(1)))
            strategy.epoch()
            return strategy.weights()

    for label, options in OPTIONS.items():
        name = label.split()[0]
        for W, usual in zip(trained(name, **options), trained(name), strict=True):
            np.testing.assert_allclose(W, usual, rtol=1e-5, err_msg=label)  # BLAS rounds tiles otherwise


@shapes
@settings(max_examples=30)
def test_device_memory_is_that_of_the_largest_product_to_the_byte(hidden, rows, batch, epochs):
    products = [(m * k, k * n, m * n) for m, k, n in operands(hidden, rows, batch, epochs)]
    blocks, arena, pool = (
        ledger_of(name, hidden, rows, batch, epochs, EverySource())
        for name in ("preallocated", "workspace", "pool")
    )
    assert blocks.malloc_bytes == 4 * sum(map(max, zip(*products, strict=True)))
    assert arena.malloc_bytes == max(sum(aligned(4 * size) for size in sizes) for sizes in products)
    assert arena.malloc_bytes <= blocks.malloc_bytes + 3 * 256
    assert pool.pool_alloc_bytes == 4 * sum(map(sum, products))
    assert pool.peak_device_bytes == 4 * max(map(sum, products)) <= pool.peak_pool_bytes


def test_a_workspace_is_smaller_than_the_buffers_and_matrices_of_preallocated():
    arenas, blocks = (
        ledger_of(name, (256, 1024, 256), 512, 256, 1) for name in ("workspace", "preallocated")
    )
    assert arenas.peak_device_bytes < blocks.peak_device_bytes
    assert arenas.peak_host_bytes < blocks.peak_host_bytes


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_blocks_of_a_stack_never_overlap(sizes, random):
    stack, live = Stack(), {}
    for size in sizes:
        offset = stack.push(size)
        assert all(offset >= at + n or offset + size <= at for at, n in live.items())
        live[offset] = size
        assert max(at + n for at, n in live.items()) <= stack.top <= stack.peak
        while live and random.random() < 0.4:
            gone = random.choice(list(live))
            stack.free(gone)
            del live[gone]
    for offset in live:
        stack.free(offset)
    assert stack.top == 0


def test_the_papers_count_for_the_large_data_set():
    """50,000 operations are 150,000 allocations: 100 epochs of 100 batches, counted on 2 of 100 epochs."""
    epoch = ledger_of("reference", (256,), 25600, 256, epochs=1)
    assert (100 * epoch.mallocs, 100 * epoch.frees) == (150_000, 150_000)
    assert (100 * epoch.h2d_copies, 100 * epoch.d2h_copies) == (100_000, 50_000)
    assert 100 * epoch.launches == 50_000


@pytest.mark.gpu
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_ledger_is_the_same_on_the_gpu(name, cuda_backend):
    every_source, options = EverySource(), {"devices": 2} if name in FOR_SEVERAL else {}
    every_source.prefetches_out = cuda_backend.prefetches_out
    on_gpu, on_cpu = (
        ledger_of(name, (30,) if name in MANY else (30, 20), 300, 128, backend=one, **options).totals()
        for one in (cuda_backend, every_source)
    )
    pool_bytes = on_gpu.pop("peak_pool_bytes"), on_cpu.pop("peak_pool_bytes")
    assert pool_bytes[0] >= pool_bytes[1]  # a pool rounds up what it has
    assert on_gpu == on_cpu


@pytest.mark.parametrize(("name", "plan"), [*((name, True) for name in STRATEGIES), ("persistent", False)])
def test_everything_is_freed_wherever_it_fails(name, plan):
    """Fail at the first call, the second, and so on until a whole training passes without a failure."""
    for fail_at in range(1, 2000):
        backend = FailingBackend(fail_at, plan)
        try:
            ledger_of(name, (3,), 5, 3, epochs=1, backend=backend)
        except OutOfMemory:
            continue
        if backend.left > 0:
            assert fail_at > 10
            return
        assert name == "persistent"  # trained by ``graph``
    pytest.fail("no training passed")


@pytest.mark.parametrize("name", STRATEGIES)
def test_close_is_harmless_before_setup_and_twice(name):
    strategy = factory.make(groups.load("strategy", name), ObservedBackend(CpuBackend()))
    strategy.close()
    strategy.close()


class Aligned(CpuBackend):
    """Refuses a part of device memory where cudaMalloc would not begin a block."""

    def part(self, buffer, offset, nbytes):
        assert offset % 256 == 0
        return super().part(buffer, offset, nbytes)


@shapes
@settings(max_examples=30)
def test_every_matrix_in_a_workspace_is_aligned_as_a_block_of_its_own(hidden, rows, batch, epochs):
    ledger_of("workspace", hidden, rows, batch, epochs, backend=Aligned())


@pytest.mark.parametrize("name", ["preallocated", "combined_kept", "workspace", "reference"])
def test_only_what_is_not_kept_from_step_to_step_is_discarded(name, monkeypatch):
    strategy = factory.make(groups.load("strategy", name), CpuBackend())
    network, discarded = mlp((5, 4, 1)), []
    discard = strategy.discard
    monkeypatch.setattr(strategy, "discard", lambda array: discarded.append(array.shape) or discard(array))
    strategy.setup(network, np.ones((6, 5), np.float32), np.ones((6, 1), np.float32), 3, 0.01)
    strategy.load(draw_weights(network, GlibcRandom(1)))
    del discarded[:]
    strategy.epoch()
    strategy.close()
    transposes = [(5, 3), (1, 4), (4, 3)]  # which the step gives back itself: X^T, W2^T, H^T
    steps = [shape for shape in discarded if shape not in transposes]
    assert bool(steps) == (name not in ("preallocated", "combined_kept"))


# ---- what a device cannot do is told as an outcome, with its reason, and all else runs there


POOLS = "the memory pools of CuPy and of the driver need a CUDA device"
MANAGED = "managed memory needs a CUDA device"
ON_CPU = {
    "async_pool": POOLS,
    "graph": "CUDA graphs need a CUDA device",
    "graph_loop": "CUDA graphs need a CUDA device",
    "graph_pdl": "programmatic dependent launches need a CUDA device",
    "managed": MANAGED,
    "managed_kept": MANAGED,
    "managed_prefetch": MANAGED,
    "pool": POOLS,
}
ON_HOST = "this strategy is a CPU baseline: it runs with device=cpu only"


class Device(EverySource):
    """Memory from every source, and not the processor's own."""

    is_processor = False


def outcome(name, backend, **options):
    strategy = groups.load("strategy", name) | options
    return measure(replace(JOB, strategy=strategy), Round(runs=1, min_runs=1), backend)


def unsupported(backend):
    """The reasons of the strategies that are; every other one must have trained."""
    found = {name: outcome(name, backend) for name in STRATEGIES}
    for one in found.values():
        assert (one.status, one.reason, len(one.runs)) == ("ok", None, 1) or one.status == "unsupported"
        assert one.status == "ok" or not one.runs
    return {name: one.reason for name, one in found.items() if one.status == "unsupported"}


def test_on_the_cpu():
    assert unsupported(CpuBackend()) == ON_CPU


def test_on_a_device_that_is_not_the_processor():
    baselines = {"blas": ON_HOST, "sequential": ON_HOST, "threads": ON_HOST}
    assert unsupported(Device()) == baselines | {name: ON_CPU[name] for name in ON_CPU if "graph" in name}
    on_host = {n for n in STRATEGIES if factory.class_of(groups.load("strategy", n)).on_host}
    assert on_host == set(baselines)


@pytest.mark.gpu
def test_on_a_gpu(cuda_backend):
    found = unsupported(cuda_backend)
    assert found.pop("ensemble", "no cluster").startswith("no cluster")  # of a GPU before these
    found.pop("data_parallel", None)  # of one GPU, or without NCCL
    assert found == {"blas": ON_HOST, "sequential": ON_HOST, "threads": ON_HOST}


@pytest.mark.parametrize("name", ["threads", "blas"])
def test_more_threads_than_processors(name):
    found = outcome(name, CpuBackend(), threads=10_000)
    assert found.status == "unsupported"
    assert found.reason.startswith("strategy.threads is 10000: this process may use ")


@pytest.mark.parametrize(
    ("name", "package"), [("sequential", "numba"), ("threads", "numba"), ("blas", "threadpoolctl")]
)
def test_a_package_that_is_not_there(name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(cpu, "perceptron_loops", numba_loops.perceptron_loops.__wrapped__)
    found = outcome(name, CpuBackend())
    assert found.status == "unsupported"
    assert found.reason.startswith(f"{package} cannot be imported")


def test_a_cell_leaves_a_record():
    found = cell.run(composed(["device=cpu", "strategy=pool", "protocol=brief"]))
    assert (found["status"], found["reason"], found["runs"]) == ("unsupported", POOLS, [])
    assert found["explanation"] is None
