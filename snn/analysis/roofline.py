"""A roofline-style lower bound of an MLP's training step, from the measured limits of a device."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from snn.errors import RecordError
from snn.hardware.limits import Measured
from snn.models.storage import FP32
from snn.records import microbenchmarks
from snn.records.store import again, check_sources

_PRODUCTS = {
    "fp32": {"fp32": 1, "tf32": 3, "fp16": 3, "bf16": 6},
    "tf32": {"fp32": 1, "tf32": 1, "fp16": 1},
    "bf16": {"fp32": 1, "tf32": 1, "bf16": 1},
}
"""The units that can compute a product in a precision, and the number of products that each needs. For
fp32's accuracy, TF32 needs three, big big + big small + small big with x = big + small; FP16, which has as
many bits, needs as many if numbers are scaled to its range (special/halves.cuh in kernels/persistent); BF16
needs six, from three parts."""

_OF_BITS = _PRODUCTS | {"fp32": {"fp32": 1, "tf32": 2, "fp16": 2, "bf16": 3}}
"""The same if one operand is 0 or 1, which is exact: one product per part of the other operand."""

_NEAR, _FAR = ("cluster_barrier", "cluster_exchange"), ("grid_barrier", "grid_exchange")


@dataclass(frozen=True)
class Step:
    """The mean training step of an epoch of an MLP with ``features``, ``hidden`` widths and one output.

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
        """The mean number of rows in a batch; the last batch of an epoch may have fewer."""
        return self.rows / ceil(self.rows / self.batch_size)

    @property
    def flop(self) -> float:
        """Floating-point operations of the products that every step needs.

            2 batch (3 (w_1 + ... + w_L) - w_1 + n_L),   w_i = n_{i-1} n_i elements of W_i

        Three products for each hidden weight, Z = H W, dW = H^T dZ and dH = dZ W^T, except dH for the first.
        For the output's weight w only H w: with U = H^T (g where Z > 0), which is needed in any case,
        dW_L = U diag(w), and the gradient of w is the sum of the elements of W_L U over each column.
        """
        return 2 * self.batch * (3 * sum(self._elements) - self._elements[0] + self.hidden[-1])

    @property
    def flop_of_bits(self) -> float:
        """The part of ``flop`` with a binary operand B, 1 where Z_L > 0 and else 0, of the last hidden layer.

        dW_L = (diag(g) H_{L-1})^T B diag(w),   dH_{L-1} = diag(g) B (W_L diag(w))^T
        """
        return 2 * self.batch * self._elements[-1] * min(len(self.hidden), 2)

    @property
    def smallest_product(self) -> float:
        """Floating-point operations of the smallest product with a hidden weight."""
        return 2 * self.batch * min(self._elements)

    @property
    def data_bytes(self) -> float:
        """Bytes of a batch's X and Y in float32; weights may stay on the chip."""
        return 4 * self.batch * (self.features + 1)

    @property
    def exchanges(self) -> int:
        """The least number of successive waits of blocks that share a step.

        One wait for any depth, because every weight depends on every row's error, which depends on every
        weight. If sequential, one per hidden layer: an error in one layer depends on all errors in the next
        one, through the sum over rows that updated the weight between them.
        """
        return len(self.hidden) if self.sequential else 1

    @property
    def _elements(self) -> list[int]:
        return [a * b for a, b in itertools.pairwise((self.features, *self.hidden))]


@dataclass(frozen=True)
class Floor:
    """Lower bounds of a step's seconds, from arithmetic, exchanges between blocks, and memory."""

    arithmetic: float
    exchanges: float
    memory: float

    @property
    def seconds(self) -> float:
        """The largest of the three bounds."""
        return max(self.arithmetic, self.memory, self.exchanges)


def floor(step: Step, measured: Measured) -> Floor | None:
    """The lower bound of a step's time; None if limits of the device are missing, as they are for a CPU.

        T >= max(memory, min over ways of max(sum over kinds of products of flop / rate, exchanges))

    The three may overlap, so the longest counts and not their sum. The ways are: one SM, which waits for
    nothing; the largest possible cluster of blocks, with every wait as short as the shortest of any cluster;
    the whole device, where at least one wait goes through global memory. The kinds are products with a binary
    operand, and all others. ``rate`` is the FLOP/s of the fastest unit on the SMs in use, at most the rate of
    the whole device. A block can avoid a wait by computing the missing value itself, so no wait counts more
    than the step's smallest product takes on one SM. Data come from L2; data that do not fit, from DRAM.

    It stays a lower bound because launches (one may do the whole training), element-wise work, updates and
    clipping are not counted. It holds for dense products with the measured instructions, one unit at a time:
    other instructions (wgmma), FP32 units together with tensor cores, or skipping rows for which ReLU is 0,
    may beat it. Limits that were measured without FP16 give a higher floor. It does not cover other networks:
    the operations of a direct convolution do not bound Winograd's.
    """
    limits = {(limit.what, limit.blocks): limit.value for limit in measured.limits if limit.value}
    sms = measured.multiprocessors
    kinds = ((step.flop - step.flop_of_bits, _PRODUCTS), (step.flop_of_bits, _OF_BITS))
    rates = [[_rate(of[step.precision], blocks, limits) for blocks in (1, sms)] for _, of in kinds]
    clusters = [value for (what, _), value in limits.items() if what in _NEAR]
    grids = [value for (what, _), value in limits.items() if what in _FAR]
    if not (sms and grids and all(map(all, rates))):
        return None

    def arithmetic(blocks: int) -> float:
        return sum(
            flop / min(blocks * alone, together)
            for (flop, _), (alone, together) in zip(kinds, rates, strict=True)
        )

    saved = step.smallest_product / max(alone for alone, _ in rates)
    far = min([*grids, saved])
    near = min([*clusters, far])
    ways = [(1, 0.0), (sms, far + (step.exchanges - 1) * near)]
    if clusters:
        largest = max(blocks for what, blocks in limits if what in _NEAR and blocks)
        ways.append((largest, step.exchanges * near))
    times = [(arithmetic(blocks), waits) for blocks, waits in ways]
    needed, waited = min(times, key=max)
    return Floor(needed, waited, _memory(step, limits, measured.l2_bytes or 0))


def warning(seconds: float, floor_seconds: float | None) -> str:
    """The warning for a measured time per step that is below its floor; empty for any other."""
    if floor_seconds is None or not seconds < floor_seconds:
        return ""
    return (
        f"the time per step, {1e6 * seconds:.4g} us, is below the floor of {1e6 * floor_seconds:.4g} us that "
        "follows from the limits of this device: measure both again"
    )


def _rate(products: dict[str, int], blocks: int | None, limits: dict[tuple[str, int | None], float]) -> float:
    """FLOP/s of this many SMs with the fastest unit for such products; 0 if no rate is known."""
    rates = [limits[unit, blocks] / n for unit, n in products.items() if (unit, blocks) in limits]
    return max(rates, default=0.0)


def _memory(step: Step, limits: dict[tuple[str, int | None], float], l2_bytes: int) -> float:
    """Seconds to read the data of a batch; memories of unknown rate do not count."""
    whole = 4 * step.rows * (step.features + 1)
    from_dram = step.data_bytes * (1 - l2_bytes / whole)
    read = {("l2_read", None): step.data_bytes, ("dram_read", None): from_dram}
    return max([0.0, *(nbytes / limits[limit] for limit, nbytes in read.items() if limit in limits)])


# ---- records of limits and microbenchmarks

Record = Mapping[str, Any]


def read_limits(path: Path, source_hash: str | None = None) -> dict[str, Any]:
    """Read a record of limits. Raises RecordError for other files, and if its source hash differs."""
    record = microbenchmarks.read_limits(path)
    if source_hash is not None:
        check_sources(record, path, source_hash)
    return record


def read_microbenchmark(path: Path, settings: Mapping[str, Any], source_hash: str) -> dict[str, Any]:
    """Read a record of a microbenchmark.

    Raises RecordError for other files, and if it was measured with other settings or sources.
    """
    record = microbenchmarks.read(path)
    if record["settings"] != settings:
        raise RecordError(f"{path}: measured with other settings than the grid's{again(path)}")
    check_sources(record, path, source_hash)
    return record


def device_of(record: Record) -> tuple[str, str]:
    """A record's device: its name, and the UUID if it is a GPU."""
    return record["provenance"]["device"], record["provenance"]["device_uuid"] or ""


def fitting_limits(limits: Iterable[Record], records: Iterable[Record]) -> list[Record]:
    """The limits of the devices on which these records were measured."""
    devices = {device_of(record) for record in records}
    return [one for one in limits if device_of(one) in devices]


def _names(devices: Iterable[tuple[str, str]]) -> str:
    return " and ".join(" ".join(filter(None, device)) for device in devices)


def limit_of(record: Record, limits: Sequence[Record], what: str) -> float | None:
    """One of the limits of a microbenchmark's device; None if the device lacks it, or without any record.

    Raises RecordError if all of the limits were measured on other devices.
    """
    if not limits:
        return None
    known = {device_of(one): one for one in limits}
    if (its := device_of(record)) not in known:
        raise RecordError(
            f"the limits are of {_names(known)}, {record['name']} of {_names([its])}: "
            "measure one of them again"
        )
    return next((one.value for one in Measured.of(known[its]).limits if one.what == what), None)


# ---- the rows of ``snn.analysis.frame``

FLOOR = "floor_s"
"""The column that ``with_floors`` adds: seconds per step, NaN for a row without a floor."""


def with_floors(frame: pd.DataFrame, *records: Record) -> pd.DataFrame:
    """Add the column ``FLOOR`` to the rows, from records of limits of one backend.

    Limits belong to one GPU, by its UUID. A row whose rounds ran on several GPUs gets the lowest of their
    floors, which no time of the row can be below. A row gets NaN if any round ran on a GPU without measured
    limits or on a GPU's host, if the network is not an MLP or is trained on several GPUs, if the cell does
    not state the size of the data set, or if limits are missing. Raises RecordError if no row ran on a device
    of the limits.
    """
    known = {device_of(record): Measured.of(record) for record in records}
    backends = [record["provenance"]["backend"] for record in records]
    floors, others = {}, []
    for i, row in frame[frame["backend"].isin(backends) & frame["mean_s"].notna()].iterrows():
        gpus = "" if pd.isna(row["device_uuid"]) else row["device_uuid"]
        on = [(row["device"], gpu) for gpu in gpus.split(", ")]
        others += [(row["device"], gpus)] if known.keys().isdisjoint(on) else []
        floors[i] = np.min([_floor(row, known[one]) if one in known else np.nan for one in on])
    if floors and len(others) == len(floors):
        raise RecordError(
            f"the limits are of {_names(known)}, times of {_names(others[:1])}: "
            "measure the limits there, or the cells here, again"
        )
    return frame.assign(**{FLOOR: pd.Series(floors, dtype=float).reindex(frame.index)})


def _floor(row: pd.Series, measured: Measured) -> float:
    rows, features = (row.get(f"dataset.{name}") for name in ("rows", "features"))
    if row["hidden"] is None or row["several_devices"] or pd.isna(rows) or pd.isna(features):
        return np.nan
    if row.get("training.storage", FP32) != FP32:  # whose data take half of the bytes
        return np.nan
    step = Step(
        features=int(features),
        hidden=tuple(row["hidden"]),
        rows=int(_trained(rows, row)),
        batch_size=int(row["training.batch_size"]),
        sequential=row["network.update_order"] == "sequential",
        precision=row["precision"],
    )
    bound = floor(step, measured)
    return bound.seconds if bound else np.nan


def fraction_of_limit(frame: pd.DataFrame) -> pd.Series:
    """The floor of each row over its mean time per step; NaN without a floor.

    If one launch trains several members, the time is the launch's, which is at least the time of one member.
    """
    return (_floors(frame) / _step_seconds(frame)).rename("fraction_of_limit")


def warnings(frame: pd.DataFrame) -> pd.Series:
    """The warning for each row whose time per step is below its floor; empty for the others."""
    both = zip(_step_seconds(frame), _floors(frame), strict=True)
    return pd.Series([warning(*one) for one in both], frame.index, dtype=object)


def _floors(frame: pd.DataFrame) -> pd.Series:
    return frame.get(FLOOR, pd.Series(np.nan, frame.index))


def _step_seconds(frame: pd.DataFrame) -> pd.Series:
    """Seconds per step of a launch."""
    return frame["mean_s"] * frame["members"] / steps(frame)


def step_us(frame: pd.DataFrame) -> pd.Series:
    """The mean time in microseconds per step."""
    return 1e6 * frame["mean_s"] / steps(frame)


def _trained(rows: Any, settings: pd.Series | pd.DataFrame) -> Any:
    """How many of these rows are not held out for validation (``snn.models.validation``)."""
    return rows - np.round(rows * settings.get("training.validation", 0.0))


def steps(frame: pd.DataFrame) -> pd.Series:
    """The steps of one run of each row; NaN for a data set whose size the cell does not state.

    Leftover rows that do not fill a batch are one more step, unless ``drop_last`` leaves them out.
    """
    rows = frame.get("dataset.rows", pd.Series(np.nan, frame.index))
    batches = _trained(rows.astype(float), frame) / frame["training.batch_size"]
    drops_last = frame.get("training.drop_last", pd.Series(False, frame.index)).astype(bool)
    return frame["training.epochs"] * batches.map(np.floor).where(drops_last, batches.map(np.ceil))
