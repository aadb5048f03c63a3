"""Trains linear layers in one launch.

A cluster of blocks, groups of blocks or the whole device trains a perceptron, with a tile of each product in
each block; of many perceptrons with one hidden layer, a block may train each. For any other stack of layers,
the tiles are distributed to the blocks.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from snn.backends.launches import (
    HEAD,
    UNIT,
    WARPS,
    DeviceCapability,
    LaunchConfiguration,
    Steps,
    TrainingShape,
    defines,
    fitting,
    padded,
    round_up,
)

if TYPE_CHECKING:
    from snn.models.members import MemberArrays

_THREADS = 32 * WARPS  # of a block, except in clusters
_ROWS, _COLS = (16, 32, 64), (8, 16, 32, 64)  # of a tile
_SLAB = 16  # terms of a sum that a warp adds at a time


class _Product(NamedTuple):
    """A product of m x n elements, each a sum of k terms."""

    m: int
    n: int
    k: int


def _products(widths: tuple[int, ...], rows: int) -> dict[str, list[_Product]]:
    """The products of a step of linear layers, by the define of their tiles."""
    pairs = list(pairwise(widths))
    return {
        "FORWARD": [_Product(rows, n, k) for k, n in pairs],
        "WGRAD": [_Product(k, n, rows) for k, n in pairs],
        "DGRAD": [_Product(rows, k, n) for k, n in pairs],
    }


def _partial_sums(
    products: dict[str, list[_Product]], tiles: dict[str, list[tuple[int, int]]], cols: int = 32
) -> int:
    """Floats of the largest tile's partial sums, one from each group of warps that share a sum's terms.

    ``cols``: the columns of a warp's part of a tile.
    """
    return max(
        min(product.k // _SLAB, WARPS // (math.ceil(m / 32) * math.ceil(n / cols))) * m * (n + 4)
        for name, of_each in products.items()
        for product, (m, n) in zip(of_each, tiles[name], strict=True)
    )


def _dividing(m: int, n: int) -> list[tuple[int, int]]:
    """Rows and columns of the tiles into which m x n is divided."""
    return [(rows, cols) for rows in _ROWS for cols in _COLS if m % rows == n % cols == 0]


# ---- perceptrons

_MOST_BLOCKS, _MOST_CLUSTERS = 16, 4  # blocks per cluster; clusters per network
_ALL_ELSE = 1.2  # fixed cost of a step (waits, updates) over that of 16 neurons' arithmetic, on an H200
_CLUSTER_ROWS, _CLUSTER_FEATURES, _CLUSTER_NEURONS = 256, 64, 64  # at most; the last per block
_CLUSTER_WEIGHTS, _CLUSTER_EASE = 2048, 1536  # per block, at most; above the second registers are scarce
_CLUSTER_THREADS = 5 * 32  # a warp for each scheduler of an SM computes, one more exchanges
_PARTS_ROWS, _PARTS_NEURONS = 240, 256  # at least, for two parts to be faster; the last per cluster
_PARTS_WEIGHTS = range(512, 1025)  # per block: with fewer, two parts are slower; with more, they spill
_OUTLIER = 4096.0
# Networks in a block each: most rows of a batch, whose sums lose bits; most features; most tiles of 16 x 16
# weights in a warp, whose gradients fill its registers; warps on an SM.
_MEMBERS_ROWS, _MEMBERS_FEATURES, _MEMBERS_TILES, _WARPS_OF_MEMBERS = 256, 64, 8, 8
_FULL_OF_MEMBERS = 0.5  # relative extra time of a step on an SM with that many warps, on an H200
_OF_GROUP = 8  # blocks
_GRIDS_BLOCKS = 1024  # at most: more SMs than any device has
_MOST_GROUPS, _DEEP_FEATURES = 16, 32  # with two or three hidden layers, at most: groups of blocks; features


OUTLIERS = "its arithmetic has one scale for all features, and the largest number is over 4096 times the mean"


def largest_of(X: np.ndarray) -> float:
    """The largest absolute value, 0 without any."""
    return max(float(X.max(initial=0.0)), -float(X.min(initial=0.0)))


def has_outliers(X: np.ndarray) -> bool:
    """Whether the largest element is so far above the mean absolute value that FP16 halves lose precision.

    The kernels for three hidden layers, for whole networks and for members scale by the largest element. Up
    to this ratio results are as close to float64's as without outliers; at 1e6 the weights are off by 1e-4
    (three hidden layers, NVIDIA H100).
    """
    largest = largest_of(X)
    total = sum(float(np.abs(rows).sum(dtype=np.float64)) for rows in np.array_split(X, len(X) // 65536 + 1))
    return math.isfinite(largest) and largest * X.size > _OUTLIER * total


@dataclass(frozen=True)
class PerceptronShape(TrainingShape):
    """Perceptrons of one output without biases. ``widths``: features and hidden layers, padded.

    ``outliers``: some of the data are far larger than the rest (``has_outliers``). On the device, each batch
    is padded. W holds all weights of each member in turn, E each member's errors of the last batch. With
    several members, the learning rate of each follows the head of S, and replaces the rate in ``Steps``. The
    scale of X comes next; ``largest`` is the largest absolute value of X.
    """

    widths: tuple[int, ...]
    batch: int
    sequential: bool
    clipped: bool
    members: int = 1
    outliers: bool = False
    largest: float = 1.0

    op = "train"
    keeps_errors = False

    @property
    def rows(self) -> int:
        """Rows of a batch, padded."""
        return padded(self.batch)

    @property
    def padded_batch(self) -> tuple[int, int]:
        return self.rows, self.widths[0]

    @property
    def padded_widths(self) -> tuple[int, ...]:
        return *self.widths, 1

    def elements(self, rows: int) -> tuple[int, ...]:
        weights, last = sum(k * n for k, n in pairwise(self.padded_widths)), self.widths[-1]
        workspace = 2 * self.rows * sum(self.widths[1:]) + self.rows * last // 8 + last
        workspace = max(workspace, _workspace_of_groups(self))
        if self.clipped:
            workspace += 2 * (weights - last) + 4 * _GRIDS_BLOCKS * (len(self.widths) - 1)
        if self.members > 1:
            workspace = self.members + 1
        lines = math.ceil(rows / self.batch) * self.rows
        of_members = self.members * weights, self.members * self.rows
        return lines * self.widths[0], lines, *of_members, HEAD + workspace

    def arguments(self, steps: Steps) -> tuple[float, ...]:
        return *steps[:3], float(steps.rate), float(steps.max_norm)

    def workspace(self, floats: int, of_members: "MemberArrays", steps: Steps) -> np.ndarray:
        workspace = np.zeros(floats, np.float32)
        if self.members > 1:
            workspace[HEAD : HEAD + self.members] = of_members.rate
            workspace[HEAD + self.members] = scale_of(self.largest)
        return workspace

    def configurations(self, device: DeviceCapability) -> Iterator[LaunchConfiguration | str]:
        launches = [*_of_clusters(self, device)]
        if self.members > 1:
            launches.insert(0, _of_members(self, device))
        if len(self.widths) in (3, 4) and self.members == 1:
            launches.append(_of_groups(self, device))
        for launch in (*launches, _of_the_grid(self, device)):
            yield fitting(launch, device)


def scale_of(largest: float) -> float:
    """The power of two that maps the largest number of a matrix to between 2^10 and 2^11."""
    exponent = math.frexp(largest)[1] - 1 if 0 < largest < math.inf else 0
    return 2.0 ** max(-100, min(100, 10 - exponent))


def _of_members(shape: PerceptronShape, device: DeviceCapability) -> LaunchConfiguration | str:
    reason = _why_no_members(shape, device)
    if reason:
        return f"no block with a network: {reason}"
    features, hidden = shape.widths
    tiles = _tiles_of_members(shape)
    warps = math.ceil(hidden / (UNIT * tiles))
    rows = 32 if shape.rows % 32 == 0 else 16
    floats = warps * 2 * UNIT * tiles * features + rows * features
    floats += (3 if warps > 1 else 1) * rows * (features + 4) + 2 * warps * (rows if warps > 1 else 1)
    needed = round_up(4 * floats, 16)
    together = max(1, min(_WARPS_OF_MEMBERS // warps, (device.shared_bytes + 1024) // (needed + 1024)))
    return LaunchConfiguration(
        "kernels/persistent/special/members.cu",
        shape.members,
        32 * warps,
        defines(
            WIDTHS=shape.widths,
            BATCH=shape.batch,
            SEQUENTIAL=shape.sequential,
            MEMBERS=shape.members,
            WARPS=warps,
            NEURON_TILES=tiles,
            BLOCKS_PER_SM=together,
        ),
        needed,
        f"one block with each network, {warps} warps" if warps > 1 else "one warp with each network",
        1,
        1,
        _cost_of_members(shape),
        sharing=_FULL_OF_MEMBERS / max(1, _WARPS_OF_MEMBERS // warps - 1),
    )


def _tiles_of_members(shape: PerceptronShape) -> int:
    """Tiles of 16 neurons in a warp."""
    features, hidden = shape.widths
    return min(hidden // UNIT, _most_tiles_of_members(features))


def _most_tiles_of_members(features: int) -> int:
    return _MEMBERS_TILES // max(2, features // UNIT)


def _cost_of_members(shape: PerceptronShape) -> float:
    """The time of a step, divided by a cluster's time for 16 neurons, both in µs as measured on an H200.

    A warp with all its weights takes 11.7 µs in batches of 256, and 3.4 in batches of 32.
    """
    features = shape.widths[0]
    share = _tiles_of_members(shape) * features / UNIT / _MEMBERS_TILES
    return share * (2.2 + 1.19 * shape.rows / 32) / (0.17 + 0.73 * shape.rows * features / 8192)


def _why_no_members(shape: PerceptronShape, device: DeviceCapability) -> str:
    features, *hidden = shape.widths
    if device.capability < (8, 0):
        return f"compute capability {device.capability[0]}.{device.capability[1]}, its arithmetic needs 8.0"
    if len(hidden) > 1 or shape.clipped:
        return "its kernel trains one hidden layer without clipping"
    if not shape.sequential and 4 * shape.members < device.multiprocessors:
        return f"{shape.members} networks that update simultaneously, fewer than a quarter of the SMs"
    if shape.outliers:
        return OUTLIERS
    if shape.rows > _MEMBERS_ROWS:
        return f"batches of {shape.batch} rows, {_MEMBERS_ROWS} at most"
    if features > _MEMBERS_FEATURES:
        return f"{features} features, {_MEMBERS_FEATURES} at most"
    most = _WARPS_OF_MEMBERS * UNIT * _most_tiles_of_members(features)
    return f"{hidden[0]} hidden neurons, {most} at most" if hidden[0] > most else ""


def _of_clusters(shape: PerceptronShape, device: DeviceCapability) -> Iterator[LaunchConfiguration | str]:
    reason = _why_no_cluster(shape, device)
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
        parts = _parts(shape, size, clusters, neurons)
        yield LaunchConfiguration(
            "kernels/persistent/special/one_layer.cu",
            blocks * shape.members,
            _CLUSTER_THREADS,
            defines(
                WIDTHS=shape.widths,
                BATCH=shape.batch,
                CLUSTER=size,
                CLUSTERS=clusters,
                MEMBERS=shape.members,
                PARTS=parts,
            ),
            _shared_of_a_cluster(shape, blocks, parts),
            f"{many} of {size} blocks, {neurons} hidden neurons in each",
            size,
            clusters,
            neurons / UNIT + _ALL_ELSE,
        )


def _shared_of_a_cluster(shape: PerceptronShape, blocks: int, parts: int) -> int:
    """Bytes of ``Shared`` in one_layer.cu, with this many blocks per network."""
    features, hidden = shape.widths
    warps = 4  # warps that compute
    sixteens = math.ceil(hidden / (16 * blocks))
    eights = 1 << ((2 * math.ceil(shape.rows / (8 * warps)) - 1).bit_length() - 1)
    rows = 8 * eights * warps
    messages = 4 * rows + 8 * parts
    floats = 2 * rows * (features + 4) + 4 * warps * sixteens * (features // 8) * 32 + messages
    return round_up(4 * floats, 16)


def _why_no_cluster(shape: PerceptronShape, device: DeviceCapability) -> str:
    features, *hidden = shape.widths
    if device.capability < (9, 0):
        return f"compute capability {device.capability[0]}.{device.capability[1]}, clusters need 9.0"
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
    """Most neurons per block: each of its warps holds all their weights in registers."""
    return min(_CLUSTER_NEURONS, _CLUSTER_WEIGHTS // features // UNIT * UNIT)


def _parts(shape: PerceptronShape, size: int, clusters: int, neurons: int) -> int:
    """The number of parts of a batch that are exchanged one after the other.

    Two parts hide an exchange behind products, but need more instructions. With 32 features and batches of
    256 on an H200, 256 neurons take 1.86 us instead of 1.92, but 128 take 1.75 instead of 1.68, and four
    clusters with 1024 neurons 3.15 instead of 2.95. With 16 features 256 neurons take 1.44 instead of 1.27,
    and with batches of 144 rows 1.85 instead of 1.70.
    """
    long_exchange = clusters == 1 and size * neurons >= _PARTS_NEURONS and shape.rows >= _PARTS_ROWS
    return 2 if long_exchange and shape.widths[0] * neurons in _PARTS_WEIGHTS else 1


def _power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()


def _of_groups(shape: PerceptronShape, device: DeviceCapability) -> LaunchConfiguration | str:
    reason = _why_no_groups(shape, device)
    if reason:
        return f"no groups of blocks: {reason}"
    groups = _groups(shape)
    if 8 * groups > device.multiprocessors:  # one per SM, even if registers allow two, which would take turns
        return (
            f"no groups of blocks: {8 * groups} blocks would run together, the device has "
            f"{device.multiprocessors} SMs"
        )
    deep = len(shape.widths) == 4
    return LaunchConfiguration(
        f"kernels/persistent/special/{'three' if deep else 'two'}_layers.cu",
        8 * groups,
        _THREADS,
        defines(
            WIDTHS=shape.widths,
            BATCH=shape.batch,
            GRID=8 * groups,
            GROUPS=groups,
            CLIP=shape.clipped,
            SEQUENTIAL=shape.sequential,
        ),
        4 * (_shared_of_three_layers(shape, groups) if deep else _shared_of_two_layers(shape)),
        f"{groups} groups of 8 blocks together",
        may_stop=deep,
    )


def _shared_of_two_layers(shape: PerceptronShape) -> int:
    """Floats of ``Shared`` in two_layers.cu."""
    features, _, second = shape.widths
    rows, cols = round_up(shape.rows, 8 * WARPS), second // _OF_GROUP
    of_warps = WARPS * features * 2
    parts = max(WARPS * 16 * (cols + 4), 2 * rows)
    further = 16 * 32 + 3 * cols + 2 * rows + 2 * WARPS * 4
    return 2 * rows * (features + 4) + parts + max(16 * (cols + 4), of_warps) + of_warps + further


def _shared_of_three_layers(shape: PerceptronShape, groups: int) -> int:
    """Floats of ``Shared`` in three_layers.cu."""
    features, first, _, third = shape.widths
    tile = 128  # words
    tiles, words = first // 64, third // 32
    own = max(groups * tiles * tile, 4 * (_OF_GROUP // 2) * tiles * tile)
    of_rows = max(2 * (first // 8 + groups // 2) * tile, groups * _OF_GROUP * tile)
    scaled = (groups + third // 16) * 2 * 64 + (1 + 2 + 4) * WARPS + 2 * 4 * 2
    weights = groups * words * 16 + _OF_GROUP * tiles * tile // 2
    data = 2 * shape.rows * (features + 4) + 16 * 32 + (2 - shape.sequential) * third + shape.rows
    return own + of_rows + scaled + weights + data + 2 * _THREADS + 4 * WARPS * features + WARPS + 5


def _why_no_groups(shape: PerceptronShape, device: DeviceCapability) -> str:
    if device.capability < (8, 0):
        return f"compute capability {device.capability[0]}.{device.capability[1]}, TF32 needs 8.0"
    if len(shape.widths) == 4 and shape.outliers:
        return (
            f"the largest element of X is over {_OUTLIER:.0f} times their mean, FP16 halves lose the others"
        )
    if not _groups(shape):
        return f"their kernel does not support {'-'.join(map(str, shape.widths))} in batches of {shape.batch}"
    return ""


def _groups(shape: PerceptronShape) -> int:
    """The number of groups of 8 blocks for two or three hidden layers; 0 for unsupported shapes.

    Groups of 4 blocks would be slower for three layers than the grid: 40.0 us, not 26.5 (256-512-256, H200).
    """
    features, first, *others = shape.widths
    if len(others) == 1:
        groups = max(shape.rows, first) // UNIT
        fits = first % 64 == others[0] % 64 == 0 and others[0] <= UNIT * _MOST_GROUPS
    else:
        groups = shape.rows // UNIT
        fits = first in (128, 256) and others == [64 * groups, 256] and groups % 2 == 0
    return groups if fits and groups <= _MOST_GROUPS and features <= _DEEP_FEATURES else 0


def _workspace_of_groups(shape: PerceptronShape) -> int:
    """Floats of workspace for groups of blocks, after the barrier's; 0 for unsupported shapes."""
    rows = shape.rows
    groups = _groups(shape) if len(shape.widths) in (3, 4) else 0
    if not groups:
        return 0
    _, m, n, *last = shape.widths
    if not last:
        squares = 2 * 4 * 8 * groups
        return 2 * 8 * rows + 2 * (m * n + n + rows * (m + 8) + 16 * n + 8 * m * rows + squares)
    (p,) = last
    sums = groups * p + 7 * 8 * groups  # of dw, and of squares; the largest weights
    kept = 11  # for the next launch
    return rows * p // 16 + 2 * (n * (m + p) + sums + rows * (m + 2 * n + 16 * p + 8 + groups * m)) + kept


def _of_the_grid(shape: PerceptronShape, device: DeviceCapability) -> LaunchConfiguration | str:
    if shape.members > 1:
        return f"no grid: the whole device trains one network, not {shape.members}"
    products = _products(shape.widths, shape.rows)
    tiles: dict[str, list[tuple[int, int]]] = {name: [] for name in products}
    most = 0
    for name, of_each in products.items():
        for m, n, _ in of_each:
            tile = tile_of(m, n, device.multiprocessors)
            if tile is None:
                return f"no grid: {device.multiprocessors} tiles of 64 x 64 do not cover {m} x {n}"
            tiles[name].append(tile)
            most = max(most, m // tile[0] * (n // tile[1]))
    # The kernel's ``Shared``, in floats.
    wgrad = tiles["WGRAD"]
    cols = 16 if shape.clipped and device.capability >= (10, 0) else 32  # of a warp
    sums = _partial_sums(products, tiles, cols)
    of_clip = max(math.ceil(m * n / _THREADS) for m, n in wgrad) if shape.clipped else 1
    further = shape.rows + shape.widths[-1] + WARPS * wgrad[-1][1] + 4 * WARPS
    return LaunchConfiguration(
        "kernels/persistent/grid.cu",
        most,
        _THREADS,
        defines(
            WIDTHS=shape.widths,
            BATCH=shape.batch,
            **tiles,
            GRID=most,
            CLIP=shape.clipped,
            SEQUENTIAL=shape.sequential,
        ),
        4 * (sums + further + _THREADS * of_clip),
        f"{most} blocks together, a tile of every product in each",
    )


def tile_of(m: int, n: int, blocks: int) -> tuple[int, int] | None:
    """Rows and columns of the smallest, then squarest, tile with which this many blocks cover m x n."""
    covering = [tile for tile in _dividing(m, n) if m // tile[0] * (n // tile[1]) <= blocks]
    return min(covering, key=lambda tile: (tile[0] * tile[1], sum(tile)), default=None)


# ---- other stacks of layers

_READING = 32  # rough cost in grid.cu of an operand's row or column, relative to an element of the tile
_OUTPUT_ROWS = 16  # of a tile of the outputs, which contains all columns
_MOST_LAYERS, _MOST_WIDTH, _MOST_OUTPUTS = 8, 2048, 256
KEEP_Z = ("silu", "gelu")  # whose derivatives do not follow from their values
_NARROW = 512  # neurons that the perceptrons' kernels support, unless there are too many rows or features


CROSS_ENTROPY = "softmax_cross_entropy"
LAYERED_LOSSES = ("error", CROSS_ENTROPY, "huber", "binary_cross_entropy")
"""Operations of the losses that the kernel has."""


@dataclass(frozen=True)
class LinearLayer:
    """A linear layer of this width, whether it has biases, and the activation function that follows."""

    width: int
    bias: bool
    activation: str = "identity"


@dataclass(frozen=True)
class LayeredShape(TrainingShape):
    """Linear layers, with a loss of each output or with softmax and cross-entropy.

    ``mean``: whether the gradient is of the mean of a batch's losses, or of their sum. ``loss``: the
    operation that computes it (``Loss.op``). ``clipped``: all gradients together, with simultaneous updates.
    ``features`` and the layers' widths are not padded, but each batch on the device is. W holds all
    parameters in turn, padded; E is the operation's, in the order in which the last epoch took the rows.
    """

    batch: int
    sequential: bool
    mean: bool
    loss: str
    features: int
    layers: tuple[LinearLayer, ...]
    update: str = "update"
    states: int = 0
    scheduled: bool = False
    shuffled: bool = False
    clipped: bool = False

    op = "train_layers"

    @property
    def outputs(self) -> int:
        return self.layers[-1].width

    @property
    def rows(self) -> int:
        """Rows of a batch, padded."""
        return _padded(self.batch)

    @property
    def padded_batch(self) -> tuple[int, int]:
        return self.rows, self.padded_widths[0]

    @property
    def padded_widths(self) -> tuple[int, ...]:
        """As in ``TrainingShape``; the outputs are padded to a power of two, for one tile."""
        hidden = (_padded(layer.width) for layer in self.layers[:-1])
        return _padded(self.features), *hidden, max(16, 1 << (self.outputs - 1).bit_length())

    @property
    def errors(self) -> int:
        """Floats of E for each row."""
        return 1 if self.loss == CROSS_ENTROPY else self.outputs

    def elements(self, rows: int) -> tuple[int, ...]:
        lines, (features, *widths) = math.ceil(rows / self.batch) * self.rows, self.padded_widths
        pairs = list(zip(pairwise((features, *widths)), self.layers, strict=True))
        parameters = sum((k + layer.bias) * n for (k, n), layer in pairs)
        of_row = sum(widths[:-1]) + sum(widths)  # every H but the outputs, and every dZ
        of_row += sum(n for (_, n), layer in pairs if layer.activation in KEEP_Z)
        workspace = HEAD + self.rows * of_row
        if self.shuffled:
            lines = rows
            workspace += 2 * self.rows * (features + widths[-1]) + 2 * rows  # batches, and orders of the rows
        if self.clipped:
            workspace += parameters + _GRIDS_BLOCKS  # gradients, and sums of squares
        states = (self.states * parameters,) if self.states else ()
        return lines * features, lines * widths[-1], parameters, *states, rows * self.errors, workspace

    def configurations(self, device: DeviceCapability) -> Iterator[LaunchConfiguration | str]:
        reason = self._why_not()
        if reason:
            yield f"no stack of layers in one launch: {reason}"
            return
        widths, blocks = self.padded_widths, device.multiprocessors
        products = _products(widths, self.rows)
        tiles = {name: [_tile_of(one, blocks) for one in of_each] for name, of_each in products.items()}
        tiles["FORWARD"][-1] = _OUTPUT_ROWS, widths[-1]
        counts = [
            _count(product, tile)
            for name, of_each in products.items()
            for product, tile in list(zip(of_each, tiles[name], strict=True))[name == "DGRAD" :]
        ]
        grid, most = min(blocks, max(counts)), math.ceil(max(counts) / blocks)
        sums, outputs = (
            _partial_sums(products, tiles),
            _OUTPUT_ROWS * (widths[-1] + (4 if self._at_once else 1)),
        )
        each = "a tile of every product in each" if most == 1 else f"up to {most} tiles of a product in each"
        launch = LaunchConfiguration(
            "kernels/persistent/layers.cu",
            grid,
            _THREADS,
            defines(
                WIDTHS=widths,
                BIASES=[layer.bias for layer in self.layers],
                OUTPUTS_OF_LAYERS=[layer.width for layer in self.layers],
                ACTIVATIONS=[layer.activation.upper() for layer in self.layers],
                UPDATE=self.update,
                STATES=self.states,
                SCHEDULED=self.scheduled,
                SHUFFLED=self.shuffled,
                CLIPPED=self.clipped,
                AT_ONCE=self._at_once,
                BATCH=self.batch,
                ROWS=self.rows,
                LOSS=self.loss,
                MEAN=self.mean,
                SEQUENTIAL=self.sequential,
                GRID=grid,
                **tiles,
            ),
            4 * (sums + 64 * WARPS + outputs + 3 * _THREADS * self.counts_steps + WARPS * self.clipped),
            f"{grid} blocks together, {each}",
        )
        yield fitting(launch, device)

    @property
    def _at_once(self) -> bool:
        """Whether the block that computes some rows' outputs propagates their error, too.

        Where only a few registers are needed for that; not in what was measured before there was a choice.
        """
        functions = {layer.activation for layer in self.layers}
        as_measured = self.update == "update" and not self.shuffled and functions <= {"relu", "identity"}
        few = len(self.layers) > 1 and self.padded_widths[-1] <= 16 and self.padded_widths[-2] <= 2 * _THREADS
        return few and not (as_measured or self.sequential)

    def _why_not(self) -> str:
        widest = max(self.padded_widths[:-1])
        if len(self.layers) > _MOST_LAYERS:
            return f"{len(self.layers)} linear layers, {_MOST_LAYERS} at most"
        if widest > _MOST_WIDTH or self.batch > _MOST_WIDTH:
            return (
                f"batches of {self.batch} rows, widths of up to {widest}: both may be at most {_MOST_WIDTH}"
            )
        if self.outputs > _MOST_OUTPUTS:
            return f"{self.outputs} outputs, {_MOST_OUTPUTS} at most: a block computes whole rows of them"
        if self._is_wide_and_shallow():
            return (
                f"one hidden layer of {self.layers[0].width} neurons on {self.features} features, which "
                "`graph` trains faster in most cases"
            )
        return ""

    def _is_wide_and_shallow(self) -> bool:
        """Whether this is a perceptron with one hidden layer and few features, where H w is most of the work.

        This kernel has few blocks for that: of six such shapes that are too wide for the other kernels, an
        NVIDIA H200 trained five at 0.80 to 0.96 of the speed of ``graph``, and one at 1.13.
        """
        first, *others = self.layers
        is_perceptron = len(others) == 1 and not first.bias and self.outputs == 1 and self.loss == "error"
        return is_perceptron and first.width > max(self.features, _NARROW)


def _padded(n: int) -> int:
    """The next multiple of 16 that has large tiles if n is large."""
    return round_up(n, 16 if n <= 64 else 32 if n <= 256 else 64)


def _tile_of(product: _Product, blocks: int) -> tuple[int, int]:
    """Rows and columns of the tiles that minimise the reads and multiplications of the busiest block."""

    def cost(tile: tuple[int, int]) -> int:
        rows, cols = tile
        return math.ceil(_count(product, tile) / blocks) * (rows * cols + _READING * (rows + cols))

    return min(_dividing(product.m, product.n), key=cost)


def _count(product: _Product, tile: tuple[int, int]) -> int:
    return product.m // tile[0] * (product.n // tile[1])
