"""The ledger counts what is done; what is not alive or too small is an error; a rehearsal needs no data."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from deferred import DeferredBackend
from every_source import Captures, EverySource
from hypothesis import example, given
from hypothesis import strategies as st

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.errors import LeakError
from snn.models.network import mlp
from snn.profiling.calls import METHODS
from snn.profiling.ledger import Ledger, MemoryMap
from snn.profiling.observed import ObservedBackend
from snn.profiling.rehearsal import rehearse
from snn.strategies.factory import Job
from snn.strategies.host_driven import Reference

SIZES, WORDS = st.integers(1, 50), st.integers(1, 40)
SOURCES = ("malloc", "pool_alloc", "managed_alloc", "host_alloc", "pageable_alloc", "pool_host_alloc")


@given(st.lists(st.tuples(st.sampled_from(SOURCES), SIZES, st.booleans()), max_size=30))
def test_allocations_are_counted_by_source_and_peaks_are_of_what_is_alive(steps):
    ledger, memory_map = Ledger(), MemoryMap()
    observed = ObservedBackend(EverySource(), ledger, memory_map)
    pool = observed.pool_create()
    allocate = {
        "malloc": lambda words: observed.malloc(4 * words),
        "pool_alloc": lambda words: observed.pool_malloc(pool, 4 * words),
        "managed_alloc": lambda words: observed.managed_alloc((words,)),
        "host_alloc": lambda words: observed.host_alloc((words,)),
        "pageable_alloc": lambda words: observed.host_alloc((words,), "data", False),
        "pool_host_alloc": lambda words: observed.pool_host_alloc(pool, (words,)),
    }
    free = {
        "malloc": observed.free,
        "pool_alloc": lambda buffer: observed.pool_free(pool, buffer),
        "managed_alloc": observed.managed_free,
        "host_alloc": observed.host_free,
        "pageable_alloc": observed.host_free,
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
    assert counts == {source: getattr(ledger, f"{source}_bytes") for source in SOURCES}
    for source, memory, _ in alive:
        free[source](memory)
    observed.pool_destroy(pool)
    observed.live.check_nothing_held()
    pageable = sum(source == "pageable_alloc" for source, _, _ in steps)
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


ROW = np.zeros((1, 4), dtype=np.float32)


@pytest.fixture
def on():
    return ObservedBackend(EverySource())


def freed(on):
    buffer = on.malloc(16)
    on.free(buffer)
    return buffer


def host_freed(on):
    array = on.host_alloc((2, 2))
    on.host_free(array)
    return array


def pool_freed(on):
    """A pool, and a block and an array that it has back."""
    pool, _, block, array = pool_of(on)
    on.pool_free(pool, block)
    on.pool_host_free(pool, array)
    return pool, block, array


def destroyed(on):
    pool = on.pool_create()
    on.pool_destroy(pool)
    return pool


def managed_freed(on):
    array = on.managed_alloc((4, 8))
    part = on.shared_buffer(array[1:])
    on.managed_free(array)
    return array, part


def pool_of(on):
    """A pool, another one, a block and an array of the first."""
    pool = on.pool_create()
    return pool, on.pool_create(), on.pool_malloc(pool, 16), on.pool_host_alloc(pool, (2, 2))


NOT_MANAGED = "a managed array was used that is not allocated|C-contiguous float32"
ANOTHER_CALL = "is freed by"
MISUSES = {
    "free twice": (lambda on: on.free(freed(on)), "device buffer was freed that is not allocated"),
    "copy to what was freed": (lambda on: on.copy_in(freed(on), on.host_alloc((1, 4))), "not allocated"),
    "free a host array twice": (lambda on: on.host_free(host_freed(on)), "a host array was freed"),
    "copy too much": (lambda on: on.copy_in(on.malloc(12), on.host_alloc((2, 2))), "a copy needs 16 bytes"),
    "copy across": (lambda on: on.copy_out(on.host_alloc((2, 3)).T, on.malloc(24)), "C-contiguous float32"),
    "copy float64": (lambda on: on.copy_in(on.malloc(12), np.zeros(1)), "float64"),
    "copy of elsewhere": (lambda on: on.copy_in(on.malloc(16), ROW), "a host array was used that is not all"),
    "copy of what was freed": (lambda on: on.copy_in(on.malloc(16), host_freed(on)), "a host array was used"),
    "a product larger than its buffers": (
        lambda on: on.launch("matmul", tuple(on.malloc(4 * n) for n in (6, 6, 3)), (2, 3, 2)),
        r"C of matmul \(2, 3, 2\) needs 16 bytes",
    ),
    "a stream as an event": (lambda on: on.event_synchronize(on.stream_create()), "an event was used"),
    "a pool that is in use": (lambda on: on.pool_destroy(pool_of(on)[0]), "while memory of it is in use"),
    "memory of a pool by free": (lambda on: on.free(pool_of(on)[2]), ANOTHER_CALL),
    "an array of a pool by host_free": (lambda on: on.host_free(pool_of(on)[3]), ANOTHER_CALL),
    "memory to another pool": (lambda on: on.pool_free(*pool_of(on)[1:3]), ANOTHER_CALL),
    "an array to another pool": (lambda on: on.pool_host_free(*pool_of(on)[1::2]), ANOTHER_CALL),
    "memory of a pool twice": (lambda on: on.pool_free(*pool_freed(on)[:2]), "freed before"),
    "an array of a pool twice": (lambda on: on.pool_host_free(*pool_freed(on)[::2]), "freed before"),
    "a pool that was destroyed": (
        lambda on: on.pool_malloc(destroyed(on), 4),
        "a pool was used that does not",
    ),
    "more than a managed part": (
        lambda on: on.launch("relu", (on.shared_buffer(on.managed_alloc((4, 8))[1:]),), (32,)),
        r"Z of relu \(32,\) needs 128 bytes",
    ),
    "prefetch of no managed memory": (lambda on: on.prefetch_in(ROW), NOT_MANAGED),
    "advice on a transpose": (lambda on: on.advise(on.managed_alloc((4, 8)).T, "read_mostly"), NOT_MANAGED),
    "a buffer of no allocation": (lambda on: on.shared_buffer(ROW), "a host array was used that is not all"),
    "a buffer of pageable memory": (
        lambda on: on.shared_buffer(on.host_alloc((4,), page_locked=False)),
        "pageable memory was used on the device",
    ),
    "managed memory twice": (lambda on: on.managed_free(managed_freed(on)[0]), "freed before"),
    "managed memory that was freed": (
        lambda on: on.launch("relu", (managed_freed(on)[1],), (24,)),
        "a device buffer was used that is not allocated",
    ),
    "a part by free": (lambda on: on.free(on.part(on.malloc(16), 0, 16)), "not allocated"),
    "managed by free": (lambda on: on.free(on.shared_buffer(on.managed_alloc((4,)))), "not allocated"),
    "managed memory by host_free": (lambda on: on.host_free(on.managed_alloc((4,))), ANOTHER_CALL),
    "a part of an array by host_free": (lambda on: on.host_free(on.managed_alloc((4,))[1:]), "not allocated"),
    "a stream by free": (lambda on: on.free(on.stream_create()), "is freed by stream_destroy"),
}


@pytest.mark.parametrize(("use", "message"), MISUSES.values(), ids=MISUSES)
def test_what_is_not_alive_too_small_or_of_another_call_is_an_error(on, use, message):
    with pytest.raises(LeakError, match=message):
        use(on)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if "stream" in method.parameters])
def test_no_call_takes_a_stream_that_was_destroyed(on, name):
    stream, buffer = on.stream_create(), on.malloc(16)
    on.stream_destroy(stream)
    known = {"stream": stream, "buffer": buffer, "array": on.host_alloc((4,)), "event": on.event_create()}
    known |= {"graph": None, "nbytes": 16, "further": (), "op": "relu", "buffers": (buffer,), "numbers": (4,)}
    shape = SimpleNamespace(op="train", operands=("X",), elements=lambda rows: (4,))
    known |= {"shape": shape, "steps": SimpleNamespace(rows=1)}
    with pytest.raises(LeakError, match="a stream was used that does not exist"):
        getattr(on, name)(*(known[parameter] for parameter in METHODS[name].parameters))


@given(block=WORDS, offset=st.integers(-2, 40), words=WORDS, needed=WORDS)
@example(block=8, offset=0, words=2, needed=4)  # fits the block, but not the part that begins with it
@example(block=8, offset=2, words=2, needed=4)
def test_a_copy_or_launch_must_fit_the_part_that_it_was_given(block, offset, words, needed):
    observed = ObservedBackend(CpuBackend())
    whole, array = observed.malloc(4 * block), observed.host_alloc((needed,))
    array.fill(-1)
    if not 0 <= offset <= block - words:
        with pytest.raises(LeakError, match=f"a part of {4 * words} bytes at {4 * offset} is not within"):
            observed.part(whole, 4 * offset, 4 * words)
        return
    part = observed.part(whole, 4 * offset, 4 * words)
    for use in (lambda: observed.copy_in(part, array), lambda: observed.launch("relu", (part,), (needed,))):
        if needed > words:
            with pytest.raises(LeakError, match=f"{4 * needed} bytes .* a buffer of {4 * words}"):
                use()
        else:
            use()
    within = observed.part(part, 0, 4 * words)
    with pytest.raises(LeakError, match="is not within"):  # a part of a part has no more room than that
        observed.part(within, 0, 4 * words + 4)


@pytest.mark.parametrize("noun", ["pool", "stream", "event", "graph"])
def test_whatever_was_created_and_not_destroyed_is_named(noun):
    observed = ObservedBackend(DeferredBackend() if noun == "graph" else EverySource())
    stream = observed.stream_create()
    if noun == "graph":
        observed.graph_begin(stream)
        observed.graph_end(stream)
    elif noun != "stream":
        getattr(observed, f"{noun}_create")()
    if noun != "stream":
        observed.stream_destroy(stream)
    with pytest.raises(LeakError, match=f"never freed: 1 {noun} created at tests/test_ledger.py"):
        observed.live.check_nothing_held()


def test_what_is_still_held_is_named(on):
    on.live.check_nothing_held()
    on.malloc(8)
    on.host_alloc((1, 3))
    on.stream_create()
    on.host_alloc((1, 2), "data", False)
    with pytest.raises(LeakError) as caught:
        on.live.check_nothing_held()
    line = r"from tests/test_ledger.py:\d+ in test_what_is_still_held_is_named"
    assert re.search(
        rf"on the device: 1 block with 8 bytes {line}; page-locked: 1 workspace block with 12 bytes "
        rf"{line}; pageable: 1 data block with 8 bytes {line}; 1 stream created at tests/",
        str(caught.value),
    )


@pytest.mark.filterwarnings("error")
def test_a_rehearsal_on_data_that_overflows_gives_no_warning():
    data = np.full((8, 4), 1e30, dtype=np.float32)
    job = Job(groups.load("strategy", "blas"), mlp((4, 16, 1)), data, data[:, :1], 1, 1, 4, 0.01)
    assert rehearse(job, len(data), Captures()).nbytes == 0


class Staging(Reference):
    """Holds a block of 1 KiB in its set-up only, and in an epoch 4 bytes per row."""

    def setup(self, network, X, *others):
        self.rows = len(X)
        self.backend.free(self.backend.malloc(1024))

    def load(self, weights):
        """It computes nothing."""

    def epoch(self):
        self.backend.free(self.backend.malloc(4 * self.rows))


def test_what_is_held_in_the_set_up_only_hides_nothing_that_grows_with_the_data():
    data, choice = np.zeros((12, 4), dtype=np.float32), {"_target_": f"{__name__}.Staging", "name": "staging"}
    job = Job(choice, mlp((4, 16, 1)), data, data[:, :1], 1, 1, 4, 0.01)
    assert [rehearse(job, rows, Captures()).nbytes for rows in (16, 4096)] == [1024, 4 * 4096]
