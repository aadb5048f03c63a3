"""One network on several devices: each trains on a share of every batch's rows."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.models.layers import BatchNorm
from snn.models.network import Network
from snn.models.step import Step
from snn.models.training_step import Sum, share_step
from snn.strategies.base import Strategy
from snn.strategies.device_driven import Resident


class _Part(NamedTuple):
    """Launches of a step, and the gradients that are then summed over all devices: a buffer, its bytes."""

    launches: Sequence[Any]
    summed: tuple[Any, int] | None


class Share(Resident):
    """One device's rows of each batch, and its copy of the parameters. ``Batch.rows`` is over all devices."""

    def __init__(self, backend: Backend, number: int, devices: int) -> None:
        super().__init__(backend)
        self._number, self._devices = number, devices
        self._sums: dict[int, list[Sum]] = {}
        self._whole: list[int] = []
        self._places: list[tuple[int, int]] = []
        self.parts: dict[int, list[_Part]] = {}

    def rows_of(self, rows: int) -> tuple[int, int]:
        """The first row of its share of a batch of so many rows, and how many it has."""
        each, rest = divmod(rows, self._devices)
        own = each + (self._number < rest)
        return (self._number * each + min(self._number, rest) if own else 0), own

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        starts = range(0, len(X), batch_size)
        self._whole = [min(batch_size, len(X) - start) for start in starts]
        for start, rows in zip(starts, self._whole, strict=True):
            first, count = self.rows_of(rows)  # without a row it has the first, whose gradients do not count
            self._places.append((start + first, max(count, 1)))
        self._data = X, Y
        X, Y = (np.concatenate([matrix[at : at + n] for at, n in self._places]) for matrix in (X, Y))
        super().setup(network, X, Y, self._places[0][1], rate)
        del self._data
        self._batches = [
            batch._replace(rows=rows) for batch, rows in zip(self._batches, self._whole, strict=True)
        ]
        for rows, bound in self._steps.items():
            cuts = [0, *(at for at, _, _ in self._sums[rows]), len(bound)]
            summed = [(self._named[name], 4 * elements) for _, name, elements in self._sums[rows]]
            parts = (bound[start:end] for start, end in pairwise(cuts))
            self.parts[rows] = list(map(_Part, parts, [*summed, None]))

    def _upload_batches(self, X: np.ndarray, Y: np.ndarray, places: Iterable[tuple[int, int]]) -> None:
        """Copy its rows to the device; all rows if their order changes."""
        if self.network.order_seed is not None:
            (X, Y), places = self._data, self._places
        super()._upload_batches(X, Y, places)

    def _rows_of_batches(self, rows: int) -> tuple[int, ...]:
        return self._whole[0], self._whole[-1]

    def _plan(self, network: Network, rows: int, rate: float) -> list[Step]:
        backend = self.backend
        kernel = backend.fused, backend.pretransposed, backend.convolves
        step, self._sums[rows] = share_step(network, rows, *self.rows_of(rows), rate, kernel)
        return [step]

    @property
    def batches(self) -> list[Any]:
        return self._batches

    @property
    def stream(self) -> Any:
        return self._stream

    def last_errors(self) -> np.ndarray:
        """The errors of its rows of the last batch."""
        errors = self._host_errors[: self.rows_of(self._rows)[1]]
        if len(errors):
            self.backend.copy_out(errors, self._errors[-1].whole, self._stream)
            self.backend.stream_synchronize(self._stream)
        return errors

    def epoch_errors(self) -> list[np.ndarray]:
        """The errors of its rows of each batch of the last epoch."""
        errors = self._errors_of_epoch()
        starts = range(0, len(errors), self._batch)
        counts = (self.rows_of(rows)[1] for rows in self._whole)
        return [errors[at : at + count] for at, count in zip(starts, counts, strict=True)]


class DataParallel(Strategy):
    """Device-driven training of one network on several devices, as ``resident`` does it on one.

    Each device has a copy of the parameters and of the optimiser's state, and a share of the rows of every
    batch; all are in one process. A step computes each device's gradients, sums them over all devices with
    NCCL (ncclAllReduce), and updates every copy alike, so that the copies stay equal. All gradients are
    summed at once, or with ``network.update_order=sequential`` each layer's before the error passes through
    it. With ``training.shuffle=epoch`` each device has all rows and puts them in the epoch's order. The
    ledger and the map of memory show the first device, which has the most rows, without what NCCL
    allocates. On the CPU the devices are parts of the same memory, and a sum is NumPy's.
    """

    any_network = any_optimizer = any_schedule = shuffles = several_devices = True
    own_step = "data_parallel"

    def __init__(self, backend: Backend, devices: int | None = None) -> None:
        super().__init__(backend)
        self._devices = devices
        self._shares: list[Share] = []

    def check_network(self, network: Network) -> None:
        super().check_network(network)
        norm = next((layer for layer in network.layers if isinstance(layer, BatchNorm)), None)
        if norm:
            raise Unsupported(
                f"{norm.name} takes means over a whole batch, of which each device has only a share: choose "
                "layernorm"
            )

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self.network = network
        backends = [self.backend, *self.backend.others(self._devices)]
        self.plan = f"{len(backends)} devices"
        self._shares = [Share(backend, i, len(backends)) for i, backend in enumerate(backends)]
        self._shares[0].validation = self.validation
        for share in self._each():
            share.keeps_losses = self.keeps_losses
            share.setup(network, X, Y, batch_size, rate)
        self._further = {
            rows: [
                [(other.parts[rows][i].summed[0], other.stream) for other in self._shares[1:]]  # type: ignore[index]
                for i in range(len(parts) - 1)
            ]
            for rows, parts in self._shares[0].parts.items()
        }

    def _each(self) -> Iterator[Share]:
        """Every share, with its device as the current one."""
        try:
            for share in self._shares:
                share.backend.use()
                yield share
        finally:
            self.backend.use()

    def load(self, weights: list[np.ndarray]) -> None:
        for share in self._each():
            share.load(weights)

    def epoch(self) -> None:
        shares, first, further = self._shares, self._shares[0], self._further
        for share in self._each():
            share.reorder()
        for batches in zip(*(share.batches for share in shares), strict=True):
            sources = [share.begin(batch) for share, batch in zip(self._each(), batches, strict=True)]
            rows = batches[0].rows
            for i, (_, summed) in enumerate(first.parts[rows]):
                for share, taken in zip(self._each(), sources, strict=True):
                    share.run(share.parts[rows][i].launches, taken)
                if summed:
                    self.backend.all_reduce(*summed, first.stream, further[rows][i])

    def loss(self) -> float:
        errors = np.concatenate([share.last_errors() for share in self._each()])
        return self.network.loss.value(errors) if len(errors) else float("nan")

    def epoch_losses(self) -> np.ndarray:
        batches = zip(*(share.epoch_errors() for share in self._each()), strict=True)
        return np.array([self.network.loss.value(np.concatenate(errors)) for errors in batches])

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self._shares[0].predict(X)

    def validation_loss(self) -> float:
        return self._shares[0].validation_loss()

    def weights(self) -> list[np.ndarray]:
        return self._shares[0].weights()

    def close(self) -> None:
        for share in self._each():
            share.close()
        self._shares = []
