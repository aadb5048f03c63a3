"""What is asked of cuBLAS, and of which stream; without a GPU, by a library in NumPy in its place."""

import ctypes
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cupy")

from snn import backends
from snn.backends.cpu import ops
from snn.backends.cuda import backend as cuda
from snn.backends.cuda import cublas, kernels
from snn.config import groups
from snn.errors import Unsupported

COMPUTE = {"fp32": 68, "tf32": 77, "bf16": 75}  # cublasComputeType_t: _32F, _32F_FAST_TF32, _32F_FAST_16BF


class Library:
    """cublasGemmEx for float32 in host memory, column-major as the library's manual has it."""

    def __init__(self):
        self.stream, self.calls = 0, []

    def create(self):
        return 5

    def gemmEx(self, handle, ta, tb, m, n, k, alpha, *others):
        A, a_type, lda, B, b_type, ldb, beta, C, c_type, ldc, compute, algo = others
        assert (handle, a_type, b_type, c_type, algo) == (5, 0, 0, 0, -1)
        assert (at(alpha, 1)[0], at(beta, 1)[0]) == (1, 0)
        self.calls.append((self.stream, compute))
        left = column_major(A, lda, *((k, m) if ta else (m, k)))
        right = column_major(B, ldb, *((n, k) if tb else (k, n)))
        column_major(C, ldc, m, n)[...] = (left.T if ta else left) @ (right.T if tb else right)

    @contextmanager
    def on(self, stream):
        before, self.stream = self.stream, stream
        yield
        self.stream = before


def at(address, count):
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (count,))


def column_major(address, leading, rows, cols):
    assert leading >= max(rows, 1)
    return at(address, leading * cols).reshape(cols, leading).T[:rows]


CURRENT = cublas._current


@pytest.fixture(scope="module")
def library():
    from cupy_backends.cuda import libs

    found = Library()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(libs), "cublas", found)
        patch.setattr(cublas, "_current", found.on)
        yield found


@pytest.fixture
def backend(library, monkeypatch):
    """The CUDA backend over a runtime that is not there."""
    runtime = SimpleNamespace(setDevice=lambda index: None, free=lambda address: None)
    runtime.CUDARuntimeError = cuda.runtime.CUDARuntimeError
    monkeypatch.setattr(cuda, "runtime", runtime)
    monkeypatch.setattr(cuda.ManagedMemory, "__init__", lambda self, index: None)
    device = SimpleNamespace(attributes={"MultiProcessorCount": 132})
    monkeypatch.setattr(kernels.cupy.cuda, "Device", lambda: device)
    return lambda name, precision: backends.make("cuda", groups.load("kernel", name), ROOT, precision)


sizes = st.integers(1, 9)


@settings(max_examples=40)
@given(
    op=st.sampled_from(["matmul", "matmul_tn", "matmul_nt"]),
    precision=st.sampled_from(list(COMPUTE)),
    sizes=st.tuples(sizes, st.integers(0, 9), sizes),
)
def test_products_are_numpys_on_their_stream(library, op, precision, sizes):
    m, k, n = sizes
    A, B, C = (np.random.default_rng(m).integers(-4, 5, size).astype("f") for size in (m * k, k * n, m * n))
    expected = C.copy()
    getattr(ops, op)(A, B, expected, m, k, n)
    product = cublas.Cublas(precision).make(op, sizes)
    product([one.ctypes.data for one in (A, B, C)], 1234)
    np.testing.assert_array_equal(C, expected)
    assert (library.stream, library.calls[-1]) == (0, (1234, COMPUTE[precision]))


@pytest.mark.parametrize(
    ("version", "package"), [(12090, "nvidia-cublas-cu12==12.*"), (13000, "nvidia-cublas==13.*")]
)
def test_without_the_library_that_of_cupys_cuda_is_named(version, package, monkeypatch):
    def missing():
        raise RuntimeError("no libcublas")

    from cupy_backends.cuda import libs

    monkeypatch.setitem(vars(libs), "cublas", SimpleNamespace(create=missing))
    runtime = SimpleNamespace(runtimeGetVersion=lambda: version)
    monkeypatch.setattr(cublas.cupy.cuda, "runtime", runtime)
    with pytest.raises(Unsupported) as caught:
        cublas.Cublas("fp32")
    assert f"(no libcublas): install the library of CUDA {version // 1000}" in str(caught.value)
    assert f"`pip install '{package}'`" in str(caught.value)


def test_a_stream_becomes_cupys_current_one():
    assert CURRENT(1234).ptr == 1234


@pytest.mark.parametrize("precision", list(COMPUTE))
def test_cublas_cannot_be_captured_and_says_so(backend, precision):
    with pytest.raises(Unsupported, match="cuBLAS does not run while a stream is being captured"):
        backend("cublas", precision).graph_begin(1234)


def test_kernels_of_ours_are_captured(backend, monkeypatch):
    begun = []
    made = backend("naive", "fp32")
    monkeypatch.setattr(cuda.runtime, "streamBeginCapture", lambda *what: begun.append(what), raising=False)
    monkeypatch.setattr(cuda.runtime, "streamCaptureModeThreadLocal", 1, raising=False)
    made.graph_begin(1234)
    assert begun == [(1234, 1)]


def test_no_product_that_goes_on(library):
    with pytest.raises(Unsupported, match="cuBLAS has no fused product such as matmul_relu"):
        cublas.Cublas("fp32").make("matmul_relu", (1, 1, 1))
