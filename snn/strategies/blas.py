"""A CPU baseline: NumPy, with products by its BLAS."""

from functools import partial
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu import ops
from snn.errors import Unsupported
from snn.models import host_ops
from snn.strategies.common.cpu import Arithmetic, CpuBaseline, Operations, check_threads
from snn.strategies.common.strategy import required


class Blas(CpuBaseline):
    """Training by NumPy, with products by a BLAS on a given number of threads.

    ``setup`` limits the BLAS to that number of threads and allocates what every ``CpuBaseline`` does. A
    product, also of transposed operands, is one BLAS call, which waits for its threads. Element-wise work is
    NumPy's, on one thread. After ``setup`` only the mask of an error is allocated, one byte per element;
    nothing is copied. ``close`` restores the number of BLAS threads.
    """

    convolves = False

    def __init__(self, backend: Backend, threads: int = 1) -> None:
        super().__init__(backend)
        self._threads = threads
        self._limit: Any = None

    def limit_threads(self) -> None:
        check_threads(self._threads)
        control = required("threadpoolctl").ThreadpoolController()
        self._limit = control.limit(limits=self._threads, user_api="blas")
        allowed = [library["num_threads"] for library in control.select(user_api="blas").info()]
        if self._threads not in allowed:
            in_use = ", ".join(map(str, allowed)) or "no BLAS found"
            raise Unsupported(f"NumPy's BLAS cannot be limited to {self._threads} threads; in use: {in_use}")

    def arithmetic(self) -> Arithmetic:
        return ARITHMETIC

    def operations(self) -> Operations:
        return partial(getattr, ops)

    def close(self) -> None:
        if self._limit is not None:
            self._limit.restore_original_limits()
            self._limit = None
        super().close()


def _forward(A: np.ndarray, W: np.ndarray, relu: bool, Z: np.ndarray) -> None:
    np.matmul(A, W, out=Z)
    if relu:
        np.maximum(Z, 0, out=Z)


def _gradient(H: np.ndarray, dZ: np.ndarray, dW: np.ndarray) -> None:
    np.matmul(H.T, dZ, out=dW)


def _clip(max_norm: np.float32, dW: np.ndarray) -> None:
    host_ops.clip(dW, float(max_norm))


def _propagate(dZ: np.ndarray, W: np.ndarray, H: np.ndarray, dH: np.ndarray) -> None:
    np.matmul(dZ, W.T, out=dH)
    np.multiply(dH, H > 0, out=dH)


def _update(rate: np.float32, dW: np.ndarray, W: np.ndarray) -> None:
    dW *= rate
    W -= dW


ARITHMETIC = Arithmetic(_forward, _gradient, _clip, _propagate, _update)
