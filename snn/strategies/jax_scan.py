"""A peer: JAX, with a whole training compiled as one program."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import OutOfMemory, Unsupported
from snn.models.host_ops import squared_error
from snn.models.network import Network
from snn.strategies.common.optional import PEERS, required
from snn.strategies.common.strategy import Strategy


class JaxScan(Strategy):
    """Training by one compiled JAX program per run.

    ``setup`` copies the data in, with all full batches in one array. ``prepare`` compiles a training: a scan
    over epochs of a scan over batches, with ``unroll`` steps in its body. A run is one call, which is waited
    for. The weights are donated to the call, which returns the new ones in the same memory. JAX allocates on
    demand instead of ahead, and keeps its memory until the process ends. Products are float32 without TF32.
    """

    own_runtime = "jax"
    at_once = True

    def __init__(self, backend: Backend, unroll: int = 10) -> None:
        super().__init__(backend)
        self._unroll = unroll
        self._programs: dict[int, Any] = {}
        self._W: tuple[Any, ...] = ()
        self._data: tuple[Any, ...] = ()
        self._error: Any = None

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        self._jax = required("jax", PEERS)
        self._device = self.device()
        self._train = make_training(self._jax, network, float(np.float32(learning_rate)), self._unroll)
        batch = min(batch_size, len(X))
        whole = len(X) // batch * batch
        batches = [M[:whole].reshape(-1, batch, M.shape[1]) for M in (X, Y)]
        rest = [M[whole:] for M in (X, Y)] if whole < len(X) else []
        with self.translated_errors():
            self._data = tuple(self._put(M) for M in (*batches, *rest))
            self._W = tuple(self._put(np.zeros(shape, np.float32)) for shape in network.shapes)

    def device(self) -> Any:
        """The JAX device of the backend. Raises Unsupported, with the reason, if there is none."""
        jax, platform = self._jax, "cpu" if self.backend.is_processor else "cuda"
        if self.backend.precision != "fp32":
            raise Unsupported(f"this peer trains in float32, not {self.backend.precision}")
        try:
            return jax.devices(platform)[0]
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise Unsupported(
                f"jax {jax.__version__} has no {platform} device ({reason}): `{PEERS}`"
            ) from error

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """A context in which JAX's RESOURCE_EXHAUSTED becomes OutOfMemory."""
        try:
            yield
        except self._jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            raise OutOfMemory(str(error).splitlines()[0]) from error

    def prepare(self, epochs: int) -> None:
        for length in (1, epochs):
            self._program(length)

    def load(self, weights: list[np.ndarray]) -> None:
        with self.translated_errors():
            self._W = self._jax.block_until_ready(tuple(map(self._put, weights)))
        self._error = None

    def epoch(self) -> None:
        self.train(1)

    def train(self, epochs: int) -> None:
        program = self._program(epochs)
        with self.translated_errors():
            self._W, self._error = self._jax.block_until_ready(program(self._W, *self._data))

    def loss(self) -> float:
        return float("nan") if self._error is None else squared_error(np.asarray(self._error))

    def weights(self) -> list[np.ndarray]:
        return [np.array(W) for W in self._W]

    def close(self) -> None:
        for array in (*self._W, *self._data):
            array.delete()
        self._programs, self._W, self._data, self._error = {}, (), (), None

    def _put(self, array: np.ndarray) -> Any:
        """A copy of the array on the device; also on the CPU, since weights are overwritten."""
        return self._jax.device_put(array, self._device, may_alias=False)

    def _program(self, epochs: int) -> Any:
        """The compiled training of this many epochs."""
        if epochs not in self._programs:
            jitted = self._jax.jit(self._train, static_argnums=0, donate_argnums=1)
            with self._jax.default_matmul_precision("highest"), self.translated_errors():
                self._programs[epochs] = jitted.lower(epochs, self._W, *self._data).compile()
        return self._programs[epochs]


def make_training(jax: Any, network: Network, rate: float, unroll: int) -> Any:
    """The training as a function of (epochs, W, X, Y) that returns the new W and the last batch's Y_pred - Y.

    X is (batches, rows, features), Y (batches, rows, 1). If the last batch is smaller, its X and Y are two
    further arguments.
    """
    jnp, scan = jax.numpy, jax.lax.scan
    sequential, max_norm = network.update_order == "sequential", network.clip_norm

    def step(W: Any, X: Any, Y: Any) -> Any:
        """Equations (1) to (4) of the paper on one batch."""
        H, new = [X], list(W)
        for w in W[:-1]:
            H.append(jax.nn.relu(H[-1] @ w))
        error = H[-1] @ W[-1] - Y
        dZ = error * (2.0 / len(X))
        for i in reversed(range(len(W))):
            dW = H[i].T @ dZ
            if max_norm is not None:
                norm = jnp.linalg.norm(dW)
                dW = dW * jnp.where(norm > max_norm, max_norm / (norm + 1e-6), 1.0)
            new[i] = W[i] - rate * dW
            if i > 0:
                dZ = jnp.where(H[i] > 0, dZ @ (new if sequential else W)[i].T, 0.0)
        return tuple(new), error

    def train(epochs: int, W: Any, X: Any, Y: Any, *rest: Any) -> Any:
        def epoch(carry: Any, _: None) -> Any:
            (W, error), _ = scan(
                lambda state, batch: (step(state[0], *batch), None), carry, (X, Y), unroll=unroll
            )
            return (W, error), None

        def uneven_epoch(carry: Any, _: None) -> Any:
            W, _ = scan(lambda W, batch: (step(W, *batch)[0], None), carry[0], (X, Y), unroll=unroll)
            return step(W, *rest), None

        start = (W, jnp.zeros_like(rest[1] if rest else Y[0]))
        return scan(uneven_epoch if rest else epoch, start, None, length=epochs)[0]

    return train
