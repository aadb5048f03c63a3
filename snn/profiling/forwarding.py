"""A backend that passes every call on to another: the base of those that look at what passes."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.persistent_plans import Shape


class Wrapper(Backend):
    """Passes everything on to ``inner``. It is used in untimed passes only."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner

    @property
    def fused(self) -> bool:  # type: ignore[override]
        return self.inner.fused

    @property
    def pretransposed(self) -> bool:  # type: ignore[override]
        return self.inner.pretransposed

    @property
    def precision(self) -> str:  # type: ignore[override]
        return self.inner.precision

    @property
    def asynchronous(self) -> bool:  # type: ignore[override]
        return self.inner.asynchronous

    @property
    def is_processor(self) -> bool:  # type: ignore[override]
        return self.inner.is_processor

    @property
    def prefetches_out(self) -> bool:  # type: ignore[override]
        return self.inner.prefetches_out

    def malloc(self, nbytes: int, kind: str | None = None) -> Any:
        return self.inner.malloc(nbytes, kind)

    def free(self, buffer: Any) -> None:
        self.inner.free(buffer)

    def part(self, buffer: Any, offset: int, nbytes: int) -> Any:
        return self.inner.part(buffer, offset, nbytes)

    def host_alloc(
        self, shape: tuple[int, ...], kind: str = "workspace", page_locked: bool = True
    ) -> np.ndarray:
        return self.inner.host_alloc(shape, kind, page_locked)

    def host_free(self, array: np.ndarray) -> None:
        self.inner.host_free(array)

    def pool_create(self, stream: Any = None) -> Any:
        return self.inner.pool_create(stream)

    def pool_destroy(self, pool: Any) -> None:
        self.inner.pool_destroy(pool)

    def pool_malloc(self, pool: Any, nbytes: int, kind: str | None = None) -> Any:
        return self.inner.pool_malloc(pool, nbytes, kind)

    def pool_free(self, pool: Any, buffer: Any) -> None:
        self.inner.pool_free(pool, buffer)

    def pool_host_alloc(self, pool: Any, shape: tuple[int, ...], kind: str = "workspace") -> np.ndarray:
        return self.inner.pool_host_alloc(pool, shape, kind)

    def pool_host_free(self, pool: Any, array: np.ndarray) -> None:
        self.inner.pool_host_free(pool, array)

    def pool_bytes(self, pool: Any) -> int:
        return self.inner.pool_bytes(pool)

    def managed_alloc(self, shape: tuple[int, ...], kind: str = "workspace") -> np.ndarray:
        return self.inner.managed_alloc(shape, kind)

    def managed_free(self, array: np.ndarray) -> None:
        self.inner.managed_free(array)

    def managed_buffer(self, array: np.ndarray) -> Any:
        return self.inner.managed_buffer(array)

    def advise(self, array: np.ndarray, advice: str) -> None:
        self.inner.advise(array, advice)

    def prefetch_in(self, array: np.ndarray) -> None:
        self.inner.prefetch_in(array)

    def prefetch_out(self, array: np.ndarray) -> None:
        self.inner.prefetch_out(array)

    def copy_in(self, buffer: Any, array: np.ndarray, stream: Any = None) -> None:
        self.inner.copy_in(buffer, array, stream)

    def copy_out(self, array: np.ndarray, buffer: Any, stream: Any = None) -> None:
        self.inner.copy_out(array, buffer, stream)

    def launch(
        self, op: str, buffers: tuple[Any, ...], numbers: tuple[float, ...], stream: Any = None
    ) -> None:
        self.inner.launch(op, buffers, numbers, stream)

    def training_plan(self, shape: Shape) -> str:
        return self.inner.training_plan(shape)

    def stream_create(self) -> Any:
        return self.inner.stream_create()

    def stream_destroy(self, stream: Any) -> None:
        self.inner.stream_destroy(stream)

    def stream_synchronize(self, stream: Any) -> None:
        self.inner.stream_synchronize(stream)

    def synchronize(self) -> None:
        self.inner.synchronize()

    def event_create(self) -> Any:
        return self.inner.event_create()

    def event_destroy(self, event: Any) -> None:
        self.inner.event_destroy(event)

    def event_record(self, event: Any, stream: Any) -> None:
        self.inner.event_record(event, stream)

    def event_wait(self, event: Any, stream: Any) -> None:
        self.inner.event_wait(event, stream)

    def event_synchronize(self, event: Any) -> None:
        self.inner.event_synchronize(event)

    def graph_begin(self, stream: Any) -> None:
        self.inner.graph_begin(stream)

    def graph_end(self, stream: Any) -> Any:
        return self.inner.graph_end(stream)

    def graph_launch(self, graph: Any, stream: Any) -> None:
        self.inner.graph_launch(graph, stream)

    def graph_destroy(self, graph: Any) -> None:
        self.inner.graph_destroy(graph)

    def memory(self) -> tuple[int, int]:
        return self.inner.memory()

    def address(self, buffer: Any) -> int:
        return self.inner.address(buffer)

    def mark(self, stream: Any = None) -> Any:
        return self.inner.mark(stream)

    def seconds_between(self, first: Any, last: Any) -> float:
        return self.inner.seconds_between(first, last)
