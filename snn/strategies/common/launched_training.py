"""Training by launches of many steps, of at most about a second each, and the steps the device counts."""

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.backends.persistent_plans import HEAD, Shape
from snn.backends.trainings import STOPPED, TRAINED, TrainingShape
from snn.errors import MeasurementError
from snn.strategies.common.strategy import Progress

_LONG = 1.0  # seconds of a launch that lets the next ones be shorter
_AFTER_STOP = 16  # steps


class LaunchedTraining:
    """Splits a training run into launches, for data of ``rows`` rows.

    A training that takes less than about a second is one launch. Of others a launch takes less than that, and
    the host waits between them: so an interrupt is heard, progress is reported, and a device that ends long
    kernels does not end these. Weights and all else stay on the device. However the steps are split, the bits
    are those of one launch.

    A kernel may stop where weights grow too much in one step for its numbers (``LaunchPlan.may_stop``), and
    has then trained nothing. It is launched again for the steps before, and the kernel for data with
    outliers trains some; after such launches, too, the host waits.
    """

    def __init__(
        self, backend: Backend, shape: TrainingShape, rows: int, rate: float, max_norm: float = 0.0
    ) -> None:
        self._backend, self._shape, self._rows = backend, shape, rows
        self._rate, self._max_norm = float(np.float32(rate)), max_norm
        self._batches = math.ceil(rows / shape.batch)
        self._most = backend.steps_per_launch(shape)
        self._asked = 0
        self._after_stop: Shape | None = None
        if isinstance(shape, Shape) and backend.may_stop(shape):
            self._after_stop = replace(shape, outliers=True)
            backend.training_plan(self._after_stop)  # compiles it

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of each operand."""
        return OPS[self._shape.op].elements(
            *self._shape.numbers(self._rows, 0, 1, self._rate, self._max_norm)
        )

    def train(self, epochs: int, buffers: tuple[Any, ...], stream: Any, progress: Progress) -> None:
        """Train from the first batch on. Returns before the last launch ends, unless its kernel may stop."""
        steps, done, began = epochs * self._batches, 0, time.perf_counter()
        self._asked += steps * self._shape.members
        while done < steps:
            of_launch = min(self._in_whole_epochs(), steps - done)
            started = time.perf_counter()
            self._launch(self._shape, done, of_launch, buffers, stream)
            if self._after_stop:
                before_stop = self._before_stop(buffers[-1], stream)
                if before_stop is not None:
                    if before_stop:
                        self._launch(self._shape, done, before_stop, buffers, stream)
                    done += before_stop
                    of_launch = min(_AFTER_STOP, steps - done)
                    self._launch(self._after_stop, done, of_launch, buffers, stream)
            done += of_launch
            if done < steps:
                self._backend.stream_synchronize(stream)
                now = time.perf_counter()
                progress(done / self._batches, epochs, now - began)
                if now - started > _LONG:  # others use the device, or the data are slower than zeros
                    self._most = max(1, self._most // 2)

    def _in_whole_epochs(self) -> int:
        """Largest number of steps per launch, a multiple of an epoch if one fits."""
        return self._most // self._batches * self._batches or self._most

    def _launch(
        self, shape: TrainingShape, done: int, steps: int, buffers: tuple[Any, ...], stream: Any
    ) -> None:
        numbers = shape.numbers(self._rows, done % self._batches, steps, self._rate, self._max_norm)
        self._backend.launch(shape.op, buffers, numbers, stream)

    def _before_stop(self, workspace: Any, stream: Any) -> int | None:
        """Number of steps before the one at which the last launch stopped; None if it did not stop."""
        stopped = int(self._head(workspace, stream)[STOPPED : STOPPED + 1].view(np.uint32)[0])
        return stopped - 1 if stopped else None

    def _head(self, workspace: Any, stream: Any = None) -> np.ndarray:
        """A copy of the workspace's head, once the stream has done its work."""
        head = self._backend.host_alloc((HEAD,), "workspace", page_locked=False)
        try:
            self._backend.copy_out(head, workspace, stream)
            if stream is not None:
                self._backend.stream_synchronize(stream)
            return head.copy()
        finally:
            self._backend.host_free(head)

    def check(self, workspace: Any) -> None:
        """Raise MeasurementError if the device has not trained exactly the steps that it was asked for.

        The device counts them in the workspace, which was 0 before the first launch.
        """
        trained = int(self._head(workspace)[TRAINED].view(np.uint64)[0])
        if trained != self._asked % (1 << 64):
            raise MeasurementError(
                f"the device has trained {trained} steps, and was asked for {self._asked}: neither times nor "
                "losses of this training are right"
            )
