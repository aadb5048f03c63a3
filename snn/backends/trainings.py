"""What can be trained in one launch: the shapes of the ops that do it."""

from snn.backends.convolutional_plans import ConvolutionalShape
from snn.backends.layered_plans import LayeredShape
from snn.backends.persistent_plans import Shape
from snn.errors import Unsupported


def check_precision(precision: str) -> None:
    """Raise Unsupported where no kernel trains in one launch with this precision of its products."""
    if precision != "fp32":
        raise Unsupported(f"training in one launch supports precision fp32, not {precision}")


def error_of_wait(name: int, where: int) -> str:
    """Error text for a block that gave up waiting, from the two words that it wrote (waits.cuh)."""
    awaited = name.to_bytes(8, "little").rstrip(b"\0").decode("ascii", "replace")
    block, layer, step = where >> 36, where >> 32 & 15, where & 0xFFFFFFFF
    of_layer = f" of layer {layer}" if layer else ""
    return (
        f"block {block} waited too long for '{awaited}'{of_layer} in step {step}, so the kernel ended the "
        "launch: another block has stopped or does not run. This process has lost its CUDA context: start it "
        "again, with strategy=graph if this recurs"
    )


TrainingShape = Shape | LayeredShape | ConvolutionalShape
"""A whole training in one launch."""

TRAININGS: dict[str, type[Shape] | type[LayeredShape] | type[ConvolutionalShape]] = {
    "train": Shape,
    "train_layers": LayeredShape,
    "train_convolutional": ConvolutionalShape,
}
"""The shapes of the ops of ``snn.backends.ops`` that train in one launch."""
