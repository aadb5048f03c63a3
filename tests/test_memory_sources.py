"""What pools and managed memory are on a GPU: kept and used again, refused, moved before it is touched."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import ledger_of
from test_measure import JOB, RULES

from snn.backends.cpu.backend import CpuBackend
from snn.backends.cuda.managed_budget import ManagedBudget
from snn.config import groups
from snn.errors import Unsupported
from snn.measurement.runs import measure

MIB = 1 << 20


def test_half_of_what_was_free_before_the_first_and_no_more():
    free = [1000]
    budget = ManagedBudget(lambda: free[0])
    with pytest.raises(Unsupported, match=r"^501 bytes of managed memory were asked for beside 0: .* 1000 "):
        budget.take(501)
    budget.take(300)
    free[0] = 700  # which is of no account while some is held
    with pytest.raises(Unsupported, match=r"^201 bytes .* beside 300: together at most half of the 1000 "):
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
    buffers = tuple(cuda_backend.managed_buffer(part) for part in (A, B, C))
    cuda_backend.launch("matmul", buffers, (16, 32, 16))
    cuda_backend.synchronize()
    assert (C.reshape(-1)[:256] == 2.0 * 3.0 * 32).all()
    assert (C.reshape(-1)[256:] == 0.0).all()


# ---- where the CPU backend puts its memory: some processors copy slowly between places that nearly agree


PAGE = 4096


def is_slow(target, source):
    """Whether a copy's target begins up to 31 bytes further in a page than its source."""
    return 0 < (target - source) % PAGE < 32


@given(st.lists(st.integers(1, 300), min_size=1, max_size=3), st.integers(0, 100))
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
