"""The element-wise kernels, run on the CPU by cuda_on_cpu, against NumPy."""

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from snn.models.step import ADDING

pytestmark = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")

RATE = SCALE = np.float32(0.37)
THREADS = 256
elements = st.one_of(st.integers(1, 70), st.sampled_from([255, 256, 257, 1000, 66000]))
sides = st.one_of(st.integers(1, 70), st.just(256))


@pytest.fixture(scope="module")
def elementwise():
    return cuda_on_cpu.load(ROOT / "kernels/elementwise.cu")


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Random numbers, and among them what is not finite and both zeros."""
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape, dtype=np.float32)
    special = random.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype=np.float32), shape)
    return np.where(random.random(shape) < 0.1, special, values)


def by_element(kernel, *arguments):
    kernel((-(-len(arguments[0]) // THREADS),), (THREADS,), arguments)


def by_tile(kernel, rows, cols, *arguments):
    kernel((-(-cols // 32), -(-rows // 32)), (32, 8), arguments)


def test_every_element_wise_kernel_is_tested(elementwise):
    tested = "relu error mask update update_both sum_squares clipped_update clipped_update_both transpose"
    assert set(elementwise) == set(tested.split())


@settings(max_examples=20)
@given(n=elements, seed=st.integers(0, 2**32 - 1))
def test_elements_are_numpys_to_the_bit(elementwise, n, seed):
    P, Y, D, H, W, G = numbers(seed, 6, n)
    with np.errstate(invalid="ignore"):
        Z = P.copy()
        by_element(elementwise["relu"], Z, n)
        np.testing.assert_array_equal(Z, np.maximum(P, 0))

        E, scaled = np.full_like(P, np.nan), np.full_like(P, np.nan)
        by_element(elementwise["error"], P, Y, E, scaled, n, SCALE)
        np.testing.assert_array_equal(E, P - Y)
        np.testing.assert_array_equal(scaled, SCALE * (P - Y))

        masked = D.copy()
        by_element(elementwise["mask"], masked, H, n)
        np.testing.assert_array_equal(masked, np.where(H > 0, D, 0))

        updated = W.copy()
        by_element(elementwise["update"], updated, G, n, RATE)
        np.testing.assert_array_equal(updated, W - RATE * G)

        added = W.copy()
        by_element(elementwise["update"], added, G, n, np.float32(ADDING))
        np.testing.assert_array_equal(added, W + G)


@settings(max_examples=20)
@given(rows=sides, cols=sides, seed=st.integers(0, 2**32 - 1))
def test_transposes_are_numpys_to_the_bit(elementwise, rows, cols, seed):
    W, G = numbers(seed, 2, rows, cols)
    T = np.zeros((cols, rows), dtype=np.float32)
    by_tile(elementwise["transpose"], rows, cols, W, T, rows, cols)
    np.testing.assert_array_equal(T, W.T)
    with np.errstate(invalid="ignore"):
        expected = W - RATE * G
    by_tile(elementwise["update_both"], rows, cols, W, T, G, rows, cols, RATE)
    np.testing.assert_array_equal(W, expected)
    np.testing.assert_array_equal(T, expected.T)


def test_rows_of_tiles_may_be_counted_in_x(elementwise):
    tall = cuda_on_cpu.load(ROOT / "kernels/elementwise.cu", TALL=1)
    A, T = numbers(1, 70, 40), np.zeros((40, 70), dtype=np.float32)
    tall["transpose"]((3, 2), (32, 8), (A, T, 70, 40))
    np.testing.assert_array_equal(T, A.T)


@settings(max_examples=10)
@given(rows=sides, cols=sides, seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.1, 0.99, 1.01]))
def test_gradients_are_clipped_to_their_norm(elementwise, rows, cols, seed, share):
    random = np.random.default_rng(seed)
    W, G = random.standard_normal((2, rows, cols), dtype=np.float32)
    n, partial = rows * cols, np.full(256, np.nan, dtype=np.float32)
    elementwise["sum_squares"]((256,), (THREADS,), (G, partial, n))
    exact = np.sqrt((G.astype(np.float64) ** 2).sum())
    np.testing.assert_allclose(np.sqrt(partial.astype(np.float64).sum()), exact, rtol=1e-6)

    max_norm = np.float32(share * exact)
    factor = max_norm / (exact + 1e-6) if exact > max_norm else 1.0
    expected = W - RATE * G.astype(np.float64) * factor
    alone, both, T = W.ravel().copy(), W.copy(), np.zeros((cols, rows), dtype=np.float32)
    by_element(elementwise["clipped_update"], alone, G.ravel(), partial, n, RATE, max_norm)
    by_tile(elementwise["clipped_update_both"], rows, cols, both, T, G, partial, rows, cols, RATE, max_norm)
    np.testing.assert_allclose(both, expected, rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(alone.reshape(rows, cols), both)
    np.testing.assert_array_equal(T, both.T)


def test_a_gradient_with_a_nan_is_not_clipped(elementwise):
    W, G = np.ones((2, 300), dtype=np.float32)
    G[7] = np.nan
    partial = np.zeros(256, dtype=np.float32)
    elementwise["sum_squares"]((256,), (THREADS,), (G, partial, 300))
    by_element(elementwise["clipped_update"], W, G, partial, 300, RATE, np.float32(1))
    np.testing.assert_array_equal(W, 1 - RATE * G)
