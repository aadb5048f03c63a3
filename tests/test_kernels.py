"""Every kernel against the NumPy oracle, on fresh inputs of awkward sizes."""

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from snn import backends, choices
from snn.backends.cpu import CpuBackend

GUARD = 64  # floats behind C that a kernel must leave alone


@pytest.fixture(
    params=[
        pytest.param(("cuda", name, block), marks=pytest.mark.gpu, id=f"cuda-{name}-{block[0]}x{block[1]}")
        for name in choices.names("kernel")
        for block in ([16, 16], [32, 8], [1, 1], [7, 3])
    ]
    + [pytest.param(("cpu", "naive", [16, 16]), id="cpu")],
    scope="module",
)
def product(request):
    """A backend whose kernel is launched with some shape of block."""
    backend, kernel, block = request.param
    return backends.make(backend, choices.load("kernel", kernel) | {"block": block}, ROOT)


def multiply(backend, A, B):
    """A B through the backend; the output is poisoned before, and a guard behind it checked after."""
    m, n = len(A), B.shape[1]
    C = np.full(m * n + GUARD, np.nan, dtype=np.float32)
    C[m * n :] = 12345.0
    buffers = [backend.malloc(matrix.nbytes) for matrix in (A, B, C)]
    try:
        for buffer, matrix in zip(buffers, (A, B, C), strict=True):
            backend.copy_in(buffer, matrix)
        backend.launch("matmul", tuple(buffers), (m, A.shape[1], n))
        backend.synchronize()
        backend.copy_out(C, buffers[2])
    finally:
        for buffer in buffers:
            backend.free(buffer)
    assert (C[m * n :] == 12345.0).all()
    return C[: m * n].reshape(m, n)


sizes = st.one_of(st.integers(1, 70), st.sampled_from([127, 128, 129, 255, 256, 257]))


@settings(max_examples=40, deadline=None)
@given(m=sizes, k=sizes, n=sizes, seed=st.integers(0, 2**32 - 1))
def test_product(product, m, k, n, seed):
    random = np.random.default_rng(seed)
    A, B = (random.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (k, n)))
    expected = A.astype(np.float64) @ B.astype(np.float64)
    bound = np.abs(A).astype(np.float64) @ np.abs(B).astype(np.float64)
    assert (np.abs(multiply(product, A, B) - expected) <= 1e-6 * (k**0.5 + 1) * bound + 1e-30).all()


@pytest.mark.gpu
def test_not_a_number_and_infinity_pass_through(cuda_backend):
    A = np.array([[np.nan, 1.0], [np.inf, 2.0]], dtype=np.float32)
    B = np.eye(2, dtype=np.float32)
    with np.errstate(invalid="ignore"):
        expected = multiply(CpuBackend(), A, B)
    np.testing.assert_array_equal(multiply(cuda_backend, A, B), expected)


@pytest.mark.gpu
def test_page_locked_memory_is_page_locked_and_reusable(cuda_backend):
    from cupy.cuda import runtime

    array = cuda_backend.host_alloc((3, 5))
    try:
        address = array.__array_interface__["data"][0]
        assert runtime.pointerGetAttributes(address).type == 1  # cudaMemoryTypeHost
        array[...] = 2.0
        assert array.sum() == 30.0
    finally:
        cuda_backend.host_free(array)


@pytest.mark.gpu
def test_refused_page_locks_fall_back_to_pageable_memory_and_say_so(cuda_backend, monkeypatch):
    from snn.backends import cuda

    class Refusing:
        def __getattr__(self, name):
            return getattr(real, name)

        def hostAlloc(self, size, flags):
            return real.hostAlloc(2**60, flags)

    real = cuda.runtime
    monkeypatch.setattr(cuda, "runtime", Refusing())
    before = cuda_backend.pageable_fallbacks
    array = cuda_backend.host_alloc((4, 4))
    array[...] = 1.0
    cuda_backend.host_free(array)
    assert cuda_backend.pageable_fallbacks == before + 1
    cuda_backend.pageable_fallbacks = before


@pytest.mark.gpu
def test_out_of_memory_says_what_was_asked_and_what_is_free(cuda_backend):
    from snn.errors import OutOfMemory

    with pytest.raises(OutOfMemory, match=r"cudaMalloc of 1152921504606846976 bytes failed: \d+ of \d+"):
        cuda_backend.malloc(2**60)
    buffer = cuda_backend.malloc(16)  # the error does not stick
    cuda_backend.free(buffer)
