"""The element-wise work that host-driven strategies do on the host."""

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


def squared_error(error: np.ndarray) -> float:
    """Equation (5) of the paper: the mean of the squared errors, summed in float32."""
    return float(np.mean(error * error))
