"""Bytes of a block's shared memory, by its source and defines: sizes of ``Shared`` in kernels/persistent."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil

_WARPS, _THREADS, _SLAB = 8, 256, 16
_BLOCKS = 8  # of a group


def shared_bytes(source: str, defines: Mapping[str, str], capability: tuple[int, int]) -> int:
    """Bytes that a block needs of a kernel for linear layers, compiled for this compute capability."""
    of_source = _FLOATS[source.rpartition("/")[2]]
    alignment = 16 if source.endswith("one_layer.cu") else 4
    nbytes = 4 * of_source(defines, capability)
    return ceil(nbytes / alignment) * alignment


def _one_layer(defines: Mapping[str, str], capability: tuple[int, int]) -> int:
    (features, hidden), rows = _numbers(defines["WIDTHS"]), _padded(int(defines["BATCH"]))
    cluster, clusters, parts = (int(defines[name]) for name in ("CLUSTER", "CLUSTERS", "PARTS"))
    warps = 4  # that compute
    sixteens = ceil(hidden / (16 * cluster * clusters))
    eights = 1 << ((2 * ceil(rows / (8 * warps)) - 1).bit_length() - 1)
    rows = 8 * eights * warps
    messages = 2 * rows + 2 * rows + 2 * (2 * parts + 2 * parts)
    return 2 * rows * (features + 4) + 4 * warps * sixteens * (features // 8) * 32 + messages


def _two_layers(defines: Mapping[str, str], capability: tuple[int, int]) -> int:
    features, _, second = _numbers(defines["WIDTHS"])
    rows = ceil(_padded(int(defines["BATCH"])) / (8 * _WARPS)) * 8 * _WARPS
    cols = second // _BLOCKS
    of_warps = _WARPS * features * 2
    parts = max(_WARPS * 16 * (cols + 4), 2 * rows)
    further = 16 * 32 + 3 * cols + 2 * rows + 2 * _WARPS * 4
    return 2 * rows * (features + 4) + parts + max(16 * (cols + 4), of_warps) + of_warps + further


def _three_layers(defines: Mapping[str, str], capability: tuple[int, int]) -> int:
    features, first, _, third = _numbers(defines["WIDTHS"])
    rows, groups = _padded(int(defines["BATCH"])), int(defines["GROUPS"])
    tile = 128  # words
    tiles, words = first // 64, third // 32
    own = max(groups * tiles * tile, 4 * (_BLOCKS // 2) * tiles * tile)
    of_rows = max(2 * (first // 8 + groups // 2) * tile, groups * _BLOCKS * tile)
    scaled = (groups + third // 16) * 2 * 64 + (1 + 2 + 4) * _WARPS + 2 * 4 * 2
    weights = groups * words * 16 + _BLOCKS * tiles * tile // 2
    data = 2 * rows * (features + 4) + 16 * 32 + (2 - int(defines["SEQUENTIAL"])) * third + rows
    return own + of_rows + scaled + weights + data + 2 * _THREADS + 4 * _WARPS * features + _WARPS + 5


def _grid(defines: Mapping[str, str], capability: tuple[int, int]) -> int:
    widths, rows, clip = _numbers(defines["WIDTHS"]), _padded(int(defines["BATCH"])), int(defines["CLIP"])
    cols = 16 if clip and capability >= (10, 0) else 32  # of a warp
    descend = _numbers(defines["DESCEND"])
    elements = [ceil(m * n / _THREADS) for m, n in zip(descend[::2], descend[1::2], strict=True)]
    of_clip = _THREADS * (max(1, *elements) if clip else 1)
    further = rows + widths[-1] + _WARPS * descend[-1] + 4 * _WARPS
    return _most(defines, widths, rows, len(widths) - 1, cols) + further + of_clip


def _layers(defines: Mapping[str, str], capability: tuple[int, int]) -> int:
    widths, rows = _numbers(defines["WIDTHS"]), int(defines["ROWS"])
    outputs = _numbers(defines["FORWARD"])[-2] * (widths[-1] + 1)
    return _most(defines, widths, rows, len(widths) - 1, 32) + _WARPS * 64 + outputs


def _most(defines: Mapping[str, str], widths: Sequence[int], rows: int, layers: int, cols: int) -> int:
    """Floats of the largest tile's partial sums, one from each group of warps that share a sum's terms."""
    inner = {
        "FORWARD": widths[:-1],
        "DESCEND": [rows] * layers,
        "PROPAGATE": widths[1:],
    }
    return max(
        min(k // _SLAB, _WARPS // (ceil(m / 32) * ceil(n / cols))) * m * (n + 4)
        for name, sums in inner.items()
        for k, (m, n) in zip(sums, list(pairwise(_numbers(defines[name])))[::2], strict=True)
    )


_FLOATS: dict[str, Callable[[Mapping[str, str], tuple[int, int]], int]] = {
    "one_layer.cu": _one_layer,
    "two_layers.cu": _two_layers,
    "three_layers.cu": _three_layers,
    "grid.cu": _grid,
    "layers.cu": _layers,
}


def _numbers(text: str) -> list[int]:
    return list(map(int, re.findall(r"\d+", text)))


def _padded(batch: int) -> int:
    return ceil(batch / 16) * 16
