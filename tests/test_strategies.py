"""What each strategy asks of its backend, call by call, and that it gives everything back."""

import numpy as np
import pytest
from conftest import STRATEGIES
from every_source import EverySource
from failing_backend import FailingBackend
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledgers import host_matrices, ledger_of, operands, shapes

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.errors import OutOfMemory
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.profiling.observed import ObservedBackend
from snn.strategies.common import factory
from snn.strategies.workspace import Stack, aligned


@pytest.mark.parametrize("name", ["reference", "pinned"])
@shapes
@settings(max_examples=30)
def test_per_call_strategies(name, hidden, rows, batch, epochs):
    products = operands(hidden, rows, batch, epochs)
    ledger = ledger_of(name, hidden, rows, batch, epochs)
    assert ledger.mallocs == ledger.frees == 3 * len(products)
    assert ledger.launches == ledger.synchronizations == len(products)
    assert ledger.h2d_copies == 2 * len(products)
    assert ledger.d2h_copies == len(products)
    assert ledger.h2d_bytes == 4 * sum(m * k + k * n for m, k, n in products)
    assert ledger.d2h_bytes == 4 * sum(m * n for m, k, n in products)
    assert ledger.streams_created == 0
    held = 2 + len(hidden) + 1  # X, Y and the weights
    assert ledger.host_allocs == (0 if name == "reference" else len(products) + held)
    assert ledger.host_frees == ledger.host_allocs


@shapes
@settings(max_examples=30)
def test_streams(hidden, rows, batch, epochs):
    products = operands(hidden, rows, batch, epochs)
    ledger = ledger_of("streams", hidden, rows, batch, epochs, streams=2, tile_rows=4)
    tiles = sum(-(-m // 4) for m, _, _ in products)
    assert ledger.mallocs == ledger.frees == (1 + 2 * 2) * len(products)
    assert ledger.streams_created == ledger.streams_destroyed == 2 * len(products)
    assert ledger.launches == ledger.d2h_copies == tiles
    assert ledger.h2d_copies == len(products) + tiles
    assert ledger.synchronizations == 2 * len(products)
    assert ledger.h2d_bytes == 4 * sum(m * k + k * n for m, k, n in products)
    assert ledger.host_allocs == ledger.host_frees == host_matrices(hidden, rows, batch, epochs)


@shapes
@settings(max_examples=30)
def test_combined(hidden, rows, batch, epochs):
    products = operands(hidden, rows, batch, epochs)
    ledger = ledger_of("combined", hidden, rows, batch, epochs, streams=2, tile_rows=4)
    tiles = sum(-(-m // 4) for m, _, _ in products)
    growths = ledger.mallocs - len(products)  # of the tile buffers, two at a time
    widest = max(k for _, k, _ in products), max(n for _, _, n in products)
    assert growths % 2 == 0
    assert 4 <= growths <= 2 * sum(widest)
    assert ledger.frees == ledger.mallocs
    assert ledger.streams_created == ledger.streams_destroyed == 2
    assert ledger.launches == ledger.d2h_copies == tiles
    assert ledger.h2d_copies == len(products) + tiles
    assert ledger.host_allocs == ledger.host_frees == host_matrices(hidden, rows, batch, epochs)


@shapes
@settings(max_examples=30)
def test_preallocated_allocates_nothing_in_the_loop(hidden, rows, batch, epochs):
    products = operands(hidden, rows, batch, epochs)
    ledger = ledger_of("preallocated", hidden, rows, batch, epochs)
    assert ledger.mallocs == 3
    largest = (max(sizes) for sizes in zip(*((m * k, k * n, m * n) for m, k, n in products), strict=True))
    assert ledger.malloc_bytes == 4 * sum(largest)
    assert ledger.streams_created == 1
    assert ledger.host_allocs == host_matrices(hidden, rows, rows, 1)
    assert ledger.launches == ledger.synchronizations == len(products)
    assert ledger.h2d_bytes == 4 * sum(m * k + k * n for m, k, n in products)


@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@shapes
@settings(max_examples=30)
def test_workspace_allocates_one_arena_on_each_side(order, hidden, rows, batch, epochs):
    products = operands(hidden, rows, batch, epochs)
    ledger = ledger_of("workspace", hidden, rows, batch, epochs, update_order=order)
    assert ledger.mallocs == ledger.frees == ledger.streams_created == 1
    assert ledger.host_allocs == ledger.host_frees == 2 + len(hidden) + 1 + 1
    assert ledger.launches == ledger.synchronizations == ledger.d2h_copies == len(products)
    assert ledger.h2d_copies == 2 * len(products)
    assert ledger.h2d_bytes == 4 * sum(m * k + k * n for m, k, n in products)
    # The device's arena is that of the largest product, to the byte.
    assert ledger.malloc_bytes == max(
        sum(aligned(4 * size) for size in (m * k, k * n, m * n)) for m, k, n in products
    )
    assert ledger.malloc_bytes <= ledger_of("preallocated", hidden, rows, batch, 1).malloc_bytes + 3 * 256


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


on_both = pytest.mark.parametrize(
    "where", ["every source", pytest.param("cuda", marks=pytest.mark.gpu)], scope="session"
)


@pytest.fixture
def with_sources(where, request):
    """A backend that has pools and managed memory."""
    return EverySource() if where == "every source" else request.getfixturevalue("cuda_backend")


few = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@on_both
@shapes
@few
def test_pool(with_sources, hidden, rows, batch, epochs):
    products = operands(hidden, rows, batch, epochs)
    ledger = ledger_of("pool", hidden, rows, batch, epochs, backend=with_sources)
    assert ledger.mallocs == ledger.frees == ledger.host_allocs == ledger.pageable_allocs == 0
    assert ledger.pool_allocs == ledger.pool_frees == 3 * len(products)
    assert ledger.pool_alloc_bytes == 4 * sum(m * k + k * n + m * n for m, k, n in products)
    assert ledger.pool_host_allocs == ledger.pool_host_frees == host_matrices(hidden, rows, batch, epochs)
    assert ledger.launches == ledger.synchronizations == ledger.d2h_copies == len(products)
    assert ledger.h2d_copies == 2 * len(products)
    assert ledger.peak_pool_bytes >= ledger.peak_device_bytes
    assert ledger.peak_device_bytes == 4 * max(m * k + k * n + m * n for m, k, n in products)


@on_both
@shapes
@few
def test_async_pool(with_sources, hidden, rows, batch, epochs):
    products = operands(hidden, rows, batch, epochs)
    ledger = ledger_of("async_pool", hidden, rows, batch, epochs, backend=with_sources)
    assert ledger.mallocs == ledger.frees == ledger.host_allocs == ledger.pool_host_allocs == 0
    assert ledger.pool_allocs == ledger.pool_frees == 3 * len(products)
    assert ledger.pageable_allocs == host_matrices(hidden, rows, batch, epochs)
    assert ledger.streams_created == ledger.streams_destroyed == 1
    assert ledger.launches == ledger.synchronizations == ledger.d2h_copies == len(products)
    assert ledger.h2d_copies == 2 * len(products)
    assert ledger.h2d_bytes == 4 * sum(m * k + k * n for m, k, n in products)
    assert ledger.peak_pool_bytes >= ledger.peak_device_bytes


@on_both
@pytest.mark.parametrize("name", ["managed", "managed_prefetch"])
@shapes
@few
def test_managed(name, with_sources, hidden, rows, batch, epochs):
    products = operands(hidden, rows, batch, epochs)
    ledger = ledger_of(name, hidden, rows, batch, epochs, backend=with_sources)
    assert ledger.mallocs == ledger.host_allocs == ledger.pageable_allocs == ledger.pool_allocs == 0
    assert ledger.h2d_copies == ledger.d2h_copies == 0
    assert ledger.managed_allocs == ledger.managed_frees == host_matrices(hidden, rows, batch, epochs)
    assert ledger.launches == ledger.synchronizations == len(products)
    if name == "managed":
        assert ledger.advices == ledger.prefetches == 0
        return
    back = with_sources.prefetches_out
    assert ledger.advices == 2 + 2 * (len(hidden) + 1)
    assert ledger.prefetches == (4 if back else 3) * len(products)
    assert ledger.prefetch_bytes == 4 * sum(
        m * k + k * n + (2 if back else 1) * m * n for m, k, n in products
    )


def test_the_papers_count_for_the_large_data_set():
    """50,000 operations are 150,000 allocations: 100 epochs of 100 batches, counted on 2 of 100 epochs."""
    epoch = ledger_of("reference", (256,), 25600, 256, epochs=1)
    assert (100 * epoch.mallocs, 100 * epoch.frees) == (150_000, 150_000)
    assert (100 * epoch.h2d_copies, 100 * epoch.d2h_copies) == (100_000, 50_000)
    assert 100 * epoch.launches == 50_000


@pytest.mark.gpu
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_ledger_is_the_same_on_the_gpu(name, cuda_backend):
    every_source = EverySource()
    every_source.prefetches_out = cuda_backend.prefetches_out
    on_gpu, on_cpu = (
        ledger_of(name, (30, 20), 300, 128, backend=one).totals() for one in (cuda_backend, every_source)
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
            ledger_of(name, (3, 2), 5, 3, epochs=1, backend=backend)
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


@pytest.mark.parametrize("name", ["preallocated", "workspace", "reference"])
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
    assert bool(steps) == (name != "preallocated")
