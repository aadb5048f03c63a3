"""Launch configurations of kernels, with a module for each family of kernels that train in one launch.

A frozen dataclass, a ``TrainingShape``, describes the training in one launch. It defines the sizes of the
operands, and the configurations in which a device can launch its kernels.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from snn.errors import Unsupported

if TYPE_CHECKING:
    from snn.models.members import MemberArrays

UNIT = 16
"""Widths and batches are padded to multiples of this: a tensor-core instruction takes 16 rows."""

HEAD = 32
"""Floats in the head of a workspace: HEAD_FLOATS of kernels/persistent/steps.cuh."""

TRAINED, STOPPED = slice(2, 4), 4
"""Words of the workspace's head: the 64-bit count of trained steps over all launches and members; and, after
a stopped launch, one more than the number of steps before the stop (32 bits, otherwise 0)."""

MOST_STEPS = 1 << 30
"""Largest number of steps per launch: kernels count them in 32 bits."""

WARPS = 8
"""Warps per block of the kernels that distribute tiles of products: all have 256 threads per block."""

_MOST = (1 << 31) - 1  # largest int of a kernel
_NUMBERS = 4  # of an update, after the rate
_LONGEST = 0.7  # seconds of a launch, so that an interrupt takes effect within a second and a half
_CALIBRATING, _REPEATED = 0.002, 10  # least seconds of a timed launch; most launches


@dataclass(frozen=True)
class DeviceCapability:
    """A device's number of SMs, largest shared memory per block in bytes, and compute capability."""

    multiprocessors: int
    shared_bytes: int
    capability: tuple[int, int]


@dataclass(frozen=True)
class LaunchConfiguration:
    """One launch of ``source``, compiled with ``defines``, with ``blocks`` blocks in all.

    ``shared_bytes`` is the shared memory of a block. ``cluster`` is the number of blocks per cluster,
    ``clusters`` the number of clusters per network. Networks are independent, so a launch may have more of
    them than the device runs at the same time. ``cluster`` 0: all blocks train one network together.
    ``words`` describes the launch. ``cost``: of a step, relative to other configurations with clusters.
    ``may_stop``: the launch stops before a step in which weights grow too much; the launch for a shape with
    outliers can take such steps. ``sharing``: relative extra time of a step per further block on the same SM.
    """

    source: str
    blocks: int
    threads: int
    defines: tuple[tuple[str, str], ...]
    shared_bytes: int
    words: str
    cluster: int = 0
    clusters: int = 1
    cost: float = 1.0
    may_stop: bool = False
    sharing: float = 0.56  # of clusters, on an H200

    @property
    def kernel(self) -> str:
        """The name of the kernel's file."""
        return Path(self.source).stem

    @property
    def blocks_per_multiprocessor(self) -> int:
        """The number of blocks that the kernel is compiled to have on an SM."""
        return int(dict(self.defines).get("BLOCKS_PER_SM", 1))

    def total_cost(self, members: int, held: int, per_multiprocessor: int) -> float:
        """Cost of a step of all ``members``, of which the device holds ``held`` at the same time.

        ``per_multiprocessor``: the blocks that an SM has when the device holds that many; with fewer
        members it may have fewer, so that they do not share.
        """
        blocks = ceil(min(members, held) * per_multiprocessor / held)
        return ceil(members / held) * self.cost * (1 + self.sharing * (blocks - 1))


@dataclass(frozen=True)
class TrainingLaunch:
    """A backend's launch for a shape: in ``words``, and its configuration if it uses kernels/persistent.

    ``together``: the number of networks that the device trains at the same time.
    """

    words: str
    configuration: LaunchConfiguration | None = None
    together: int | None = None

    @property
    def may_stop(self) -> bool:
        return self.configuration is not None and self.configuration.may_stop

    @property
    def record(self) -> dict[str, Any] | None:
        """The record's entry on the kernel and its launch configuration."""
        one = self.configuration
        if one is None:
            return None
        names = ("kernel", "blocks", "threads", "cluster", "clusters", "shared_bytes")
        return {name: getattr(one, name) for name in names} | {"together": self.together}


class Steps(NamedTuple):
    """The steps of one launch: ``number`` steps from batch ``first`` on; the first batch follows the last.

    ``rows``: the rows of the data. A ``max_norm`` of 0 clips nothing. ``epoch``: the epochs that were trained
    before the one of the first step, so the run's step number epoch * batches + first is the launch's first.
    ``seed``: of the order of the rows, if they are shuffled. ``numbers``: of the update, after the rate
    (``Optimizer.numbers``). ``schedule``: of the rate, as ``Schedule.numbers`` gives it. ``patience``: epochs
    without a smaller loss of rows held out after which a launch that computes it ends; 0: it trains all.
    """

    rows: int
    first: int
    number: int
    rate: float
    max_norm: float = 0.0
    epoch: int = 0
    seed: int = 0
    numbers: tuple[float, ...] = ()
    schedule: tuple[int, int, int, float] = (0, 0, 1, 1.0)
    patience: int = 0


class TrainingShape(ABC):
    """The sizes for which a kernel that trains many steps per launch is compiled.

    ``op`` names the training in traces, ``operands`` its buffers: X, Y, parameters, M, E and S. S is
    workspace, initially 0, in whose head the device counts steps. ``batch`` is the number of rows per step,
    ``members`` the number of networks that one launch trains; they share only X and Y.

    ``update`` is the operation that updates a parameter (``Optimizer.op``), ``states`` the number of arrays
    that it keeps for each. They are in M, each laid out as the parameters, 0 when a run starts; without any
    there is no M. ``scheduled``: the rate changes from step to step. ``shuffled``: each epoch has another
    order of the rows (``snn.models.row_order``). Then X and Y have padded columns, but no padded batches.
    """

    op: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ("W",)

    keeps_errors: ClassVar[bool] = True
    """Whether E has every row, as of its last training step; else E has the last batch of each member."""

    by_rows: ClassVar[bool] = False
    """Whether X and Y are stored by rows even in file order."""

    batch: int
    members: int = 1
    clipped: bool = False
    update: str = "update"
    states: int = 0
    scheduled: bool = False
    shuffled: bool = False

    @property
    def counts_steps(self) -> bool:
        """Whether an update depends on the number of the step."""
        return self.scheduled or self.states == 2

    @property
    def operands(self) -> tuple[str, ...]:
        return "X", "Y", *self.parameters, *(("M",) if self.states else ()), "E", "S"

    @property
    def timed_rows(self) -> int:
        """Rows of the data on which a launch is timed."""
        return self.batch

    @property
    @abstractmethod
    def padded_batch(self) -> tuple[int, int]:
        """Rows and features of a batch as the device stores it."""

    @property
    @abstractmethod
    def padded_widths(self) -> tuple[int, ...]:
        """Features and the widths of linear layers as the device stores them; empty if nothing is padded."""

    @abstractmethod
    def elements(self, rows: int) -> tuple[int, ...]:
        """Floats of each operand for this many rows of data."""

    @abstractmethod
    def configurations(self, device: DeviceCapability) -> Iterator[LaunchConfiguration | str]:
        """The launches for this shape, the best first, with the reason for each impossible one."""

    def workspace(self, floats: int, of_members: "MemberArrays", steps: Steps) -> np.ndarray:
        """The workspace before the first launch, float32."""
        return np.zeros(floats, np.float32)

    def arguments(self, steps: Steps) -> tuple[float, ...]:
        """The kernel's arguments after the operands: int or float, as the kernel has them."""
        numbers = (*map(float, steps.numbers), *_NUMBERS * [0.0])[:_NUMBERS]
        *form, end = steps.schedule
        further = steps.epoch, steps.seed, *numbers, *form, float(end), float(steps.max_norm)
        return *steps[:3], float(steps.rate), *further


def padded(n: int) -> int:
    """The next multiple of ``UNIT``."""
    return round_up(n, UNIT)


def round_up(n: int, multiple: int) -> int:
    """The next multiple."""
    return -(-n // multiple) * multiple


def fitting(launch: LaunchConfiguration | str, device: DeviceCapability) -> LaunchConfiguration | str:
    """The launch, or the reason why it is impossible, such as too much shared memory per block."""
    if isinstance(launch, str) or launch.shared_bytes <= device.shared_bytes:
        return launch
    return (
        f"not {launch.words}: a block would need {launch.shared_bytes} bytes of shared memory, the device "
        f"has {device.shared_bytes}"
    )


def defines(**values: Any) -> tuple[tuple[str, str], ...]:
    """Names and texts for the compiler: truth values become 0 or 1, lists the contents of braces in C.

    Texts stay as they are.
    """
    return tuple((name, _text(value)) for name, value in values.items())


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return ",".join(f"{{{_text(one)}}}" if isinstance(one, tuple) else _text(one) for one in value)
    return str(int(value))


def check_precision(precision: str) -> None:
    """Raise Unsupported if no kernel trains in one launch with this precision of its products."""
    if precision != "fp32":
        raise Unsupported(f"training in one launch supports precision fp32, not {precision}")


def checked(name: str, size: int) -> int:
    """Return the size. Raises Unsupported if it does not fit into a kernel's 32-bit integer."""
    if not 0 <= size <= _MOST:
        raise Unsupported(f"training in one launch: {name} is {size}, and may be at most {_MOST}")
    return size


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

    A GPU with a display does so (cudaDevAttrKernelExecTimeout), and under WDDM and WSL 2 every GPU, after two
    seconds.
    """
    return _LONGEST / 2 if has_time_limit else _LONGEST


def steps_within(seconds: float, timed: Callable[[int], float]) -> int:
    """Number of steps that fit into ``seconds``, at least 1; ``timed(n)`` trains n and returns the seconds.

    The first launches train one step, the least possible for a slow device. Each further launch is eight
    times as long, until it can be timed. This launch is repeated until it no longer gets faster, because a
    device may be raising its clocks.
    """
    steps, taken = 1, 0.0
    timed(steps)  # may load the kernel
    while (taken := timed(steps)) < _CALIBRATING and steps < MOST_STEPS:
        steps *= 8
    for _ in range(_REPEATED):
        again = timed(steps)
        is_steady, taken = again > 0.95 * taken, min(taken, again)
        if taken < _CALIBRATING and steps < MOST_STEPS:  # the earlier time was an interruption
            steps, taken, is_steady = 8 * steps, timed(8 * steps), False
        if is_steady:
            break
    return max(1, min(MOST_STEPS, int(steps * seconds / taken)))
