"""Memory by purpose and layout, a device that is full, pools, managed memory, places of the CPU's arrays."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import psutil
import pytest
from conftest import DIAGNOSTICS, STRATEGIES
from every_source import Captures
from hypothesis import given
from hypothesis import strategies as st
from ledgers import ledger_of
from test_measure import JOB, RULES

from snn import backends
from snn.backends.cpu.backend import CpuBackend
from snn.backends.cuda.managed_budget import ManagedBudget
from snn.backends.launches import TrainingLaunch
from snn.config import groups
from snn.config.compose import composed
from snn.errors import OutOfMemory, Unsupported, out_of_memory
from snn.measurement import cell, runs
from snn.measurement.runs import measure
from snn.models.network import mlp
from snn.profiling import memory
from snn.profiling.ledger import MemoryMap, Space, by_purpose, layout
from snn.profiling.memory import CHUNK
from snn.profiling.observed import Call, ObservedBackend, Ref, Resource, held
from snn.profiling.rehearsal import advice, rehearse
from snn.strategies import factory
from snn.strategies.host_driven import HostDriven

KIB = 1024


def brute_force(blocks, chunk):
    """The layout byte by byte."""
    used = {byte for address, nbytes in blocks for byte in range(address, address + nbytes)}
    chunks = {byte // chunk for byte in used}
    reserved = sorted(byte for one in chunks for byte in range(one * chunk, (one + 1) * chunk))
    longest = run = 0
    for i, byte in enumerate(reserved):
        after_gap = i > 0 and reserved[i - 1] != byte - 1
        run = 0 if byte in used else (1 if after_gap else run + 1)
        longest = max(longest, run)
    return len(used), len(reserved), longest


@given(
    pieces=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 12)), max_size=8),
    chunk=st.sampled_from([4, 8]),
)
def test_layout(pieces, chunk):
    blocks, at = [], 0
    for gap, nbytes in pieces:
        blocks.append((at + gap, nbytes))
        at += gap + nbytes
    found = layout(reversed(blocks), chunk)
    live, reserved, longest = brute_force(blocks, chunk)
    assert (found.live_bytes, found.reserved_bytes, found.largest_free_bytes) == (live, reserved, longest)
    free = reserved - live
    assert found.fragmentation == pytest.approx(1 - longest / free if free else 0)
    assert found.stranded_bytes == free - longest


class Addressed(CpuBackend):
    """Device memory at addresses of our choosing, one block behind the other."""

    def __init__(self, free=CHUNK, total=CHUNK):
        super().__init__()
        self.next, self.at = 0, {}
        self.left, self.total = free, total

    def malloc(self, nbytes, kind=None):
        if nbytes > self.left:
            raise out_of_memory("malloc", nbytes, *self.memory())
        buffer = super().malloc(nbytes, kind)
        self.at[buffer] = (self.next, nbytes)
        self.next += nbytes
        self.left -= nbytes
        return buffer

    def free(self, buffer):
        self.left += self.at.pop(buffer)[1]
        super().free(buffer)

    def address(self, buffer):
        return self.at[buffer][0]

    def memory(self):
        return self.left, self.total


@pytest.mark.gpu
def test_a_planted_pattern_of_holes_on_the_gpu(cuda_backend):
    memory_map = MemoryMap()
    observed = ObservedBackend(cuda_backend, memory_map)
    blocks = [observed.malloc(64 * KIB) for _ in range(128)]  # 8 MiB: more than one chunk can strand
    whole = memory_map.device.describe()
    for block in blocks[::2]:
        observed.free(block)
    holes = memory_map.device.describe()
    for block in blocks[1::2]:
        observed.free(block)
    assert whole["worst_stranded_bytes"] <= CHUNK
    assert holes["worst_stranded_bytes"] >= 60 * 64 * KIB


@pytest.mark.parametrize("name", [*STRATEGIES, *DIAGNOSTICS])
def test_the_peak_by_kind_is_the_peak(name, backend):
    job = replace(JOB, strategy=groups.load("strategy", name), network=mlp((4, 5, 3, 1)))
    ledger, found = runs.count(job, backend)
    device, locked = found["device"], found["page_locked"]
    assert sum(device["peak_by_kind"].values()) == device["peak_bytes"] == ledger["peak_device_bytes"]
    assert sum(locked["peak_by_kind"].values()) == locked["peak_bytes"] == ledger["peak_host_bytes"]
    assert set(device["peak_by_kind"]) <= set(memory.PURPOSES)
    assert device["reserved_bytes"] >= device["peak_bytes"]
    kind = factory.class_of(job.strategy)
    where = locked if issubclass(kind, HostDriven) else device
    if where["peak_bytes"]:
        padded = {2 * 16 * 16 + n for n in (16, 16 * 16)}  # one launch; some kernels pad the output, too
        padded |= {2 * 32 + 3} if kind.several_devices else set()  # parameters side by side, aligned
        each, rest = divmod(where["peak_by_kind"]["weights"], 4 * job.strategy.get("starts", 1))
        assert rest == 0
        is_padded = kind.several_devices or (kind.at_once and name != "graph_loop")
        assert each in padded if is_padded else each == 20 + 15 + 3
        assert where["peak_by_kind"]["data"] >= 4 * JOB.X.shape[1]


def test_a_buffer_is_of_the_kind_of_what_is_copied():
    """The reference's largest product is H = X W1: data, weights, and activations copied out."""
    job = replace(JOB, network=mlp((4, 50, 1)))
    device = runs.count(job, CpuBackend())[1]["device"]
    assert device["peak_by_kind"] == {"data": 4 * 16, "weights": 4 * 200, "activations": 4 * 200}


def test_sizes_for_readers():
    sizes = {0: "0 bytes", 12: "12 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1025: "1.001 KiB"}
    sizes |= {3 << 20: "3 MiB", 5 << 30: "5 GiB", 1 << 40: "1024 GiB"}
    assert {n: memory.size(n) for n in sizes} == sizes
    assert [memory.count(n, "block") for n in (0, 1, 2)] == ["0 blocks", "1 block", "2 blocks"]


def block(nbytes, purpose=None, address=0, site="here"):
    return Resource(Ref(1, 0, nbytes), None, Call("malloc", call_site=site), address, purpose)


def test_what_holds_memory_is_named_largest_first():
    data = block(8, "data", site="a")
    blocks = [data, block(2048, site="b"), data, block(20, site="a")]
    said = "1 block with 2 KiB from b, 1 block with 20 bytes from a, 2 data blocks with 16 bytes from a"
    assert held(blocks) == said
    assert by_purpose(blocks) == {"data": 16, "workspace": 2068}
    assert by_purpose([]) == {}


def test_a_space_keeps_its_peak_and_its_worst_layout():
    space = Space()
    assert not any(space.describe().values())
    quarter = CHUNK // 4
    assert [space.add(i, block(quarter, "data", i * quarter)) for i in range(4)] == [True] * 4
    space.remove(0)
    space.remove(2)
    assert not space.add(5, block(quarter, "weights", 0))
    assert not space.add(6, block(quarter, "weights", 2 * quarter))  # as much as before
    found = space.describe()
    assert found["peak_bytes"] == space.live_bytes == CHUNK == 2 << 20
    assert found["peak_by_kind"] == {"data": CHUNK}
    assert (found["reserved_bytes"], found["largest_free_bytes"], found["fragmentation"]) == (CHUNK, 0, 0.0)
    assert (found["worst_stranded_bytes"], found["worst_fragmentation"]) == (quarter, 0.5)
    for number in (1, 3, 5, 6):
        space.remove(number)
    assert space.live_bytes == 0 and space.describe() == found


def test_memory_of_the_host_is_mapped_where_it_is_page_locked():
    memory_map = MemoryMap()
    observed = ObservedBackend(Addressed(), memory_map)
    locked, pageable = observed.host_alloc((4,), "data"), observed.host_alloc((8,), "data", False)
    device = observed.malloc(64, "weights")
    found = memory_map.describe(observed)
    assert found["page_locked"]["peak_bytes"] == 16 and found["device"]["peak_bytes"] == 64
    assert (found["least_free_bytes"], found["total_bytes"], found["warnings"]) == (CHUNK - 64, CHUNK, [])
    for array in (locked, pageable):
        observed.host_free(array)
    observed.free(device)
    assert not memory_map.page_locked.blocks and not memory_map.device.blocks
    assert memory_map.describe(observed) == found
    untouched = MemoryMap().describe(Addressed(7, 100))
    assert (untouched["least_free_bytes"], untouched["total_bytes"]) == (7, 100)
    assert untouched["warnings"] == ["93% of the memory was in use: 7 bytes of 100 bytes were left"]


def test_the_memory_of_a_cpu_is_in_bytes():
    free, total = CpuBackend().memory()
    system = psutil.virtual_memory()
    assert total == system.total
    assert system.available / 2 < free < 2 * system.available


def full(free):
    return replace(JOB, network=mlp((4, 50, 1))), Addressed(free, 10_000)


def test_a_planted_lack_of_memory_says_what_was_asked_free_held_and_would_fit():
    job, backend = full(free=1200)
    found = runs.measure(job, RULES, backend)
    assert found.status == "out_of_memory"
    assert "malloc of 800 bytes failed: 336 of 10000 bytes are free" in found.reason
    assert "held: 2 blocks with 864 bytes from snn/strategies/host_driven.py:" in found.reason
    assert "asked by snn/strategies/host_driven.py:" in found.reason
    assert backend.memory() == (1200, 10_000)  # nothing is kept
    # Half the batch: two rows of X, W1, two rows of H.
    assert advice(job, 1300, backend) == "training.batch_size=2 would fit: 1.203 KiB of 1.27 KiB free"
    assert advice(job, 900, backend).startswith("no batch size would fit: one row per batch needs ")


def job_of(name, batch):
    return replace(JOB, strategy=groups.load("strategy", name), batch_size=batch)


@cache
def peak(name, batch):
    return rehearse(job_of(name, batch), len(JOB.X), Captures()).nbytes


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("batch", [1, 10])
def test_a_batch_that_would_fit_is_named_where_one_does(name, batch):
    job, backend = job_of(name, batch), Captures()
    if not peak(name, 1):
        pytest.skip("uses no device memory")
    assert advice(job, 0, backend).startswith("no batch size would fit: ")
    for smaller in {batch // 2, 1} if batch > 1 else ():
        found = advice(job, peak(name, smaller), backend)
        fits = int(re.match(r"training\.batch_size=(\d+) would fit: ", found)[1])
        assert fits >= smaller
        assert peak(name, fits) <= peak(name, smaller)


class Unloaded(Addressed):
    """Has no room for a kernel when it is asked for the second time."""

    asked = 0

    def training_launch(self, shape):
        self.asked += 1
        if self.asked > 1:
            raise OutOfMemory("no room for the kernel")
        return TrainingLaunch("one cluster")


@pytest.mark.parametrize(
    ("full", "chosen", "advised"),
    [
        (Addressed(900_000, 2**30), ["dataset=medium", "strategy=combined"], "training.batch_size="),
        (Addressed(1000, 2**30), ["dataset=small"], "no batch size would fit"),  # nor has the probe room
        (Unloaded(1000, 2**30), ["dataset=small", "strategy=ensemble"], ""),
    ],
)
def test_a_cell_that_runs_out_of_memory_leaves_a_record(monkeypatch, full, chosen, advised):
    monkeypatch.setattr(backends, "make", lambda *arguments: full)
    found = cell.run(composed(["device=cpu", "protocol=brief", *chosen]))
    assert (found["status"], found["runs"], found["explanation"]) == ("out_of_memory", [], None)
    assert advised in found["reason"] and ("would fit" in found["reason"]) == bool(advised)
    probe = found["machine"]["probe"]
    assert probe == {"before": {}, "after": {}} or "medium" in chosen[0]


def test_a_full_device_is_warned_of():
    job, _ = full(0)
    # 1,664 bytes at the peak leave 236 of 1,900: of 20,000 much was in use before.
    for total, warned in ((20_000, True), (2_000, False)):
        found = runs.count(job, Addressed(1_900, total))[1]
        assert bool(found["warnings"]) == warned
        assert found["least_free_bytes"] == 236
    for free, total, warned in ((100, 1000, False), (99, 1000, True), (0, 0, False), (1000, 1000, False)):
        assert bool(MemoryMap().describe(Addressed(free, total))["warnings"]) == warned


def test_host_memory_that_cannot_be_had_is_an_outcome():
    with pytest.raises(OutOfMemory, match="bytes are free"):
        CpuBackend().host_alloc((1 << 60,))


# ---- pools and managed memory on a GPU: kept and used again, refused, moved before it is touched


MIB = 1 << 20


def test_half_of_what_was_free_before_the_first_and_no_more():
    free = [1000]
    budget = ManagedBudget(lambda: free[0])
    with pytest.raises(
        Unsupported, match=r"^501 bytes of managed memory were requested in addition to 0: .* 1000 "
    ):
        budget.take(501)
    budget.take(300)
    free[0] = 700  # which is of no account while some is held
    with pytest.raises(
        Unsupported, match=r"^201 bytes .* in addition to 300: together at most half of the 1000 "
    ):
        budget.take(201)
    budget.take(200)
    budget.give(200)
    budget.give(300)
    with pytest.raises(Unsupported, match="half of the 700 "):
        budget.take(351)
    budget.take(350)


@pytest.fixture(params=["cupy", "driver"])
def pool(request, cuda_backend):
    """A pool, and the stream in whose order it works: none for CuPy's. It is destroyed already, or now."""
    stream = cuda_backend.stream_create() if request.param == "driver" else None
    made = cuda_backend.pool_create(stream)
    yield made, stream
    cuda_backend.pool_destroy(made)
    if stream is not None:
        cuda_backend.stream_destroy(stream)


@pytest.mark.gpu
def test_a_pool_keeps_what_is_freed_and_uses_it_again(pool, cuda_backend):
    made, stream = pool
    blocks = [cuda_backend.pool_malloc(made, 8 * MIB) for _ in range(3)]
    assert len(set(blocks)) == 3
    had = cuda_backend.pool_bytes(made)
    assert had >= 24 * MIB
    for block in blocks:
        cuda_backend.pool_free(made, block)
    for _ in range(100):  # the driver's would go back to the system where a stream is waited for
        cuda_backend.synchronize()
        again = cuda_backend.pool_malloc(made, 8 * MIB)
        cuda_backend.pool_free(made, again)
        assert stream is not None or again in blocks
    assert cuda_backend.pool_bytes(made) == had
    cuda_backend.pool_destroy(made)
    assert cuda_backend.pool_bytes(made) <= had - 24 * MIB


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["pool", "async_pool"])
def test_a_pool_does_not_grow_after_the_first_epoch(name, cuda_backend):
    one, three = (ledger_of(name, (256, 64), 512, 128, n, backend=cuda_backend) for n in (1, 3))
    assert three.pool_allocs == 3 * one.pool_allocs
    assert three.peak_pool_bytes == one.peak_pool_bytes > 0


@pytest.mark.gpu
def test_page_locked_memory_of_a_pool_is_used_again(cuda_backend):
    made = cuda_backend.pool_create()
    try:
        first = cuda_backend.pool_host_alloc(made, (1000, 7))
        first.fill(3.0)
        address = first.__array_interface__["data"][0]
        cuda_backend.pool_host_free(made, first)
        again = cuda_backend.pool_host_alloc(made, (1000, 7))
        assert again.__array_interface__["data"][0] == address
        assert again.shape == (1000, 7)
        assert again.dtype == np.float32
        cuda_backend.pool_host_free(made, again)
    finally:
        cuda_backend.pool_destroy(made)


@pytest.mark.gpu
def test_the_drivers_pool_is_left_as_it_was_found(cuda_backend):
    from cupy.cuda import runtime

    default = runtime.deviceGetDefaultMemPool(0)

    def threshold():
        return runtime.memPoolGetAttribute(default, runtime.cudaMemPoolAttrReleaseThreshold)

    before = threshold()
    stream = cuda_backend.stream_create()
    made = cuda_backend.pool_create(stream)
    assert threshold() == 2**64 - 1
    cuda_backend.pool_destroy(made)
    cuda_backend.stream_destroy(stream)
    assert threshold() == before


@pytest.mark.gpu
def test_managed_memory_is_refused_before_any_is_asked_for(cuda_backend):
    free = cuda_backend.memory()[0]
    with pytest.raises(Unsupported, match="at most half"):
        cuda_backend.managed_alloc((free // 8 + 16 * MIB,))
    assert cuda_backend.memory()[0] > free - 64 * MIB
    array = cuda_backend.managed_alloc((16,))  # what was refused is not held
    cuda_backend.managed_free(array)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["managed", "managed_prefetch"])
def test_a_cell_that_would_need_more_than_half_is_unsupported(name, cuda_backend, monkeypatch):
    monkeypatch.setattr("snn.backends.cuda.memory.runtime.memGetInfo", lambda: (500, 1000))
    found = measure(replace(JOB, strategy=groups.load("strategy", name)), RULES, cuda_backend)
    assert found.status == "unsupported"
    assert "at most half of the 500 bytes that were free on the device" in found.reason


@pytest.fixture
def managed(cuda_backend):
    """4 MiB that host and device share at the same time, where the device can."""
    from cupy.cuda import runtime

    if not runtime.deviceGetAttribute(runtime.cudaDevAttrConcurrentManagedAccess, 0):
        pytest.skip("host and device cannot share managed memory at the same time here")
    array = cuda_backend.managed_alloc((1024, 1024))
    yield array
    cuda_backend.synchronize()
    cuda_backend.managed_free(array)


def attribute(array, name):
    """An attribute of managed memory, as the driver has it."""
    driver = pytest.importorskip("cuda.bindings.driver")
    which = getattr(driver.CUmem_range_attribute, f"CU_MEM_RANGE_ATTRIBUTE_{name}")
    status, value = driver.cuMemRangeGetAttribute(
        4, which, array.__array_interface__["data"][0], array.nbytes
    )
    assert status == driver.CUresult.CUDA_SUCCESS
    return int(value)


@pytest.mark.gpu
def test_prefetched_in_and_out(cuda_backend, managed):
    managed.fill(1.0)
    cuda_backend.prefetch_in(managed)
    cuda_backend.synchronize()
    assert attribute(managed, "LAST_PREFETCH_LOCATION") == 0
    assert cuda_backend.prefetches_out  # with the pinned environments
    cuda_backend.prefetch_out(managed)
    cuda_backend.synchronize()
    assert attribute(managed, "LAST_PREFETCH_LOCATION") == -1
    assert (managed == 1.0).all()


@pytest.mark.gpu
def test_advised(cuda_backend, managed):
    assert attribute(managed, "READ_MOSTLY") == 0
    cuda_backend.advise(managed, "read_mostly")
    assert attribute(managed, "READ_MOSTLY") == 1
    cuda_backend.advise(managed, "preferred_location")
    assert attribute(managed, "PREFERRED_LOCATION") == 0


@pytest.mark.gpu
def test_host_and_device_see_the_same(cuda_backend, managed):
    """A product on a part of the array, read by the host once it is done, without any copy."""
    A, B, C = managed[:32], managed[32:64], managed[64:96]
    A[:, :], B[:, :], C[:, :] = 2.0, 3.0, 0.0
    buffers = tuple(cuda_backend.shared_buffer(part) for part in (A, B, C))
    cuda_backend.launch("matmul", buffers, (16, 32, 16))
    cuda_backend.synchronize()
    assert (C.reshape(-1)[:256] == 2.0 * 3.0 * 32).all()
    assert (C.reshape(-1)[256:] == 0.0).all()


# ---- where the CPU backend puts its memory: some processors copy slowly between places that nearly agree


PAGE = 4096


def is_slow(target, source):
    """Whether a copy's target begins up to 31 bytes further in a page than its source."""
    return 0 < (target - source) % PAGE < 32


@given(st.lists(st.integers(1, 64), min_size=1, max_size=3), st.integers(0, 100))
def test_no_copy_between_an_array_and_a_buffer_is_slow(shape, offset):
    backend = CpuBackend()
    array = backend.host_alloc(tuple(shape))
    assert (array.shape, array.dtype) == (tuple(shape), np.float32) and array.flags.c_contiguous
    buffer = backend.malloc(array.nbytes + 64 * offset)
    part = backend.part(buffer, 64 * offset, array.nbytes)
    array[...] = np.arange(array.size).reshape(shape)
    backend.copy_in(part, array)
    back = np.zeros_like(array)
    backend.copy_out(back, part)
    assert (back == array).all() and part.words.size == array.size
    if array.nbytes >= PAGE:
        host, device = array.__array_interface__["data"][0], backend.address(buffer)
        parts = range(device, device + PAGE, 64)
        assert not any(is_slow(place, host) or is_slow(host, place) for place in parts)


@given(st.integers(0, 2 * PAGE))
def test_a_buffer_has_the_words_that_it_is_asked_for(nbytes):
    backend = CpuBackend()
    buffer = backend.malloc(nbytes)
    assert buffer.words.size == -(-nbytes // 4) and buffer.words.flags.writeable
    backend.free(buffer)
    assert buffer.words.size == 0
