"""A peer: JAX, with a whole training compiled as one program."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu.ops import EPS, MOMENTUM
from snn.errors import OutOfMemory, Unsupported
from snn.models.dropout import dropped
from snn.models.layers import (
    GELU,
    AvgPool2d,
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Flatten,
    Layer,
    LayerNorm,
    Linear,
    MaxPool2d,
)
from snn.models.losses import Loss
from snn.models.members import arrays_of, on_rows
from snn.models.network import Network
from snn.models.optimizers import PLAIN, Adam, AdamW, Sgd
from snn.models.row_order import tables, walked
from snn.models.schedules import CONSTANT, factor
from snn.strategies.base import PEERS, Peer
from snn.strategies.members import SideBySide

Step = Callable[[Any, Any, Any], tuple[Any, Any]]
"""The new parameters and the errors E of a batch, from the parameters, X and Y.

Behind the parameters is the optimiser's state: its arrays for each parameter, then the number of steps. In
front of that number is the one that decides what is dropped, uint32, if the network has dropout.
"""


def make_step(jax: Any, network: Network, rate: Any, decay: Any = None) -> Step:
    """One step on a batch, as a pure function; ``decay``: the weight decay, None for the optimiser's."""
    if decay is None:
        if network.widths is not None and network.optimizer == PLAIN:
            return _perceptron(jax, network, rate)
        decay = network.optimizer.weight_decay
    return _layers(jax, network, rate, decay)


def make_outputs(jax: Any, network: Network) -> Callable[[Any, Any], Any]:
    """The outputs of a network, (rows, outputs), as a function of its parameters and X, (rows, features)."""
    own = network.slices

    def outputs(W: Any, X: Any) -> Any:
        x = X.reshape(len(X), *network.inputs)
        for layer, some in zip(network.layers, own, strict=True):
            x = _forward(jax, layer, W[some], x)
        return x.reshape(len(x), -1)

    return outputs


def _perceptron(jax: Any, network: Network, rate: Any) -> Step:
    """Equations (1) to (4) of the paper."""
    jnp = jax.numpy
    sequential, max_norm = network.update_order == "sequential", network.clip_norm

    def step(W: Any, X: Any, Y: Any) -> Any:
        H, new = [X], list(W)
        for w in W[:-1]:
            H.append(jax.nn.relu(H[-1] @ w))
        error = H[-1] @ W[-1] - Y
        dZ = error * (2.0 / len(X))
        for i in reversed(range(len(W))):
            new[i] = W[i] - rate * _clipped(jnp, H[i].T @ dZ, max_norm)
            if i > 0:
                dZ = jnp.where(H[i] > 0, dZ @ (new if sequential else W)[i].T, 0.0)
        return tuple(new), error

    return step


def _cross_entropy(jax: Any, outputs: Any, Y: Any) -> tuple[Any, Any]:
    log = jax.nn.log_softmax(outputs)
    return -(log * Y).sum(1, keepdims=True), jax.numpy.exp(log) - Y


def _huber(jax: Any, outputs: Any, Y: Any) -> tuple[Any, Any]:
    jnp, e = jax.numpy, outputs - Y
    distance = jnp.abs(e)
    return jnp.where(distance > 1, distance - 0.5, 0.5 * e * e), jnp.clip(e, -1, 1)


_LOSSES: dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]] = {
    "mean_squared_error": lambda jax, P, Y: (P - Y, P - Y),
    "huber": _huber,
    "cross_entropy": _cross_entropy,
    "binary_cross_entropy": lambda jax, P, Y: (jax.nn.softplus(P) - P * Y, jax.nn.sigmoid(P) - Y),
}
"""E, and the gradient of the outputs P before it is scaled, by the names of losses."""


def _layers(jax: Any, network: Network, rate: Any, decay: Any) -> Step:
    """Each layer is differentiated by JAX, so that it can be updated before or after its gradient passes."""
    jnp, layers, own = jax.numpy, network.layers, network.slices
    first = network.gradient.lowest(layers, network.layer_shapes)
    sequential, summed = network.update_order == "sequential", network.reduction == "sum"
    descend, clip_norm = _descent(jnp, network, rate, decay), network.optimizer.clip_norm

    def gradient(outputs: Any, Y: Any) -> tuple[Any, Any]:
        """The errors E, and the gradient of the outputs."""
        scale = network.loss.scale(*((1, 1) if summed else Y.shape))
        errors, slopes = _LOSSES[network.loss.name](jax, outputs, Y)
        return errors, slopes * scale

    has_dropout = any(isinstance(layer, Dropout) for layer in layers)
    place = len(network.parameters) * (1 + len(network.optimizer.state))  # of the steps with dropout

    def forward_of(i: int, W: Any) -> Any:
        """The forward pass of a layer in training, as a function of its parameters and x."""
        layer = layers[i]
        if isinstance(layer, BatchNorm):
            return lambda W, x: _normed(jnp, x, *_moments(x), *W[:2])
        if not isinstance(layer, Dropout):
            return partial(_forward, jax, layer)

        def drop(unused: Any, x: Any) -> Any:
            is_dropped = dropped(0, x.size, i, network.dropout_seed, W[place], layer.p, jnp)
            return jnp.where(is_dropped.reshape(x.shape), 0.0, x / (1 - layer.p))

        return drop

    def step(W: Any, X: Any, Y: Any) -> Any:
        x, new, inputs, pulls = X.reshape(len(X), *network.inputs), list(W), [], []
        if has_dropout:
            new[place] = W[place] + 1
        due: list[tuple[int, Any]] = []
        if network.optimizer.counts:
            new[-1] = W[-1] + 1
        for i, some in enumerate(own):
            inputs.append(x)
            if isinstance(layers[i], BatchNorm):
                new[some.start + 2 : some.stop] = _running(W[some][2:], x)
            x, pull = jax.vjp(forward_of(i, W), tuple(W[some]), x)
            pulls.append(pull)
        errors, dy = gradient(x.reshape(len(x), -1), Y)
        dy = dy.reshape(x.shape)
        for i in reversed(range(first, len(layers))):
            some = own[i]
            gradients, dx = pulls[i](dy)
            for number, dW in zip(range(some.start, some.stop), gradients, strict=True):
                if network.parameters[number].trained:
                    due.append((number, _clipped(jnp, dW, network.clip_norm)))
            while due and clip_norm is None:
                descend(new, *due.pop(0))
            if sequential and new[some]:
                forward = partial(forward_of(i, W), tuple(new[some]))
                (dx,) = jax.vjp(forward, inputs[i])[1](dy)
            dy = dx
        if due:
            norm = jnp.sqrt(sum((dW * dW).sum() for _, dW in due))
            for number, dW in due:
                descend(new, number, dW * jnp.minimum(1.0, clip_norm / (norm + 1e-6)))
        return tuple(new), errors

    return step


def _descent(jnp: Any, network: Network, full_rate: Any, decay: Any) -> Callable[[list[Any], int, Any], None]:
    """A function that replaces the parameter of a number, and its state, in a list of both."""
    optimizer, decays = network.optimizer, not isinstance(decay, float) or decay > 0
    count, kept = len(network.parameters), len(optimizer.state)
    schedule = optimizer.schedule.numbers(network.run_steps)

    def descend(W: list[Any], number: int, gradient: Any) -> None:
        is_constant = optimizer.schedule == CONSTANT
        rate = full_rate if is_constant else full_rate * factor(W[-1] - 1, *schedule, jnp)
        own = slice(count + kept * number, count + kept * (number + 1))
        w = W[number]
        if isinstance(optimizer, AdamW):
            w = w - rate * decay * w
        elif decays:
            gradient = gradient + decay * w
        if isinstance(optimizer, Adam):
            gains = 1 - optimizer.beta1, 1 - optimizer.beta2
            old, values = W[own], (gradient, gradient * gradient)
            W[own] = m, v = [(1 - gain) * a + gain * b for a, gain, b in zip(old, gains, values, strict=True)]
            first, second = (-jnp.expm1(W[-1] * jnp.log1p(-gain)) for gain in gains)
            gradient = m / first / (jnp.sqrt(v / second) + optimizer.eps)
        elif isinstance(optimizer, Sgd) and optimizer.momentum:
            (m,) = W[own] = [optimizer.momentum * W[own.start] + gradient]
            gradient = gradient + optimizer.momentum * m if optimizer.nesterov else m
        W[number] = w - rate * gradient

    return descend


def _forward(jax: Any, layer: Layer, W: Any, x: Any) -> Any:
    """A layer's outputs in a prediction, images as (rows, channels, height, width)."""
    jnp = jax.numpy
    if isinstance(layer, Dropout):
        return x
    if isinstance(layer, Linear):
        z = x.reshape(len(x), -1) @ W[0]
        return z + W[1] if layer.bias else z
    if isinstance(layer, Conv2d):
        filters = W[0].reshape(layer.filters, x.shape[1], layer.kernel, layer.kernel)
        padding = 2 * [2 * (layer.padding,)]
        return jax.lax.conv_general_dilated(x, filters, 2 * (layer.stride,), padding) + W[1].reshape(-1, 1, 1)
    if isinstance(layer, BatchNorm):
        return _normed(jnp, x, *W[2:], *W[:2])
    if isinstance(layer, Flatten):
        return x.reshape(len(x), -1)
    if isinstance(layer, (MaxPool2d, AvgPool2d)):
        size = layer.size
        height, width = (side // size * size for side in x.shape[2:])
        views = [x[:, :, u:height:size, v:width:size] for u in range(size) for v in range(size)]
        if isinstance(layer, AvgPool2d):
            return sum(views) / size**2
        largest = views[0]
        for view in views[1:]:  # of equal values the first has the gradient; a maximum would divide it
            largest = jnp.where(view > largest, view, largest)
        return largest
    if isinstance(layer, LayerNorm):
        rows = x.reshape(len(x), -1)
        centred = rows - rows.mean(1, keepdims=True)
        scale = jax.lax.rsqrt((centred * centred).mean(1, keepdims=True) + EPS)
        return (centred * scale * W[0] + W[1]).reshape(x.shape)
    return jax.nn.gelu(x, approximate=False) if isinstance(layer, GELU) else getattr(jax.nn, layer.name)(x)


def _normed(jnp: Any, x: Any, mean: Any, variance: Any, weight: Any, bias: Any) -> Any:
    """x with these moments of its channels normalised, then scaled and shifted."""
    mean, variance, weight, bias = (
        one.reshape(-1, *(x.ndim - 2) * (1,)) for one in (mean, variance, weight, bias)
    )
    return (x - mean) * (weight / jnp.sqrt(variance + EPS)) + bias


def _moments(x: Any) -> tuple[Any, Any]:
    """The mean and the variance of each channel of a batch."""
    axes = (0, *range(2, x.ndim))
    return x.mean(axes), x.var(axes)


def _running(running: Any, x: Any) -> list[Any]:
    """The running mean and variance after a batch."""
    count = x.size // x.shape[1]
    mean, variance = _moments(x)
    pairs = zip(running, (mean, variance * (count / (count - 1))), strict=True)
    return [old + MOMENTUM * (now - old) for old, now in pairs]


def _clipped(jnp: Any, gradient: Any, max_norm: float | None) -> Any:
    """The gradient scaled to an L2 norm of at most ``max_norm``: g max_norm / (norm + 1e-6)."""
    if max_norm is None:
        return gradient
    norm = jnp.sqrt((gradient * gradient).sum())
    return gradient * jnp.where(norm > max_norm, max_norm / (norm + 1e-6), 1.0)


_PRECISIONS = {"fp32": "highest", "tf32": "tensorfloat32"}


class JaxScan(Peer):
    """Training by one compiled JAX program per run.

    ``setup`` copies the data in, with all full batches in one array. ``prepare`` compiles a run: a scan
    over epochs of a scan over batches, with ``unroll`` steps in its body. A run is one call, which is waited
    for. The weights are donated to the call, which returns the new ones in the same memory. JAX allocates on
    demand instead of ahead, and keeps its memory until the process ends. Products and convolutions are
    float32 without TF32, unless the precision is tf32; how images lie in memory is left to the compiler.
    With ``training.shuffle=epoch`` the program computes the order of each epoch and takes the rows in it.
    ``predict`` compiles its program when it is first called, and fills up the last batch.
    """

    own_runtime = "jax"
    any_optimizer = any_schedule = True
    own_step = "JAX"
    at_once = shuffles = True
    further_layers: tuple[type[Layer], ...] = (BatchNorm1d, BatchNorm2d, Dropout)

    def __init__(self, backend: Backend, unroll: int = 10) -> None:
        super().__init__(backend)
        self._unroll = unroll
        self._programs: dict[int, Any] = {}
        self._epochs = 0
        self._W: tuple[Any, ...] = ()
        self._data: tuple[Any, ...] = ()
        self._error: Any = None
        self._losses: Any = None
        self._outputs: Any = None
        self._held_out: list[tuple[Any, int]] = []

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        self._jax = jax = self.begin(network)
        platform = "cpu" if self.backend.is_processor else "cuda"
        try:
            self._device = jax.devices(platform)[0]
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise Unsupported(
                f"jax {jax.__version__} has no {platform} device ({reason}): `{PEERS}`"
            ) from error
        self.network, self._batch = network, min(batch_size, len(X))
        self._train = self.make_train(network, float(np.float32(rate)))
        with self.translated_errors():
            data = (X, Y) if self._arranges else in_batches(X, Y, self._batch)
            self._data = tuple(map(self._put, data))
            self._W = tuple(
                map(self._put, self._with_state([np.zeros(s, np.float32) for s in network.shapes]))
            )
            if self.validation is not None:
                self._held_out = [*self._padded(self.validation[0])]

    def make_train(self, network: Network, rate: float) -> Any:
        """The training, to be compiled: ``make_training``'s, or with other arguments in ``_arguments``."""
        step = make_step(self._jax, network, rate)
        arranged = make_shuffle(self._jax, network.order_seed, self._batch) if self._arranges else None
        return make_training(self._jax, step, self.keeps_losses, self._unroll, network.loss, arranged)

    @property
    def _arranges(self) -> bool:
        """Whether the program takes the rows in an order of each epoch, from X and Y as they are."""
        return self.network.order_seed is not None

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
            self._W = self._jax.block_until_ready(tuple(map(self._put, self._with_state(weights))))
        self._error, self._epochs = None, 0

    def epoch(self) -> None:
        self.train(1)

    def train(self, epochs: int) -> None:
        program = self._program(epochs)
        with self.translated_errors():
            trained = program(self._W, *self._arguments())
            self._W, self._error, self._losses = self._jax.block_until_ready(trained)
        self._epochs += epochs

    def loss(self) -> float:
        return float("nan") if self._error is None else self.network.loss.value(np.asarray(self._error))

    def epoch_losses(self) -> np.ndarray:
        return np.array(self._losses)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self._predicted(self._padded(X))

    def validation_loss(self) -> float:
        assert self.validation is not None
        return self.network.loss.evaluate(self._predicted(self._held_out), self.validation[1])

    def _padded(self, X: np.ndarray) -> Iterator[tuple[Any, int]]:
        """Batches on the device, filled up with zeros, and their numbers of rows."""
        for start in range(0, len(X), self._batch):
            rows = X[start : start + self._batch]
            yield self._put(np.pad(rows, ((0, self._batch - len(rows)), (0, 0)))), len(rows)

    def _predicted(self, batches: Iterable[tuple[Any, int]]) -> np.ndarray:
        found = []
        with self.translated_errors():
            for x, rows in batches:
                if self._outputs is None:
                    with self._precise():
                        jitted = self._jax.jit(make_outputs(self._jax, self.network))
                        self._outputs = jitted.lower(self._W, x).compile()
                found.append(np.asarray(self._outputs(self._W, x))[:rows])
        return np.concatenate(found)

    def weights(self) -> list[np.ndarray]:
        return [np.array(W) for W in self._W[: len(self.network.parameters)]]

    def allocator_peaks(self) -> dict[str, int]:
        counted = self._device.memory_stats() or {}  # None on the CPU
        names = {"allocated_bytes": "peak_bytes_in_use", "reserved_bytes": "peak_pool_bytes"}
        return {key: counted[name] for key, name in names.items() if name in counted}

    def close(self) -> None:
        for array in (*self._W, *self._data):
            array.delete()
        self._programs, self._W, self._data = {}, (), ()
        self._error = self._losses = self._outputs = None
        self._held_out = []

    def _arguments(self) -> tuple[Any, ...]:
        """Arguments of a program after the weights: the data and, to shuffle them, the first epoch."""
        return (np.uint32(self._epochs), *self._data) if self._arranges else self._data

    def _with_state(self, weights: list[np.ndarray]) -> list[np.ndarray]:
        """The parameters, and behind them a new state of the optimiser."""
        optimizer = self.network.optimizer
        state = [np.zeros_like(W) for W in weights for _ in optimizer.state]
        has_dropout = any(isinstance(layer, Dropout) for layer in self.network.layers)
        counts = [np.zeros((), np.uint32)] if has_dropout else []
        return [*weights, *state, *counts, *([np.zeros((), np.float32)] if optimizer.counts else [])]

    def _put(self, array: np.ndarray) -> Any:
        """A copy of the array on the device; also on the CPU, since weights are overwritten."""
        return self._jax.device_put(array, self._device, may_alias=False)

    def _precise(self) -> Any:
        """A context in which programs are compiled with the backend's precision."""
        return self._jax.default_matmul_precision(_PRECISIONS[self.backend.precision])

    def _program(self, epochs: int) -> Any:
        """The compiled training of this many epochs."""
        if epochs not in self._programs:
            jitted = self._jax.jit(self._train, static_argnums=0, donate_argnums=1)
            with self._precise(), self.translated_errors():
                self._programs[epochs] = jitted.lower(epochs, self._W, *self._arguments()).compile()
        return self._programs[epochs]


class JaxVmap(SideBySide, JaxScan):
    """Training of many members by one compiled JAX program: ``jax.vmap`` over the training of ``jax_scan``.

    Members share X and Y; each has its own parameters and state, learning rate, weight decay, order of the
    rows and, with folds or bootstraps, rows.
    """

    further_layers = BatchNorm1d, BatchNorm2d

    def __init__(self, backend: Backend, unroll: int = 10, **lists: Any) -> None:
        super().__init__(backend, **lists)
        self._unroll = unroll
        self._own: dict[str, Any] = {}

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        members = self.described(network, rate)
        self._count, arrays = len(members), arrays_of(members, network, len(X), self._folds)
        self._own = {name: values for name, values in arrays._asdict().items() if values is not None}
        rows = len(X) if arrays.rows is None else arrays.rows.shape[1]
        network = on_rows(network, len(X), rows, batch_size)
        super().setup(network, X, Y, min(batch_size, rows), rate)

    def make_train(self, network: Network, rate: float) -> Any:
        jax = self._jax
        with self.translated_errors():
            self._own = {name: self._put(values) for name, values in self._own.items()}

        def train(epochs: int, W: Any, own: Any, *data: Any) -> Any:
            def alone(W: Any, own: Any) -> Any:
                step = make_step(jax, network, own["rate"], own.get("weight_decay"))
                of_rows = own.get("order_seed"), self._batch, own.get("rows")
                arranged = make_shuffle(jax, *of_rows) if self._arranges else None
                return make_training(jax, step, self.keeps_losses, self._unroll, network.loss, arranged)(
                    epochs, W, *data
                )

            return jax.vmap(alone)(W, own)

        return train

    def loss(self) -> float:
        return fmean(self.losses())

    def losses(self) -> list[float]:
        if self._error is None:
            return [float("nan")] * self._count
        return [self.network.loss.value(errors) for errors in np.asarray(self._error)]

    def epoch_losses(self) -> np.ndarray:
        return super().epoch_losses().mean(axis=0)

    def predict(self, X: np.ndarray) -> np.ndarray:
        raise Unsupported("several networks have no common outputs")

    def weights(self) -> list[np.ndarray]:
        return [W.copy() for own in zip(*super().weights(), strict=True) for W in own]

    def close(self) -> None:
        for array in self._own.values():
            if not isinstance(array, np.ndarray):
                array.delete()
        self._own = {}
        super().close()

    @property
    def _arranges(self) -> bool:
        return bool(self._own.keys() & {"order_seed", "rows"})

    def _arguments(self) -> tuple[Any, ...]:
        return self._own, *super()._arguments()

    def _with_state(self, weights: list[np.ndarray]) -> list[np.ndarray]:
        stacked = [np.stack(of_each) for of_each in zip(*self.each(weights, self._count), strict=True)]
        arrays = super()._with_state(stacked)
        return [array if array.ndim else np.repeat(array, self._count) for array in arrays]


def in_batches(X: Any, Y: Any, batch: int) -> tuple[Any, ...]:
    """X and Y as (batches, rows, columns); if the last batch is smaller, its X and Y, too."""
    whole = len(X) // batch * batch
    batches = (M[:whole].reshape(-1, batch, M.shape[1]) for M in (X, Y))
    return *batches, *((X[whole:], Y[whole:]) if whole < len(X) else ())


Shuffle = Callable[[Any, Any, Any], tuple[Any, ...]]
"""The batches of an epoch, from its number, X and Y."""


def make_shuffle(jax: Any, seed: Any, batch: int, own: Any = None) -> Shuffle:
    """A function that takes the rows in an epoch's order (``snn.models.row_order``).

    ``own``: the numbers of the rows to take, if not all; ``seed`` None: in their order.
    """
    jnp = jax.numpy

    def shuffled(epoch: Any, X: Any, Y: Any) -> tuple[Any, ...]:
        rows = len(X) if own is None else len(own)
        order = jnp.arange(rows, dtype=jnp.uint32)
        if seed is not None:
            F = tables(rows, seed, epoch, jnp)
            order = jax.lax.while_loop(
                lambda places: (places >= rows).any(),
                lambda places: jnp.where(places < rows, places, walked(places, F, rows, jnp)),
                walked(order, F, rows, jnp),
            )
        order = order if own is None else own[order]
        return in_batches(X[order], Y[order], batch)

    return shuffled


def make_training(
    jax: Any, step: Step, keeps_losses: bool, unroll: int, loss: Loss, shuffle: Shuffle | None = None
) -> Any:
    """The training as a function of (epochs, W, *batches), or of (epochs, W, first epoch, X, Y) to shuffle.

    It returns the new W, the errors E of the last batch and, with ``keeps_losses``, the losses of the last
    epoch's batches. The batches are as from ``in_batches``.
    """
    jnp, scan = jax.numpy, jax.lax.scan

    def kept(errors: Any) -> Any:
        """The loss of a batch, if it is kept."""
        if not keeps_losses:
            return None
        return jnp.mean(errors * errors if loss.is_squared else errors)

    def train(epochs: int, W: Any, *data: Any) -> Any:
        def arranged(number: Any) -> tuple[Any, ...]:
            return data if shuffle is None else shuffle(number, *data[1:])

        def batch(state: Any, one: Any) -> Any:
            W, errors = step(state[0], *one)
            return (W, errors)[: len(state)], kept(errors)

        def epoch(carry: Any, number: Any) -> Any:
            X, Y, *rest = arranged(number)
            if not rest:
                return scan(batch, carry, (X, Y), unroll=unroll)
            (W,), losses = scan(
                batch, carry[:1], (X, Y), unroll=unroll
            )  # errors are of the smaller last batch
            W, errors = step(W, *rest)
            return (W, errors), jnp.append(losses, kept(errors)) if keeps_losses else None

        numbers = None if shuffle is None else data[0] + jnp.arange(epochs, dtype=jnp.uint32)
        *_, Y = jax.eval_shape(arranged, jnp.uint32(0))  # of the last batch, or of equal ones
        rows, outputs = Y.shape[-2:]
        start = (W, jnp.zeros((rows, loss.errors(outputs)), Y.dtype))
        (W, errors), losses = scan(epoch, start, numbers, length=epochs)
        return W, errors, losses[-1] if keeps_losses else None

    return train
