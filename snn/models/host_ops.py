"""The element-wise work that host-driven strategies do on the host, in place.

Those in ``IN_PLACE``, by the names of ``snn.backends.ops``, take the matrices and the
real numbers of that operation, but its partial sums.
"""

from collections.abc import Callable

import numpy as np

_STRIP = 16  # rows whose elements share cache lines in the transposed matrix: 64 bytes of float32


def transpose(A: np.ndarray, out: np.ndarray) -> None:
    """Write the transpose of A, (m, n), to ``out``, (n, m), in strips that fill whole cache lines."""
    if min(A.shape) == 1:
        out.reshape(-1)[:] = A.reshape(-1)
        return
    for start in range(0, len(A), _STRIP):
        out[:, start : start + _STRIP] = A[start : start + _STRIP].T


def clip(gradient: np.ndarray, max_norm: float | None) -> None:
    """Scale a gradient in place to an L2 norm of at most ``max_norm``: g *= max_norm / (norm + 1e-6)."""
    if max_norm is None:
        return
    norm = np.sqrt(np.vdot(gradient, gradient))
    if norm > max_norm:
        gradient *= np.float32(max_norm / (norm + 1e-6))


def relu(Z: np.ndarray) -> None:
    """max(Z, 0)."""
    np.maximum(Z, 0, out=Z)


def error(P: np.ndarray, Y: np.ndarray, scale: float) -> np.ndarray:
    """The errors P - Y, a new array; P becomes scale times them, the gradient of the outputs."""
    P -= Y
    errors = P.copy()
    P *= scale
    return errors


def mask(D: np.ndarray, H: np.ndarray) -> None:
    """D where H > 0, else 0: the derivative of ReLU.

    Bits are cleared, since infinity times 0 is NaN; a choice by ``np.where`` takes ten times as long.
    """
    bits, kept = D.view(f"i{D.itemsize}"), (H > 0).view(np.int8)
    np.bitwise_and(bits, np.negative(kept, out=kept), out=bits)  # -1 has all bits


def update(W: np.ndarray, dW: np.ndarray, rate: float) -> None:
    """W -= rate dW, in the memory of dW, which nothing reads afterwards."""
    dW *= rate
    W -= dW


def sum_squares(dW: np.ndarray) -> None:
    """Nothing: ``clipped_update`` takes the norm itself."""


def clipped_update(W: np.ndarray, dW: np.ndarray, rate: float, max_norm: float) -> None:
    """``update`` by a gradient of at most this L2 norm."""
    clip(dW, max_norm)
    update(W, dW, rate)


IN_PLACE: dict[str, Callable[..., None]] = {
    "relu": relu,
    "mask": mask,
    "update": update,
    "sum_squares": sum_squares,
    "clipped_update": clipped_update,
    "clip": clip,
}
"""Operations that the host applies to a matrix instead of the CPU backend's of the same name."""
