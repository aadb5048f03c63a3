"""Device-driven strategies: a step is launches on buffers that ``setup`` has allocated."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from math import prod
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import REGISTERED, Backend
from snn.backends.ops import NARROW, OPS, operand_bytes
from snn.errors import Unsupported
from snn.models.network import Network
from snn.models.optimizers import PLAIN, STEPS
from snn.models.remedies import sharing
from snn.models.row_order import Batches, copy_rows, rows_of
from snn.models.step import Launch, Step, transposed
from snn.models.storage import FP32, check_range, itemsize, unpacked, words
from snn.models.training_step import batch_steps, micro_batch, prediction_step, validation_step
from snn.strategies.base import Strategy

KERNELS = ("kernels/elementwise.cu", "kernels/layers/rows.cu")
"""Sources of all launches but the products; a cell depends on them if its strategy imports this module."""


_OF_BATCH = ("X", "Y")
"""Operands that are split among the micro-batches, as E is, too."""


class Batch(NamedTuple):
    """A batch on the device: X and Y of its micro-batches in order, and its rows."""

    operands: tuple[Any, ...]
    rows: int


Sources = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]
"""The operands of a batch, of its errors and of its step's count, which ``_Bound.own`` refers to."""


class _Errors(NamedTuple):
    """The errors E of a batch, and the part of each of its micro-batches."""

    whole: Any
    parts: tuple[Any, ...]


class _Bound(NamedTuple):
    """A launch on the device's buffers, but for those in ``own``, which differ from batch to batch.

    ``own`` has for each its place, whether it belongs to the batch (0), to its errors (1) or to the count of
    its step (2), and its number there.
    """

    op: str
    buffers: tuple[Any, ...]
    numbers: tuple[float, ...]
    own: tuple[tuple[int, int, int], ...]


class DeviceDriven(Strategy):
    """Parameters, activations and gradients live on the device, allocated once; one stream does all work.

    A step is the list of launches that ``training_step`` computes from the network's layers. In
    ``epoch``, a strategy supplies the batches and calls ``step`` for each. The backend's kernel determines
    the list: whether it is fused, and whether W^T is kept as well as W (``pretransposed``). With
    ``keeps_losses`` every batch of an epoch has its own part of the errors E.

    With any optimiser but plain gradient descent, the parameters lie in one buffer, and so do their gradients
    and each kind of state, so that one launch updates several. The first step of an epoch counts all of its
    steps.

    With micro-batches, each buffer holds one micro-batch, except for the data, E and the gradients of the
    parameters. The buffers of layers that are computed again share memory.
    """

    any_network = any_optimizer = any_schedule = remedies = shuffles = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._stream: Any = None
        self._buffers: list[Any] = []
        self._host: list[np.ndarray] = []
        self._rows = self._trained = 0
        self._wholes: list[tuple[Any, int]] = []
        self._counts, self._counts_size = None, 0
        self._counting: tuple[float, ...] = ()
        self._predictions: dict[int, tuple[list[_Bound], Any]] = {}

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self.network = network
        check_range(X, network.storage)
        self.backend.store(network.storage)
        self._stream = self.backend.stream_create()
        batch = self._batch = min(batch_size, len(X))
        self._micro = min(batch, micro_batch(network, batch_size))
        self._row_bytes = itemsize(network.storage) * X.shape[1], 4 * Y.shape[1]
        steps = {rows: self._plan(network, rows, rate) for rows in self._rows_of_batches(len(X))}
        of_row = network.loss.errors(network.outputs)
        rows_of_errors = len(X) if self.keeps_losses else batch
        self._allocate([step for of_batch in steps.values() for step in of_batch], rows_of_errors * of_row)
        self._errors = self._parts_of_errors(rows_of_errors, 4 * of_row)
        self._counted = self._parts_of_counts(-(-len(X) // batch))
        self._steps = {
            rows: [self._bind(launch, part) for part, step in enumerate(of_batch) for launch in step.launches]
            for rows, of_batch in steps.items()
        }
        self._host_parameters = [self.host(shape, "weights") for shape in network.shapes]
        self._host_errors = self.host((rows_of_errors, of_row), "gradients")

    def malloc(self, elements: int, purpose: str) -> Any:
        """Device memory for this many float32, until ``close``."""
        buffer = self.backend.malloc(4 * elements, purpose)
        self._buffers.append(buffer)
        return buffer

    def host(self, shape: tuple[int, ...], purpose: str, page_locked: bool | str = True) -> np.ndarray:
        """A host array, until ``close``."""
        array = self.backend.host_alloc(shape, purpose, page_locked)
        self._host.append(array)
        return array

    def upload(self, matrix: np.ndarray, purpose: str) -> Any:
        """A matrix copied to the device, until ``close``; the pinned array it is copied from is freed."""
        buffer, staged = self.malloc(matrix.size, purpose), self.backend.host_alloc(matrix.shape, purpose)
        try:
            staged[...] = matrix
            self.backend.copy_in(buffer, staged)
        finally:
            self.backend.host_free(staged)
        return buffer

    def load(self, weights: list[np.ndarray]) -> None:
        other_state = (
            (self._named[name], n) for name, n in self.network.state.items() if name in self._other
        )
        for buffer, elements in (*self._wholes, *other_state):
            self.backend.launch("zero", (buffer,), (elements,), self._stream)
        for parameter, host, fresh in zip(
            self.network.parameters, self._host_parameters, weights, strict=True
        ):
            host[...] = fresh
            W = self._named[parameter.name]
            self.backend.copy_in(W, host, self._stream)
            if transposed(parameter.name) in self._named:
                W_T = self._named[transposed(parameter.name)]
                self.backend.launch("transpose", (W, W_T), fresh.shape, self._stream)
        if self._counts is not None:
            self.backend.launch("start_steps", (self._counts,), (self._counts_size,), self._stream)
        self.backend.stream_synchronize(self._stream)
        self._rows = self._trained = 0

    def loss(self) -> float:
        if not self._rows:
            return float("nan")
        errors = self._host_errors[: self._rows]
        self.backend.copy_out(errors, self._errors[-1].whole, self._stream)
        self.backend.stream_synchronize(self._stream)
        return self.network.loss.value(errors)

    def epoch_losses(self) -> np.ndarray:
        return self.losses_of_batches(self._errors_of_epoch())

    def _errors_of_epoch(self) -> np.ndarray:
        self.backend.copy_out(self._host_errors, self._named["E"], self._stream)
        self.backend.stream_synchronize(self._stream)
        return self._host_errors

    def losses_of_batches(self, errors: np.ndarray) -> np.ndarray:
        """The loss of each batch from the errors E of an epoch, (rows, numbers of a row)."""
        whole, values = len(errors) // self._batch * self._batch, self.network.loss.values
        found = values(errors[:whole].reshape(whole // self._batch, -1))
        return np.append(found, values(errors[whole:].reshape(1, -1))) if whole < len(errors) else found

    def predict(self, X: np.ndarray) -> np.ndarray:
        outputs = np.empty((len(X), self.network.outputs), np.float32)
        for start in range(0, len(X), self._micro):
            some = X[start : start + self._micro]
            launches, result = self._prediction(len(some))
            held = words(some, self.network.storage)  # until it has been copied
            self.backend.copy_in(self._named["predicted X"], held, self._stream)
            for op, buffers, numbers, _ in launches:
                self.backend.launch(op, buffers, numbers, self._stream)
            self._read(outputs[start : start + len(some)], result)
        self.backend.stream_synchronize(self._stream)
        return outputs

    def _read(self, outputs: np.ndarray, buffer: Any) -> None:
        """Copy activations from the device."""
        if self.network.storage == FP32:
            self.backend.copy_out(outputs, buffer, self._stream)
            return
        held = np.empty(-(-outputs.size // 2), np.float32)
        self.backend.copy_out(held, buffer, self._stream)
        self.backend.stream_synchronize(self._stream)
        values = unpacked(held.view(np.uint16)[: outputs.size], self.network.storage)
        outputs[...] = values.reshape(outputs.shape)

    def weights(self) -> list[np.ndarray]:
        for parameter, host in zip(self.network.parameters, self._host_parameters, strict=True):
            self.backend.copy_out(host, self._named[parameter.name], self._stream)
        self.backend.stream_synchronize(self._stream)
        return [host.copy() for host in self._host_parameters]

    def close(self) -> None:
        if self._stream is not None:
            self.backend.stream_synchronize(self._stream)
            self.backend.stream_destroy(self._stream)
            self._stream = None
        self._wholes = []
        while self._buffers:
            self.backend.free(self._buffers.pop())
        while self._host:
            self.backend.host_free(self._host.pop())
        self.backend.store(FP32)

    def batch(self, X: Any, Y: Any, rows: int) -> Batch:
        """The batch of ``rows`` rows in these buffers; fewer at the end of an epoch."""
        starts, part = range(0, rows, self._micro), self.backend.part
        if len(starts) == 1:
            return Batch((X, Y), rows)
        parts = (
            part(buffer, start * row_bytes, min(self._micro, rows - start) * row_bytes)
            for start in starts
            for buffer, row_bytes in zip((X, Y), self._row_bytes, strict=True)
        )
        return Batch(tuple(parts), rows)

    def step(self, batch: Batch) -> None:
        """Forward, loss, backward and update on one batch: equations (1) to (4) of the paper."""
        self.run(self._steps[batch.rows], self.begin(batch))

    def begin(self, batch: Batch) -> Sources:
        """Count a step on a batch; returns what its launches take from it."""
        operands, rows = batch
        number = self._trained
        self._trained, self._rows = (number + 1) % len(self._counted), rows
        if self._counting and number % self._counting[0] == 0:
            self.backend.launch("count_step", (self._counts,), self._counting, self._stream)
        return operands, self._errors[number % len(self._errors)].parts, self._counted[number : number + 1]

    def run(self, launches: Sequence[_Bound], sources: Sources) -> None:
        """Launch a step, or a part of it."""
        launch, stream = self.backend.launch, self._stream
        for op, buffers, numbers, own in launches:
            if own:
                filled = list(buffers)
                for place, source, number in own:
                    filled[place] = sources[source][number]
                buffers = tuple(filled)
            launch(op, buffers, numbers, stream)

    def _rows_of_batches(self, rows: int) -> tuple[int, ...]:
        """The rows of a batch, and of the last one."""
        return self._batch, rows % self._batch or self._batch

    def _plan(self, network: Network, rows: int, rate: float) -> list[Step]:
        kernel = self.backend.fused, self.backend.pretransposed, self.backend.convolves
        return batch_steps(network, rows, self._micro, rate, *kernel)

    def _prediction(self, rows: int) -> tuple[list[_Bound], Any]:
        """The launches of a forward pass, and the buffer of its outputs; allocated at the first use."""
        if rows not in self._predictions:
            step, result = prediction_step(self.network, rows, self.backend.fused, self.backend.convolves)
            renamed = [
                launch._replace(
                    operands=tuple("predicted X" if name == "X" else name for name in launch.operands)
                )
                for launch in step.launches
            ]
            step.launches, step.purposes["predicted X"] = renamed, "data"
            self._allocate_for(step, rows, self._named)
            self._predictions[rows] = [self._bind(launch) for launch in step.launches], self._named[result]
        return self._predictions[rows]

    def _parts_of_errors(self, rows: int, row_bytes: int) -> list[_Errors]:
        """The part of E of each batch."""

        def part(start: int, count: int) -> Any:
            return self.backend.part(self._named["E"], start * row_bytes, count * row_bytes)

        found = []
        for start in range(0, rows, self._batch):
            count = min(self._batch, rows - start)
            micro = range(0, count, self._micro)
            whole = part(start, count)
            parts = (
                [part(start + i, min(self._micro, count - i)) for i in micro] if len(micro) > 1 else [whole]
            )
            found.append(_Errors(whole, tuple(parts)))
        return found

    def _parts_of_counts(self, steps: int) -> list[Any]:
        """Numbers of each step of an epoch that updates read; the same ones if only clipping needs them."""
        optimizer = self.network.optimizer
        if optimizer == PLAIN:
            return [None] * steps
        counted = steps if optimizer.counts and optimizer.clip_norm is None else 1
        size = self.network.state[STEPS]
        self._counts_size = size * counted
        self._counts = self.malloc(self._counts_size, "optimizer")
        if optimizer.counts:
            self._counting = optimizer.counting(counted, self.network.run_steps)
        parts = [self.backend.part(self._counts, 4 * size * i, 4 * size) for i in range(counted)]
        return parts * (steps // counted)

    def _place(self, steps: Sequence[Step]) -> dict[str, Any]:
        """Parameters, their gradients and the optimiser's state, each kind in one buffer."""
        places, named = dict(steps[0].places), {}
        total = max((sum(place) for place in places.values()), default=0)
        for step in steps:
            places |= step.runs
        kinds = {"{}": "weights", "d{}": "gradients"}
        kinds |= {f"{{}} {one}": "optimizer" for one in self.network.optimizer.state}
        used = {name for step in steps for launch in step.launches for name in launch.operands}
        for kind, purpose in kinds.items() if places else ():
            if not used & {kind.format(name) for name in places}:
                continue  # gradients that no launch writes
            whole = self.malloc(total, purpose)
            self._wholes.append((whole, total))
            for name, (start, elements) in places.items():
                named[kind.format(name)] = self.backend.part(whole, 4 * start, 4 * elements)
        return named

    def _allocate(self, steps: Sequence[Step], errors: int) -> None:
        """The network's parameters and every buffer that the launches of these steps name.

        ``errors``: the elements of E.
        """
        sizes = {parameter.name: prod(parameter.shape) for parameter in self.network.parameters}
        purposes = dict.fromkeys(sizes, "weights")
        for step in steps:
            purposes |= step.purposes
        for name, size in self._sizes(steps).items():
            sizes[name] = max(sizes.get(name, 0), size, errors if name == "E" else 0)
        using = [*steps]
        if transient := set[str]().union(*(step.transient for step in steps)):
            # A prediction drops no elements: it has no launch between two layers that a dropout separates.
            how = self.backend.fused, self.backend.convolves
            predicting, _ = prediction_step(self.network, self._micro, *how)
            predicting.transient = transient & predicting.purposes.keys()
            using.append(predicting)
        together = {group[0]: group for group in sharing(using, sizes)}
        shared = {name for group in together.values() for name in group[1:]}
        self._named: dict[str, Any] = self._place(steps)
        self._other = self.network.state.keys() - self._named.keys() - {STEPS}
        for name, size in sizes.items():
            if name not in ("X", "Y", STEPS, *self._named) and name not in shared:
                buffer = self.malloc(size, purposes[name])
                self._named |= dict.fromkeys(together.get(name, [name]), buffer)

    def _allocate_for(self, step: Step, rows: int, known: Collection[str]) -> None:
        """The buffers of a step on ``rows`` rows that are not known, for a micro-batch."""
        for name, size in self._sizes([step]).items():
            if name not in known:
                self._named[name] = self.malloc(-(-size * self._micro // rows), step.purposes[name])

    def _sizes(self, steps: Sequence[Step]) -> dict[str, int]:
        """The most float32 words that a launch of these steps has in each buffer.

        Raises Unsupported for an operation that computes in float32 from what is held in 16 bits.
        """
        sizes: dict[str, int] = {}
        storage, is_narrow = self.network.storage, dict[str, bool]()
        for op, operands, numbers, label in (launch for step in steps for launch in step.launches):
            sized = zip(OPS[op].operands, operands, operand_bytes(op, numbers, storage), strict=True)
            for operand, name, nbytes in sized:
                sizes[name] = max(sizes.get(name, 0), -(-nbytes // 4))
                narrow = operand in NARROW.get(op, ())
                if is_narrow.setdefault(name, narrow) != narrow and storage != FP32:
                    raise Unsupported(
                        f"training.storage={storage} is not supported by {op} ({label}), whose operands are "
                        "float32: choose training.storage=fp32"
                    )
        return sizes

    def _bind(self, launch: Launch, part: int = 0) -> _Bound:
        """The launch of a batch's micro-batch of this number."""
        number = {"E": (1, part), STEPS: (2, 0)} | {
            name: (0, len(_OF_BATCH) * part + i) for i, name in enumerate(_OF_BATCH)
        }
        buffers = tuple(self._named.get(name) for name in launch.operands)
        own = ((i, *number[name]) for i, name in enumerate(launch.operands) if name in number)
        return _Bound(launch.op, buffers, launch.numbers, tuple(own))


# ---- the strategies


class Resident(DeviceDriven):
    """Device-driven training with the data on the device.

    ``setup`` allocates everything and copies the data in. Per step there are only launches on one stream:
    nothing is allocated, copied or waited for, and the host may run ahead of the device. With
    ``training.shuffle=epoch`` two launches at the beginning of an epoch compute the order of the rows and
    copy them to a second buffer in this order; the device counts the epochs. With ``training.validation``
    the rows held out are on the device, too: for each of their batches a forward pass and a loss are
    launched, and the losses are copied out.
    """

    any_storage = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._batches: list[Batch] = []
        self._reordering: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = []
        self._validating: list[tuple[str, tuple[Any, ...], tuple[float, ...]]] = []

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        starts = range(0, len(X), batch_size)
        self._upload_batches(X, Y, [(start, min(batch_size, len(X) - start)) for start in starts])
        if self.validation is not None:
            self._hold_out(*self.validation)

    def _upload_batches(self, X: np.ndarray, Y: np.ndarray, places: Iterable[tuple[int, int]]) -> None:
        """Copy the data to the device, for batches at these places: a first row, and how many rows."""
        network = self.network
        uploaded = self.upload(words(X, network.storage), "data"), self.upload(Y, "data")
        if network.order_seed is not None:
            uploaded = self._reordered(uploaded, X, Y, network.order_seed)
        for start, rows in places:
            x, y = (
                self.backend.part(buffer, start * row_bytes, rows * row_bytes)
                for buffer, row_bytes in zip(uploaded, self._row_bytes, strict=True)
            )
            self._batches.append(self.batch(x, y, rows))

    def _hold_out(self, X: np.ndarray, Y: np.ndarray) -> None:
        """Copy rows to the device, and list the launches that compute their losses."""
        of_row = self.network.loss.errors(self.network.outputs)
        self._losses_held_out = self.malloc(len(X) * of_row, "gradients")
        self._host_losses = self.host((len(X), of_row), "gradients")
        uploaded = self.upload(words(X, self.network.storage), "data"), self.upload(Y, "data")
        buffers, row_bytes = (*uploaded, self._losses_held_out), (*self._row_bytes, 4 * of_row)
        for start in range(0, len(X), self._micro):
            rows = min(self._micro, len(X) - start)
            step = validation_step(self.network, rows, self.backend.fused, self.backend.convolves)
            self._allocate_for(step, rows, (*self._named, *_OF_BATCH))
            parts = (
                self.backend.part(buffer, start * nbytes, rows * nbytes)
                for buffer, nbytes in zip(buffers, row_bytes, strict=True)
            )
            named = self._named | dict(zip((*_OF_BATCH, "E"), parts, strict=True))
            self._validating += [
                (op, tuple(named[name] for name in operands), numbers)
                for op, operands, numbers, _ in step.launches
            ]

    def validation_loss(self) -> float:
        self.validate()
        self.backend.copy_out(self._host_losses, self._losses_held_out, self._stream)
        self.backend.stream_synchronize(self._stream)
        return self.network.loss.value(self._host_losses.astype(np.float64))

    def validate(self) -> None:
        """Launch the computation of the losses of rows that are held out."""
        for op, buffers, numbers in self._validating:
            self.backend.launch(op, buffers, numbers, self._stream)

    def _reordered(self, data: tuple[Any, Any], X: np.ndarray, Y: np.ndarray, seed: int) -> tuple[Any, Any]:
        """Buffers for the rows of X and Y in an epoch's order, which launches before the epoch fill."""
        taken = self.malloc(words(X, self.network.storage).size, "data"), self.malloc(Y.size, "data")
        order, self._epochs = self.malloc(len(X), "workspace"), self.malloc(1, "workspace")
        self._no_epochs = self.host((1,), "workspace")
        self._no_epochs[...] = 0
        self._reordering = [
            ("row_order", (self._epochs, order), (len(X), seed)),
            ("take_rows", (order, *data, *taken, self._epochs), (len(X), X.shape[1], Y.shape[1])),
        ]
        return taken

    def load(self, weights: list[np.ndarray]) -> None:
        if self._reordering:
            self.backend.copy_in(self._epochs, self._no_epochs, self._stream)
        super().load(weights)

    def reorder(self) -> None:
        """Launch what puts the rows in the order of the next epoch."""
        for op, buffers, numbers in self._reordering:
            self.backend.launch(op, buffers, numbers, self._stream)

    def epoch(self) -> None:
        self.reorder()
        for batch in self._batches:
            self.step(batch)

    def close(self) -> None:
        self._batches, self._reordering, self._validating = [], [], []
        super().close()


class Graph(Resident):
    """Device-driven training in which a CUDA graph replays an epoch.

    ``setup`` does what ``resident`` does, trains one epoch so that every kernel is loaded, and captures a
    second one. Per epoch: 1 graph launch and no other call. With ``training.validation`` a second graph
    computes the losses of the rows held out.
    """

    by_epoch = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._graph: Any = None
        self._graph_of_validation: Any = None
        self.counter: Any = None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        self.load([np.zeros(shape, dtype=np.float32) for shape in network.shapes])
        super().epoch()
        self._graph = self._captured(super().epoch, self.counter)
        self._last_rows = self._rows
        if self.validation is not None:
            super().validate()
            self._graph_of_validation = self._captured(super().validate)

    def _captured(self, work: Callable[[], None], counter: Any = None) -> Any:
        """The graph of what some work queues on the stream; it repeats itself if there is a counter."""
        self.backend.graph_begin(self._stream)
        try:
            work()
        except BaseException:
            # While a stream captures, nothing can be waited for or freed. What failed has made the capture
            # invalid, which ending it reports once more.
            with suppress(Exception):
                self.backend.graph_destroy(self.backend.graph_end(self._stream))
            raise
        return self.backend.graph_end(self._stream, counter)

    def epoch(self) -> None:
        self.backend.graph_launch(self._graph, self._stream)
        self._rows = self._last_rows

    def validate(self) -> None:
        self.backend.graph_launch(self._graph_of_validation, self._stream)

    def close(self) -> None:
        if self._stream is not None:
            self.backend.stream_synchronize(self._stream)
        for graph in (self._graph, self._graph_of_validation):
            if graph is not None:
                self.backend.graph_destroy(graph)
        self._graph = self._graph_of_validation = None
        super().close()


class GraphPdl(Graph):
    """The strategy ``graph`` with programmatic dependent launches: each kernel begins while one is running.

    It waits for the other's results at its start, so that only the time of a launch is hidden. Needs compute
    capability 9.0 and a driver for CUDA 12.3.
    """

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self.backend.overlap_launches(True)
        super().setup(network, X, Y, batch_size, rate)

    def close(self) -> None:
        super().close()
        self.backend.overlap_launches(False)


class GraphLoop(Graph):
    """The strategy ``graph`` with one launch for all epochs: the graph repeats itself by a conditional node.

    The device counts the epochs down. Another number of epochs than before is written to it first. Needs a
    driver for CUDA 12.4.
    """

    at_once = True

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self.counter, self._epochs_left = self.malloc(2, "workspace"), self.host((2,), "workspace")
        super().setup(network, X, Y, batch_size, rate)
        self._repeated = 0

    def prepare(self, epochs: int) -> None:
        if epochs != self._repeated:
            self.backend.stream_synchronize(self._stream)
            self._epochs_left.view(np.uint32)[:] = self._repeated = epochs
            self.backend.copy_in(self.counter, self._epochs_left)

    def train(self, epochs: int) -> None:
        if epochs:
            self.prepare(epochs)
            super().epoch()

    def epoch(self) -> None:
        self.train(1)


class _Slot(NamedTuple):
    """A pinned batch, if copies are staged, and its device buffers, with events of its last copy and use."""

    of_host: tuple[np.ndarray, ...]
    on_device: tuple[Any, Any]
    batch: Batch
    copied: Any
    used: Any


class Pipelined(DeviceDriven):
    """Device-driven training on data that may be larger than the device's memory.

    The data stays in pageable host memory. ``setup`` allocates ``buffers`` slots, each a pinned batch and a
    batch on the device, and a stream for copies.

    Per step the host waits for the last copy from the batch's slot, writes the batch to the slot, and issues
    2 asynchronous copies in. The copies wait for the step that last used the slot, and overlap the steps
    before this one. The launches of the step wait for the copies. Nothing is allocated. With
    ``training.shuffle=epoch`` the host computes an epoch's order before its first batch, and writes the
    batch's rows to the slot from wherever they are.

    With ``data`` registered, the data is in memory that ``setup`` has pinned in place (cudaHostRegister), and
    the copies read it there: the host writes and waits for nothing, and rows are in file order.
    """

    def __init__(self, backend: Backend, buffers: int = 3, data: str = "staged") -> None:
        super().__init__(backend)
        self._slot_count, self._registers = buffers, data == REGISTERED
        self._copy_stream: Any = None
        self._events: list[Any] = []
        self._slots: list[_Slot] = []
        self._data: tuple[np.ndarray, ...] = ()
        self._batches: Batches
        self._next = 0

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        self._data, self._batches = (X, Y), Batches(len(X), batch_size, network.order_seed)
        if self._registers:
            self._data = tuple(self.host(matrix.shape, "data", REGISTERED) for matrix in (X, Y))
            for held, matrix in zip(self._data, (X, Y), strict=True):
                held[...] = matrix
        self._copy_stream = self.backend.stream_create()
        batch = min(batch_size, len(X))
        for _ in range(self._slot_count):
            of_host = [
                self.host((batch, matrix.shape[1]), "data") for matrix in (X, Y) if not self._registers
            ]
            on_device = (self.malloc(batch * X.shape[1], "data"), self.malloc(batch * Y.shape[1], "data"))
            whole = self.batch(*on_device, batch)
            self._slots.append(_Slot(tuple(of_host), on_device, whole, self._event(), self._event()))

    def check_network(self, network: Network) -> None:
        super().check_network(network)
        if self._registers and network.order_seed is not None:
            raise Unsupported(
                "training.shuffle=epoch gathers the rows of a batch on the host, and with "
                "strategy.data=registered they are copied from where they are: choose strategy.data=staged"
            )

    def load(self, weights: list[np.ndarray]) -> None:
        self._batches.restart()
        super().load(weights)

    def epoch(self) -> None:
        backend = self.backend
        for rows in self._batches.epoch():
            slot = self._slots[self._next]
            self._next = (self._next + 1) % self._slot_count
            if self._registers:
                X, Y = rows_of(self._data, rows, ())
            else:
                backend.event_synchronize(slot.copied)
                X, Y = copy_rows(self._data, rows, slot.of_host)
            backend.event_wait(slot.used, self._copy_stream)
            backend.copy_in(slot.on_device[0], X, self._copy_stream)
            backend.copy_in(slot.on_device[1], Y, self._copy_stream)
            backend.event_record(slot.copied, self._copy_stream)
            backend.event_wait(slot.copied, self._stream)
            self.step(slot.batch._replace(rows=len(X)))
            backend.event_record(slot.used, self._stream)

    def close(self) -> None:
        if self._copy_stream is not None:
            self.backend.stream_synchronize(self._copy_stream)
            self.backend.stream_destroy(self._copy_stream)
            self._copy_stream = None
        if self._stream is not None:
            self.backend.stream_synchronize(self._stream)
        while self._events:
            self.backend.event_destroy(self._events.pop())
        self._slots, self._data = [], ()
        super().close()

    def _event(self) -> Any:
        event = self.backend.event_create()
        self._events.append(event)
        return event


class Synchronous(DeviceDriven):
    """Device-driven training in which the host waits for every copy, and so for every step.

    ``setup`` copies the data to pageable host memory and makes the allocations of ``DeviceDriven``, one
    batch on the device, and the losses of an epoch in pageable memory. Per step there are 2 blocking copies
    in, the launches, and 1 blocking copy out of the batch's losses, which waits until the device has finished
    the step. Nothing is allocated, and nothing of two steps overlaps. With ``training.shuffle=epoch`` the
    host computes an epoch's order, and writes each batch to a pageable one before the copies.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._data: list[np.ndarray] = []
        self._batch_of_host: list[np.ndarray] = []
        self._batches: Batches
        self._losses: list[tuple[np.ndarray, Any]] = []
        self._on_device: tuple[Any, Any]
        self._whole: Batch

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        self._data = [self.host(matrix.shape, "data", page_locked=False) for matrix in (X, Y)]
        for held, matrix in zip(self._data, (X, Y), strict=True):
            held[...] = matrix
        batch = min(batch_size, len(X))
        self._batches = Batches(len(X), batch_size, network.order_seed)
        if network.order_seed is not None:
            self._batch_of_host = [
                self.host((batch, matrix.shape[1]), "data", page_locked=False) for matrix in (X, Y)
            ]
        self._on_device = self.malloc(batch * X.shape[1], "data"), self.malloc(batch * Y.shape[1], "data")
        self._whole = self.batch(*self._on_device, batch)
        errors = self.host((len(X), network.loss.errors(network.outputs)), "gradients", page_locked=False)
        for number, start in enumerate(range(0, len(X), batch_size)):
            E = self._errors[number if self.keeps_losses else 0].whole
            self._losses.append((errors[start : start + batch_size], E))

    def load(self, weights: list[np.ndarray]) -> None:
        self._batches.restart()
        super().load(weights)

    def epoch(self) -> None:
        backend, (x, y) = self.backend, self._on_device
        for rows, (errors, E) in zip(self._batches.epoch(), self._losses, strict=True):
            X, Y = rows_of(self._data, rows, self._batch_of_host)
            backend.copy_in(x, X)
            backend.copy_in(y, Y)
            self.step(self._whole._replace(rows=len(X)))
            backend.copy_out(errors, E)

    def loss(self) -> float:
        return self.network.loss.value(self._losses[-1][0]) if self._rows else float("nan")

    def epoch_losses(self) -> np.ndarray:
        return np.array([self.network.loss.value(errors) for errors, _ in self._losses])

    def close(self) -> None:
        self._data, self._batch_of_host, self._losses = [], [], []
        super().close()
