"""Ops that train for many steps in one launch: shapes, launch length and step counter."""

from collections.abc import Callable

from snn.backends.convolutional_plans import ConvolutionalShape
from snn.backends.layered_plans import LayeredShape
from snn.backends.persistent_plans import Shape
from snn.errors import Unsupported

TrainingShape = Shape | LayeredShape | ConvolutionalShape
"""Shape of an op that trains for many steps in one launch."""

TRAININGS: dict[str, type[Shape] | type[LayeredShape] | type[ConvolutionalShape]] = {
    shape.op: shape for shape in (Shape, LayeredShape, ConvolutionalShape)
}
"""Shape classes by op name."""

TRAINED, STOPPED = slice(2, 4), 4
"""Words of the workspace's head: the 64-bit count of steps trained, over all launches and members; and, after
a launch that has stopped, one more than the number of steps before the stop (32 bits, otherwise 0)."""

MOST_STEPS = 1 << 30
"""Largest number of steps per launch: kernels count them in 32 bits."""

_MOST = (1 << 31) - 1  # of a kernel's int
_LONGEST = 0.7  # seconds of a launch, so that an interrupt is heard within a second and a half
_CALIBRATING, _REPEATED = 0.002, 10  # seconds of a launch whose time is taken at least; launches at most


def check_precision(precision: str) -> None:
    """Raise Unsupported where no kernel trains in one launch with this precision of its products."""
    if precision != "fp32":
        raise Unsupported(f"training in one launch supports precision fp32, not {precision}")


def error_of_wait(name: int, where: int) -> str:
    """Error text for a block that gave up waiting, from the two words that it wrote (waits.cuh)."""
    awaited = name.to_bytes(8, "little").rstrip(b"\0").decode("ascii", "replace")
    block, layer, step = where >> 40, where >> 32 & 255, where & 0xFFFFFFFF
    of_layer = f" of layer {layer}" if layer else ""
    return (
        f"block {block} waited too long for '{awaited}'{of_layer} in step {step}, so the kernel ended the "
        "launch: another block has stopped or does not run. This process has lost its CUDA context: start it "
        "again, with strategy=graph if this recurs"
    )


def launch_seconds(has_time_limit: bool) -> float:
    """Largest duration of a launch, in seconds: half as long if the device kills long kernels.

    A GPU with a display does (cudaDevAttrKernelExecTimeout), and every GPU under WDDM and WSL 2: after two
    seconds there.
    """
    return _LONGEST / 2 if has_time_limit else _LONGEST


def steps_within(seconds: float, timed: Callable[[int], float]) -> int:
    """Number of steps that fit into ``seconds``, at least 1; ``timed(n)`` trains n and returns the seconds.

    The first launches are of one step: nothing is shorter, however slow the device is. Each further one
    is eight times as long, until its time can be taken; that one is repeated until it is no longer getting
    faster, since a device may be raising its clocks.
    """
    steps, taken = 1, 0.0
    timed(steps)  # may load the kernel
    while (taken := timed(steps)) < _CALIBRATING and steps < MOST_STEPS:
        steps *= 8
    for _ in range(_REPEATED):
        again = timed(steps)
        is_steady, taken = again > 0.95 * taken, min(taken, again)
        if taken < _CALIBRATING and steps < MOST_STEPS:  # what was measured before was an interruption
            steps, taken, is_steady = 8 * steps, timed(8 * steps), False
        if is_steady:
            break
    return max(1, min(MOST_STEPS, int(steps * seconds / taken)))


def checked(name: str, size: int) -> int:
    """Return the size. Raises Unsupported if it does not fit into a kernel's 32-bit integer."""
    if not 0 <= size <= _MOST:
        raise Unsupported(f"training in one launch: {name} is {size}, and may be at most {_MOST}")
    return size
