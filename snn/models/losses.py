"""The losses that a network can be trained with: their launch, their targets, their value."""

from abc import ABC, abstractmethod

import numpy as np

from snn.errors import ConfigError, DataError


class Loss(ABC):
    """A mean over the rows of a batch.

    ``op`` writes the errors E and the gradient of the outputs, which it scales by ``factor`` / rows, or by
    ``factor`` if the network descends along the gradient of the sum. ``task`` is what is learned with it.
    """

    name: str
    op: str
    factor: float
    task: str

    @abstractmethod
    def sizes(self, rows: int, outputs: int) -> tuple[int, ...]:
        """The sizes among the numbers of ``op``."""

    @abstractmethod
    def errors(self, outputs: int) -> int:
        """How many float32 E holds for each row."""

    @abstractmethod
    def value(self, E: np.ndarray) -> float:
        """The loss of a batch from its E, summed in float32."""

    @abstractmethod
    def targets(self, Y: np.ndarray, outputs: int) -> np.ndarray:
        """The targets, float32 (rows, outputs), from the target column Y, (rows, 1).

        Raises ConfigError or DataError if the network's outputs, or a target, do not fit this loss.
        """


class MeanSquaredError(Loss):
    """Equation (5) of the paper: the mean of (Y_pred - Y)^2, of one output."""

    name, op, factor, task = "mean_squared_error", "error", 2.0, "regression"

    def sizes(self, rows: int, outputs: int) -> tuple[int, ...]:
        return (rows * outputs,)

    def errors(self, outputs: int) -> int:
        return outputs

    def value(self, E: np.ndarray) -> float:
        return float(np.mean(E * E))

    def targets(self, Y: np.ndarray, outputs: int) -> np.ndarray:
        if outputs != 1:
            raise ConfigError(f"network.layers end in {outputs} outputs: {self.name} needs one")
        return Y


class CrossEntropy(Loss):
    """The mean of -log softmax(Y_pred) at the label; labels are 0, 1, ..., one output for each."""

    name, op, factor, task = "cross_entropy", "softmax_cross_entropy", 1.0, "classification"

    def sizes(self, rows: int, outputs: int) -> tuple[int, ...]:
        return (rows, outputs)

    def errors(self, outputs: int) -> int:
        return 1

    def value(self, E: np.ndarray) -> float:
        return float(np.mean(E))

    def targets(self, Y: np.ndarray, outputs: int) -> np.ndarray:
        labels = Y[:, 0]
        wrong = (labels != np.floor(labels)) | (labels < 0) | (labels >= outputs)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"the target of row {row + 1} is {Y[row, 0]:g}: {self.name} needs labels, 0 to {outputs - 1}"
            )
        return np.eye(outputs, dtype=np.float32)[labels.astype(np.int64)]


MEAN_SQUARED_ERROR, CROSS_ENTROPY = MeanSquaredError(), CrossEntropy()
LOSSES: dict[str, Loss] = {loss.name: loss for loss in (MEAN_SQUARED_ERROR, CROSS_ENTROPY)}
TASKS = tuple(loss.task for loss in LOSSES.values())
