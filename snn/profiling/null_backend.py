"""A backend that allocates nothing and computes nothing: for what a strategy asks of it."""

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu.backend import CpuBackend, HostBuffer
from snn.backends.trainings import TrainingShape
from snn.errors import Unsupported


class NullBackend(CpuBackend):
    """Device memory of no bytes: copies and products do nothing, host matrices are zero.

    Strategies take the decisions that they take on the ``real`` backend.
    """

    computes = False

    def __init__(self, real: Backend) -> None:
        super().__init__(real.fused, real.pretransposed, real.convolves)
        self.precision, self.no_capture, self._real = real.precision, real.no_capture, real

    def training_plan(self, shape: TrainingShape) -> str:
        return self._real.training_plan(shape)

    def may_stop(self, shape: TrainingShape) -> bool:
        return self._real.may_stop(shape)

    def steps_per_launch(self, shape: TrainingShape) -> int:
        return self._real.steps_per_launch(shape)

    def malloc(self, nbytes: int, purpose: str | None = None) -> HostBuffer:
        return HostBuffer(np.empty(0, dtype=np.float32))

    def part(self, buffer: HostBuffer, offset: int, nbytes: int) -> HostBuffer:
        return HostBuffer(buffer.words)

    def host_alloc(
        self, shape: tuple[int, ...], purpose: str = "workspace", page_locked: bool = True
    ) -> np.ndarray:
        return np.zeros(shape, dtype=np.float32)

    def pool_create(self, stream: int | None = None) -> object:
        return object()

    def pool_destroy(self, pool: object) -> None:
        """Nothing is kept."""

    def pool_malloc(self, pool: object, nbytes: int, purpose: str | None = None) -> HostBuffer:
        return self.malloc(nbytes, purpose)

    def pool_free(self, pool: object, buffer: HostBuffer) -> None:
        """Nothing is held, so nothing is freed."""

    def pool_host_alloc(self, pool: object, shape: tuple[int, ...], purpose: str = "workspace") -> np.ndarray:
        return self.host_alloc(shape, purpose)

    def pool_host_free(self, pool: object, array: np.ndarray) -> None:
        """NumPy frees an array with its last reference."""

    def pool_bytes(self, pool: object) -> int:
        return 0

    def managed_alloc(self, shape: tuple[int, ...], purpose: str = "workspace") -> np.ndarray:
        return self.host_alloc(shape, purpose)

    def managed_free(self, array: np.ndarray) -> None:
        """NumPy frees an array with its last reference."""

    def managed_buffer(self, array: np.ndarray) -> HostBuffer:
        return HostBuffer(array)

    def advise(self, array: np.ndarray, advice: str) -> None:
        """Nothing is held, so nothing is advised."""

    def prefetch_in(self, array: np.ndarray) -> None:
        """Nothing is held, so nothing is moved."""

    def prefetch_out(self, array: np.ndarray) -> None:
        """Nothing is held, so nothing is moved."""

    def copy_in(self, buffer: HostBuffer, array: np.ndarray, stream: int | None = None) -> None:
        """Nothing is held, so nothing is copied."""

    def copy_out(self, array: np.ndarray, buffer: HostBuffer, stream: int | None = None) -> None:
        """Nothing is held, so nothing is copied."""

    def launch(
        self,
        op: str,
        buffers: tuple[HostBuffer, ...],
        numbers: tuple[float, ...],
        stream: int | None = None,
    ) -> None:
        """Nothing is held, so nothing is computed."""

    def graph_begin(self, stream: int) -> None:
        """Nothing is computed, so nothing is captured; raises Unsupported as the real backend does."""
        if self.no_capture:
            raise Unsupported(self.no_capture)

    def graph_end(self, stream: int) -> object:
        return object()

    def graph_launch(self, graph: object, stream: int) -> None:
        """Nothing is captured, so nothing is computed."""

    def graph_destroy(self, graph: object) -> None:
        """Nothing is kept."""
