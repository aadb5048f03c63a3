"""A peer: PyTorch training many networks side by side by batched products."""

from collections.abc import Iterator
from math import prod
from statistics import fmean
from typing import Any

import numpy as np

from snn.errors import Unsupported
from snn.models.members import MemberArrays, arrays_of, on_rows
from snn.models.network import Network
from snn.models.optimizers import Adam, AdamW, Sgd
from snn.models.row_order import MULTIPLIERS, ROUNDS, WEYL, bits_of
from snn.models.schedules import CONSTANT, factor
from snn.strategies.members import SideBySide
from snn.strategies.torch import TorchStrategy
from snn.strategies.torch_networks import OF_MEMBERS, Tensor, TorchLayers

_ALIGNED = 4
"""A parameter is padded to a multiple of so many numbers, so that products load 16 bytes at a time."""


class TorchBmm(SideBySide, TorchStrategy):
    """Training of many members by PyTorch, with one batched product (``torch.bmm``) for all of them.

    All parameters that are updated at once lie in one tensor, a row for each member, so that an update is a
    few operations. PyTorch's fused kernel computes Adam's directions, and each member's rate is then applied
    to its row. On a GPU an epoch is one replay of a CUDA graph; on the CPU each operation is called. Members
    share X and Y. With ``training.shuffle=epoch``, folds or bootstraps the device computes the rows of each
    member's batches (``snn.models.row_order``) and gathers them, in the same graph.
    """

    def release_tensors(self) -> None:
        super().release_tensors()
        self._model: Any = None
        self._updated: dict[int, _Updated] = {}
        self._order_seeds: Any = None
        self._own_rows: Any = None
        self._rates: Any = None
        self._decays: Any = None
        self._steps_done: Any = None
        self._epochs_done: Any = None

    def check_network(self, network: Network) -> None:
        super().check_network(network)
        for layer in network.layers:
            if type(layer) not in OF_MEMBERS:
                raise Unsupported(f"torch_bmm does not implement the layer {layer.name}: choose jax_vmap")

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        members = self.described(network, rate)
        self._count, own = len(members), arrays_of(members, network, len(X), self._folds)
        count = len(X) if own.rows is None else own.rows.shape[1]
        network = on_rows(network, len(X), count, batch_size)
        torch, self._batch = self.begin(network), min(batch_size, count)
        self._model = TorchLayers(torch, network, ops=OF_MEMBERS)
        with self.without_autograd():
            self._hold_data(X, Y, own)
            self._hold_parameters(network, own)
            if not self.backend.is_processor:
                self.capture()

    def _hold_data(self, X: np.ndarray, Y: np.ndarray, own: MemberArrays) -> None:
        """The data on the device, the rows that each member takes, and the batches if all take the same."""
        torch, device = self._torch, self._device
        self._data = tuple(torch.from_numpy(M).to(device, copy=True) for M in (X, Y))
        self._epochs_done = torch.zeros((), dtype=torch.int64, device=device)
        if own.order_seed is not None:
            self._order_seeds = torch.from_numpy(own.order_seed.astype(np.int64)).to(device)
        if own.rows is not None:
            self._own_rows = torch.from_numpy(own.rows.astype(np.int64)).to(device)
        count = len(X) if own.rows is None else own.rows.shape[1]
        self._sizes = [min(self._batch, count - start) for start in range(0, count, self._batch)]
        if own.order_seed is None and own.rows is None:
            targets = [
                self._model.targets(some) for some in np.split(Y, range(self._batch, count, self._batch))
            ]
            self._batches = [
                (x.expand(self._count, -1, -1), y.to(device, copy=True).expand(self._count, -1, -1))
                for x, y in zip(self._data[0].split(self._batch), targets, strict=True)
            ]
        self._totals = torch.zeros(len(self._sizes), self._count, device=device)

    def _hold_parameters(self, network: Network, own: MemberArrays) -> None:
        torch, optimizer = self._torch, network.optimizer
        self._rates, decays = (
            None if numbers is None else torch.from_numpy(numbers)[:, None].to(self._device)
            for numbers in (own.rate, own.weight_decay)
        )
        self._decays = optimizer.weight_decay if decays is None else decays
        self._steps_done = torch.zeros((), device=self._device)
        is_sequential, gradients = network.update_order == "sequential", []
        for some in network.slices if is_sequential else [slice(None)]:
            if network.shapes[some]:
                held = _Updated(torch, self._count, network, some, self._device)
                self._W += held.W
                gradients += held.gradients
                self._updated[id(held.W[0])] = held
        for op, some in zip(self._model.ops, network.slices, strict=True):
            op.into = gradients[some]

    def load(self, weights: list[np.ndarray]) -> None:
        stacked = [np.stack(of_each) for of_each in zip(*self.each(weights, self._count), strict=True)]
        with self.without_autograd():
            for W, initial in zip(self._W, stacked, strict=True):
                W.copy_(self._torch.from_numpy(initial).view(W.shape))
            states = [state for held in self._updated.values() for state in held.state]
            for tensor in (*states, self._steps_done, self._epochs_done):
                tensor.zero_()
        self._errors = None

    def all_steps(self) -> Any:
        """Train one step on each batch; returns each member's total of the last one."""
        for batch, (x, targets) in enumerate(self._batches or self._arranged()):
            rate, schedule = self._rates, self.network.optimizer.schedule
            if schedule != CONSTANT:
                numbers = schedule.numbers(self.network.run_steps)
                rate = rate * factor(self._steps_done, *numbers, self._torch)
            self._steps_done += 1

            def descend(W: list[Tensor], gradients: list[Tensor], rate: Tensor = rate) -> list[Tensor]:
                self._updated[id(W[0])].update(rate, self._decays, self._steps_done)
                return W

            errors = self._model.step(self._W, x, targets, descend)[1]
            totals = self._model.total(errors, targets)
            if self.keeps_losses:
                self._totals[batch].copy_(totals)
        return totals

    def _arranged(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of the next epoch, gathered for each member."""
        order = self._own_rows
        if self._order_seeds is not None:
            count = sum(self._sizes)
            order = _row_orders(self._torch, count, self._order_seeds, self._epochs_done)
            order = order if self._own_rows is None else self._own_rows.gather(1, order)
        self._epochs_done += 1
        for rows in order.split(self._batch, 1):
            chosen = rows.reshape(-1)
            x, y = (M.index_select(0, chosen).view(*rows.shape, -1) for M in self._data)
            yield x, self._model.scaled(y)

    def losses(self) -> list[float]:
        if self._errors is None:
            return [float("nan")] * self._count
        return self._mean(self._errors.cpu().numpy(), -1).tolist()

    def loss(self) -> float:
        return fmean(self.losses())

    def epoch_losses(self) -> np.ndarray:
        return self._mean(self._totals.mean(1).cpu().numpy(), 0)

    def predict(self, X: np.ndarray) -> np.ndarray:
        raise Unsupported("several networks have no common outputs")

    def weights(self) -> list[np.ndarray]:
        stacked = [W.cpu().numpy().reshape(-1, *s) for W, s in zip(self._W, self.network.shapes, strict=True)]
        return [W.copy() for own in zip(*stacked, strict=True) for W in own]

    def _mean(self, totals: np.ndarray, first: int) -> np.ndarray:
        return self._model.losses(totals.astype(np.float64), np.array(self._sizes[first:]))


class _Updated:
    """Parameters that are updated at once, with their gradients and state: tensors of (members, numbers).

    ``W`` and ``gradients`` are views of each parameter, (members, rows, columns).
    """

    def __init__(self, torch: Any, members: int, network: Network, some: slice, device: Any) -> None:
        self._torch, self._optimizer, self._clip_norm = torch, network.optimizer, network.clip_norm
        shapes = [shape if len(shape) == 2 else (1, *shape) for shape in network.shapes[some]]
        starts = np.cumsum([0, *(-(-prod(shape) // _ALIGNED) * _ALIGNED for shape in shapes)]).tolist()
        held = torch.zeros(2 + len(self._optimizer.state), members, starts[-1], device=device)
        self._values, self._slopes, *self.state = held.unbind()
        self.W, self.gradients = (
            [
                M[:, start : start + prod(shape)].view(members, *shape)
                for start, shape in zip(starts, shapes, strict=False)
            ]
            for M in (self._values, self._slopes)
        )

    def update(self, rate: Tensor, decay: Any, step: Tensor) -> None:
        """Update the parameters by their gradients.

        ``rate``: (members, 1). ``decay``: the same, or a number. ``step``: the number of this step, from 1.
        """
        torch, optimizer, values, slopes = self._torch, self._optimizer, self._values, self._slopes
        norm = torch.linalg.vector_norm
        if self._clip_norm is not None:
            for dW in self.gradients:
                dW.mul_((self._clip_norm / (norm(dW, dim=(1, 2), keepdim=True) + 1e-6)).clamp(max=1.0))
        if optimizer.clip_norm is not None:
            slopes.mul_((optimizer.clip_norm / (norm(slopes, dim=1, keepdim=True) + 1e-6)).clamp(max=1.0))
        if isinstance(optimizer, AdamW):
            values.mul_(1 - rate * decay)
        elif not isinstance(decay, float) or decay:
            slopes.add_(decay * values)
        if isinstance(optimizer, Adam):
            m, v = self.state
            taken = torch.zeros_like(values)  # from 0 at a rate of 1, which all members share
            of_all = {"lr": 1.0, "weight_decay": 0.0, "amsgrad": False, "maximize": False}
            own = {"beta1": optimizer.beta1, "beta2": optimizer.beta2, "eps": optimizer.eps}
            torch._fused_adam_([taken], [slopes], [m], [v], [], [step], **of_all, **own)
            values.addcmul_(taken, rate)
            return
        direction = slopes
        if isinstance(optimizer, Sgd) and optimizer.momentum:
            (direction,) = self.state
            direction.mul_(optimizer.momentum).add_(slopes)
            if optimizer.nesterov:
                direction = slopes.add_(direction, alpha=optimizer.momentum)
        values.addcmul_(direction, rate, value=-1)


def _row_orders(torch: Any, rows: int, seeds: Tensor, epoch: Tensor) -> Tensor:
    """``row_order`` of each seed for an epoch: (members, rows), int64.

    Words are int64 with a high half of 0, since PyTorch computes little with uint32. A graph cannot walk a
    cycle until it reaches a row, so each place that is not a row takes the place after it, several times:
    the steps double.
    """
    left, right = bits_of(rows)
    low = 0xFFFFFFFF
    a = torch.arange(1 << right, device=seeds.device)
    b = torch.arange(ROUNDS, device=seeds.device)[:, None]
    c, d = epoch, torch.zeros_like(epoch)
    keys = seeds[:, None, None], torch.zeros_like(epoch)
    for i in range(10):
        k0, k1 = (key + i * weyl & low for key, weyl in zip(keys, WEYL, strict=True))
        p, q = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = (q >> 32 & low) ^ b ^ k0, q & low, (p >> 32 & low) ^ d ^ k1, p & low
    F = a
    places = torch.arange(1 << left + right, device=seeds.device).expand(len(seeds), -1)
    L, R = places >> right, places & (1 << right) - 1
    for i in range(0, ROUNDS, 2):
        L = L ^ (F[:, i] & (1 << left) - 1).gather(1, R)
        R = R ^ (F[:, i + 1] & (1 << right) - 1).gather(1, L)
    order = L << right | R
    for _ in range(((1 << left + right) - rows).bit_length()):
        order = torch.where(order < rows, order, order.gather(1, order))
    return order[:, :rows]
