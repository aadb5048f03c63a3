"""Matrix products by cuBLAS instead of a kernel of our own."""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import cupy

from snn.errors import Unsupported

_N, _T = 0, 1  # cublasOperation_t
_FLOAT = 0  # CUDA_R_32F
_COMPUTE = {"fp32": 68, "tf32": 77, "bf16": 75}  # CUBLAS_COMPUTE_32F, _32F_FAST_TF32, _32F_FAST_16BF
_DEFAULT_ALGORITHM = -1
_ONE, _ZERO = ctypes.c_float(1), ctypes.c_float(0)


class Cublas:
    """C = A B and its transposed forms by cublasGemmEx; float32 in memory, ``precision`` in the products.

    With tf32 or bf16, cuBLAS may round the inputs and use tensor cores, which it decides for each size.
    """

    def __init__(self, precision: str) -> None:
        try:
            from cupy_backends.cuda.libs import cublas

            self._handle = cublas.create()
        except (ImportError, RuntimeError) as error:
            major = cupy.cuda.runtime.runtimeGetVersion() // 1000  # of the CUDA that CuPy is built for
            package = "nvidia-cublas" if major >= 13 else f"nvidia-cublas-cu{major}"
            raise Unsupported(
                f"cuBLAS cannot be used ({error}): install the library of CUDA {major}, with "
                f"`pip install '{package}=={major}.*'`"
            ) from error
        self._library = cublas
        self._compute = _COMPUTE[precision]

    def make(self, op: str, numbers: Sequence[float]) -> Callable[[Sequence[int], int], None]:
        """A function of operands and stream that computes a product of ``snn.backends.ops``."""
        if op not in ("matmul", "matmul_tn", "matmul_nt"):
            raise Unsupported(f"cuBLAS has no fused product such as {op}")
        m, k, n = (int(number) for number in numbers)
        # cuBLAS is column-major: it sees every matrix transposed, and C^T = B^T A^T.
        left = (_T, k) if op == "matmul_nt" else (_N, n)
        right = (_T, m) if op == "matmul_tn" else (_N, k)
        one, zero = ctypes.addressof(_ONE), ctypes.addressof(_ZERO)
        library, handle, compute = self._library, self._handle, self._compute

        def product(buffers: Sequence[int], stream: int) -> None:
            A, B, C = buffers
            with _current(stream):  # CuPy runs cuBLAS on its current stream and ignores setStream
                library.gemmEx(
                    *(handle, left[0], right[0], n, m, k, one),
                    *(B, _FLOAT, max(left[1], 1), A, _FLOAT, max(right[1], 1)),
                    *(zero, C, _FLOAT, n, compute, _DEFAULT_ALGORITHM),
                )

        return product


@cache
def _current(stream: int) -> Any:
    """A context manager that makes a stream CuPy's current one."""
    return cupy.cuda.Stream.from_external(_Stream(stream))


class _Stream:
    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address  # the protocol's version
