"""A step as the paper's authors programmed it, for ``training.fidelity``.

Their programs (github.com/amine-kherroubi/snn-optimization, February 2026) train the same weights, but do
more in a step than equations (1) to (4) need: they copy X and Y of the batch to new matrices, compute the
loss, and have a new matrix for the gradient of the outputs and for the derivative of each ReLU. Most matrices
are freed at the end of the step.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from snn.models import host_ops
from snn.models.network import LOOPS, Network
from snn.models.training_step import training_step

if TYPE_CHECKING:
    from snn.strategies.host_step import Arrays, HostDriven


class HostLoops(NamedTuple):
    """The work of the host on float32 matrices. Each writes its last matrix; ``loss`` returns (5)."""

    copy: Callable[..., Any]
    relu: Callable[..., Any]
    loss: Callable[..., Any]
    subtract: Callable[..., Any]
    scale: Callable[..., Any]
    transpose: Callable[..., Any]
    derivative: Callable[..., Any]
    multiply: Callable[..., Any]
    update: Callable[..., Any]


def _loss(P: np.ndarray, Y: np.ndarray) -> float:
    errors = P - Y
    return float(np.mean(errors * errors))


BY_NUMPY = HostLoops(
    copy=lambda A, out: np.copyto(out, A),
    relu=host_ops.relu,
    loss=_loss,
    subtract=lambda P, Y, out: np.subtract(P, Y, out=out),
    scale=lambda factor, D: np.multiply(D, factor, out=D),
    transpose=host_ops.transpose,
    derivative=lambda H, out: np.greater(H, 0, out=out),
    multiply=lambda mask, D: np.multiply(D, mask, out=D),
    update=lambda rate, dW, W: host_ops.update(W, dW, float(rate)),
)
NOTHING = HostLoops(*[lambda *arguments: None] * len(HostLoops._fields))
"""For a host that does not compute."""


class PublishedStep:
    """The ``calls`` of a step on this many rows; ``arrays`` then hold its ``loss``.

    ``tell`` is called before each launch, with its label.
    """

    def __init__(
        self, host: "HostDriven", network: Network, rows: int, rate: float, tell: Callable[[str], Any] | None
    ) -> None:
        self._host, self._tell = host, tell or (lambda label: None)
        self._launches = training_step(network, rows, rate).launches
        self._loops = BY_NUMPY if host.computes else NOTHING
        if network.fidelity == LOOPS and host.computes:
            from snn.strategies.numba_loops import published_loops

            self._loops = HostLoops(*published_loops())
        self._held: list[np.ndarray] = []
        self.calls = [self._train]

    def _train(self, arrays: "Arrays") -> None:
        host = self._host
        self._held = []
        for name in ("X", "Y"):
            batch = self._new(arrays[name].shape, "data", host.page_locked)
            self._loops.copy(arrays[name], batch)
            arrays[name] = batch
        host.purpose = "activations"
        for launch in self._launches:
            self._tell(launch.label)
            getattr(self, f"_{launch.op}")(arrays, *launch.operands, *launch.numbers)
        for matrix in self._held:
            host.discard(matrix)

    def _new(self, shape: tuple[int, ...], purpose: str, page_locked: bool) -> np.ndarray:
        self._held.append(self._host.allocate(shape, purpose, page_locked))
        return self._held[-1]

    def _scratch(self, shape: tuple[int, ...], purpose: str = "workspace") -> np.ndarray:
        """A matrix that no product writes: those of ``pinned`` are pageable."""
        return self._host.allocate(shape, purpose, self._host.page_locked and self._host.pins_scratch)

    def _matmul(self, arrays: "Arrays", a: str, b: str, c: str, *sizes: int) -> None:
        arrays[c] = self._host.matmul(arrays[a], arrays[b])
        self._held.append(arrays[c])

    def _relu(self, arrays: "Arrays", z: str, *sizes: int) -> None:
        self._loops.relu(arrays[z])

    def _error(self, arrays: "Arrays", p: str, y: str, e: str, d: str, elements: int, scale: float) -> None:
        P, Y = arrays[p], arrays[y]
        arrays["loss"] = self._loops.loss(P, Y)
        self._host.purpose = "gradients"
        arrays[d] = self._scratch(P.shape, "gradients")
        self._held.append(arrays[d])
        self._loops.subtract(P, Y, arrays[d])
        self._loops.scale(np.float32(scale), arrays[d])

    def _matmul_tn(self, arrays: "Arrays", a: str, b: str, c: str, *sizes: int) -> None:
        H = arrays[a]
        transposed = self._scratch(H.shape[::-1])
        self._loops.transpose(H, transposed)
        arrays[c] = self._host.matmul(transposed, arrays[b])
        self._transposed = transposed

    def _update(self, arrays: "Arrays", w: str, dw: str, elements: int, rate: float) -> None:
        dW = arrays.pop(dw)
        self._loops.update(np.float32(rate), dW, arrays[w])
        self._host.discard(dW)
        self._host.discard(self._transposed)

    def _sum_squares(self, arrays: "Arrays", *rest: Any) -> None:
        """Nothing: ``_clipped_update`` takes the norm itself."""

    def _clipped_update(
        self, arrays: "Arrays", w: str, dw: str, s: str, elements: int, rate: float, max_norm: float
    ) -> None:
        if self._host.computes:
            host_ops.clip(arrays[dw], max_norm)
        self._update(arrays, w, dw, elements, rate)

    def _matmul_nt(self, arrays: "Arrays", a: str, b: str, c: str, *sizes: int) -> None:
        W = arrays[b]
        transposed = self._scratch(W.shape[::-1])
        self._loops.transpose(W, transposed)
        arrays[c] = self._host.matmul(arrays[a], transposed)
        self._held.append(arrays[c])
        self._transposed = transposed

    def _mask(self, arrays: "Arrays", d: str, h: str, elements: int) -> None:
        mask = self._scratch(arrays[h].shape)
        self._loops.derivative(arrays[h], mask)
        self._loops.multiply(mask, arrays[d])
        self._host.discard(mask)
        self._host.discard(self._transposed)
