"""What a strategy may ask of the device it runs on."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np

from snn.backends.persistent_plans import Shape

Buffer = Hashable
"""Device memory: an address on CUDA, a block of host memory that plays the device on the CPU."""

Stream = Hashable
"""A queue of copies and launches that run in order; None stands for a synchronous call."""


ADVICE = ("read_mostly", "preferred_location", "accessed_by")
"""What managed memory may be advised of: a copy wherever it is read, kept on the device, mapped there."""


class Backend(ABC):
    """Memory, copies, streams and the work of one device. All matrices are float32, row-major."""

    pageable_fallbacks = 0
    """How many page-locked allocations were refused and served with pageable memory instead."""

    asynchronous = True
    """Whether a launch, or a copy with a stream, returns before the device has done it."""

    is_processor = False
    """Whether the device is the processor itself."""

    prefetches_out = False
    """Whether managed memory can be prefetched to the host as well."""

    fused = False
    """Whether the kernel has the products that go on: with ReLU, error, mask and update in them."""

    precision = "fp32"
    """What products are computed in: a choice of ``config/precision``."""

    pretransposed = False
    """Whether the kernel wants W^T kept beside W, so that the propagated error is a plain product."""

    @abstractmethod
    def malloc(self, nbytes: int, purpose: str | None = None) -> Any:
        """Allocate device memory (cudaMalloc). Raises OutOfMemory.

        ``purpose``, one of ``snn.profiling.memory.KINDS``, says what it is for; None: of the kind of what is
        copied into it or out of it.
        """

    @abstractmethod
    def free(self, buffer: Any) -> None:
        """Free device memory (cudaFree)."""

    @abstractmethod
    def part(self, buffer: Any, offset: int, nbytes: int) -> Any:
        """Device memory within an allocation, from ``offset`` bytes on; it lives as long as that."""

    @abstractmethod
    def host_alloc(
        self, shape: tuple[int, ...], purpose: str = "workspace", page_locked: bool = True
    ) -> np.ndarray:
        """A host array, page-locked (cudaHostAlloc; pageable where the system refuses one) or pageable.

        ``purpose`` says what it is for. Raises OutOfMemory.
        """

    @abstractmethod
    def host_free(self, array: np.ndarray) -> None:
        """Free an array of ``host_alloc`` (cudaFreeHost); the array must not be used afterwards."""

    @abstractmethod
    def pool_create(self, stream: Any = None) -> Any:
        """A pool of memory, which keeps what is freed until ``pool_destroy``. Raises Unsupported.

        It is CuPy's (MemoryPool and PinnedMemoryPool); with a stream the driver's, of device memory that is
        had and freed in the order of that stream (cudaMallocAsync, cudaFreeAsync).
        """

    @abstractmethod
    def pool_destroy(self, pool: Any) -> None:
        """Give back to the system what a pool keeps; nothing of it is in use any more."""

    @abstractmethod
    def pool_malloc(self, pool: Any, nbytes: int, purpose: str | None = None) -> Any:
        """Device memory of a pool, otherwise as ``malloc``. Raises OutOfMemory."""

    @abstractmethod
    def pool_free(self, pool: Any, buffer: Any) -> None:
        """Give device memory back to its pool."""

    @abstractmethod
    def pool_host_alloc(self, pool: Any, shape: tuple[int, ...], purpose: str = "workspace") -> np.ndarray:
        """A page-locked host array of CuPy's pool, otherwise as ``host_alloc``. Raises OutOfMemory."""

    @abstractmethod
    def pool_host_free(self, pool: Any, array: np.ndarray) -> None:
        """Give an array of ``pool_host_alloc`` back; it must not be used afterwards."""

    @abstractmethod
    def pool_bytes(self, pool: Any) -> int:
        """Bytes of device memory that a pool has had from the system, in use or kept."""

    @abstractmethod
    def managed_alloc(self, shape: tuple[int, ...], purpose: str = "workspace") -> np.ndarray:
        """A host array that the device reads and writes, too (cudaMallocManaged).

        Raises OutOfMemory; Unsupported where there is none, or where all of it together would be more than
        half of what was free on the device.
        """

    @abstractmethod
    def managed_free(self, array: np.ndarray) -> None:
        """Free an array of ``managed_alloc`` (cudaFree); it must not be used afterwards."""

    @abstractmethod
    def managed_buffer(self, array: np.ndarray) -> Any:
        """A managed array, or a C-contiguous part of one, as device memory."""

    @abstractmethod
    def advise(self, array: np.ndarray, advice: str) -> None:
        """Say how the device will use a managed array (cudaMemAdvise): one of ``ADVICE``.

        Raises Unsupported where host and device cannot share managed memory at the same time.
        """

    @abstractmethod
    def prefetch_in(self, array: np.ndarray) -> None:
        """Ask for a managed array to be moved to the device, on the default stream (cudaMemPrefetchAsync)."""

    @abstractmethod
    def prefetch_out(self, array: np.ndarray) -> None:
        """Ask for a managed array to be moved to the host, on the default stream."""

    @abstractmethod
    def copy_in(self, buffer: Any, array: np.ndarray, stream: Any = None) -> None:
        """Copy a C-contiguous array to the device; with a stream, return before it is done."""

    @abstractmethod
    def copy_out(self, array: np.ndarray, buffer: Any, stream: Any = None) -> None:
        """Copy from the device to a C-contiguous array; with a stream, return before it is done."""

    @abstractmethod
    def launch(
        self, op: str, buffers: tuple[Any, ...], numbers: tuple[float, ...], stream: Any = None
    ) -> None:
        """Launch work of ``snn.backends.ops`` on its operands; without a stream, on the default one."""

    @abstractmethod
    def training_plan(self, shape: Shape) -> str:
        """How ``train`` is done for this shape, in words. Raises Unsupported with the reason, if not."""

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
    def event_create(self) -> Any:
        """A new event (cudaEventCreate, without timing)."""

    @abstractmethod
    def event_destroy(self, event: Any) -> None:
        """Destroy an event (cudaEventDestroy)."""

    @abstractmethod
    def event_record(self, event: Any, stream: Any) -> None:
        """The event is what a stream has been asked for so far (cudaEventRecord)."""

    @abstractmethod
    def event_wait(self, event: Any, stream: Any) -> None:
        """What a stream is asked for from now on waits for the event (cudaStreamWaitEvent)."""

    @abstractmethod
    def event_synchronize(self, event: Any) -> None:
        """Wait for an event (cudaEventSynchronize); at once where it was never recorded."""

    @abstractmethod
    def graph_begin(self, stream: Any) -> None:
        """Capture what a stream is asked for instead of doing it (cudaStreamBeginCapture).

        Raises Unsupported.
        """

    @abstractmethod
    def graph_end(self, stream: Any) -> Any:
        """What was captured since ``graph_begin``, ready to be launched (cudaGraphInstantiate)."""

    @abstractmethod
    def graph_launch(self, graph: Any, stream: Any) -> None:
        """Do on a stream what was captured (cudaGraphLaunch)."""

    @abstractmethod
    def graph_destroy(self, graph: Any) -> None:
        """Destroy a graph (cudaGraphExecDestroy)."""

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
