"""Where the CPU backend puts its memory: some processors copy slowly between places that nearly agree."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snn.backends.cpu.backend import CpuBackend

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
