"""An observed backend refuses what a real device would punish later, or never."""

import re

import numpy as np
import pytest
from deferred import DeferredBackend
from every_source import EverySource
from hypothesis import example, given
from hypothesis import strategies as st

from snn.backends.cpu.backend import CpuBackend
from snn.errors import LeakError
from snn.profiling.observed import ObservedBackend

ROW = np.zeros((1, 4), dtype=np.float32)


@pytest.fixture
def observed():
    return ObservedBackend(CpuBackend())


def test_double_free(observed):
    buffer = observed.malloc(16)
    observed.free(buffer)
    with pytest.raises(LeakError, match="not allocated"):
        observed.free(buffer)


def test_use_after_free(observed):
    buffer = observed.malloc(16)
    observed.free(buffer)
    with pytest.raises(LeakError, match="not allocated"):
        observed.copy_in(buffer, ROW)


def test_host_double_free(observed):
    array = observed.host_alloc((2, 2))
    observed.host_free(array)
    with pytest.raises(LeakError, match="host array"):
        observed.host_free(array)


def test_copies_that_do_not_fit_or_are_not_contiguous(observed):
    buffer, array = observed.malloc(12), observed.host_alloc((2, 2))
    with pytest.raises(LeakError, match="a copy needs 16 bytes and does not fit a buffer of 12"):
        observed.copy_in(buffer, array)
    with pytest.raises(LeakError, match="C-contiguous float32"):
        observed.copy_out(array.T, buffer)
    with pytest.raises(LeakError, match="float64"):
        observed.copy_in(buffer, np.zeros(1))
    with pytest.raises(LeakError, match="a host array was used that is not allocated"):
        observed.copy_in(buffer, ROW)


@given(
    block=st.integers(1, 40), offset=st.integers(-2, 40), words=st.integers(1, 40), needed=st.integers(1, 40)
)
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
            with pytest.raises(
                LeakError, match=f"{4 * needed} bytes and does not fit a buffer of {4 * words}"
            ):
                use()
        else:
            use()
    within = observed.part(part, 0, 4 * words)
    with pytest.raises(LeakError, match="is not within"):  # a part of a part has no more room than that
        observed.part(within, 0, 4 * words + 4)


def test_products_larger_than_their_buffers(observed):
    A, B, C = (observed.malloc(4 * n) for n in (6, 6, 3))
    with pytest.raises(LeakError, match=r"C of matmul \(2, 3, 2\) needs 16 bytes"):
        observed.launch("matmul", (A, B, C), (2, 3, 2))


def test_destroyed_streams(observed):
    stream, buffer, row = observed.stream_create(), observed.malloc(16), observed.host_alloc((1, 4))
    observed.copy_in(buffer, row, stream)
    observed.stream_destroy(stream)
    with pytest.raises(LeakError, match="a stream was used that does not exist"):
        observed.copy_in(buffer, row, stream)
    with pytest.raises(LeakError, match="an event was used that does not exist"):
        observed.event_synchronize(stream)


USES_OF_A_STREAM = {
    "copy_in": lambda on, stream: on.copy_in(on.malloc(16), on.host_alloc((4,)), stream),
    "copy_out": lambda on, stream: on.copy_out(on.host_alloc((4,)), on.malloc(16), stream),
    "launch": lambda on, stream: on.launch("relu", (on.malloc(16),), (4,), stream),
    "stream_synchronize": lambda on, stream: on.stream_synchronize(stream),
    "stream_destroy": lambda on, stream: on.stream_destroy(stream),
    "event_record": lambda on, stream: on.event_record(on.event_create(), stream),
    "event_wait": lambda on, stream: on.event_wait(on.event_create(), stream),
    "graph_begin": lambda on, stream: on.graph_begin(stream),
    "graph_end": lambda on, stream: on.graph_end(stream),
    "pool_create": lambda on, stream: on.pool_create(stream),
}


@pytest.mark.parametrize("use", USES_OF_A_STREAM)
def test_no_call_takes_a_stream_that_was_destroyed(with_sources, use):
    stream = with_sources.stream_create()
    with_sources.stream_destroy(stream)
    with pytest.raises(LeakError, match="a stream was used that does not exist"):
        USES_OF_A_STREAM[use](with_sources, stream)


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
    with pytest.raises(LeakError, match=f"never freed: 1 {noun} created at tests/test_live.py"):
        observed.live.check_nothing_held()


def test_what_is_still_held_is_named(observed):
    observed.live.check_nothing_held()
    observed.malloc(8)
    observed.host_alloc((1, 3))
    observed.stream_create()
    observed.host_alloc((1, 2), "data", False)
    with pytest.raises(LeakError) as caught:
        observed.live.check_nothing_held()
    line = r"from tests/test_live.py:\d+ in test_what_is_still_held_is_named"
    assert re.search(
        rf"on the device: 1 block with 8 bytes {line}; page-locked: 1 workspace block with 12 bytes "
        rf"{line}; pageable: 1 data block with 8 bytes {line}; 1 stream created at tests/",
        str(caught.value),
    )


@pytest.fixture
def with_sources():
    return ObservedBackend(EverySource())


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
        with_sources.live.check_nothing_held()
    with_sources.pool_free(pool, block)
    with_sources.pool_host_free(pool, array)
    for wrong in (
        lambda: with_sources.pool_free(pool, block),
        lambda: with_sources.pool_host_free(pool, array),
    ):
        with pytest.raises(LeakError, match="freed before"):
            wrong()
    with_sources.pool_destroy(pool)
    with_sources.pool_destroy(other)
    with_sources.live.check_nothing_held()
    with pytest.raises(LeakError, match="a pool was used that does not exist"):
        with_sources.pool_malloc(pool, 4)


def test_only_managed_memory_is_used_as_such(with_sources):
    array = with_sources.managed_alloc((4, 8))
    part = with_sources.managed_buffer(array[1:])
    with pytest.raises(LeakError, match=r"Z of relu \(32,\) needs 128 bytes"):
        with_sources.launch("relu", (part,), (32,))
    with_sources.launch("relu", (part,), (24,))
    for wrong in (ROW, array.T):
        with pytest.raises(LeakError):
            with_sources.prefetch_in(wrong)
        with pytest.raises(LeakError):
            with_sources.advise(wrong, "read_mostly")
        with pytest.raises(LeakError):
            with_sources.managed_buffer(wrong)
    with_sources.managed_free(array)
    with pytest.raises(LeakError, match="freed before"):
        with_sources.managed_free(array)
    with pytest.raises(LeakError, match="a device buffer was used that is not allocated"):
        with_sources.launch("relu", (part,), (24,))
    with_sources.live.check_nothing_held()


def test_memory_is_freed_as_a_whole_and_by_the_call_that_belongs_to_it(with_sources):
    block, array = with_sources.malloc(16), with_sources.managed_alloc((4,))
    for wrong in (
        lambda: with_sources.free(with_sources.part(block, 0, 16)),
        lambda: with_sources.free(with_sources.managed_buffer(array)),
        lambda: with_sources.host_free(array),
        lambda: with_sources.host_free(array[1:]),
        lambda: with_sources.free(with_sources.stream_create()),
    ):
        with pytest.raises(LeakError):
            wrong()
