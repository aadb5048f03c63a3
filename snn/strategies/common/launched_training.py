"""Training by launches of many steps, of at most about a second each, and the steps the device counts."""

import math
import time
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.backends.persistent_plans import HEAD
from snn.backends.trainings import TRAINED, TrainingShape, launches
from snn.errors import MeasurementError
from snn.strategies.common.strategy import Progress


class LaunchedTraining:
    """The launches of a training of this shape, on ``rows`` rows of data.

    A training that takes less than about a second is one launch. A longer one is several, each of at most
    about a second, and the host waits between them: so it notices an interrupt and reports progress, and a
    device with a time limit for kernels does not end them. Weights stay on the device. The result has the
    bits of one launch, however the steps are split.
    """

    def __init__(
        self, backend: Backend, shape: TrainingShape, rows: int, rate: float, max_norm: float = 0.0
    ) -> None:
        self._backend, self._shape, self._rows = backend, shape, rows
        self._rate, self._max_norm = float(np.float32(rate)), max_norm
        self._batches = math.ceil(rows / shape.batch)
        self._most = backend.steps_per_launch(shape)
        self._asked = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of each operand."""
        return OPS[self._shape.op].elements(*self._numbers(0, 1))

    def train(self, epochs: int, buffers: tuple[Any, ...], stream: Any, progress: Progress) -> None:
        """Train from the first batch on. The last launch is not waited for."""
        steps, done, began = epochs * self._batches, 0, time.perf_counter()
        for first, of_launch in launches(steps, self._batches, self._most):
            if done:
                self._backend.stream_synchronize(stream)
                progress(done / self._batches, epochs, time.perf_counter() - began)
            self._backend.launch(self._shape.op, buffers, self._numbers(first, of_launch), stream)
            done += of_launch
        self._asked += steps * self._shape.members

    def check(self, workspace: Any) -> None:
        """Raise MeasurementError if the device has not trained exactly the steps that it was asked for.

        The device counts them in the workspace, which was 0 before the first launch.
        """
        head = self._backend.host_alloc((HEAD,), "workspace", page_locked=False)
        try:
            self._backend.copy_out(head, workspace)
            trained = int(head[TRAINED].view(np.uint64)[0])
        finally:
            self._backend.host_free(head)
        if trained != self._asked % (1 << 64):
            raise MeasurementError(
                f"the device has trained {trained} steps, and was asked for {self._asked}: neither times nor "
                "losses of this training are right"
            )

    def _numbers(self, first: int, steps: int) -> tuple[float, ...]:
        return self._shape.numbers(self._rows, first, steps, self._rate, self._max_norm)
