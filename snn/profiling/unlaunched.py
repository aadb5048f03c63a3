"""A backend whose launches can be left out: what a strategy asks for does not depend on what was computed."""

from typing import Any

from snn.backends.base import Backend


class Unlaunched:
    """The backend given, of which no kernel runs while ``skips`` is true; all else is the backend's own.

    For passes that only count, where an epoch of kernels may take seconds.
    """

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.skips = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def launch(
        self, op: str, buffers: tuple[Any, ...], numbers: tuple[float, ...], stream: Any = None
    ) -> None:
        if not self.skips:
            self._inner.launch(op, buffers, numbers, stream)

    def graph_launch(self, graph: Any, stream: Any) -> None:
        if not self.skips:
            self._inner.graph_launch(graph, stream)
