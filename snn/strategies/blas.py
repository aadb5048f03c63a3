"""A baseline on the processor: NumPy, whose products are those of its BLAS."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.models import host_ops
from snn.strategies.common.cpu_baseline import Arithmetic, OnHost, check_threads
from snn.strategies.common.optional import needed


class Blas(OnHost):
    """``setup`` holds the BLAS to a number of threads and allocates all that ``OnHost`` does. A product, of
    transposed operands too, is one call of the BLAS, which waits for its threads; what is done to each
    element is NumPy's, on one thread. Only the mask of an error, a byte an element, is allocated after
    ``setup``; nothing is copied. ``close`` gives the BLAS its threads back."""

    def __init__(self, backend: Backend, threads: int = 1) -> None:
        super().__init__(backend)
        self._threads = threads
        self._limit: Any = None

    def arithmetic(self) -> Arithmetic:
        check_threads(self._threads)
        control = needed("threadpoolctl").ThreadpoolController()
        self._limit = control.limit(limits=self._threads, user_api="blas")
        allowed = [library["num_threads"] for library in control.select(user_api="blas").info()]
        if self._threads not in allowed:
            found = ", ".join(map(str, allowed)) or "no BLAS"
            raise Unsupported(f"NumPy's BLAS cannot be held to {self._threads} threads, but to: {found}")
        return ARITHMETIC

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
