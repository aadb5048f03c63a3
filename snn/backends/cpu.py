"""The CPU in the role of the device: every call keeps its meaning, over host memory.

Device memory is a second block of host memory, a copy is a copy, a product is NumPy's, and a stream
runs its work at once. What is measured here is this: a CPU, not a stand-in for a GPU.
"""

import itertools

import numpy as np

from snn.backends.base import Backend
from snn.errors import OutOfMemory


class HostBuffer:
    """A block of host memory that plays device memory; a float32 array that only the backend opens."""

    __slots__ = ("words",)

    def __init__(self, words: np.ndarray) -> None:
        self.words = words


class CpuBackend(Backend):
    """NumPy's memory and NumPy's product. Its matrix product is the oracle of the CUDA kernels."""

    def __init__(self) -> None:
        self._stream_numbers = itertools.count(1)

    def malloc(self, nbytes: int) -> HostBuffer:
        try:
            return HostBuffer(np.empty(-(-nbytes // 4), dtype=np.float32))
        except MemoryError as error:
            raise OutOfMemory(f"malloc of {nbytes} bytes: {error}") from error

    def free(self, buffer: HostBuffer) -> None:
        buffer.words = np.empty(0, dtype=np.float32)

    def host_alloc(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.empty(shape, dtype=np.float32)

    def host_free(self, array: np.ndarray) -> None:
        """Nothing to do: NumPy frees an array with its last reference."""

    def copy_in(self, buffer: HostBuffer, array: np.ndarray, stream: int | None = None) -> None:
        buffer.words[: array.size] = array.ravel()

    def copy_out(self, array: np.ndarray, buffer: HostBuffer, stream: int | None = None) -> None:
        array.ravel()[:] = buffer.words[: array.size]

    def matmul(
        self, A: HostBuffer, B: HostBuffer, C: HostBuffer, m: int, k: int, n: int, stream: int | None = None
    ) -> None:
        np.matmul(
            A.words[: m * k].reshape(m, k),
            B.words[: k * n].reshape(k, n),
            out=C.words[: m * n].reshape(m, n),
        )

    def stream_create(self) -> int:
        return next(self._stream_numbers)

    def stream_destroy(self, stream: int) -> None:
        """Nothing is pending on a stream of the CPU."""

    def stream_synchronize(self, stream: int) -> None:
        """Nothing is pending on a stream of the CPU."""

    def synchronize(self) -> None:
        """Nothing is pending on the CPU."""
