"""The device memory that a strategy asks for, by kind, found without a device and without its data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.profiling.calls import DEVICE_MEMORY, NullBackend
from snn.profiling.ledger import Ledger
from snn.profiling.memory import CHUNK, PURPOSES, size
from snn.profiling.observed import Call, Live, ObservedBackend, Observer, Resource
from snn.strategies.factory import Job, start

_SPANS = (2, 3)
"""Spans of rows of the two rehearsals between which the bytes that grow with the data are a straight line."""

COUNTED = ("h2d_bytes", "d2h_bytes", "launches", "mallocs")

_UNIT = 512  # bytes: the granularity of an allocation


class Peak(Observer):
    """An observer of device memory: the blocks alive at the fullest moment since ``reset``."""

    def __init__(self) -> None:
        self.has_managed = self.has_driver_pool = False
        self._most, self._fullest = 0, list[Resource]()

    def reset(self, live: Live) -> None:
        self._most, self._fullest = live.device_bytes, live.of(*DEVICE_MEMORY)

    def after(self, call: Call, live: Live, started: float, ended: float) -> None:
        if call.makes is None:
            return
        self.has_managed |= call.name == "managed_alloc"
        self.has_driver_pool |= call.name == "pool_create" and call.stream is not None
        if live.device_bytes > self._most:
            self.reset(live)

    def needs(self) -> "Needs":
        """The blocks of the fullest moment, in the order in which they were allocated."""
        blocks = (Block(block.purpose or "workspace", block.nbytes) for block in self._fullest)
        return Needs(tuple(blocks), self.has_managed, self.has_driver_pool)


class Block(NamedTuple):
    kind: str
    nbytes: int


def mapped(sizes: Iterable[int]) -> int:
    """Bytes that a driver maps for blocks of these sizes, in their order.

    It maps 2 MiB at a time. Larger blocks have separate pages; smaller ones share pages, each in the first
    with room. ``reserved_bytes`` of nvidia-h200/cnn follow this rule; in other published sets, strategies
    with tiles may take one page more.
    """
    own, rooms = 0, list[int]()
    for nbytes in sizes:
        needed = -(-nbytes // _UNIT) * _UNIT
        if needed > CHUNK:
            own += -(-needed // CHUNK) * CHUNK
            continue
        page = next((i for i, room in enumerate(rooms) if room >= needed), len(rooms))
        rooms[page:] = rooms[page:] or [CHUNK]
        rooms[page] -= needed
    return own + len(rooms) * CHUNK


@dataclass(frozen=True)
class Needs:
    """The blocks of device memory at the fullest moment.

    ``has_managed`` and ``has_driver_pool``: whether managed memory and the driver's pool are used;
    ``per_step``: a step's increments of the fields ``COUNTED`` of a ledger. ``plan``: ``Strategy.plan``.
    """

    blocks: tuple[Block, ...]
    has_managed: bool
    has_driver_pool: bool
    per_step: Mapping[str, int] = field(default_factory=dict)
    plan: str | None = None

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks)

    def by_kind(self, pool_step: int) -> dict[str, int]:
        """The bytes by kind, with the driver's additional bytes as ``rounding``.

        The driver's pool takes ``pool_step`` bytes from the system at a time.
        """
        kinds = dict.fromkeys(PURPOSES, 0)
        for block in self.blocks:
            kinds[block.kind] += block.nbytes
        if self.has_driver_pool:
            taken = -(-self.nbytes // pool_step) * pool_step
        else:
            taken = mapped(block.nbytes for block in self.blocks)
        return kinds | {"rounding": taken - self.nbytes}


def rehearse(job: Job, rows: int, backend: Backend) -> Needs:
    """The most memory that a job's strategy holds with ``rows`` rows, during set-up or in a step.

    The job is rehearsed twice on a few batches, and what grows with the data is extrapolated. ``backend``
    decides as the real one does. Raises Unsupported if it cannot train the network.
    """
    of_span = span(job.batch_size, job.strategy)
    counts = [n * of_span + rows % of_span for n in _SPANS]
    if rows <= counts[-1]:
        phases, counted = _phases(job, rows, backend)
        steps = -(-rows // job.batch_size)
        per_step = {key: n // steps for key, n in counted.items()}
        return replace(max(phases, key=lambda needs: needs.nbytes), per_step=per_step)
    (few, counted), (more, counted_more) = (_phases(job, count, backend) for count in counts)
    times = (rows - counts[0]) // of_span
    grown = [extrapolated(a, b, times) for a, b in zip(few, more, strict=True)]
    batches = of_span // job.batch_size
    per_step = {key: (counted_more[key] - counted[key]) // batches for key in COUNTED}
    return replace(max(grown, key=lambda needs: needs.nbytes), per_step=per_step)


def span(batch_size: int, strategy: Mapping[str, Any]) -> int:
    """Rows by which all that grows with the data does in equal steps: a batch, or one in each fold."""
    return batch_size * (strategy.get("folds") or 1)


def _phases(job: Job, rows: int, backend: Backend) -> tuple[tuple[Needs, Needs], dict[str, int]]:
    """The most memory held until the strategy is set up, and after that; and the counts of an epoch."""
    peak, ledger = Peak(), Ledger()
    observed = ObservedBackend(NullBackend(backend), peak, ledger)
    strategy = start(replace(job, X=job.X[:rows], Y=job.Y[:rows], test=None), observed)
    try:
        set_up = replace(peak.needs(), plan=strategy.plan)
        peak.reset(observed.live)
        strategy.load([np.zeros(shape, dtype=np.float32) for shape in job.network.shapes])
        with np.errstate(all="ignore"):  # what is computed does not matter
            for _ in range(2):  # what grows in the first epoch is there from the beginning of the second
                before = ledger.totals()
                if strategy.at_once:
                    strategy.train(1)
                else:
                    strategy.epoch()
        counted = {key: ledger.totals()[key] - before[key] for key in COUNTED}
        return (set_up, replace(peak.needs(), plan=strategy.plan)), counted
    finally:
        strategy.close()


def extrapolated(few: Needs, more: Needs, times: float) -> Needs:
    """Linear extrapolation of the needs: ``few`` + ``times`` (``more`` - ``few``)."""
    if len(few.blocks) != len(more.blocks):
        raise Unsupported("its number of blocks depends on the rows, so they cannot be extrapolated")
    blocks = [
        Block(b.kind, round(a.nbytes + times * (b.nbytes - a.nbytes)))
        for a, b in zip(few.blocks, more.blocks, strict=True)
    ]
    per_step = {key: round(n + times * (more.per_step[key] - n)) for key, n in few.per_step.items()}
    return replace(more, blocks=tuple(blocks), per_step=per_step)


def advice(job: Job, free: int, backend: Backend) -> str:
    """The largest batch size, of those got by halving the job's, whose peak is within the free bytes. Of a
    training in micro-batches, these are halved."""

    def needed(batch_size: int) -> int:
        return rehearse(replace(job, batch_size=batch_size), len(job.X), backend).nbytes

    parts, batch_size = job.network.accumulate, job.batch_size
    while batch_size > parts:
        batch_size = batch_size // parts // 2 * parts
        if (nbytes := needed(batch_size)) <= free:
            return f"training.batch_size={batch_size} would fit: {size(nbytes)} of {size(free)} free"
    row = "one row per batch" if parts == 1 else "one row per micro-batch"
    return f"no batch size would fit: {row} needs {size(needed(parts))}, {size(free)} are free"
