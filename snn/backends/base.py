"""What a strategy may ask of the device it runs on."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np

Buffer = Hashable
"""Device memory: an address on CUDA, a block of host memory that plays the device on the CPU."""

Stream = Hashable
"""A queue of copies and launches that run in order; None stands for a synchronous call."""


class Backend(ABC):
    """Memory, copies, streams and the matrix product of one device. All matrices are float32, row-major."""

    pageable_fallbacks = 0
    """How many page-locked allocations were refused and served with pageable memory instead."""

    asynchronous = True
    """Whether a launch, or a copy with a stream, returns before the device has done it."""

    @abstractmethod
    def malloc(self, nbytes: int, kind: str | None = None) -> Any:
        """Allocate device memory (cudaMalloc). Raises OutOfMemory.

        ``kind``, one of ``snn.memory.KINDS``, says what it is for; None: what is copied into it or out of it.
        """

    @abstractmethod
    def free(self, buffer: Any) -> None:
        """Free device memory (cudaFree)."""

    @abstractmethod
    def host_alloc(
        self, shape: tuple[int, ...], kind: str = "workspace", page_locked: bool = True
    ) -> np.ndarray:
        """A host array, page-locked (cudaHostAlloc; pageable where the system refuses one) or pageable.

        ``kind`` says what it is for. Raises OutOfMemory.
        """

    @abstractmethod
    def host_free(self, array: np.ndarray) -> None:
        """Free an array of ``host_alloc`` (cudaFreeHost); the array must not be used afterwards."""

    @abstractmethod
    def copy_in(self, buffer: Any, array: np.ndarray, stream: Any = None) -> None:
        """Copy a C-contiguous array to the device; with a stream, return before it is done."""

    @abstractmethod
    def copy_out(self, array: np.ndarray, buffer: Any, stream: Any = None) -> None:
        """Copy from the device to a C-contiguous array; with a stream, return before it is done."""

    @abstractmethod
    def matmul(self, A: Any, B: Any, C: Any, m: int, k: int, n: int, stream: Any = None) -> None:
        """Launch C = A B with A m x k, B k x n, C m x n; without a stream, on the default one."""

    @abstractmethod
    def stream_create(self) -> Any:
        """A new stream (cudaStreamCreate)."""

    @abstractmethod
    def stream_destroy(self, stream: Any) -> None:
        """Destroy a stream (cudaStreamDestroy)."""

    @abstractmethod
    def stream_synchronize(self, stream: Any) -> None:
        """Wait for what was asked of a stream (cudaStreamSynchronize)."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for the whole device (cudaDeviceSynchronize)."""

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Bytes of device memory that are free, and all of it."""

    @abstractmethod
    def address(self, buffer: Any) -> int:
        """Where device memory begins."""

    @abstractmethod
    def mark(self, stream: Any = None) -> Any:
        """A point in a stream's work (a CUDA event), whose time ``seconds_between`` tells once it is over."""

    @abstractmethod
    def seconds_between(self, first: Any, last: Any) -> float:
        """Seconds of the device's clock between two marks that it has passed."""
