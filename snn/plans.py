"""How a device can train whole networks in one launch: each by one cluster of blocks, or one by all of it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

UNIT = 16
"""Widths and batches are padded to multiples of this: an instruction of the tensor cores takes 16 rows."""

_ROWS, _COLS = (16, 32, 64), (8, 16, 32, 64)
_CLUSTERS = (16, 8, 4, 2, 1)
_CLUSTER_THREADS = 128
_CLUSTER_NEURONS = 64  # of a block, at most: a bit for each in a word
_CLUSTER_INPUTS = 64  # of a thread's rows, at most: they stay in registers


def padded(n: int) -> int:
    """The next multiple of ``UNIT``."""
    return -(-n // UNIT) * UNIT


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for. ``widths``: padded, the features, then the hidden layers.

    ``members``: networks of this shape that one launch trains side by side.
    """

    widths: tuple[int, ...]
    batch: int
    sequential: bool
    clipped: bool
    members: int = 1

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Shape":
        """What the numbers of the op ``train`` ask for."""
        _, batch, _, sequential, _, max_norm, members, *widths = numbers
        return cls(tuple(map(int, widths)), int(batch), bool(sequential), max_norm > 0, int(members))

    @property
    def rows(self) -> int:
        """Of a batch, padded."""
        return padded(self.batch)


@dataclass(frozen=True)
class Limits:
    """Of a device: multiprocessors, bytes of shared memory that a block may have, compute capability."""

    multiprocessors: int
    shared_bytes: int
    capability: tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """One launch of ``source``, compiled with ``defines``, of so many ``blocks`` in all.

    ``cluster``: blocks that train a network; clusters never wait for each other, so there may be more of them
    than the device holds at the same time. 0: all blocks train one network together.
    """

    source: str
    blocks: int
    threads: int
    cluster: int
    defines: tuple[tuple[str, str], ...]
    words: str


def plans(shape: Shape, limits: Limits) -> Iterator[Plan | str]:
    """The plans for a shape, the best first, and, in words, why another is none.

    What a member of several is trained by is what it would be alone, so it ends with the same bits.
    """
    yield from _of_clusters(shape, limits)
    yield _of_the_grid(shape, limits)


def _of_clusters(shape: Shape, limits: Limits) -> Iterator[Plan | str]:
    reason = _why_no_cluster(shape, limits)
    if reason:
        yield f"no cluster: {reason}"
        return
    features, hidden = shape.widths
    for blocks in _CLUSTERS:
        neurons = 4 * math.ceil(math.ceil(hidden / blocks) / 4)
        if neurons * (blocks - 1) >= hidden:
            continue  # the last block would have none
        if neurons <= _CLUSTER_NEURONS and features * neurons // 16 <= _CLUSTER_THREADS:
            many = "one cluster" if shape.members == 1 else f"{shape.members} clusters"
            words = f"{many} of {blocks} blocks, {neurons} hidden neurons in each"
            defines = (*_common(shape), ("CLUSTER", str(blocks)), ("MEMBERS", str(shape.members)))
            every = blocks * shape.members
            yield Plan("kernels/persistent/cluster.cu", every, _CLUSTER_THREADS, blocks, defines, words)


def _why_no_cluster(shape: Shape, limits: Limits) -> str:
    features, *hidden = shape.widths
    inputs = math.ceil(shape.rows / _CLUSTER_THREADS) * features
    if limits.capability < (9, 0):
        return f"compute capability {limits.capability[0]}.{limits.capability[1]}, clusters need 9.0"
    if len(hidden) > 1:
        return f"{len(hidden)} hidden layers are too much arithmetic for one"
    if shape.clipped or not shape.sequential:
        return "its kernel neither clips nor updates simultaneously"
    if shape.rows > 2 * _CLUSTER_THREADS or inputs > _CLUSTER_INPUTS:
        return f"batches of {shape.batch} rows of {features} features do not fit a block's registers"
    if hidden[0] > _CLUSTERS[0] * min(_CLUSTER_NEURONS, 16 * _CLUSTER_THREADS // features):
        return f"{hidden[0]} hidden neurons do not fit its shared memory"
    return ""


def _of_the_grid(shape: Shape, limits: Limits) -> Plan | str:
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
    return Plan("kernels/persistent/grid.cu", most, 256, 0, tuple(defines), words)


def tile_of(m: int, n: int, blocks: int) -> tuple[int, int] | None:
    """Rows and columns of the smallest tile with which so many blocks cover m x n; then the squarest."""
    fitting = [
        (rows, cols)
        for rows in _ROWS
        for cols in _COLS
        if m % rows == n % cols == 0 and m // rows * (n // cols) <= blocks
    ]
    return min(fitting, key=lambda tile: (tile[0] * tile[1], sum(tile)), default=None)


def _common(shape: Shape) -> tuple[tuple[str, str], ...]:
    return ("WIDTHS", ",".join(map(str, shape.widths))), ("BATCH", str(shape.batch))
