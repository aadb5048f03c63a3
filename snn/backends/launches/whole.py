"""Launch configurations of the kernel whose blocks hold whole networks."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from snn.backends.launches import (
    HEAD,
    UNIT,
    WARPS,
    DeviceCapability,
    LaunchConfiguration,
    Steps,
    defines,
    fitting,
    padded,
    round_up,
)
from snn.backends.launches.linear import KEEP_Z, LayeredShape, scale_of
from snn.models.members import MemberArrays
from snn.models.row_order import ROUNDS, bits_of

_SOURCE = "kernels/persistent/whole/whole.cu"
_CLUSTERS = (16, 8, 4, 2, 1)
_COST = {1: 1.0, 2: 0.92, 4: 0.79, 8: 0.72, 16: 0.72}
"""Approximate time of a step by blocks per network, over one block's; of an earlier version of the kernel."""
_NARROW = 4  # most outputs that are computed without tensor cores
_CROWDED = 1.03  # the same with fewer registers per thread, without another block on the SM (NVIDIA H200)
_MOST_KEPT = 100  # floats of gradients and state that a thread keeps in registers
_MOST_LAYERS, _MOST_OUTPUTS = 8, 64
_TILE = 128  # numbers
_EXCHANGES = "rows", "rows and X", "gradients"  # from the fastest to the one that takes the least memory
_PACES = 32  # steps whose learning rates are found together
_OF_EPOCH = 4  # numbers that a launch reports


class Telemetry:
    """The operand T, which a launch writes at the end of each epoch and the host reads meanwhile, in float64.

    The first number is the host's request to stop (any value but 0), which the device reads at these ends.
    Then come the numbers of epochs that the members have trained, each negative once its member has stopped,
    and for each member and epoch the mean loss, the loss of rows held out (NaN if there are none), the
    seconds of training, and the seconds of computing these losses.
    """

    def __init__(self, numbers: np.ndarray, members: int) -> None:
        self._request, self._ended = numbers[:1], numbers[1 : 1 + members]
        self._epochs = numbers[1 + members :].reshape(members, -1, _OF_EPOCH)

    @staticmethod
    def numbers(members: int, epochs: int) -> int:
        """Its size in float64."""
        return 1 + members + members * epochs * _OF_EPOCH

    def clear(self) -> None:
        """Set everything to the state before a run."""
        self._request[:], self._ended[:] = 0, 0

    def request_stop(self) -> None:
        """Ask the device to end the launch with the epoch that it trains."""
        self._request[:] = 1

    @property
    def ended(self) -> np.ndarray:
        """The number of epochs that each member has trained, (members,); a copy."""
        return np.abs(self._ended).astype(np.int64)

    @property
    def has_stopped(self) -> bool:
        """Whether every member has stopped, because its patience has ended or the host has asked for it."""
        return bool((self._ended < 0).all())

    def epochs(self, member: int, count: int) -> np.ndarray:
        """A member's first epochs, (count, 4): its losses and seconds as above."""
        return self._epochs[member, :count].copy()


@dataclass(frozen=True)
class WholeShape(LayeredShape):
    """Small networks of linear layers: each block has all of their weights in shared memory.

    ``data_rows``: the number of rows on which a member trains. ``largest``: the largest absolute value of X,
    from which its scale follows. ``own_rows``: whether members train on different rows, given by number. X
    and Y are stored by rows. E has the errors of all rows or, for several members unless ``watched``, of each
    member's last batch. M has the state and, for each block, the numbers from which scales follow.

    ``watched``: the launch computes each epoch's loss and, with ``held_rows`` rows held out, their loss after
    it. The first rows of X and Y are then those held out. B has the weights of each member's best epoch and
    the errors of held-out rows; T, memory of the host that the device writes to, is a
    ``Telemetry`` of ``most_epochs`` epochs.
    """

    members: int = 1
    data_rows: int = 1
    largest: float = 1.0
    own_rows: bool = False
    watched: bool = False
    held_rows: int = 0
    most_epochs: int = 0

    op = "train_whole"
    by_rows = True

    @property
    def timed_rows(self) -> int:
        """Not far fewer than ``data_rows`` if an epoch takes more than its steps.

        A kernel compiled for ``data_rows`` would be slow to order few rows, and one that computes losses
        would do so after every few steps.
        """
        by_epochs = self.shuffled or self.watched
        return max(self.batch, self.data_rows // 16) if by_epochs else self.batch

    @property
    def keeps_errors(self) -> bool:  # type: ignore[override]
        return self.members == 1 or self.watched

    @property
    def operands(self) -> tuple[str, ...]:
        return "X", "Y", "W", "M", "E", "S", *(("B", "T") if self.watched else ())

    @property
    def rows(self) -> int:
        return self.batch

    @property
    def padded_widths(self) -> tuple[int, ...]:
        return padded(self.features), *(padded(layer.width) for layer in self.layers)

    def elements(self, rows: int) -> tuple[int, ...]:
        features, *widths = self.padded_widths
        parameters = sum((k + layer.bias) * n for (k, n), layer in zip(self._pairs, self.layers, strict=True))
        memory = max(plan.memory for plan in self._plans)
        trained = self.data_rows if self.own_rows else rows
        orders = 2 * math.ceil(trained / self.batch) * max(plan.lines for plan in self._plans) * self.shuffled
        rows_of_members = round_up(self.members * trained, 4) * self.own_rows
        workspace = self.members * (self.of_member + orders) + rows_of_members
        errors = self.members * (trained if self.keeps_errors else self.batch) * self.errors
        of_members = self.members * parameters, self.members * memory, errors
        best = self.members * (parameters + self.held_rows * self.errors)
        telemetry = 2 * Telemetry.numbers(self.members, self.most_epochs)
        stored = rows + self.held_rows
        sizes = stored * features, stored * widths[-1], *of_members, HEAD + workspace
        return (*sizes, best, telemetry) if self.watched else sizes

    def arguments(self, steps: Steps) -> tuple[float, ...]:
        a, b, eps = (*map(float, steps.numbers[:-1]), 0.0, 0.0, 0.0)[:3] if self.states else (0.0, 0.0, 0.0)
        logs = (math.log1p(-a), math.log1p(-b)) if self.states == 2 else (0.0, 0.0)
        *form, end = steps.schedule
        whole = steps.rows, steps.first, steps.number, steps.epoch
        watch = (self.held_rows, steps.patience, self.most_epochs) if self.watched else ()
        clip = (float(steps.max_norm),) if self.clipped else ()
        return *watch, *clip, *whole, scale_of(self.largest), a, b, eps, *logs, *form, float(end)

    def workspace(self, floats: int, of_members: MemberArrays, steps: Steps) -> np.ndarray:
        """As in ``TrainingShape``: per member its rate, weight decay, seed of orders and rows."""
        workspace = np.zeros(floats, np.float32)
        its = workspace[HEAD : HEAD + self.of_member * self.members].reshape(-1, self.of_member)
        its[:, 0], its[:, 1] = of_members.rate, steps.numbers[-1] if steps.numbers else 0.0
        if of_members.weight_decay is not None:
            its[:, 1] = of_members.weight_decay
        seeds = np.array([steps.seed]) if of_members.order_seed is None else of_members.order_seed
        its[:, 2] = seeds.astype(np.uint32).view(np.float32)
        if of_members.rows is not None:
            behind = HEAD + self.of_member * self.members
            workspace[behind : behind + of_members.rows.size] = of_members.rows.reshape(-1).view(np.float32)
        return workspace

    def configurations(self, device: DeviceCapability) -> Iterator[LaunchConfiguration | str]:
        reason = self._why_no_block(device)
        if reason:
            yield f"no whole network in a block: {reason}"
            return
        for blocks in _CLUSTERS:
            few = len(self.layers) == 1 or blocks > self._most_blocks
            if blocks > 1 and (device.capability < (9, 0) or self.sequential or few):
                continue
            for together in (1,) if self.members == 1 or blocks > 1 else (1, 2, 4):
                yield fitting(self._configuration(blocks, together, device), device)

    # ---- a block's share

    @property
    def of_member(self) -> int:
        """Floats of a member in the workspace, before the rows."""
        return 8 if self.watched else 4

    @cached_property
    def _plans(self) -> "list[_Plan]":
        """With every number of blocks, and of rows at a time."""
        plans = []
        for blocks in _CLUSTERS:
            plans.append(_Plan(self, blocks))
            while plans[-1].chunk > 8:
                plans.append(plans[-1].with_fewer_rows())
        return plans

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(pairwise(self.padded_widths))

    @property
    def _most_blocks(self) -> int:
        """Blocks of a cluster that have eight rows each; if they are few, four are enough."""
        return max(1, min(8, self.batch // 4), self.batch // 8)

    @property
    def _warps(self) -> int:
        """Number of warps that compute: fewer if no layer has enough tiles for all."""
        most = max(k // 8 * (n // UNIT) for k, n in self._pairs)
        return WARPS if most >= WARPS else WARPS // 2

    def _configuration(
        self, blocks: int, together: int, device: DeviceCapability
    ) -> LaunchConfiguration | str:
        available = device.shared_bytes if together == 1 else (device.shared_bytes + 1024) // together - 1024
        for exchange in _EXCHANGES:
            plan = _Plan(self, blocks, apart=blocks > 1, exchange=exchange)
            if plan.shared_bytes <= available or not plan.sends_rows:
                break
        while plan.shared_bytes > available and plan.chunk > 8 and not self.sequential:
            plan = plan.with_fewer_rows()
        if blocks == 1 and not self.sequential:
            roomier = _Plan(self, blocks, plan.chunk, apart=True)
            plan = roomier if roomier.shared_bytes <= available else plan
        words = (
            f"{blocks} blocks, each with the whole network" if blocks > 1 else "one block with the network"
        )
        if plan.chunks > 1:
            words += f", {plan.chunk} rows at a time"
        if together > 1:
            words += f", {together} blocks per SM"
        most = _MOST_KEPT // (2 if together == 4 else 1)
        if plan.kept > most:
            return f"not {words}: a thread would keep {plan.kept} floats in registers, {most} at most"
        if plan.shared_bytes > available:
            needs = f"{plan.shared_bytes} bytes of shared memory"
            return f"not {words}: a block would need {needs}, {available} are available"
        cost = _COST[blocks] * (_CROWDED if together > 1 else 1.0)
        return LaunchConfiguration(
            _SOURCE,
            blocks * self.members,
            32 * (plan.warps + plan.owner_warps),
            defines(
                WIDTHS=self.padded_widths,
                OUTPUTS_OF_LAYERS=[layer.width for layer in self.layers],
                BIASES=[layer.bias for layer in self.layers],
                ACTIVATIONS=[layer.activation.upper() for layer in self.layers],
                UPDATE=self.update,
                STATES=self.states,
                SCHEDULED=self.scheduled,
                LOSS=self.loss,
                MEAN=self.mean,
                SEQUENTIAL=self.sequential,
                BATCH=self.batch,
                ORDER_BITS=plan.order_bits,
                MEMBERS=self.members,
                MEMBER_ROWS=self.own_rows,
                ALL_ERRORS=self.keeps_errors,
                CLIPPED=self.clipped,
                WATCHED=self.watched,
                CLUSTER=blocks,
                CHUNK=plan.chunk,
                APART=plan.apart,
                WARPS=plan.warps,
                OWNER_WARPS=plan.owner_warps,
                SENDS_ROWS=plan.sends_rows,
                SENDS_X=plan.sends_X,
                BLOCKS_PER_SM=together,
            ),
            plan.shared_bytes,
            words,
            blocks,
            1,
            cost,
        )

    def _why_no_block(self, device: DeviceCapability) -> str:
        if device.capability < (8, 0):
            major, minor = device.capability
            return f"compute capability {major}.{minor}, its arithmetic needs 8.0"
        if len(self.layers) > _MOST_LAYERS:
            return f"{len(self.layers)} linear layers, {_MOST_LAYERS} at most"
        if self.outputs > _MOST_OUTPUTS:
            return f"{self.outputs} outputs, {_MOST_OUTPUTS} at most: a warp computes whole rows of them"
        return ""


class _Plan:
    """The share of a block, one of ``blocks``, in a shape (layout.cuh); ``chunk`` rows at a time, 0 for all.

    ``apart``: whether errors have separate places instead of overwriting activations. ``exchange``: what the
    blocks of a cluster send each other. Activations and errors (``rows``) only if each has eight rows, the
    outputs are few, and the tiles divide evenly, else gradients; with ``rows and X`` they also send X,
    instead of having all of its rows and a table of the epoch's permutation.
    """

    def __init__(
        self,
        shape: WholeShape,
        blocks: int,
        chunk: int = 0,
        apart: bool = False,
        exchange: str = "rows",
    ) -> None:
        self.shape, self.blocks, self.apart = shape, blocks, apart
        pairs, states = shape._pairs, shape.states
        own = math.ceil(shape.batch / blocks)
        self.chunk = chunk or round_up(own, 8)
        rows = round_up(own, self.chunk)
        self.chunks, self.lines = rows // self.chunk, blocks * rows
        few = self.chunk == 8 or (blocks > 1 and self.chunk < 64)  # rows, on which few warps are faster
        self.warps = WARPS // 2 if few else shape._warps
        self.order_bits = sum(bits_of(shape.data_rows)) if shape.shuffled else 0

        layers, outputs = len(pairs), shape.outputs
        tiles = [n // UNIT * (k // 8) for k, n in pairs]
        lanes = [*[32] * (layers - 1), 4 * outputs if outputs < 8 else 32]
        items = [a * b for a, b in zip(tiles, lanes, strict=True)]
        neurons = sum(n for _, n in pairs)
        self.memory = states * (4 * sum(items) + neurons) + 3 * blocks * (layers + 1)
        narrow = outputs <= _NARROW and layers > 1 and not shape.sequential
        narrow = narrow and shape.loss != "softmax_cross_entropy"
        owned = [round_up(math.ceil(count / blocks), 4) for count in (*items, neurons // 4)]
        each = [math.ceil(count / blocks) for count in tiles]  # tiles of weights, if blocks own whole ones
        across = [k // 8 for k, _ in pairs]
        fit = all(n % t == 0 and (t == 1 or t % 2 == 0) for n, t in zip(across, each, strict=True))
        can_send_rows = 1 < blocks <= 8 and rows == 8 and narrow and fit and each[-1] == 1
        self.sends_rows = can_send_rows and exchange != "gradients"
        self.sends_X = can_send_rows and exchange == "rows and X"
        has_all_X = self.sends_rows and not self.sends_X
        if self.sends_rows:
            owned[:-1] = [count * lane for count, lane in zip(each, lanes, strict=True)]
        slots = sum(math.ceil(count / 32) for count in owned)
        self.owner_warps = (8 if few and max(tiles) >= 16 else 4) if blocks > 1 else 0
        if blocks > 1:
            self.kept = 4 * math.ceil(slots / self.owner_warps) * (1 + states + shape.clipped)
        else:
            gradients = states + (self.chunks > 1 or shape.clipped)
            self.kept = sum(4 * math.ceil(count / self.warps) * gradients for count in tiles)

        row_tiles, widths = self.chunk // 8, shape.padded_widths
        stored = widths[1 : layers + 1 - narrow]
        with_z = [n for (_, n), layer in zip(pairs, shape.layers, strict=True) if layer.activation in KEEP_Z]
        right = self.order_bits - self.order_bits // 2
        summed = math.ceil(owned[-1] / 32)  # slots of biases
        received = sum(math.ceil(count / 2) for count in each[has_all_X:])
        lines_of_x = blocks * self.chunk if has_all_X else self.chunk
        awaited = layers + self.sends_rows  # gradients of each layer and, alone, of biases
        floats = [
            4 * (sum(items) if blocks == 1 else 1),
            4 * (blocks * 32 * (summed if self.sends_rows else slots) if blocks > 1 else 1),
            4 * 2 * (blocks * 32 * received if self.sends_rows else 1),
            4 * ((layers - 1) * blocks * 32 if self.sends_rows else 1),
            4 * (max(1, 32 * sum(widths[1 : layers - 1]) // UNIT) if self.sends_rows else 1),
            blocks * outputs * 8 if self.sends_rows else 4,
            4 * (widths[-2] // UNIT * row_tiles * 32 if narrow and blocks > 1 and not self.sends_rows else 1),
            self.chunk * outputs if narrow and blocks > 1 and not self.sends_rows else 4,
            (4 if self.sends_rows else 1) * lines_of_x * (widths[0] + 4),
            (4 if blocks > 1 else 2) * self.chunk * round_up(outputs, 4),
            2 * lines_of_x,
            (2 * sum(tiles) if blocks > 1 else sum(tiles) - narrow * tiles[-1]) * _TILE,
            (3 if blocks > 1 else 2) * widths[0] // UNIT * row_tiles * _TILE,
            (sum(stored[:-1]) * (1 + apart) + stored[-1]) // UNIT * row_tiles * _TILE,
            self.warps * outputs * self.chunk if narrow else 1,
            (self.warps * (widths[-2] + 1) if blocks == 1 else 4) * outputs if narrow else 3,
            sum(with_z) // UNIT * row_tiles * _TILE + 4,
            neurons,
            2 * (blocks * slots if blocks > 1 else 1),
            (max(self.warps, self.owner_warps) + 2 * blocks) * shape.clipped,
            (3 * 3 + 2 * shape.watched) * (layers + 1) + (3 if self.sends_rows else 2) * awaited + 2,
            4 * (1 if blocks > 1 else 2 * _PACES),
        ]
        watch = 8 * (self.warps + 4) if shape.watched else 0
        barriers = 8 * ((4 if self.sends_rows else 2) * awaited + 2 + shape.clipped)
        orders = 3 if self.sends_X else 2 if blocks > 1 else 1
        tables = 2 * orders * (ROUNDS << right if self.order_bits else 4)
        places = 2 * (2 if has_all_X else 1) * (1 << self.order_bits if has_all_X and self.order_bits else 4)
        self.shared_bytes = round_up(round_up(4 * sum(floats), 8) + watch + barriers + places + tables, 16)

    def with_fewer_rows(self) -> "_Plan":
        return _Plan(self.shape, self.blocks, round_up(self.chunk // 2, 8), self.apart and self.blocks > 1)
