"""The generator against glibc's own, and against itself in other portions."""

import ctypes
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snn.models.glibc_random import RAND_MAX, GlibcRandom


def test_first_values_after_srand_1():
    assert GlibcRandom(1).integers(3).tolist() == [1804289383, 846930886, 1681692777]


@pytest.mark.skipif(sys.platform != "linux", reason="the C library here is not glibc")
@given(st.integers(1, 2**31 - 2), st.integers(0, 500))
def test_equals_the_c_library(seed, count):
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        pytest.skip("the C library here is not glibc")
    libc.srand(ctypes.c_uint(seed))
    assert GlibcRandom(seed).integers(count).tolist() == [libc.rand() for _ in range(count)]


@given(st.lists(st.integers(0, 200), max_size=8))
def test_portions_do_not_matter(portions):
    random = GlibcRandom(7)
    parts = np.concatenate([random.integers(n) for n in portions] or [np.empty(0, np.uint32)])
    assert np.array_equal(parts, GlibcRandom(7).integers(sum(portions)))


def test_uniform_is_float32_of_the_quotient():
    integers, floats = GlibcRandom(1).integers(1000), GlibcRandom(1).uniform(1000)
    assert floats.dtype == np.float32
    assert np.array_equal(floats, integers.astype(np.float32) / np.float32(RAND_MAX))


@pytest.mark.parametrize("seed", [0, -1])
def test_refuses_a_seed_below_one(seed):
    with pytest.raises(ValueError, match=str(seed)):
        GlibcRandom(seed)
