"""One launch trains for many steps, a network or many, if the backend has a launch configuration for it."""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import pairwise
from math import prod
from statistics import fmean
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.launches import HEAD, STOPPED, TRAINED, Steps, TrainingShape, padded
from snn.backends.launches.convolution import ConvolutionalShape
from snn.backends.launches.linear import (
    LAYERED_LOSSES,
    OUTLIERS,
    LayeredShape,
    LinearLayer,
    PerceptronShape,
    has_outliers,
    largest_of,
)
from snn.backends.launches.whole import Telemetry, WholeShape
from snn.errors import MeasurementError, OutOfMemory, SnnError, Unsupported
from snn.models.gradients import EXACT
from snn.models.layers import ACTIVATIONS, Conv2d, Identity, Layer, Linear, MaxPool2d, ReLU
from snn.models.losses import CROSS_ENTROPY
from snn.models.members import Member, MemberArrays, arrays_of, on_rows
from snn.models.network import Network
from snn.models.optimizers import PLAIN
from snn.models.schedules import CONSTANT
from snn.strategies.base import EpochReport, Progress, Strategy, Watched
from snn.strategies.device_driven import DeviceDriven, Graph, Resident
from snn.strategies.members import SideBySide

KERNELS = (
    "kernels/persistent/special/members.cu",
    "kernels/persistent/special/one_layer.cu",
    "kernels/persistent/special/two_layers.cu",
    "kernels/persistent/special/three_layers.cu",
    "kernels/persistent/grid.cu",
    "kernels/persistent/layers.cu",
    "kernels/persistent/convolution.cu",
    "kernels/persistent/whole/whole.cu",
)
"""Sources of all kernels; a cell depends on them if its strategy imports this module."""

_LONG = 1.0  # seconds of a launch that lets the next ones be shorter
_BETWEEN_LOOKS = 0.05  # seconds, for the host to look at a launch's epochs
_AFTER_STOP = 16  # steps
_PREDICTED = 4096, 1 << 20  # most rows that a prediction computes together, and outputs of a layer
_CONVOLUTIONAL: tuple[type[Layer], ...] = (Conv2d, ReLU, Conv2d, ReLU, MaxPool2d, Linear)


class LaunchedTraining:
    """Splits a training run into launches, for data of ``rows`` rows.

    A run that takes less than about 0.7 s is one launch. A longer run is split into launches shorter than
    that, and the host waits between them, so that interrupts work, progress is reported, and a device that
    kills long kernels does not kill these. Weights and all other memory stay on the device. However the steps
    are split, the results are bit-identical to one launch.

    A kernel may stop if weights grow too much in one step for its number format
    (``TrainingLaunch.may_stop``), and has then trained nothing. It is launched again for the steps before,
    and the kernel for data with outliers trains a few; after such launches, too, the host waits.
    """

    def __init__(
        self,
        backend: Backend,
        shape: TrainingShape,
        steps: Steps,
        may_stop: bool = False,
    ) -> None:
        self._backend, self._shape = backend, shape
        self._steps = steps._replace(rate=float(np.float32(steps.rate)))
        self._batches = math.ceil(steps.rows / shape.batch)
        self._most = backend.steps_per_launch(shape)
        self._asked = self._epochs = 0
        self.telemetry: Telemetry | None = None
        """The epochs of launches, if these report them."""
        self._after_stop: PerceptronShape | None = None
        if may_stop and isinstance(shape, PerceptronShape):
            self._after_stop = replace(shape, outliers=True)
            backend.training_launch(self._after_stop)  # compiles it

    def restart(self) -> None:
        """Begin a run, whose epochs are counted from 0."""
        self._epochs = 0
        if self.telemetry:
            self.telemetry.clear()

    def train(self, epochs: int, buffers: tuple[Any, ...], stream: Any, progress: Progress) -> None:
        """Train the run's next epochs. Returns before the last launch ends, unless its kernel may stop."""
        steps, done, began = epochs * self._batches, 0, time.perf_counter()
        self._asked += steps * self._shape.members
        while done < steps:
            most_in_whole_epochs = self._most // self._batches * self._batches or self._most
            of_launch = min(most_in_whole_epochs, steps - done)
            started = time.perf_counter()
            self._launch(self._shape, done, of_launch, buffers, stream)
            if self._after_stop:
                stopped = int(self._head(buffers[-1], stream)[STOPPED : STOPPED + 1].view(np.uint32)[0])
                if stopped > 1:
                    self._launch(self._shape, done, stopped - 1, buffers, stream)
                if stopped:
                    done += stopped - 1
                    of_launch = min(_AFTER_STOP, steps - done)
                    self._launch(self._after_stop, done, of_launch, buffers, stream)
            done += of_launch
            if done < steps:
                self._backend.stream_synchronize(stream)
                now = time.perf_counter()
                progress(done / self._batches, epochs, now - began)
                if now - started > _LONG:  # others use the device, or the data are slower than zeros
                    self._most = max(1, self._most // 2)
        self._epochs += epochs

    def watch(
        self, epochs: int, patience: int, buffers: tuple[Any, ...], stream: Any, look: Callable[[], None]
    ) -> None:
        """Train a run whose launches report its epochs; ``patience`` 0 for all of them.

        ``look`` is called while a launch runs and between launches. Returns once all members have ended. If
        the host is interrupted, the launch ends with its epoch.
        """
        assert self.telemetry is not None
        steps, done, looked = epochs * self._batches, 0, time.perf_counter()
        while done < steps and not self.telemetry.has_stopped:
            of_launch = min(self._most // self._batches * self._batches or self._most, steps - done)
            started = time.perf_counter()
            self._launch(self._shape, done, of_launch, buffers, stream, patience)
            self._wait(stream, of_launch / self._most > _BETWEEN_LOOKS, look)
            done += of_launch
            now = time.perf_counter()
            if now - started > _LONG:
                self._most = max(1, self._most // 2)
            if now - looked > _BETWEEN_LOOKS:
                look()
                looked = now
        self._asked += int(self.telemetry.ended.sum()) * self._batches
        self._epochs += epochs

    def _wait(self, stream: Any, is_long: bool, look: Callable[[], None]) -> None:
        """Wait for the stream; in a thread if that takes long, so that the host can be interrupted."""
        assert self.telemetry is not None
        if not is_long:
            self._backend.stream_synchronize(stream)
            return
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(self._backend.stream_synchronize, stream)
            try:
                while not wait([waiting], _BETWEEN_LOOKS).done:
                    look()
            except BaseException:
                self.telemetry.request_stop()
                raise
            waiting.result()

    def _launch(
        self,
        shape: TrainingShape,
        done: int,
        count: int,
        buffers: tuple[Any, ...],
        stream: Any,
        patience: int = 0,
    ) -> None:
        epochs, first = divmod(done, self._batches)
        epoch = self._epochs + epochs
        steps = self._steps._replace(first=first, number=count, epoch=epoch, patience=patience)
        self._backend.train(shape, buffers, steps, stream)

    def _head(self, workspace: Any, stream: Any = None) -> np.ndarray:
        """A copy of the workspace's head, once the stream has done its work."""
        head = self._backend.host_alloc((HEAD,), "workspace", page_locked=False)
        try:
            self._backend.copy_out(head, workspace, stream)
            if stream is not None:
                self._backend.stream_synchronize(stream)
            return head.copy()
        finally:
            self._backend.host_free(head)

    def check(self, workspace: Any) -> None:
        """Raise MeasurementError if the device has not trained exactly the steps that it was asked for.

        The device counts them in the workspace, which was 0 before the first launch.
        """
        trained = int(self._head(workspace)[TRAINED].view(np.uint64)[0])
        if trained != self._asked % (1 << 64):
            raise MeasurementError(
                f"the device has trained {trained} steps instead of {self._asked}: times and losses of this "
                "run are wrong"
            )


# ---- the shapes that kernels are compiled for


Describe = Callable[[Network, int, np.ndarray, MemberArrays | None], TrainingShape]
"""The shape of a network with a batch, data X and its members, None for one network. Raises Unsupported."""


def perceptron_shape(
    network: Network, batch: int, X: np.ndarray, of_members: MemberArrays | None = None
) -> PerceptronShape:
    """The shape for a perceptron kernel."""
    reason = _why_not_plain(network)
    if network.widths is None or network.outputs > 1:
        reason = "its kernels have linear layers without biases, ReLU between them and one output"
    elif of_members and of_members.weight_decay is not None:
        reason = "strategy.weight_decays: its kernels update without weight decay"
    elif of_members and of_members.rows is not None:
        reason = "strategy.folds and strategy.bootstraps: its kernels' members share all rows"
    if reason:
        raise Unsupported(f"no perceptron in one launch: {reason}")
    members = len(of_members.rate) if of_members else 1
    widths = tuple(map(padded, network.mlp_widths()[:-1]))
    is_clipped = (network.clip_norm or 0.0) > 0
    scaled = len(widths) == 4 or members > 1  # by kernels for three hidden layers, and for many networks
    outliers = scaled and has_outliers(X)
    largest = largest_of(X) if members > 1 else 1.0
    is_sequential = network.update_order == "sequential"
    return PerceptronShape(widths, batch, is_sequential, is_clipped, members, outliers, largest)


def layered_shape(network: Network, batch: int, *unused: Any) -> LayeredShape:
    """The shape for the kernel of linear layers. Raises Unsupported for other networks."""
    return LayeredShape(**_described_layers(network, batch))


def whole_shape(
    network: Network, batch: int, X: np.ndarray, of_members: MemberArrays | None = None
) -> WholeShape:
    """The shape for the kernel whose blocks hold whole networks. Raises Unsupported for other networks."""
    if has_outliers(X):
        raise Unsupported(f"no whole network in a block: {OUTLIERS}")
    rows = of_members.rows if of_members else None
    return WholeShape(
        **_described_layers(network, batch),
        members=len(of_members.rate) if of_members else 1,
        data_rows=len(X) if rows is None else rows.shape[1],
        largest=largest_of(X),
        own_rows=rows is not None,
    )


def watched_shape(
    shape: WholeShape, X: np.ndarray, held: tuple[np.ndarray, np.ndarray] | None, epochs: int
) -> WholeShape:
    """The shape of a training run on X that computes the losses of its epochs, at most ``epochs``.

    ``held``: X and Y of rows held out, whose losses it then also computes. Raises Unsupported if their
    numbers are too large compared with X's.
    """
    if held is None:
        return replace(shape, watched=True, most_epochs=epochs)
    if has_outliers(np.concatenate([held[0], X])):
        raise Unsupported(f"no whole network in a block: {OUTLIERS}")
    largest = max(shape.largest, largest_of(held[0]))
    return replace(shape, watched=True, most_epochs=epochs, held_rows=len(held[0]), largest=largest)


def _described_layers(network: Network, batch: int) -> dict[str, Any]:
    own = [layer for layer in network.layers if not isinstance(layer, Identity)]
    others = [layer for layer in own if not isinstance(layer, (Linear, *ACTIVATIONS.values()))]
    is_linear = [isinstance(layer, Linear) for layer in own]
    reason = ""
    if others:
        reason = f"its layers are linear and activation functions, and this one is {others[0].name}"
    elif not is_linear[0] or not is_linear[-1] or (False, False) in pairwise(is_linear):
        reason = (
            "its kernel has one activation function at most between two linear layers, and none elsewhere"
        )
    elif network.clip_norm is not None:
        reason = "its kernel does not clip each gradient by itself (network.clip_norm)"
    elif network.gradient != EXACT:
        reason = "its kernel descends along the gradient itself"
    elif network.loss.op not in LAYERED_LOSSES:
        reason = f"its kernel has no {network.loss.name}"
    if reason:
        raise Unsupported(f"no stack of layers in one launch: {reason}")
    linear = tuple(
        LinearLayer(layer.width, layer.bias, "identity" if isinstance(after, Linear) else after.name)
        for layer, after in pairwise([*own, Identity()])
        if isinstance(layer, Linear)
    )
    return {
        "batch": batch,
        "sequential": network.update_order == "sequential",
        "mean": network.reduction == "mean",
        "loss": network.loss.op,
        "features": prod(network.inputs),
        "layers": linear,
        **_update_of(network),
        "clipped": network.optimizer.clip_norm is not None,
    }


def convolutional_shape(network: Network, batch: int, *unused: Any) -> ConvolutionalShape:
    """The shape for the convolution kernel. Raises Unsupported for other networks."""
    reason, last = "", network.layers[-1]
    if tuple(map(type, network.layers)) != _CONVOLUTIONAL or not (isinstance(last, Linear) and last.bias):
        own, kernels = (", ".join(layer.name for layer in some) for some in (network.layers, _CONVOLUTIONAL))
        reason = f"its layers are {own}, the kernel's {kernels}"
    elif any(isinstance(layer, Conv2d) and layer.stride > 1 for layer in network.layers):
        reason = "its kernel has convolutions of stride 1"
    elif network.loss is not CROSS_ENTROPY:
        reason = f"its loss is {network.loss.name}, the kernel's {CROSS_ENTROPY.name}"
    elif network.update_order != "simultaneous" or _clips(network):
        reason = "its kernel updates simultaneously and does not clip"
    elif network.gradient != EXACT:
        reason = "its kernel descends along the gradient itself"
    if reason:
        raise Unsupported(f"no convolutional network in one launch: {reason}")
    first, _, second, _, pooling, linear = network.layers
    assert isinstance(first, Conv2d) and isinstance(second, Conv2d)
    assert isinstance(pooling, MaxPool2d) and isinstance(linear, Linear)
    channels, height, width = network.inputs
    return ConvolutionalShape(
        batch,
        network.reduction == "mean",
        *(channels, height, width),
        *(first.filters, first.kernel, first.padding),
        *(second.filters, second.kernel, second.padding),
        *(pooling.size, linear.width),
        **_update_of(network),
    )


def _update_of(network: Network) -> dict[str, Any]:
    """The fields of a shape that describe its optimiser and the order of its rows."""
    optimizer = network.optimizer
    return {
        **{"update": optimizer.op, "states": len(optimizer.state)},
        **{"scheduled": optimizer.schedule != CONSTANT, "shuffled": network.order_seed is not None},
    }


def _clips(network: Network) -> bool:
    return network.clip_norm is not None or network.optimizer.clip_norm is not None


def _why_not_plain(network: Network) -> str:
    """Why kernels that only descend along the gradient, in the order of the file, do not train it."""
    if network.optimizer != PLAIN:
        return f"{network.optimizer.setting}: its kernels update by plain gradient descent"
    if network.order_seed is not None:
        return "training.shuffle=epoch: its kernels take the rows in the order of the file"
    return ""


# ---- the strategies


class OneLaunch(DeviceDriven):
    """Training of one or several networks in one launch of at most about 0.7 s, or several of them.

    ``describe`` gives the shape. Data, parameters, errors and workspace are on the device, padded as the
    shape says: the trained network has the padded widths, and its additional parameters stay zero. ``setup``
    raises Unsupported, before it allocates anything, if ``describe`` does not cover the network or the
    backend has no launch for it. Lists of weights hold one network's weights after the other's. If
    ``load`` is given the weights of one network, all start from them. A prediction is launched layer by
    layer, as by ``resident``, for more rows than a batch at a time; perceptrons have none.
    """

    by_epoch = at_once = True
    remedies = False

    of_members: MemberArrays | None = None
    """The differences between networks; None for a single network, whose rate ``setup`` gets."""

    def __init__(self, backend: Backend, describe: Describe = perceptron_shape) -> None:
        super().__init__(backend)
        self._describe, self._members = describe, 1
        self.validates = describe is not perceptron_shape  # whose kernels keep one batch's loss
        self._weights: list[tuple[Any, np.ndarray]] = []

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        its = self.of_members or MemberArrays(np.array([rate], np.float32), None, None, None)
        rows = len(X) if its.rows is None else its.rows.shape[1]
        batch = self._batch = min(batch_size, rows)
        self._members = len(its.rate)
        epochs = network.run_steps / math.ceil(len(X) / batch_size)
        run_steps = network.run_steps if rows == len(X) else round(epochs * math.ceil(rows / batch))
        shape = self._describe(network, batch, X, self.of_members)
        self.watches = isinstance(shape, WholeShape) and (self.keeps_losses or self.validation is not None)
        held, held_rows = self.validation, 0
        if isinstance(shape, WholeShape) and self.watches:
            shape = watched_shape(shape, X, held, max(1, run_steps // math.ceil(rows / batch)))
            held_rows = shape.held_rows
        launch = self.backend.training_launch(shape)
        self.plan, self.launch = launch.words, launch.record
        steps = Steps(
            *(rows, 0, 0, float(its.rate[0]), network.clip_norm or network.optimizer.clip_norm or 0.0),
            seed=network.order_seed or 0,
            numbers=network.optimizer.numbers,
            schedule=network.optimizer.schedule.numbers(run_steps),
        )
        self._training = LaunchedTraining(self.backend, shape, steps, launch.may_stop)
        self._shapes, self.network = network.shapes, _widened(network, shape.padded_widths)
        self._outputs, self._last = network.outputs, rows % batch or batch
        largest = max(map(prod, self.network.layer_shapes))
        self._micro = max(batch, min(_PREDICTED[0], _PREDICTED[1] // largest))
        self._stream = self.backend.stream_create()
        sizes = dict(zip(shape.operands, shape.elements(len(X)), strict=True))
        by_rows = shape.shuffled or shape.by_rows
        if held is not None and held_rows:
            X, Y = (np.concatenate([some, M]) for some, M in zip(held, (X, Y), strict=True))
        together = len(X) if by_rows else batch  # rows that are padded together
        lines, features = (len(X), shape.padded_batch[1]) if by_rows else shape.padded_batch
        times = (sizes["X"] + sizes["Y"]) / (X.size + Y.size)
        padding = words_of_padding((together, X.shape[1]), (lines, features), times)
        self.plan = "; ".join(filter(None, [self.plan, padding]))

        outputs = shape.padded_widths[-1] if shape.padded_widths else Y.shape[1]
        self._named: dict[str, Any] = {}
        for name, matrix, width in (("X", X, features), ("Y", Y, outputs)):
            stored = matrix if matrix.size == sizes[name] else in_batches(matrix, together, width, lines)
            self._named[name] = self.upload(stored, "data")
        of_weights = [sizes[name] for name in shape.parameters]
        weights = [self.malloc(size, "weights") for size in of_weights]
        self._state = [(self.malloc(sizes["M"], "optimizer"), sizes["M"])] if "M" in sizes else []
        if shape.keeps_errors:
            self._named["E"] = self.malloc(sizes["E"], "gradients")
        else:
            self._named["E"] = self.upload(np.zeros(sizes["E"], dtype=np.float32), "gradients")
        self._named["S"] = self.upload(shape.workspace(sizes["S"], its, steps), "workspace")
        state = [buffer for buffer, _ in self._state]
        further: list[Any] = []
        if self.watches:
            numbers = self.host((sizes["T"],), "workspace")
            self._training.telemetry = Telemetry(numbers.view(np.float64), self._members)
            self._best = self.malloc(sizes["B"], "weights")
            further = [self._best, self.backend.shared_buffer(numbers)]
        own = (*map(self._named.get, "XY"), *weights, *state, *map(self._named.get, "ES"))
        self._operands = *own, *further
        self._weights = [
            (buffer, self.host((size,), "weights")) for buffer, size in zip(weights, of_weights, strict=True)
        ]
        self._views = self._views_of_parameters()
        of_errors = self._members * (rows if shape.keeps_errors else shape.padded_batch[0])
        start = rows - self._last if shape.keeps_errors and self._members == 1 else 0
        self._last_start = rows - self._last if shape.keeps_errors and self._members > 1 else 0  # of a member
        of_row = sizes["E"] // of_errors
        self._host_errors = self.host((of_errors, of_row), "gradients")
        self._last_errors = self._host_errors[start:]
        self._last_E = self.backend.part(self._named["E"], 4 * start * of_row, self._last_errors.nbytes)

    def _views_of_parameters(self) -> list[np.ndarray]:
        """The padded parameters of each network in the host's arrays; those on the device get their names."""
        views: list[np.ndarray] = []
        remaining, at = list(self._weights), 0
        for parameter in self.network.parameters * self._members:
            (buffer, flat), size = remaining[0], prod(parameter.shape)
            views.append(flat[at : at + size].reshape(parameter.shape))
            self._named[parameter.name] = self.backend.part(buffer, 4 * at, 4 * size)
            at += size
            if at == flat.size:
                remaining, at = remaining[1:], 0
        return views

    def load(self, weights: list[np.ndarray]) -> None:
        given = weights * self._members if len(weights) == len(self._shapes) else weights
        for _, flat in self._weights:
            flat.fill(0)
        for view, W in zip(self._views, given, strict=True):
            view[tuple(map(slice, W.shape))] = W
        for buffer, flat in self._weights:
            self.backend.copy_in(buffer, flat, self._stream)
        for buffer, size in self._state:
            self.backend.launch("zero", (buffer,), (size,), self._stream)
        self.backend.stream_synchronize(self._stream)
        self._training.restart()
        self._rows = 0

    def epoch(self) -> None:
        self.train(1)

    def train(self, epochs: int) -> None:
        self._training.train(epochs, self._operands, self._stream, self.progress)
        self._rows = self._last

    def watch(self, epochs: int, patience: int | None, report: EpochReport) -> list[Watched]:
        telemetry, reported = self._training.telemetry, 0
        if telemetry is None:
            return super().watch(epochs, patience, report)

        def look() -> None:
            nonlocal reported
            ended = telemetry.ended
            if ended.max() > reported:
                reported = int(ended.max())
                last = [telemetry.epochs(i, count)[-1, :2] for i, count in enumerate(ended) if count]
                report(reported, *map(float, np.mean(last, axis=0)))

        self._training.watch(epochs, patience or 0, self._operands, self._stream, look)
        self._rows = self._last
        look()
        best, count = self._read_weights([self._best]) if patience else [], len(self._shapes)
        found = []
        for member, ended in enumerate(telemetry.ended):
            losses, held_out, of_training, of_rest = telemetry.epochs(member, ended).T
            has_best = patience is not None and bool(np.isfinite(held_out).any())
            kept = best[member * count : (member + 1) * count] if has_best else None
            found.append(Watched(losses, held_out, of_training, of_rest, kept))
        return found

    def check_trained(self) -> None:
        self._training.check(self._named["S"])

    def loss(self) -> float:
        return fmean(self.losses())

    def losses(self) -> list[float]:
        if not self._rows:
            return [float("nan")] * self._members
        self.backend.copy_out(self._last_errors, self._last_E, self._stream)
        self.backend.stream_synchronize(self._stream)
        of_members = np.split(self._last_errors, self._members)
        last = slice(self._last_start, self._last_start + self._last)
        return [self.network.loss.value(errors[last]) for errors in of_members]

    def epoch_losses(self) -> np.ndarray:
        if self._describe is perceptron_shape:
            raise Unsupported("one-launch training keeps the loss of its last batch only")
        if self._members == 1:
            return super().epoch_losses()
        self.losses()
        of_members = np.split(self._last_errors, self._members)
        return np.mean([self.losses_of_batches(errors) for errors in of_members], axis=0)

    def predict(self, X: np.ndarray) -> np.ndarray:
        if self._describe is perceptron_shape:
            raise Unsupported("one-launch kernels only train: they cannot predict")
        features = prod(self.network.inputs)
        if X.shape[1] == features and self._outputs == self.network.outputs:
            return super().predict(X)
        larger = np.zeros((len(X), features), dtype=np.float32)
        larger[:, : X.shape[1]] = X
        return super().predict(larger)[:, : self._outputs].copy()

    def weights(self) -> list[np.ndarray]:
        return self._read_weights([buffer for buffer, _ in self._weights])

    def _read_weights(self, buffers: Sequence[Any]) -> list[np.ndarray]:
        for buffer, (_, flat) in zip(buffers, self._weights, strict=True):
            self.backend.copy_out(flat, buffer, self._stream)
        self.backend.stream_synchronize(self._stream)
        shapes = self._shapes * self._members
        return [
            view[tuple(map(slice, shape))].copy() for view, shape in zip(self._views, shapes, strict=True)
        ]


def _widened(network: Network, widths: tuple[int, ...]) -> Network:
    """The network with these features and widths of linear layers; as it is if there are none."""
    if not widths:
        return network
    remaining = iter(widths[1:])
    layers = (
        replace(one, width=next(remaining)) if isinstance(one, Linear) else one for one in network.layers
    )
    return replace(network, inputs=widths[:1], layers=tuple(layers))


def words_of_padding(of_batch: tuple[int, int], stored: tuple[int, int], times: float) -> str:
    """Plan text for data whose batches or rows are stored as larger ones; "" if they are not.

    ``times``: the memory that all data take, relative to the data themselves.
    """
    if of_batch == stored:
        return ""
    (rows, features), (lines, width) = of_batch, stored
    padded_to = f"rows of {features} numbers padded to {width}"
    if rows != lines:
        padded_to = f"batches of {rows} x {features} padded to {lines} x {width}"
    return f"{padded_to}: data take {times:.2f} times their memory"


def in_batches(matrix: np.ndarray, batch: int, width: int, lines: int) -> np.ndarray:
    """The matrix as an array (batches, lines, width), with rows and columns padded by zeros."""
    batches = -(-len(matrix) // batch)
    result = np.zeros((batches, lines, width), dtype=np.float32)
    for i in range(batches):
        rows = matrix[i * batch : (i + 1) * batch]
        result[i, : len(rows), : rows.shape[1]] = rows
    return result


def _shapes_for(network: Network, backend: Backend) -> tuple[Describe, ...]:
    """Functions that may describe the network's shape, in order of preference."""
    linear = all(isinstance(layer, (Linear, *ACTIVATIONS.values())) for layer in network.layers)
    if not linear:
        return (convolutional_shape,)
    first = (perceptron_shape,) if network.widths is not None and network.outputs == 1 else ()
    return *first, *(() if backend.is_processor else (whole_shape,)), layered_shape


def _delegated(name: str) -> Callable[..., Any]:
    """A method that calls the training strategy's method of this name."""
    return lambda self, *arguments: getattr(self._strategy, name)(*arguments)


class Persistent(Strategy):
    """Training by one kernel launch per run, or by ``graph`` if no kernel fits the network.

    ``setup`` allocates everything, copies the padded data in and compiles the kernel for exactly this
    network. A run is one launch, which the protocol waits for; its loop has no allocation, copy or launch.
    A run that takes longer than about 0.7 s is several, each of at most about 0.7 s, between which the
    host waits (``LaunchedTraining``). With three hidden layers it also reads after each launch whether the
    kernel has stopped. If losses of epochs are kept, or rows are held out, the kernel that holds the whole
    network computes them and decides when to stop (``watch``); others train one epoch per launch.

    The backend chooses the kernel: for a perceptron one cluster of blocks or the whole device, for other
    small stacks of linear layers a cluster whose blocks hold the whole network, for wider ones the kernel
    that deals tiles to blocks, for a convolutional network a block for each part of an image. If no kernel
    fits the network, if its buffers do not fit, or if the driver rejects the launch, ``graph`` trains
    instead, and ``plan`` says why.
    """

    by_epoch = at_once = any_network = any_optimizer = shuffles = True
    any_schedule = True

    fallback: type[Strategy] | None = Graph
    """The strategy that trains if no launch can; None: ``setup`` raises Unsupported or OutOfMemory."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._strategy: Strategy = OneLaunch(backend)

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        reasons: list[str] = []
        failure: type[SnnError] = Unsupported
        for describe in _shapes_for(network, self.backend):
            self._strategy = OneLaunch(self.backend, describe)
            self._strategy.validation, self._strategy.keeps_losses = self.validation, self.keeps_losses
            try:
                self._strategy.check_network(network)
                self._strategy.setup(network, X, Y, batch_size, rate)
            except (Unsupported, OutOfMemory) as error:
                planned, failure = self._strategy.plan, type(error)
                reason = f"{planned}: {error}" if planned else str(error)
                reasons += [one for one in [reason] if one not in reasons]
                self._strategy.close()
                if planned or failure is OutOfMemory:
                    break  # the planned launch failed, and so would the next
            else:
                self.plan = "; ".join([str(self._strategy.plan), *reasons])
                self.launch, self.watches = self._strategy.launch, self._strategy.watches
                return
        if self.fallback is None:
            raise failure("; ".join(reasons))
        self._strategy, self.plan = self.fallback(self.backend), f"graph: {'; '.join(reasons)}"
        self._strategy.keeps_losses, self._strategy.validation = self.keeps_losses, self.validation
        try:
            self._strategy.setup(network, X, Y, batch_size, rate)
        except Unsupported as error:
            raise Unsupported(f"{error}; no launch trains instead: {'; '.join(reasons)}") from error

    def train(self, epochs: int) -> None:
        self._strategy.progress = self.progress
        self._strategy.train(epochs)

    load, epoch, check_trained = _delegated("load"), _delegated("epoch"), _delegated("check_trained")
    loss, epoch_losses, predict = _delegated("loss"), _delegated("epoch_losses"), _delegated("predict")
    weights, close = _delegated("weights"), _delegated("close")
    validation_loss, watch = _delegated("validation_loss"), _delegated("watch")


class OneByOne(Strategy):
    """Training of members one after the other, each as by ``resident``: on a processor, whatever they train.

    Members that train on the same rows share X and Y.
    """

    by_epoch = at_once = any_network = any_optimizer = any_schedule = shuffles = watches = True

    def __init__(self, backend: Backend, members: Sequence[Member], folds: int) -> None:
        super().__init__(backend)
        self._members, self._folds = members, folds
        self._each: list[Resident] = []
        many = f", {len(members)} networks one after the other" if len(members) > 1 else ""
        self.plan = f"NumPy, all epochs in one call{many}"

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        data: dict[Any, tuple[np.ndarray, np.ndarray]] = {}
        uploaded: dict[int, Any] = {}
        for member in self._members:
            rows = member.rows(len(X), self._folds)
            taken = (X, Y) if rows is None else (X[rows], Y[rows])
            x, y = data.setdefault((member.fold, member.bootstrap), taken)
            one = _Sharing(self.backend, uploaded)
            one.keeps_losses, one.validation = self.keeps_losses, self.validation
            self._each.append(one)
            of_member = on_rows(member.network(network), len(X), len(x), batch_size)
            one.setup(of_member, x, y, min(batch_size, len(x)), member.learning_rate)

    def load(self, weights: list[np.ndarray]) -> None:
        count = len(weights) // len(self._each)
        for i, one in enumerate(self._each):
            one.load(weights[i * count : (i + 1) * count])

    def epoch(self) -> None:
        self.train(1)

    def train(self, epochs: int) -> None:
        began = time.perf_counter()
        for i, one in enumerate(self._each):
            if i:
                self.progress(epochs * i / len(self._each), epochs, time.perf_counter() - began)
            one.train(epochs)

    def watch(self, epochs: int, patience: int | None, report: EpochReport) -> list[Watched]:
        return [watched for one in self._each for watched in one.watch(epochs, patience, report)]

    def loss(self) -> float:
        return fmean(self.losses())

    def losses(self) -> list[float]:
        return [one.loss() for one in self._each]

    def epoch_losses(self) -> np.ndarray:
        return np.mean([one.epoch_losses() for one in self._each], axis=0)

    def predict(self, X: np.ndarray) -> np.ndarray:
        raise Unsupported("several networks have no common outputs")

    def weights(self) -> list[np.ndarray]:
        return [W for one in self._each for W in one.weights()]

    def close(self) -> None:
        while self._each:
            self._each.pop().close()


class _Sharing(Resident):
    """``resident`` on data that another may have uploaded: by ``id`` of the matrix, in ``uploaded``."""

    def __init__(self, backend: Backend, uploaded: dict[int, Any]) -> None:
        super().__init__(backend)
        self._uploaded = uploaded

    def upload(self, matrix: np.ndarray, purpose: str) -> Any:
        if id(matrix) not in self._uploaded:
            self._uploaded[id(matrix)] = super().upload(matrix, purpose)
        return self._uploaded[id(matrix)]


class Ensemble(SideBySide):
    """Training of many members in one launch.

    All members share the data on the device; each has what ``MemberArrays`` has. A run is one launch of all
    members, or several (``LaunchedTraining``). If members have one hidden layer and differ in weights and
    learning rates alone, each is trained in a block or, by the kernel of ``persistent``, in a cluster; others
    by the kernel whose blocks hold whole networks. A member has fewer blocks than a single network would get
    if that finishes all members sooner. Members that do not fit on the device at the same time follow in the
    same launch when others have finished. If no kernel trains the network (it is too large, say), ``setup``
    raises Unsupported with the reasons. A member whose patience has ended frees its blocks for others.
    On a CPU, NumPy trains the members one after the other, whatever they train.
    """

    by_epoch = at_once = any_network = any_optimizer = any_schedule = shuffles = True

    def check_validation(self) -> None:
        """Accept rows held out: ``setup`` chooses what computes their loss."""

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        members, reasons = self.described(network, rate), list[str]()
        self._count = len(members)
        for describe in (perceptron_shape,) if self.backend.is_processor else (perceptron_shape, whole_shape):
            launch = OneLaunch(self.backend, describe)
            launch.of_members = arrays_of(members, network, len(X), self._folds)
            self._strategy: Strategy = launch
            launch.keeps_losses, launch.validation = self.keeps_losses, self.validation
            try:
                launch.check_network(network)
                launch.setup(network, X, Y, batch_size, rate)
            except Unsupported as error:
                reasons += [one for one in [str(error)] if one not in reasons]
                launch.close()
            else:
                self.plan, self.launch = "; ".join([str(launch.plan), *reasons]), launch.launch
                self.watches = launch.watches
                return
        if not self.backend.is_processor:
            raise Unsupported("; ".join(reasons))
        self._strategy = OneByOne(self.backend, members, self._folds)
        self._strategy.check_network(network)
        self._strategy.keeps_losses, self._strategy.validation = self.keeps_losses, self.validation
        self._strategy.setup(network, X, Y, batch_size, rate)
        self.plan, self.launch, self.watches = self._strategy.plan, None, True

    def load(self, weights: list[np.ndarray]) -> None:
        self._strategy.load([W for own in self.each(weights, self._count) for W in own])

    def train(self, epochs: int) -> None:
        self._strategy.progress = self.progress
        self._strategy.train(epochs)

    epoch, check_trained, losses = _delegated("epoch"), _delegated("check_trained"), _delegated("losses")
    loss, epoch_losses, predict = _delegated("loss"), _delegated("epoch_losses"), _delegated("predict")
    weights, watch = _delegated("weights"), _delegated("watch")

    def close(self) -> None:
        if hasattr(self, "_strategy"):
            self._strategy.close()
