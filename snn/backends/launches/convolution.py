"""Trains a convolutional network in one launch, with a block for each part of each image of a batch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from snn.backends.launches import (
    HEAD,
    DeviceCapability,
    LaunchConfiguration,
    TrainingShape,
    defines,
    padded,
    round_up,
)

SOURCE = "kernels/persistent/convolution.cu"
THREADS = 384

_MOST_BLOCKS = 128  # of a launch, each on a separate SM: an H100 or an H200 has 132
_MOST_CHANNELS, _MOST_SIDE, _MOST_TAPS, _MOST_WINDOW = 64, 7, 128, 3  # limit of a thread's registers
_MOST_OUTPUTS = 32  # one lane of a warp for each
_APART = 28  # floats between a workspace's head and the rest, as in convolution_layout.cuh
_WARPS = THREADS // 32


@dataclass(frozen=True)
class ConvolutionalShape(TrainingShape):
    """conv2d, ReLU, conv2d, ReLU, maxpool2d and linear, softmax and cross-entropy, with simultaneous updates.

    ``mean``: whether the gradient is of the mean of a batch's losses, or of their sum. ``window``: the
    pooling's size. Nothing is padded; E is the loss of each row.
    """

    batch: int
    mean: bool
    channels: int
    height: int
    width: int
    filters1: int
    kernel1: int
    padding1: int
    filters2: int
    kernel2: int
    padding2: int
    window: int
    outputs: int
    update: str = "update"
    states: int = 0
    scheduled: bool = False
    shuffled: bool = False

    op = "train_convolutional"
    parameters = ("W1", "b1", "W2", "b2", "W3", "b3")
    padded_widths = ()

    @property
    def padded_batch(self) -> tuple[int, int]:
        return self.batch, self.channels * self.height * self.width

    @cached_property
    def first(self) -> tuple[int, int]:
        """Height and width of the first convolution's output."""
        return _convolved((self.height, self.width), self.kernel1, self.padding1)

    @cached_property
    def pooled(self) -> tuple[int, int]:
        """Height and width of the pooled features."""
        high, wide = _convolved(self.first, self.kernel2, self.padding2)
        return high // self.window, wide // self.window

    @cached_property
    def features(self) -> int:
        """Inputs of the linear layer."""
        return self.filters2 * math.prod(self.pooled)

    def parts(self, multiprocessors: int = _MOST_BLOCKS) -> int:
        """Parts of an image on a device with this many SMs; each is some rows of the pooled features."""
        rows, blocks = self.pooled[0], min(_MOST_BLOCKS, multiprocessors)
        return math.ceil(rows / math.ceil(rows / max(1, min(rows, blocks // self.batch))))

    def elements(self, rows: int) -> tuple[int, ...]:
        patch1, patch2 = self.channels * self.kernel1**2, self.filters1 * self.kernel2**2
        convolved = self.filters1 * patch1, self.filters1, self.filters2 * patch2, self.filters2
        data = rows * self.padded_batch[1], rows * self.outputs
        linear = self.features * self.outputs, self.outputs
        slots, workspace = self._largest
        states = (self.states * slots,) if self.states else ()
        orders = 2 * rows * self.shuffled
        return *data, *convolved, *linear, *states, rows, workspace + orders

    @cached_property
    def _largest(self) -> tuple[int, int]:
        """Weights with a state, and floats of workspace, enough for any device and any number of parts."""
        fewer = {self.parts(self.batch * parts) for parts in range(1, self.parts() + 1)}
        layouts = [Layout(self, parts) for parts in fewer]
        return max(one.slots for one in layouts), max(one.workspace for one in layouts)

    def configurations(self, device: DeviceCapability) -> Iterator[LaunchConfiguration | str]:
        reason = _why_not(self, device)
        if reason:
            yield f"no convolutional network in one launch: {reason}"
            return
        parts = self.parts(device.multiprocessors)
        blocks = self.batch * parts
        each = f"one for each of {parts} parts of an image" if parts > 1 else "one for each image"
        yield LaunchConfiguration(
            SOURCE,
            blocks,
            THREADS,
            defines(
                **{"CHANNELS": self.channels, "HEIGHT": self.height, "WIDTH": self.width},
                **{"FILTERS1": self.filters1, "KERNEL1": self.kernel1, "PADDING1": self.padding1},
                **{"FILTERS2": self.filters2, "KERNEL2": self.kernel2, "PADDING2": self.padding2},
                **{"POOL": self.window, "OUTPUTS": self.outputs, "MEAN": self.mean},
                **{"BATCH": self.batch, "PARTS": parts, "GRID": blocks},
                **{"UPDATE": self.update, "STATES": self.states},
                **{"SCHEDULED": self.scheduled, "SHUFFLED": self.shuffled},
            ),
            Layout(self, parts).shared_bytes,
            f"{blocks} blocks together, {each}",
        )


def _convolved(sides: tuple[int, int], kernel: int, padding: int) -> tuple[int, int]:
    high, wide = (side + 2 * padding - kernel + 1 for side in sides)
    return high, wide


def _why_not(shape: ConvolutionalShape, device: DeviceCapability) -> str:
    if device.capability < (8, 0):
        return f"compute capability {device.capability[0]}.{device.capability[1]}, TF32 needs 8.0"
    if shape.batch > _MOST_BLOCKS:
        return f"batches of {shape.batch} images, one block trains one, and there are {_MOST_BLOCKS} at most"
    if shape.batch > device.multiprocessors:
        return f"{shape.batch} blocks would run together, the device has {device.multiprocessors} SMs"
    if max(shape.filters1, shape.filters2) > _MOST_CHANNELS:
        return f"conv2d of {max(shape.filters1, shape.filters2)} filters, {_MOST_CHANNELS} at most"
    taps = shape.channels * shape.kernel1**2
    if max(shape.kernel1, shape.kernel2) > _MOST_SIDE or taps > _MOST_TAPS:
        return (
            f"kernels of {shape.kernel1} on {shape.channels} channels and of {shape.kernel2}: at most "
            f"{_MOST_SIDE}, and {_MOST_TAPS} weights per filter of the first"
        )
    if shape.window > _MOST_WINDOW:
        return f"maxpool2d of {shape.window}, {_MOST_WINDOW} at most"
    if shape.outputs > _MOST_OUTPUTS:
        return f"{shape.outputs} outputs, {_MOST_OUTPUTS} at most"
    needed = Layout(shape, shape.parts(device.multiprocessors)).shared_bytes
    if needed > device.shared_bytes:
        return f"a block would need {needed} bytes of shared memory, the device has {device.shared_bytes}"
    return ""


class Layout:
    """Sizes of a block's shared memory and of the workspace, as in convolution_layout.cuh.

    ``parts``: the number of parts of an image.
    """

    def __init__(self, shape: ConvolutionalShape, parts: int) -> None:
        high, wide = shape.pooled
        blocks, outputs = shape.batch * parts, shape.outputs
        filters1, filters2 = padded(shape.filters1), padded(shape.filters2)
        rows = math.ceil(high / parts)
        slots = rows * wide * filters2
        rows2, cols2 = rows * shape.window, wide * shape.window
        halo, eights = shape.kernel2 - 1, 8 * math.ceil(cols2 / 8)
        rows1, cols0 = rows2 + halo, cols2 + halo + shape.kernel1 - 1
        pitch = round_up(max(eights + halo, cols0), 4)
        taps1 = shape.channels * shape.kernel1**2
        weights2 = shape.kernel2**2 * filters1 * filters2
        pairs = filters1 // 16 * math.ceil((taps1 + 1) / 8)
        gradients = weights2 + filters2 + pairs * 128
        own_gradients = round_up(math.ceil(gradients / blocks), 4)
        own_rows = round_up(math.ceil(parts * slots / blocks), 4)
        chunks = max(1, min(THREADS // (own_gradients // 4), blocks))

        gradient_pitch = round_up(max(eights + halo, cols2 + 2 * halo), 4)
        one_of = (
            slots * outputs,
            (rows2 + 2 * halo) * gradient_pitch * (filters2 + 4),
            pairs * _WARPS * 128,
            shape.batch * own_rows + chunks * own_gradients + round_up(shape.batch * outputs, 4),
        )
        pixels = shape.channels * (rows1 + shape.kernel1 - 1) * pitch + 8 + shape.kernel1
        self.shared_bytes = round_up(
            4 * (rows1 * pitch + 8) * (filters1 + 4)
            + 4 * (round_up(pixels, 4) + 2 * weights2 + (taps1 + 1) * filters1 + filters2 + 32 + slots)
            + 4 * (_WARPS * 32 + parts * 32 + 32 + _WARPS * filters2)
            + 4 * 32 * (shape.states + 3 * shape.counts_steps)
            + slots
            + 4 * max(one_of),
            16,
        )
        messages = 2 * (1 + blocks) * own_gradients * blocks
        self.slots = blocks * (own_gradients + own_rows * outputs) + 32
        at = round_up(HEAD + _APART + 2 * blocks * outputs, 4) + own_rows * blocks * outputs
        self.workspace = round_up(at + shape.batch * outputs, 4) + shape.batch * own_rows * blocks + messages
