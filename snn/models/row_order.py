"""The order in which an epoch takes the rows: a permutation that follows from a seed and the epoch's number.

Any row's place is computed by itself, so that the host, a kernel (``kernels/layers/rows.cu``) and a peer's
program have the same order without storing it. Row ``order[i]`` is trained on in place i.

Of n rows, a place has b = max(8, bits of n - 1) bits: the high b // 2 are L, the others R. Four times,
L ^= F(R) and then R ^= F(L), both cut to their bits: a Feistel network, which maps no two places to the
same row. A result that is no row goes through the network again until it is one (cycle walking: Black and
Rogaway, "Ciphers with arbitrary finite domains", 2002). In round i = 0..7, F(v) is the first word of
Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011) with the
counter (v, i, epoch, 0) and the key (seed, 0).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

IN_FILE, EPOCH = SHUFFLES = ("none", "epoch")
"""Values of ``training.shuffle``: the order of the file, or another one in each epoch."""

ROUNDS = 8
LEAST_BITS = 8
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85


def settled(training: Mapping[str, Any]) -> dict[str, Any]:
    """The section ``training`` of a cell; in file order without ``shuffle``, as before there was a choice."""
    return {key: value for key, value in training.items() if (key, value) != ("shuffle", IN_FILE)}


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any], xp: Any = np) -> tuple[Any, ...]:
    """Philox4x32-10 of counters, four uint32 arrays of one shape, by NumPy or ``jax.numpy``: four words."""
    a, b, c, d = counter
    for i in range(10):
        k0, k1 = (
            xp.asarray(k, xp.uint32) + xp.asarray(i * weyl & 0xFFFFFFFF, xp.uint32)
            for k, weyl in zip(key, WEYL, strict=True)
        )
        (high0, low0), (high1, low1) = _product(a, MULTIPLIERS[0], xp), _product(c, MULTIPLIERS[1], xp)
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
    return a, b, c, d


def _product(x: Any, factor: int, xp: Any) -> tuple[Any, Any]:
    """The high and the low word of a 64-bit product; for JAX, which has none, from 32-bit numbers."""
    if xp is np:
        product = np.multiply(x, np.uint64(factor), dtype=np.uint64)
        return (product >> np.uint64(32)).astype(np.uint32), product.astype(np.uint32)
    half, low = xp.uint32(16), xp.uint32(0xFFFF)
    f0, f1 = xp.uint32(factor & 0xFFFF), xp.uint32(factor >> 16)
    x0, x1 = x & low, x >> half
    middle = x1 * f0 + (x0 * f0 >> half)
    carried = x0 * f1 + (middle & low)
    return x1 * f1 + (middle >> half) + (carried >> half), x * xp.uint32(factor)


def bits_of(rows: int) -> tuple[int, int]:
    """The bits of L and of R in a place."""
    bits = max(LEAST_BITS, (rows - 1).bit_length())
    return bits // 2, bits - bits // 2


def tables(rows: int, seed: Any, epoch: Any, xp: Any = np) -> Any:
    """F of every half of a place, (rounds, halves), cut to the bits that it changes."""
    left, right = bits_of(rows)
    v, i = xp.meshgrid(xp.arange(1 << right, dtype=xp.uint32), xp.arange(ROUNDS, dtype=xp.uint32))
    words = philox((v, i, xp.full_like(v, epoch), xp.zeros_like(v)), (seed, 0), xp)[0]
    return words & xp.where(i % 2 == 0, xp.uint32((1 << left) - 1), xp.uint32((1 << right) - 1))


def walked(places: Any, F: Any, rows: int, xp: Any = np) -> Any:
    """Places after one way through the network."""
    _, right = bits_of(rows)
    L, R = places >> xp.uint32(right), places & xp.uint32((1 << right) - 1)
    for i in range(0, ROUNDS, 2):
        L = L ^ F[i][R]
        R = R ^ F[i + 1][L]
    return L << xp.uint32(right) | R


def row_order(rows: int, seed: int, epoch: int) -> np.ndarray:
    """The rows in the order of an epoch, counted from 0: uint32."""
    F, places = tables(rows, seed, epoch), 1 << sum(bits_of(rows))
    has_few_places = places == 1 << LEAST_BITS  # of which a row may need a hundred: take each of them once
    following = walked(np.arange(places if has_few_places else rows, dtype=np.uint32), F, rows)
    order = following[:rows].copy()
    while len(beyond := np.flatnonzero(order >= rows)):
        order[beyond] = following[order[beyond]] if has_few_places else walked(order[beyond], F, rows)
    return order


class Orders:
    """The orders of a run's epochs, one after the other."""

    def __init__(self, rows: int, seed: int) -> None:
        self._rows, self._seed = rows, seed
        self.restart()

    def restart(self) -> None:
        """Begin a run."""
        self._epoch = 0

    def next(self) -> np.ndarray:
        """The order of the next epoch: uint32."""
        self._epoch += 1
        return row_order(self._rows, self._seed, self._epoch - 1)


Rows = slice | np.ndarray
"""The rows of a batch: a part of the file, or their numbers."""


class Batches:
    """The rows of each batch, epoch after epoch of a run: in file order, or in the orders of a seed."""

    def __init__(self, rows: int, size: int, seed: int | None) -> None:
        self._in_file = [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
        self._orders = None if seed is None else Orders(rows, seed)

    def restart(self) -> None:
        """Begin a run."""
        if self._orders:
            self._orders.restart()

    def epoch(self) -> Sequence[Rows]:
        """The batches of the run's next epoch."""
        if not self._orders:
            return self._in_file
        order = self._orders.next()
        return [order[some] for some in self._in_file]


def rows_of(matrices: Sequence[np.ndarray], rows: Rows, into: Sequence[np.ndarray]) -> list[np.ndarray]:
    """These rows of each matrix: views of a part of the file, else copies in the matrices ``into``."""
    if isinstance(rows, slice):
        return [matrix[rows] for matrix in matrices]
    return copy_rows(matrices, rows, into)


def copy_rows(matrices: Sequence[np.ndarray], rows: Rows, into: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Copies of these rows of each matrix, in the first rows of the matrices ``into``."""
    copies = []
    for matrix, target in zip(matrices, into, strict=True):
        if isinstance(rows, slice):
            copies.append(target[: rows.stop - rows.start])
            copies[-1][...] = matrix[rows]
        else:  # without this mode NumPy would check the numbers, and copy the result once more
            copies.append(np.take(matrix, rows, axis=0, out=target[: len(rows)], mode="clip"))
    return copies
