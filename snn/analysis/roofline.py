"""What a training step takes at least on a device, by its measured limits, whoever writes it."""

import itertools
from dataclasses import dataclass
from math import ceil

from snn.errors import MeasurementError
from snn.hardware.limits import Measured

_PRODUCTS = {
    "fp32": {"fp32": 1, "tf32": 3, "bf16": 6},
    "tf32": {"fp32": 1, "tf32": 1},
    "bf16": {"fp32": 1, "tf32": 1, "bf16": 1},
}
"""The units that can do products in a precision, and how many of theirs one takes: fp32's accuracy can be had
from three in TF32, big big + big small + small big, where x = big + small; or from six in BF16, of three
parts."""

_OF_BITS = _PRODUCTS | {"fp32": {"fp32": 1, "tf32": 2, "bf16": 3}}
"""The same where one operand is 0 or 1, which is exact: as many as the other one has parts."""

_NEAR, _FAR = ("cluster_barrier", "cluster_exchange"), ("grid_barrier", "grid_exchange")


@dataclass(frozen=True)
class Step:
    """A training step, the mean one of an epoch: from ``features`` through ``hidden`` widths to one output.

    ``sequential``: each weight is updated before the error is propagated through it.
    """

    features: int
    hidden: tuple[int, ...]
    rows: int
    batch_size: int
    sequential: bool = True
    precision: str = "fp32"

    @property
    def batch(self) -> float:
        """Rows of a batch, on average: the last one of an epoch may have fewer."""
        return self.rows / ceil(self.rows / self.batch_size)

    @property
    def flop(self) -> float:
        """Operations of the products that a step cannot do without.

            2 batch (3 (w_1 + ... + w_L) - w_1 + n_L),   w_i = n_{i-1} n_i elements of W_i

        Three products for each hidden weight, Z = H W, dW = H^T dZ and dH = dZ W^T, but the last of them for
        the first. Of the output's weight w only H w: with U = H^T (g where Z > 0), which has to be computed
        anyhow, dW_L = U diag(w), and the gradient of w is the sum of the elements of W_L U over each column.
        """
        return 2 * self.batch * (3 * sum(self._elements) - self._elements[0] + self.hidden[-1])

    @property
    def flop_of_bits(self) -> float:
        """Those of ``flop`` that can be had from B = 1 where Z_L > 0, else 0: behind the last hidden layer.

        dW_L = (diag(g) H_{L-1})^T B diag(w),   dH_{L-1} = diag(g) B (W_L diag(w))^T
        """
        return 2 * self.batch * self._elements[-1] * min(len(self.hidden), 2)

    @property
    def smallest_product(self) -> float:
        """Operations of the smallest product of a hidden weight."""
        return 2 * self.batch * min(self._elements)

    @property
    def data_bytes(self) -> float:
        """Of X and Y of a batch in float32: weights may stay on the chip."""
        return 4 * self.batch * (self.features + 1)

    @property
    def exchanges(self) -> int:
        """How often, at least, blocks that share a step wait for each other, one time after the other.

        Once, however deep the network: every weight depends on every row's error, and that on every weight.
        If sequential, once a hidden layer: an error in one layer depends on all errors in the next one, by
        the sum over the rows that the weight between them has been updated with.
        """
        return len(self.hidden) if self.sequential else 1

    @property
    def _elements(self) -> list[int]:
        return [a * b for a, b in itertools.pairwise((self.features, *self.hidden))]


@dataclass(frozen=True)
class Floor:
    """Seconds that a step takes at least, by what: the longest of the three decides."""

    arithmetic: float
    exchanges: float
    memory: float

    @property
    def seconds(self) -> float:
        return max(self.arithmetic, self.memory, self.exchanges)


def floor(step: Step, measured: Measured) -> Floor | None:
    """The floor of a step; None where limits of the device are missing, as they are on a CPU.

        T >= max(memory, min over ways of max(sum over kinds of products of flop / rate, exchanges))

    The three may overlap, so the longest counts and not their sum. The ways: one multiprocessor, which waits
    for nobody; the largest cluster of blocks there is, whose every wait is as short as the shortest of any
    cluster; the whole device, of whose waits one at least is through memory. The kinds: products of bits and
    all others. ``rate`` is that of the fastest unit of so many multiprocessors, and no more than that of all
    together. A wait is saved where each block computes for itself what it would wait for: so none counts more
    than the smallest product of the step takes on one multiprocessor. Data come from L2, and what it cannot
    hold of them from DRAM.

    Not in it, so that it stays a floor: launches (a whole training may be one), element-wise work, updates,
    clipping. It is one of dense products, by the instructions that were measured, one unit at a time: others
    (wgmma), FP32 units beside tensor cores, or leaving out the rows for which ReLU is 0, may pass it.
    """
    limits = {(one.what, one.blocks): one.value for one in measured.limits if one.value}
    everywhere = measured.multiprocessors
    kinds = ((step.flop - step.flop_of_bits, _PRODUCTS), (step.flop_of_bits, _OF_BITS))
    rates = [[_rate(of[step.precision], blocks, limits) for blocks in (1, everywhere)] for _, of in kinds]
    clusters = [value for (what, _), value in limits.items() if what in _NEAR]
    grids = [value for (what, _), value in limits.items() if what in _FAR]
    if not (everywhere and grids and all(map(all, rates))):
        return None

    def arithmetic(blocks: int) -> float:
        return sum(
            flop / min(blocks * alone, together)
            for (flop, _), (alone, together) in zip(kinds, rates, strict=True)
        )

    saved = step.smallest_product / max(alone for alone, _ in rates)
    far = min([*grids, saved])
    near = min([*clusters, far])
    ways = [(1, 0.0), (everywhere, far + (step.exchanges - 1) * near)]
    if clusters:
        largest = max(blocks for what, blocks in limits if what in _NEAR and blocks)
        ways.append((largest, step.exchanges * near))
    times = [(arithmetic(blocks), waits) for blocks, waits in ways]
    needed, waited = min(times, key=max)
    return Floor(needed, waited, _memory(step, limits, measured.l2_bytes or 0))


def check(name: str, seconds: float, least: float | None) -> None:
    """Raise MeasurementError where a step of the cell of this name was measured to be below its floor."""
    if least is not None and seconds < least:
        raise MeasurementError(
            f"{name}: a step was measured to take {1e6 * seconds:.4g} us, but by the limits of this device "
            f"none takes less than its floor of {1e6 * least:.4g} us: measure one of the two again"
        )


def _rate(products: dict[str, int], blocks: int | None, limits: dict[tuple[str, int | None], float]) -> float:
    """FLOP/s of so many multiprocessors by the unit that is fastest at such products; 0 if none is known."""
    rates = [limits[unit, blocks] / n for unit, n in products.items() if (unit, blocks) in limits]
    return max(rates, default=0.0)


def _memory(step: Step, limits: dict[tuple[str, int | None], float], l2_bytes: int) -> float:
    """Seconds for the data of a batch; nothing for a rate that is not known."""
    whole = 4 * step.rows * (step.features + 1)
    from_dram = step.data_bytes * max(0.0, 1 - l2_bytes / whole)
    near, far = (limits.get((what, None)) for what in ("l2_read", "dram_read"))
    return max(step.data_bytes / near if near else 0.0, from_dram / far if far else 0.0)
