"""The ledger counts what is done, and its peaks are of what is alive."""

import numpy as np
from deferred import DeferredBackend
from every_source import EverySource
from hypothesis import given
from hypothesis import strategies as st

from snn.backends.base import Backend
from snn.backends.cpu.backend import CpuBackend
from snn.profiling.ledger import Ledger, MemoryMap
from snn.profiling.observed import ObservedBackend


def test_every_trait_of_a_backend_is_that_of_the_observed_one():
    traits = {name for name, value in vars(Backend).items() if not callable(value) and name[0] != "_"}
    assert traits - set(vars(ObservedBackend(CpuBackend()))) == {"pageable_fallbacks"}  # of the inner one


SIZES = st.integers(1, 50)
SOURCES = ("malloc", "pool_malloc", "managed_alloc", "host_alloc", "pageable", "pool_host_alloc")


@given(st.lists(st.tuples(st.sampled_from(SOURCES), SIZES, st.booleans()), max_size=30))
def test_allocations_are_counted_by_source_and_peaks_are_of_what_is_alive(steps):
    ledger, memory_map = Ledger(), MemoryMap()
    observed = ObservedBackend(EverySource(), ledger, memory_map)
    pool = observed.pool_create()
    allocate = {
        "malloc": lambda words: observed.malloc(4 * words),
        "pool_malloc": lambda words: observed.pool_malloc(pool, 4 * words),
        "managed_alloc": lambda words: observed.managed_alloc((words,)),
        "host_alloc": lambda words: observed.host_alloc((words,)),
        "pageable": lambda words: observed.host_alloc((words,), "data", False),
        "pool_host_alloc": lambda words: observed.pool_host_alloc(pool, (words,)),
    }
    free = {
        "malloc": observed.free,
        "pool_malloc": lambda buffer: observed.pool_free(pool, buffer),
        "managed_alloc": observed.managed_free,
        "host_alloc": observed.host_free,
        "pageable": observed.host_free,
        "pool_host_alloc": lambda array: observed.pool_host_free(pool, array),
    }
    alive, counts, device, host = [], dict.fromkeys(SOURCES, 0), [0], [0]
    for source, words, free_one in steps:
        if alive and free_one:
            before, memory, _ = alive.pop(words % len(alive))
            free[before](memory)
        alive.append((source, allocate[source](words), 4 * words))
        counts[source] += 4 * words
        device.append(sum(n for name, _, n in alive if name in SOURCES[:3]))
        host.append(sum(n for name, _, n in alive if name in ("host_alloc", "pool_host_alloc")))
    assert (ledger.peak_device_bytes, ledger.peak_host_bytes) == (max(device), max(host))
    assert (memory_map.device.peak_bytes, memory_map.page_locked.peak_bytes) == (max(device), max(host))
    assert (observed.live.device_bytes, observed.live.page_locked_bytes) == (device[-1], host[-1])
    assert counts == {
        "malloc": ledger.malloc_bytes,
        "pool_malloc": ledger.pool_alloc_bytes,
        "managed_alloc": ledger.managed_alloc_bytes,
        "host_alloc": ledger.host_alloc_bytes,
        "pageable": ledger.pageable_alloc_bytes,
        "pool_host_alloc": ledger.pool_host_alloc_bytes,
    }
    for source, memory, _ in alive:
        free[source](memory)
    observed.pool_destroy(pool)
    observed.live.check_nothing_held()
    pageable = sum(source == "pageable" for source, _, _ in steps)
    frees = ledger.frees + ledger.pool_frees + ledger.managed_frees
    assert frees + ledger.host_frees + ledger.pool_host_frees + pageable == len(steps)


def test_what_is_captured_is_counted_when_it_is_launched():
    ledger = Ledger()
    observed = ObservedBackend(DeferredBackend(), ledger)
    stream, buffer, array = observed.stream_create(), observed.malloc(16), observed.host_alloc((4,))
    array[:] = -1, 2, -3, 4
    observed.copy_in(buffer, array)
    observed.graph_begin(stream)
    for _ in range(3):
        observed.launch("relu", (buffer,), (4,), stream)
    graph = observed.graph_end(stream)
    assert (ledger.launches, ledger.graph_launches, ledger.graph_kernels) == (0, 0, 0)
    for _ in range(2):
        observed.graph_launch(graph, stream)
    observed.launch("relu", (buffer,), (4,), stream)
    assert (ledger.launches, ledger.graph_launches, ledger.graph_kernels) == (1, 2, 6)
    observed.copy_out(array, buffer)
    np.testing.assert_array_equal(array, [0, 2, 0, 4])
    assert (ledger.h2d_copies, ledger.h2d_bytes, ledger.d2h_copies, ledger.d2h_bytes) == (1, 16, 1, 16)


def test_the_peak_of_a_pool_outlives_it():
    ledger = Ledger()
    observed = ObservedBackend(EverySource(), ledger)
    for nbytes in (16, 64, 32):
        pool = observed.pool_create()
        observed.pool_free(pool, observed.pool_malloc(pool, nbytes))
        observed.pool_destroy(pool)
    assert ledger.peak_pool_bytes == 64
