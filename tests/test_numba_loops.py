"""The loops that Numba compiles, run as they are written: on whole numbers, where every sum is exact."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snn.strategies import numba_loops

sizes = st.integers(1, 5)
seeds = st.integers(0, 1000)


class Type:
    """Stands for a type of Numba in a signature, and makes numbers of it."""

    def __getitem__(self, of):
        return self

    def __call__(self, number):
        return np.float32(number)


CONFIG = SimpleNamespace()


def loops(parallel=False):
    """The functions before they are compiled, and what Numba was asked for."""
    asked = []

    def njit(signature, **options):
        asked.append(options)
        return lambda function: function

    numba = SimpleNamespace(
        prange=range, float32=Type(), boolean=bool, void=lambda *types: types, njit=njit, config=CONFIG
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_loops, "required", lambda name: {"numba": numba}[name])
        return numba_loops.perceptron_loops.__wrapped__(parallel), asked


LOOPS, _ = loops()


def whole(seed, *shapes):
    """Matrices of small whole numbers, with zeros among them."""
    random = np.random.default_rng(seed)
    return [random.integers(-3, 4, shape).astype(np.float32) for shape in shapes]


def empty(*shape):
    return np.full(shape, np.nan, dtype=np.float32)


@given(seeds, sizes, sizes, sizes, st.booleans())
def test_forward(seed, m, k, n, relu):
    A, W = whole(seed, (m, k), (k, n))
    Z = empty(m, n)
    LOOPS.forward(A, W, relu, Z)
    np.testing.assert_array_equal(Z, np.maximum(A @ W, 0) if relu else A @ W)


@given(seeds, sizes, st.integers(1, 70), sizes)
def test_gradient(seed, m, k, n):
    """Of one column it goes by strips of 16 rows."""
    H, dZ = whole(seed, (m, k), (m, n))
    dW = empty(k, n)
    LOOPS.gradient(H, dZ, dW)
    np.testing.assert_array_equal(dW, H.T @ dZ)


@given(seeds, sizes, sizes, sizes)
def test_propagate(seed, m, k, n):
    dZ, W, H = whole(seed, (m, n), (k, n), (m, k))
    dH = empty(m, k)
    LOOPS.propagate(dZ, W, H, dH)
    np.testing.assert_array_equal(dH, np.where(H > 0, dZ @ W.T, 0))


@given(seeds, sizes, sizes)
def test_update(seed, k, n):
    dW, W = whole(seed, (k, n), (k, n))
    expected = W - 0.5 * dW
    LOOPS.update(np.float32(0.5), dW, W)
    np.testing.assert_array_equal(W, expected)


@pytest.mark.parametrize(("most", "share"), [(10.0, 1.0), (5.0, 1.0), (2.5, 0.5), (0.5, 0.1)])
def test_clip(most, share):
    """The norm is 5."""
    dW = np.array([[0, 0], [3, 0], [0, -4]], dtype=np.float32)
    scaled = dW * np.float32(most / (np.float32(5) + 1e-6)) if share < 1 else dW.copy()
    LOOPS.clip(np.float32(most), dW)
    np.testing.assert_array_equal(dW, scaled)
    np.testing.assert_allclose(dW, share * np.array([[0, 0], [3, 0], [0, -4]]), rtol=1e-6)


def test_a_gradient_of_zeros_is_left_as_it_is():
    dW = np.zeros((2, 2), dtype=np.float32)
    LOOPS.clip(np.float32(0.0), dW)
    np.testing.assert_array_equal(dW, 0)


def test_a_small_norm_is_not_divided_by_itself_alone():
    """1e-6 stands beside it, as in PyTorch's clipping."""
    dW = np.full((1, 1), 1e-6, dtype=np.float32)
    LOOPS.clip(np.float32(5e-7), dW)
    np.testing.assert_allclose(dW, 1e-6 * 5e-7 / 2e-6, rtol=1e-5)


@pytest.mark.parametrize("parallel", [False, True])
def test_they_are_compiled_for_one_thread_or_several_and_may_reorder_sums(parallel):
    _, asked = loops(parallel)
    expected = {"parallel": parallel, "fastmath": {"reassoc", "contract", "nsz"}, "cache": True}
    assert asked == [expected] * 5
