"""How to train networks in one launch: a cluster of blocks for each, or the whole device for one."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from snn.backends.launch_memory import shared_bytes

UNIT = 16
"""Widths and batches are padded to multiples of this: a tensor-core instruction takes 16 rows."""

HEAD = 32
"""Floats in the head of a workspace: HEAD_FLOATS of kernels/persistent/steps.cuh."""

_GRID = "kernels/persistent/grid.cu"
_ROWS, _COLS = (16, 32, 64), (8, 16, 32, 64)
_MOST_BLOCKS, _MOST_CLUSTERS = 16, 4  # blocks per cluster; clusters per network
_ALL_ELSE = 1.2  # fixed cost of a step (waits, updates) over that of 16 neurons' arithmetic, on an H200
_SHARED = 0.56  # what a step takes longer for each further block on the same SM, on an H200
_CLUSTER_ROWS, _CLUSTER_FEATURES, _CLUSTER_NEURONS = 256, 64, 64  # at most; the last per block
_CLUSTER_WEIGHTS, _CLUSTER_EASE = 2048, 1536  # per block, at most; above the second registers are scarce
_CLUSTER_THREADS = 5 * 32  # a warp for each scheduler of an SM computes, one more exchanges
_PARTS_ROWS, _PARTS_NEURONS = 240, 256  # at least, for two parts to be faster; the last per cluster
_PARTS_WEIGHTS = range(512, 1025)  # per block: with fewer, two parts are slower; with more, they spill
_OUTLIER = 4096.0
_MOST_GROUPS, _DEEP_FEATURES = 16, 32  # with two or three hidden layers, at most: groups of blocks; features


def padded(n: int) -> int:
    """The next multiple of ``UNIT``."""
    return -(-n // UNIT) * UNIT


def has_outliers(X: np.ndarray) -> bool:
    """Whether the largest element is so far above the mean absolute value that FP16 halves lose precision.

    The kernel for three hidden layers scales by the largest element. Up to this ratio its results are as
    close to float64's as without outliers; at 1e6 the weights are off by 1e-4 (NVIDIA H100).
    """
    largest = max(float(X.max(initial=0.0)), -float(X.min(initial=0.0)))
    total = sum(float(np.abs(rows).sum(dtype=np.float64)) for rows in np.array_split(X, len(X) // 65536 + 1))
    return math.isfinite(largest) and largest * X.size > _OUTLIER * total


@dataclass(frozen=True)
class Shape:
    """What a persistent kernel is compiled for. ``widths``: features and hidden layers, padded.

    ``batch`` is the number of rows per step, ``members`` the number of networks that one launch trains.
    ``outliers``: some of the data are far larger than the rest (``has_outliers``).
    """

    widths: tuple[int, ...]
    batch: int
    sequential: bool
    clipped: bool
    members: int = 1
    outliers: bool = False

    op = "train"

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Shape":
        """The shape in the numbers of the op ``train``."""
        _, batch, _, _, sequential, _, max_norm, members, outliers, *widths = numbers
        flags = bool(sequential), max_norm > 0
        return cls(tuple(map(int, widths)), int(batch), *flags, int(members), bool(outliers))

    def numbers(
        self, rows: int, first: int, steps: int, rate: float, max_norm: float = 0.0
    ) -> tuple[float, ...]:
        """The numbers of the op, for so many rows of data."""
        of_launch = rows, self.batch, first, steps
        flags = self.members, int(self.outliers)
        return *of_launch, int(self.sequential), rate, max_norm, *flags, *self.widths

    @property
    def rows(self) -> int:
        """Rows of a batch, padded."""
        return padded(self.batch)

    def plans(self, limits: "DeviceCapability") -> Iterator["LaunchPlan | str"]:
        """``launch_plans`` for this shape."""
        return launch_plans(self, limits)


@dataclass(frozen=True)
class DeviceCapability:
    """A device: number of SMs, bytes of shared memory per block at most, compute capability."""

    multiprocessors: int
    shared_bytes: int
    capability: tuple[int, int]


@dataclass(frozen=True)
class LaunchPlan:
    """One launch of ``source``, compiled with ``defines``, with ``blocks`` blocks in all.

    ``cluster`` is the number of blocks per cluster, ``clusters`` the number of clusters per network. Networks
    are independent, so a launch may have more of them than the device runs at the same time. ``cluster`` 0:
    all blocks train one network together. ``cost``: of a step, relative to other plans with clusters.
    ``words`` describes the plan. ``may_stop``: a launch trains nothing where weights grow too much
    in one step; the plan of a shape with outliers can take such steps.
    """

    source: str
    blocks: int
    threads: int
    cluster: int
    clusters: int
    defines: tuple[tuple[str, str], ...]
    words: str
    cost: float = 1.0
    may_stop: bool = False

    @property
    def refused(self) -> str:
        """Prefix of the reason if a device cannot launch this plan; ``snn.analysis.kernels`` parses it."""
        return f"{'no grid:' if self.source == _GRID else 'not'} {self.words}"

    def too_large(self, needed: int, limits: DeviceCapability) -> str:
        """Why a device does not launch it: a block needs so many bytes of shared memory."""
        return (
            f"{self.refused}: a block would need {needed} bytes of shared memory, the device has "
            f"{limits.shared_bytes}"
        )

    def total_cost(self, members: int, held: int, per_multiprocessor: int) -> float:
        """Cost of a step of all ``members``, of which the device holds ``held`` at the same time.

        ``per_multiprocessor``: the blocks that an SM has when the device holds that many; with fewer
        members it may have fewer, so that they do not share.
        """
        blocks = math.ceil(min(members, held) * per_multiprocessor / held)
        return math.ceil(members / held) * self.cost * (1 + _SHARED * (blocks - 1))


def launch_plans(shape: Shape, limits: DeviceCapability) -> Iterator[LaunchPlan | str]:
    """The plans for a shape, for one network the best first; for a plan that is impossible, the reason."""
    for plan in _of_clusters(shape, limits):
        yield if_it_fits(plan, limits)
    if len(shape.widths) in (3, 4) and shape.members == 1:
        yield if_it_fits(_of_groups(shape, limits), limits)
    yield if_it_fits(_of_the_grid(shape, limits), limits)


def if_it_fits(plan: LaunchPlan | str, limits: DeviceCapability) -> LaunchPlan | str:
    """The plan, or the reason why there is none: one is that its blocks need too much shared memory."""
    if isinstance(plan, str):
        return plan
    needed = shared_bytes(plan.source, dict(plan.defines), limits.capability)
    return plan if needed <= limits.shared_bytes else plan.too_large(needed, limits)


def _of_clusters(shape: Shape, limits: DeviceCapability) -> Iterator[LaunchPlan | str]:
    reason = _why_no_cluster(shape, limits)
    if reason:
        yield f"no cluster: {reason}"
        return
    features, hidden = shape.widths
    tried: set[int] = set()
    for neurons in range(UNIT, _most_neurons(features) + 1, UNIT):
        blocks = _power_of_two(math.ceil(hidden / neurons))
        clusters = max(1, blocks // _MOST_BLOCKS)
        if blocks in tried or clusters > (_MOST_CLUSTERS if shape.members == 1 else 1):
            continue
        if tried and features * neurons > _CLUSTER_EASE:
            continue
        tried.add(blocks)
        size = blocks // clusters
        many = f"{clusters * shape.members} clusters" if clusters * shape.members > 1 else "one cluster"
        yield LaunchPlan(
            "kernels/persistent/one_layer.cu",
            blocks * shape.members,
            _CLUSTER_THREADS,
            size,
            clusters,
            (
                *_common(shape),
                *(("CLUSTER", str(size)), ("CLUSTERS", str(clusters))),
                *(("MEMBERS", str(shape.members)), ("PARTS", str(_parts(shape, size, clusters, neurons)))),
            ),
            f"{many} of {size} blocks, {neurons} hidden neurons in each",
            neurons / UNIT + _ALL_ELSE,
        )


def _why_no_cluster(shape: Shape, limits: DeviceCapability) -> str:
    features, *hidden = shape.widths
    if limits.capability < (9, 0):
        return f"compute capability {limits.capability[0]}.{limits.capability[1]}, clusters need 9.0"
    if len(hidden) > 1:
        return f"{len(hidden)} hidden layers are too much arithmetic for one"
    if shape.clipped or not shape.sequential:
        return "its kernel neither clips nor updates simultaneously"
    if shape.rows > _CLUSTER_ROWS or features > _CLUSTER_FEATURES:
        return f"batches of {shape.batch} rows of {features} features do not fit its blocks' registers"
    clusters = _MOST_CLUSTERS if shape.members == 1 else 1
    if hidden[0] > clusters * _MOST_BLOCKS * _most_neurons(features):
        return f"{hidden[0]} hidden neurons of {features} features do not fit its blocks' registers"
    return ""


def _most_neurons(features: int) -> int:
    """Neurons per block, at most: each of its warps holds all their weights in registers."""
    return min(_CLUSTER_NEURONS, _CLUSTER_WEIGHTS // features // UNIT * UNIT)


def _parts(shape: Shape, size: int, clusters: int, neurons: int) -> int:
    """The parts of a batch that are exchanged one after the other.

    Two hide an exchange behind products, and need more instructions. With 32 features and batches of 256 on
    an H200, 256 neurons take 1.86 us instead of 1.92, but 128 take 1.75 instead of 1.68, and four clusters
    with 1024 neurons 3.15 instead of 2.95. With 16 features 256 neurons take 1.44 instead of 1.27, and with
    batches of 144 rows 1.85 instead of 1.70.
    """
    long_exchange = clusters == 1 and size * neurons >= _PARTS_NEURONS and shape.rows >= _PARTS_ROWS
    return 2 if long_exchange and shape.widths[0] * neurons in _PARTS_WEIGHTS else 1


def _power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()


def _of_groups(shape: Shape, limits: DeviceCapability) -> LaunchPlan | str:
    reason = _why_no_groups(shape, limits)
    if reason:
        return f"no groups of blocks: {reason}"
    groups = _groups(shape.widths, shape.rows)
    if 8 * groups > limits.multiprocessors:  # an SM each, even if registers allow two: they would take turns
        return (
            f"no groups of blocks: {8 * groups} blocks would run together, the device has "
            f"{limits.multiprocessors} SMs"
        )
    return LaunchPlan(
        f"kernels/persistent/{'two' if len(shape.widths) == 3 else 'three'}_layers.cu",
        8 * groups,
        256,
        0,
        1,
        (
            *_common(shape),
            *(("GRID", str(8 * groups)), ("GROUPS", str(groups)), ("CLIP", str(int(shape.clipped)))),
            ("SEQUENTIAL", str(int(shape.sequential))),
        ),
        f"{groups} groups of 8 blocks together",
        may_stop=len(shape.widths) == 4,
    )


def _why_no_groups(shape: Shape, limits: DeviceCapability) -> str:
    if limits.capability < (8, 0):
        return f"compute capability {limits.capability[0]}.{limits.capability[1]}, TF32 needs 8.0"
    if len(shape.widths) == 4 and shape.outliers:
        return (
            f"the largest element of X is over {_OUTLIER:.0f} times their mean, FP16 halves lose the others"
        )
    if not _groups(shape.widths, shape.rows):
        return f"{'-'.join(map(str, shape.widths))} in batches of {shape.batch} is no shape for their kernel"
    return ""


def _groups(widths: Sequence[int], rows: int) -> int:
    """The number of groups of 8 blocks for two or three hidden layers; 0 for unsupported shapes.

    Groups of 4 blocks would be slower for three layers than the grid: 40.0 us, not 26.5 (256-512-256, H200).
    """
    features, first, *others = widths
    if len(others) == 1:
        groups = max(rows, first) // UNIT
        fits = first % 64 == others[0] % 64 == 0 and others[0] <= UNIT * _MOST_GROUPS
    else:
        groups = rows // UNIT
        fits = first in (128, 256) and others == [64 * groups, 256] and groups % 2 == 0
    return groups if fits and groups <= _MOST_GROUPS and features <= _DEEP_FEATURES else 0


def workspace_of_groups(widths: Sequence[int], batch: int) -> int:
    """Floats of workspace, after the barrier's, for groups of blocks; 0 for shapes they do not support."""
    rows = padded(batch)
    groups = _groups(widths, rows) if len(widths) in (3, 4) else 0
    if not groups:
        return 0
    _, m, n, *last = widths
    if not last:
        squares = 2 * 4 * 8 * groups
        return 2 * 8 * rows + 2 * (m * n + n + rows * (m + 8) + 16 * n + 8 * m * rows + squares)
    (p,) = last
    sums = groups * p + 7 * 8 * groups  # of dw, and of squares; the largest weights
    kept = 11  # for the next launch
    return rows * p // 16 + 2 * (n * (m + p) + sums + rows * (m + 2 * n + 16 * p + 8 + groups * m)) + kept


def _of_the_grid(shape: Shape, limits: DeviceCapability) -> LaunchPlan | str:
    if shape.members > 1:
        return f"no grid: the whole device trains one network, not {shape.members}"
    pairs = list(zip(shape.widths, shape.widths[1:], strict=False))
    products = {
        "FORWARD": [(shape.rows, n) for _, n in pairs],
        "DESCEND": pairs,
        "PROPAGATE": [(shape.rows, k) for k, _ in pairs],
    }
    defines, most = [*_common(shape)], 0
    for name, sizes in products.items():
        tiles = []
        for m, n in sizes:
            tile = tile_of(m, n, limits.multiprocessors)
            if tile is None:
                return f"no grid: {limits.multiprocessors} tiles of 64 x 64 do not cover {m} x {n}"
            tiles.append(tile)
            most = max(most, m // tile[0] * (n // tile[1]))
        defines.append((name, ",".join(f"{{{rows},{cols}}}" for rows, cols in tiles)))
    defines += [("GRID", str(most)), ("CLIP", str(int(shape.clipped)))]
    defines.append(("SEQUENTIAL", str(int(shape.sequential))))
    words = f"{most} blocks together, a tile of every product in each"
    return LaunchPlan(_GRID, most, 256, 0, 1, tuple(defines), words)


def tile_of(m: int, n: int, blocks: int) -> tuple[int, int] | None:
    """Rows and columns of the smallest tile with which that many blocks cover m x n; then the squarest."""
    fitting = [
        (rows, cols)
        for rows in _ROWS
        for cols in _COLS
        if m % rows == n % cols == 0 and m // rows * (n // cols) <= blocks
    ]
    return min(fitting, key=lambda tile: (tile[0] * tile[1], sum(tile)), default=None)


def _common(shape: Shape) -> tuple[tuple[str, str], ...]:
    return ("WIDTHS", ",".join(map(str, shape.widths))), ("BATCH", str(shape.batch))
