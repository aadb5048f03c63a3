"""A backend that passes every call on to another: the base of those that look at what passes."""

from typing import Any

import numpy as np

from snn.backends.base import Backend


class Wrapper(Backend):
    """Passes everything on to ``inner``. It is used in untimed passes only."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner

    @property
    def asynchronous(self) -> bool:  # type: ignore[override]
        return self.inner.asynchronous

    def malloc(self, nbytes: int, kind: str | None = None) -> Any:
        return self.inner.malloc(nbytes, kind)

    def free(self, buffer: Any) -> None:
        self.inner.free(buffer)

    def host_alloc(
        self, shape: tuple[int, ...], kind: str = "workspace", page_locked: bool = True
    ) -> np.ndarray:
        return self.inner.host_alloc(shape, kind, page_locked)

    def host_free(self, array: np.ndarray) -> None:
        self.inner.host_free(array)

    def copy_in(self, buffer: Any, array: np.ndarray, stream: Any = None) -> None:
        self.inner.copy_in(buffer, array, stream)

    def copy_out(self, array: np.ndarray, buffer: Any, stream: Any = None) -> None:
        self.inner.copy_out(array, buffer, stream)

    def matmul(self, A: Any, B: Any, C: Any, m: int, k: int, n: int, stream: Any = None) -> None:
        self.inner.matmul(A, B, C, m, k, n, stream)

    def stream_create(self) -> Any:
        return self.inner.stream_create()

    def stream_destroy(self, stream: Any) -> None:
        self.inner.stream_destroy(stream)

    def stream_synchronize(self, stream: Any) -> None:
        self.inner.stream_synchronize(stream)

    def synchronize(self) -> None:
        self.inner.synchronize()

    def memory(self) -> tuple[int, int]:
        return self.inner.memory()

    def address(self, buffer: Any) -> int:
        return self.inner.address(buffer)

    def mark(self, stream: Any = None) -> Any:
        return self.inner.mark(stream)

    def seconds_between(self, first: Any, last: Any) -> float:
        return self.inner.seconds_between(first, last)
