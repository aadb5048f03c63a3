"""The counting backend catches what a real device would punish later, or never."""

import re

import numpy as np
import pytest
from every_source import EverySource

from snn.backends.cpu.backend import CpuBackend
from snn.errors import LeakError
from snn.profiling.accounting import CountingBackend

ROW = np.zeros((1, 4), dtype=np.float32)


@pytest.fixture
def counting():
    return CountingBackend(CpuBackend())


def test_double_free(counting):
    buffer = counting.malloc(16)
    counting.free(buffer)
    with pytest.raises(LeakError, match="not allocated"):
        counting.free(buffer)


def test_use_after_free(counting):
    buffer = counting.malloc(16)
    counting.free(buffer)
    with pytest.raises(LeakError, match="not allocated"):
        counting.copy_in(buffer, ROW)


def test_host_double_free(counting):
    array = counting.host_alloc((2, 2))
    counting.host_free(array)
    with pytest.raises(LeakError, match="host array"):
        counting.host_free(array)


def test_copies_that_do_not_fit_or_are_not_contiguous(counting):
    buffer = counting.malloc(12)
    with pytest.raises(LeakError, match="16 bytes does not fit a buffer of 12"):
        counting.copy_in(buffer, ROW)
    with pytest.raises(LeakError, match="C-contiguous float32"):
        counting.copy_out(np.zeros((2, 2), dtype=np.float32).T, buffer)
    with pytest.raises(LeakError, match="float64"):
        counting.copy_in(buffer, np.zeros(1))


def test_products_larger_than_their_buffers(counting):
    A, B, C = (counting.malloc(4 * n) for n in (6, 6, 3))
    with pytest.raises(LeakError, match=r"C of matmul \(2, 3, 2\)"):
        counting.launch("matmul", (A, B, C), (2, 3, 2))


def test_destroyed_streams(counting):
    stream, buffer = counting.stream_create(), counting.malloc(16)
    counting.copy_in(buffer, ROW, stream)
    counting.stream_destroy(stream)
    with pytest.raises(LeakError, match="stream"):
        counting.copy_in(buffer, ROW, stream)


def test_what_is_still_held_is_named(counting):
    counting.check_nothing_held()
    counting.malloc(8)
    counting.host_alloc((1, 3))
    counting.stream_create()
    counting.host_alloc((1, 2), "data", False)
    with pytest.raises(LeakError) as caught:
        counting.check_nothing_held()
    line = r"from tests/test_ledger.py:\d+ in test_what_is_still_held_is_named"
    assert re.search(
        rf"on the device: 1 block with 8 bytes {line}; page-locked: 1 workspace block with 12 bytes "
        rf"{line}; pageable: 1 data block with 8 bytes {line}; 1 stream created at tests/",
        str(caught.value),
    )


def test_peaks(counting):
    first = counting.malloc(8)
    counting.malloc(4)
    counting.free(first)
    counting.malloc(2)
    assert counting.ledger.peak_device_bytes == 12
    assert counting.ledger.malloc_bytes == 14


@pytest.fixture
def with_sources():
    return CountingBackend(EverySource())


def test_memory_of_a_pool_goes_back_to_it_once(with_sources):
    pool, other = with_sources.pool_create(), with_sources.pool_create()
    block, array = with_sources.pool_malloc(pool, 16), with_sources.pool_host_alloc(pool, (2, 2))
    for wrong in (
        lambda: with_sources.free(block),
        lambda: with_sources.pool_free(other, block),
        lambda: with_sources.host_free(array),
        lambda: with_sources.pool_host_free(other, array),
        lambda: with_sources.pool_destroy(pool),
    ):
        with pytest.raises(LeakError):
            wrong()
    with pytest.raises(LeakError, match=r"16 bytes from .*; page-locked: .*; 2 pools created at tests/"):
        with_sources.check_nothing_held()
    with_sources.pool_free(pool, block)
    with_sources.pool_host_free(pool, array)
    for wrong in (
        lambda: with_sources.pool_free(pool, block),
        lambda: with_sources.pool_host_free(pool, array),
    ):
        with pytest.raises(LeakError, match="given back before"):
            wrong()
    with_sources.pool_destroy(pool)
    with_sources.pool_destroy(other)
    with_sources.check_nothing_held()
    with pytest.raises(LeakError, match="a pool was used that does not exist"):
        with_sources.pool_malloc(pool, 4)


def test_only_managed_memory_is_used_as_such(with_sources):
    array = with_sources.managed_alloc((4, 8))
    part = with_sources.managed_buffer(array[1:])
    with pytest.raises(LeakError, match="larger than its buffer"):
        with_sources.launch("relu", (part,), (32,))
    with_sources.launch("relu", (part,), (24,))
    for wrong in (ROW, array.T):
        with pytest.raises(LeakError):
            with_sources.prefetch_in(wrong)
        with pytest.raises(LeakError):
            with_sources.advise(wrong, "read_mostly")
        with pytest.raises(LeakError):
            with_sources.managed_buffer(wrong)
    assert with_sources.ledger.prefetches == with_sources.ledger.advices == 0
    with_sources.managed_free(array)
    with pytest.raises(LeakError, match="freed before"):
        with_sources.managed_free(array)
    with pytest.raises(LeakError, match="a device buffer was used that is not allocated"):
        with_sources.launch("relu", (part,), (24,))
    with_sources.check_nothing_held()
