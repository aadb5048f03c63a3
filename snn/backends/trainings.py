"""What can be trained in one launch: the shapes of the ops that do it."""

from snn.backends.convolutional_plans import ConvolutionalShape
from snn.backends.layered_plans import LayeredShape
from snn.backends.persistent_plans import Shape
from snn.errors import Unsupported


def check_precision(precision: str) -> None:
    """Raise Unsupported where no kernel trains in one launch with this precision of its products."""
    if precision != "fp32":
        raise Unsupported(f"training in one launch supports precision fp32, not {precision}")


TrainingShape = Shape | LayeredShape | ConvolutionalShape
"""A whole training in one launch."""

TRAININGS: dict[str, type[Shape] | type[LayeredShape] | type[ConvolutionalShape]] = {
    "train": Shape,
    "train_layers": LayeredShape,
    "train_convolutional": ConvolutionalShape,
}
"""The shapes of the ops of ``snn.backends.ops`` that train in one launch."""
