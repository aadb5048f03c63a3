"""A backend that runs each launch once: what a strategy asks for does not depend on what was computed."""

from itertools import zip_longest
from typing import Any

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.backends.trainings import MOST_STEPS, TRAININGS, TrainingShape


class Unlaunched:
    """The backend given, of which an operation runs once for the same numbers, and a graph once.

    For passes that only count, where an epoch of kernels may take seconds. What is captured in a graph is
    whole, and all else is the backend's own. Of a training in one launch one step runs, and it counts as one
    launch, however long it would take.
    """

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self._ran: set[Any] = set()
        self._captures = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def launch(
        self, op: str, buffers: tuple[Any, ...], numbers: tuple[float, ...], stream: Any = None
    ) -> None:
        if op in TRAININGS:  # may train for minutes
            numbers = tuple(1 if name == "steps" else n for name, n in zip_longest(OPS[op].numbers, numbers))
        if self._captures or self._is_new((op, numbers)):
            self._inner.launch(op, buffers, numbers, stream)

    def steps_per_launch(self, shape: TrainingShape) -> int:
        """One launch for all steps: the counts must not depend on a measured time."""
        self._inner.steps_per_launch(shape)  # may be refused
        return MOST_STEPS

    def graph_begin(self, stream: Any) -> None:
        self._inner.graph_begin(stream)
        self._captures = True

    def graph_end(self, stream: Any) -> Any:
        self._captures = False
        return self._inner.graph_end(stream)

    def graph_launch(self, graph: Any, stream: Any) -> None:
        if self._is_new(id(graph)):
            self._inner.graph_launch(graph, stream)

    def _is_new(self, launch: Any) -> bool:
        is_new = launch not in self._ran
        self._ran.add(launch)
        return is_new
