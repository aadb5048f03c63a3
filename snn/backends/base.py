"""The interface of a device: memory, copies, streams, events, graphs and kernel launches."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from snn.backends.launches import Steps, TrainingLaunch, TrainingShape
from snn.errors import Unsupported
from snn.models.storage import FP32

Stream = Hashable
"""A queue of copies and launches that run in order; None means a synchronous call."""


ADVICE = ("read_mostly", "preferred_location", "accessed_by")
"""Hints for managed memory: copy to wherever it is read, keep on the device, map for the device."""


REGISTERED = "registered"
"""The value of ``page_locked`` for ordinary memory that is then pinned in place (cudaHostRegister)."""


class Backend(ABC):
    """Memory, copies, streams and kernels of one device. All matrices are float32, row-major."""

    pageable_fallbacks = 0
    """Number of pinned (page-locked) allocations that failed and were replaced by pageable memory."""

    asynchronous = True
    """Whether a launch, or a copy with a stream, returns before the device has finished it."""

    is_processor = False
    """Whether the device is the CPU itself."""

    prefetches_out = False
    """Whether managed memory can be prefetched to the host too."""

    fused = False
    """Whether ReLU, error, mask and update run inside the preceding product's kernel."""

    computes = True
    """Whether anything is computed. If not, the host's share of a step is not computed either."""

    precision = "fp32"
    """The precision of matrix products, a choice of ``config/precision``."""

    pretransposed = False
    """Whether the kernel needs W^T in addition to W, so that the propagated error is a plain product."""

    no_capture = ""
    """The reason why a CUDA graph cannot capture the kernel; empty if it can, or without graphs."""

    storage = FP32
    """How the operands in ``snn.backends.ops.NARROW`` are held: a value of ``training.storage``."""

    no_storage = ""
    """The reason why the kernel has no products of 16-bit operands; empty if it has them."""

    convolves = False
    """Whether convolutions are computed directly instead of as products of im2col's patches."""

    @abstractmethod
    def malloc(self, nbytes: int, purpose: str | None = None) -> Any:
        """Allocate device memory (cudaMalloc). Raises OutOfMemory.

        ``purpose``, one of ``snn.profiling.memory.PURPOSES``, is the use of the memory; None: the use of
        the host arrays that are copied to or from it.
        """

    @abstractmethod
    def free(self, buffer: Any) -> None:
        """Free device memory (cudaFree)."""

    @abstractmethod
    def part(self, buffer: Any, offset: int, nbytes: int) -> Any:
        """Part of an allocation, from ``offset`` bytes on; it is valid as long as the allocation."""

    @abstractmethod
    def host_alloc(
        self, shape: tuple[int, ...], purpose: str = "workspace", page_locked: bool | str = True
    ) -> np.ndarray:
        """A host array, pinned (cudaHostAlloc; pageable if the system cannot pin it), REGISTERED or pageable.

        ``purpose`` is the use of the memory. Raises OutOfMemory.
        """

    @abstractmethod
    def host_free(self, array: np.ndarray) -> None:
        """Free an array of ``host_alloc`` (cudaFreeHost, cudaHostUnregister); it is not used afterwards."""

    @abstractmethod
    def pool_create(self, stream: Any = None) -> Any:
        """A memory pool, which keeps freed memory until ``pool_destroy``. Raises Unsupported.

        Without a stream, the pool is CuPy's (MemoryPool and PinnedMemoryPool). With a stream, it is the
        driver's: device memory is allocated and freed in stream order (cudaMallocAsync, cudaFreeAsync).
        """

    @abstractmethod
    def pool_destroy(self, pool: Any) -> None:
        """Return a pool's memory to the system; none of it may be in use."""

    @abstractmethod
    def pool_malloc(self, pool: Any, nbytes: int, purpose: str | None = None) -> Any:
        """Allocate device memory from a pool, otherwise like ``malloc``. Raises OutOfMemory."""

    @abstractmethod
    def pool_free(self, pool: Any, buffer: Any) -> None:
        """Return device memory to its pool."""

    @abstractmethod
    def pool_host_alloc(self, pool: Any, shape: tuple[int, ...], purpose: str = "workspace") -> np.ndarray:
        """A pinned host array from CuPy's pool, otherwise like ``host_alloc``. Raises OutOfMemory."""

    @abstractmethod
    def pool_host_free(self, pool: Any, array: np.ndarray) -> None:
        """Return an array of ``pool_host_alloc`` to its pool; it must not be used afterwards."""

    @abstractmethod
    def pool_bytes(self, pool: Any) -> int:
        """Bytes of device memory that a pool holds, in use or free."""

    @abstractmethod
    def managed_alloc(self, shape: tuple[int, ...], purpose: str = "workspace") -> np.ndarray:
        """An array that both host and device read and write (cudaMallocManaged).

        Raises OutOfMemory; Unsupported if the device has no managed memory, or if the total would
        exceed half of the memory that was free on the device.
        """

    @abstractmethod
    def managed_free(self, array: np.ndarray) -> None:
        """Free an array of ``managed_alloc`` (cudaFree); it must not be used afterwards."""

    @abstractmethod
    def shared_buffer(self, array: np.ndarray) -> Any:
        """A managed or pinned array, or a C-contiguous part of one, as device memory.

        Kernels access pinned memory where it is, over the bus (zero-copy). Raises Unsupported if the system
        could not pin it.
        """

    @abstractmethod
    def advise(self, array: np.ndarray, advice: str) -> None:
        """Give a hint, one of ``ADVICE``, on the device's use of a managed array (cudaMemAdvise).

        Raises Unsupported if host and device cannot access managed memory concurrently.
        """

    @abstractmethod
    def prefetch_in(self, array: np.ndarray) -> None:
        """Prefetch a managed array to the device, on the default stream (cudaMemPrefetchAsync)."""

    @abstractmethod
    def prefetch_out(self, array: np.ndarray) -> None:
        """Prefetch a managed array to the host, on the default stream."""

    @abstractmethod
    def copy_in(self, buffer: Any, array: np.ndarray, stream: Any = None) -> None:
        """Copy a C-contiguous array to the device; with a stream, asynchronously."""

    @abstractmethod
    def copy_out(self, array: np.ndarray, buffer: Any, stream: Any = None) -> None:
        """Copy from the device to a C-contiguous array; with a stream, asynchronously."""

    @abstractmethod
    def launch(
        self, op: str, buffers: tuple[Any, ...], numbers: tuple[float, ...], stream: Any = None
    ) -> None:
        """Launch an op of ``snn.backends.ops`` on its operands, on the default stream if none is given."""

    def store(self, storage: str) -> None:
        """Set how the operands in ``NARROW`` are held, for launches from now on. Raises Unsupported."""
        if storage != FP32 and self.no_storage:
            raise Unsupported(self.no_storage)
        self.storage = storage

    def overlap_launches(self, on: bool) -> None:
        """Whether each kernel launched from now on may begin while the one before it on its stream ends.

        That is programmatic dependent launch; a captured graph keeps it. Raises Unsupported.
        """
        if on:
            raise Unsupported("programmatic dependent launches need a CUDA device")

    @abstractmethod
    def training_launch(self, shape: TrainingShape) -> TrainingLaunch:
        """The launch by which ``train`` trains the shape. Raises Unsupported, with every reason."""

    @abstractmethod
    def steps_per_launch(self, shape: TrainingShape) -> int:
        """The number of steps of this shape that one launch may train: at most about a second's on a GPU.

        The CUDA backend launches a few steps: the driver may reject a launch that fits the device (under an
        MPS limit, for example). Raises Unsupported with the driver's reason, or OutOfMemory.
        """

    @abstractmethod
    def train(self, shape: TrainingShape, buffers: tuple[Any, ...], steps: Steps, stream: Any = None) -> None:
        """Train these steps in one launch, on the shape's operands."""

    @abstractmethod
    def stream_create(self) -> Any:
        """Create a stream (cudaStreamCreate)."""

    @abstractmethod
    def stream_destroy(self, stream: Any) -> None:
        """Destroy a stream (cudaStreamDestroy)."""

    @abstractmethod
    def stream_synchronize(self, stream: Any) -> None:
        """Wait for all work queued on a stream (cudaStreamSynchronize)."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for the whole device (cudaDeviceSynchronize)."""

    @abstractmethod
    def event_create(self) -> Any:
        """Create an event (cudaEventCreate, without timing)."""

    @abstractmethod
    def event_destroy(self, event: Any) -> None:
        """Destroy an event (cudaEventDestroy)."""

    @abstractmethod
    def event_record(self, event: Any, stream: Any) -> None:
        """Let the event mark the end of all work queued on a stream so far (cudaEventRecord)."""

    @abstractmethod
    def event_wait(self, event: Any, stream: Any) -> None:
        """Make later work on a stream wait for the event (cudaStreamWaitEvent)."""

    @abstractmethod
    def event_synchronize(self, event: Any) -> None:
        """Wait for an event (cudaEventSynchronize); an event that was never recorded has already passed."""

    @abstractmethod
    def graph_begin(self, stream: Any) -> None:
        """Begin to capture the work queued on a stream, instead of running it (cudaStreamBeginCapture).

        Raises Unsupported.
        """

    @abstractmethod
    def graph_end(self, stream: Any, buffer: Any = None) -> Any:
        """End the capture, and return it as a graph ready to launch (cudaGraphInstantiate).

        With a buffer of two uint32 a launch repeats the graph by a conditional node: the next launch as often
        as the first one says, those after it as the second one. Raises Unsupported.
        """

    @abstractmethod
    def graph_launch(self, graph: Any, stream: Any) -> None:
        """Launch a graph on a stream (cudaGraphLaunch)."""

    @abstractmethod
    def graph_destroy(self, graph: Any) -> None:
        """Destroy a graph (cudaGraphExecDestroy)."""

    @abstractmethod
    def others(self, devices: int | None) -> "list[Backend]":
        """Return a backend for each further device: ``devices`` with this one, or all that are visible.

        Raises Unsupported if there are fewer, or if nothing can sum over them.
        """

    def use(self) -> None:  # noqa: B027 - only a device of several has to be chosen
        """Make this backend's device the current one of the calling thread, if there are several."""

    @abstractmethod
    def all_reduce(self, buffer: Any, nbytes: int, stream: Any, further: Sequence[tuple[Any, Any]]) -> None:
        """Replace float32 numbers on several devices by their sum (ncclAllReduce).

        ``further``: the buffer and the stream of each device of ``others``.
        """

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Bytes of device memory: free, and in total."""

    @abstractmethod
    def address(self, buffer: Any) -> int:
        """The address of device memory."""

    @abstractmethod
    def mark(self, stream: Any = None) -> Any:
        """A timed point in a stream's work (a CUDA event), for ``seconds_between``."""

    @abstractmethod
    def seconds_between(self, first: Any, last: Any) -> float:
        """Seconds between two marks that the device has passed, by the device's clock."""
