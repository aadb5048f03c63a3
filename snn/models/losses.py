"""The losses that a network can be trained with: their launch, their targets, their value."""

from abc import ABC, abstractmethod

import numpy as np

from snn.errors import ConfigError, DataError


class Loss(ABC):
    """A mean over the rows of a batch.

    ``op`` writes the errors E and the gradient of the outputs, which it scales by ``scale``. ``task`` is what
    is learned with it. ``is_squared``: E holds differences, whose squares are the losses; else losses.
    """

    name: str
    op: str
    task: str
    factor = 1.0
    is_squared = False

    @property
    def is_classification(self) -> bool:
        return self.task == "classification"

    def scale(self, rows: int, outputs: int) -> float:
        """The factor of the gradient for a mean over so many rows; for the sum of all, 1 row of 1 output."""
        return self.factor / rows

    def sizes(self, rows: int, outputs: int) -> tuple[int, ...]:
        """The sizes among the numbers of ``op``."""
        return (rows * outputs,)

    def errors(self, outputs: int) -> int:
        """How many float32 E holds for each row."""
        return outputs

    def value(self, E: np.ndarray) -> float:
        """The loss of a batch from its E, summed in float32."""
        return float(self.values(E.reshape(1, -1))[0])

    def values(self, E: np.ndarray) -> np.ndarray:
        """The losses of batches, with the numbers of each along the last axis of E."""
        return np.mean(E * E if self.is_squared else E, axis=-1).astype(np.float64)

    def evaluate(self, outputs: np.ndarray, Y: np.ndarray) -> float:
        """The mean loss of outputs with these targets, both (rows, outputs), in float64."""
        with np.errstate(all="ignore"):
            return float(np.mean(self.losses(outputs.astype(np.float64), Y.astype(np.float64))))

    @abstractmethod
    def losses(self, P: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """The losses of outputs P with targets Y, whose mean is the loss."""

    @abstractmethod
    def targets(self, Y: np.ndarray, outputs: int) -> np.ndarray:
        """The targets, float32 (rows, outputs), from the target column Y, (rows, 1).

        Raises ConfigError or DataError if the network's outputs, or a target, do not fit this loss.
        """

    def classes(self, outputs: int) -> int:
        """The number of labels that a network with these outputs tells apart."""
        return outputs


class _Regression(Loss):
    task = "regression"

    def targets(self, Y: np.ndarray, outputs: int) -> np.ndarray:
        if outputs != 1:
            raise ConfigError(f"network.layers end in {outputs} outputs: {self.name} needs one")
        return Y


class MeanSquaredError(_Regression):
    """Equation (5) of the paper: the mean of (Y_pred - Y)^2, of one output."""

    name, op, factor, is_squared = "mean_squared_error", "error", 2.0, True

    def losses(self, P: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.square(P - Y)


class Huber(_Regression):
    """PyTorch's HuberLoss with delta = 1, of one output: ``e^2 / 2 if |e| < 1 else |e| - 1/2``."""

    name = op = "huber"

    def losses(self, P: np.ndarray, Y: np.ndarray) -> np.ndarray:
        distances = np.abs(P - Y)
        return np.where(distances > 1, distances - 0.5, distances**2 / 2)


class _Classification(Loss):
    task = "classification"

    def targets(self, Y: np.ndarray, outputs: int) -> np.ndarray:
        labels, classes = Y[:, 0], self.classes(outputs)
        wrong = (labels != np.floor(labels)) | (labels < 0) | (labels >= classes)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"the target of row {row + 1} is {Y[row, 0]:g}: {self.name} needs labels, 0 to {classes - 1}"
            )
        return Y if classes > outputs else np.eye(outputs, dtype=np.float32)[labels.astype(np.int64)]


class CrossEntropy(_Classification):
    """The mean of -log softmax(Y_pred) at the label; labels are 0, 1, ..., one output for each."""

    name, op = "cross_entropy", "softmax_cross_entropy"

    def sizes(self, rows: int, outputs: int) -> tuple[int, ...]:
        return (rows, outputs)

    def errors(self, outputs: int) -> int:
        return 1

    def losses(self, P: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.logaddexp.reduce(P, axis=1) - (P * Y).sum(axis=1)


class BinaryCrossEntropy(_Classification):
    """PyTorch's BCEWithLogitsLoss: the mean over rows and outputs of -log sigmoid(Y_pred) or, if the
    target is 0, of -log(1 - sigmoid(Y_pred)).

    One output tells label 1 from label 0; of several, each tells its label from all others.
    """

    name = op = "binary_cross_entropy"

    def scale(self, rows: int, outputs: int) -> float:
        return self.factor / (rows * outputs)

    def losses(self, P: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.logaddexp(0, P) - P * Y

    def classes(self, outputs: int) -> int:
        return max(outputs, 2)


MEAN_SQUARED_ERROR, CROSS_ENTROPY = MeanSquaredError(), CrossEntropy()
LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (MEAN_SQUARED_ERROR, Huber(), CROSS_ENTROPY, BinaryCrossEntropy())
}
TASKS = tuple(dict.fromkeys(loss.task for loss in LOSSES.values()))
