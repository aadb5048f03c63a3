"""Does a cell fit into a device's memory, which batch is the largest that does, and what would help."""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from snn import datasets
from snn.config.cell import Cell
from snn.config.sizes import check_matrices
from snn.errors import ConfigError, Unsupported
from snn.hardware.devices import usable_bytes
from snn.measurement.passes import job_of
from snn.models.gradients import EXACT
from snn.planning import remedies
from snn.planning.gpus import Gpu, PlannedGpu
from snn.planning.remedies import Change
from snn.profiling.rehearsal import Needs, extrapolated, rehearse
from snn.strategies import factory
from snn.strategies.factory import Job
from snn.strategies.host_driven import HostDriven

_FLOAT = 4  # bytes
_COPIES_OF_ROWS = 3  # that a rehearsal fills, at most: X and Y, and those that a strategy keeps on the host
_COPIES_OF_WEIGHTS = 5  # of a host-driven strategy, more than are held in its rehearsal
_OF_ROWS = ("rows", "test_rows", "held_out")
_FEW = 128  # rows: the launches of a larger batch are not known before it is rehearsed
_MOST_LAUNCHES = 2000  # of a step that is rehearsed


class TooLargeHere(ConfigError):
    """This machine has too little memory to plan a cell."""


@dataclass(frozen=True)
class Remedy:
    """A change of a cell's settings: the bytes at the peak with it, and what it costs, in words.

    ``than``: the change that it is compared with, where that is not the cell as it is.
    """

    setting: str
    peak_bytes: int
    saves_bytes: int
    fits: bool
    cost: str
    than: str = ""


@dataclass(frozen=True)
class Plan:
    """What a cell needs, by kind, and its budget, in bytes.

    ``largest_batch`` is None where no batch fits; ``limit``, where it is not the budget that a larger one
    would exceed: "rows" where there are no more, or else why a larger one is not planned. The ``remedies``
    that save most are first; some that are often named are there also where they save nothing. ``plan`` is
    that of a strategy which chooses among ways to train, as records and tables have it.
    """

    bytes: dict[str, int]
    budget_bytes: int
    largest_batch: int | None
    limit: str
    remedies: tuple[Remedy, ...]
    plan: str | None = None

    @property
    def peak_bytes(self) -> int:
        return sum(self.bytes.values())

    @property
    def fits(self) -> bool:
        return self.peak_bytes <= self.budget_bytes

    def plain(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "bytes": self.bytes,
            "peak_bytes": self.peak_bytes,
            "budget_bytes": self.budget_bytes,
            "fits": self.fits,
            "largest_batch": self.largest_batch,
            "limit": self.limit,
            "plan": self.plan,
            "remedies": [vars(remedy) for remedy in self.remedies],
        }


def plan(cell: Mapping[str, Any], gpu: Gpu, budget_bytes: int) -> Plan:
    """What a cell needs on a GPU, and what would help it into the budget.

    Raises ConfigError for a strategy whose memory cannot be known, Unsupported where it cannot train.
    """
    cell = Cell(cell)
    needs = _needs(cell, gpu)
    needed = _by_kind(cell, gpu, needs)
    rehearsed = cache(lambda batch: _rehearsed(_batch(cell, batch), gpu))
    parts, refused = cell["training"]["accumulate"], dict[int, str]()
    rows = planned(_batch(cell, parts)).rows

    def total(rows_of_part: int) -> float:
        batch = parts * rows_of_part
        try:
            check_matrices(_batch(cell, batch))
            return sum(_by_kind(cell, gpu, _of_batch(cell, batch, rehearsed)).values())
        except ConfigError as error:
            refused[rows_of_part] = str(error)
        except Unsupported as error:  # as that of one launch is for some batches between others
            refused[rows_of_part] = f"one of {batch} is unsupported, though larger ones may not be: {error}"
        return inf

    own = min(cell.batch_size, rows) // parts
    of_part = largest_batch(total, budget_bytes, rows // parts, own if total(own) <= budget_bytes else 1)
    largest = of_part and parts * of_part
    limit = "rows" if largest == rows else ""
    if of_part == rows // parts and not limit:
        limit = f"{parts} equal micro-batches take no more of the {rows} rows"
    if of_part and (near := [n for n in refused if n <= of_part + _apart(of_part)]):
        limit = refused[min(near)]
    found = _remedies(cell, gpu, budget_bytes, needs, largest)
    return Plan(needed, budget_bytes, largest, limit, tuple(found), needs.plan)


def predicted(cell: Mapping[str, Any], gpu: Gpu) -> dict[str, int]:
    """The bytes of device memory at the peak of a cell's training, by kind.

    The kinds are the purposes of ``snn.profiling.memory``; ``rounding``, what the driver maps beyond what is
    asked for; and ``runtime``, what the CUDA runtime takes for itself. Raises as ``plan`` does.
    """
    cell = Cell(cell)
    return _by_kind(cell, gpu, _needs(cell, gpu))


def largest_batch(needed: Callable[[int], float], budget: int, rows: int, known: int = 1) -> int | None:
    """The largest batch, of at most all rows, that needs no more than the budget; None where the one that is
    ``known`` not to need more, or to be the smallest, does.

    A larger batch hardly ever needs less; one that is not planned needs ``inf``. Found to half a percent.
    """
    fits, too_many = known, rows
    least, most = needed(fits), needed(too_many)
    if least > budget:
        return None
    if most <= budget:
        return rows
    on_line = True
    while too_many - fits > _apart(fits):
        share = (budget - least) / (most - least) if on_line and most < inf else 0.5
        between = min(max(fits + 1, fits + int(share * (too_many - fits))), too_many - 1)
        nbytes = needed(between)
        if nbytes <= budget:
            fits, least = between, nbytes
        else:
            too_many, most = between, nbytes
        on_line = not on_line
    return fits


def _apart(fits: int) -> int:
    """How far from a batch that fits the least one may be that is known not to."""
    return max(1, fits // 200)


def _needs(cell: Cell, gpu: Gpu) -> Needs:
    strategy = cell["strategy"]
    package = factory.own_runtime(strategy)
    if package:
        raise ConfigError(f"strategy={cell.strategy}: {package} allocates by itself: nothing is predicted")
    if factory.on_host(strategy):
        raise ConfigError(f"strategy={cell.strategy} trains on the CPU and uses no device memory")
    check_matrices(cell)
    _check_host(cell)
    return _of_batch(cell, cell.batch_size, lambda n: _rehearsed(_batch(cell, n), gpu))


def _check_host(cell: Cell) -> None:
    """Raise TooLargeHere where a strategy keeps weights on the host that this machine has no memory for."""
    strategy = cell["strategy"]
    if not issubclass(factory.class_of(strategy), HostDriven):
        return
    network = planned(cell).job.network
    needed = _COPIES_OF_WEIGHTS * _FLOAT * sum(map(prod, network.shapes))
    if needed > usable_bytes():
        raise TooLargeHere(
            f"strategy={cell.strategy} keeps weights on the host, so a plan for network "
            f"{cell.network} takes {needed / 1e9:.3g} GB of memory here, but this machine "
            f"has {usable_bytes() / 1e9:.3g} GB: plan a device-driven strategy, such as graph, or a smaller "
            "network"
        )


def _of_batch(cell: Cell, batch: int, rehearsed: Callable[[int], Needs]) -> Needs:
    """The needs at a batch size; of one with very many tiles, by their growth up to it."""
    if batch <= _FEW or "tile_rows" not in cell["strategy"]:
        return rehearsed(batch)
    most = max(_FEW, _FEW * _MOST_LAUNCHES // rehearsed(_FEW).per_step["launches"])
    if batch <= most:
        return rehearsed(batch)
    half = most // 2
    return extrapolated(rehearsed(half), rehearsed(most), (batch - half) / (most - half))


def _rehearsed(cell: Cell, gpu: Gpu) -> Needs:
    """The needs of a cell, rehearsed; raises TooLargeHere where it asks for more than this machine has.

    Matrices of the host are asked for, but hardly any is filled, so that all but the largest are granted.
    """
    job, rows = planned(cell)
    try:
        return rehearse(job, rows, _backend(cell, gpu))
    except MemoryError as error:
        raise TooLargeHere(
            f"a plan for strategy={cell.strategy} and training.batch_size={job.batch_size} asks "
            f"for more memory than this machine has, {usable_bytes() / 1e9:.3g} GB ({error}): plan a smaller "
            "batch, or a device-driven strategy, such as graph"
        ) from error


def _backend(cell: Cell, gpu: Gpu) -> PlannedGpu:
    return PlannedGpu(cell["kernel"], cell.precision, gpu.capability)


def _by_kind(cell: Cell, gpu: Gpu, needs: Needs) -> dict[str, int]:
    return needs.by_kind(gpu.pool_step) | {"runtime": gpu.runtime_bytes(cell.kernel, needs)}


def _total(cell: Cell, gpu: Gpu) -> int:
    return sum(predicted(cell, gpu).values())


def _remedies(cell: Cell, gpu: Gpu, budget: int, needs: Needs, largest: int | None) -> list[Remedy]:
    """What saves memory, the most first; behind it, what ``_other_steps`` and bf16 do not save.

    bf16 that takes another kernel is compared with the kernel that saves most without it.
    """
    peak, batch = sum(_by_kind(cell, gpu, needs).values()), cell.batch_size
    found = []
    if peak > budget and largest is not None and largest < batch:
        smaller = _batch(cell, largest)
        cost = remedies.steps(planned(cell).steps, planned(smaller).steps)
        found.append(_remedy(f"training.batch_size={largest}", _total(smaller, gpu), peak, budget, cost))

    def chosen(changes: Iterable[Change]) -> list[Remedy]:
        """Those of other choices that save memory."""
        tried = []
        for setting, changed in changes:
            try:
                others = _needs(changed, gpu)
            except (Unsupported, ConfigError):
                continue
            nbytes = sum(_by_kind(changed, gpu, others).values())
            cost = remedies.calls(needs.per_step, others.per_step)
            tried.append(_remedy(setting, nbytes, peak, budget, cost))
        return [one for one in tried if one.saves_bytes > 0]

    kernels = chosen(remedies.kernels(cell))
    found += chosen(remedies.strategies(cell)) + kernels
    if factory.class_of(cell["strategy"]).remedies and cell["training"]["gradient"] == EXACT.name:
        found += _other_steps(cell, gpu, budget, peak)
    with suppress(Unsupported):  # a strategy may train in fp32 alone
        found += _rounded(cell, gpu, budget, peak, kernels)
    return sorted(found, key=lambda one: -one.saves_bytes)


def _rounded(cell: Cell, gpu: Gpu, budget: int, peak: int, kernels: Sequence[Remedy]) -> list[Remedy]:
    """What bf16 does not save; where it takes another kernel, compared with the best of those that save."""
    change = remedies.rounded(cell)
    if change is None:
        return []
    one = _remedy(change.settings, _total(change.cell, gpu), peak, budget, remedies.ROUNDED)
    if kernels and change.cell["kernel"] != cell["kernel"]:
        best = min(kernels, key=lambda one: one.peak_bytes)
        one = replace(one, saves_bytes=best.peak_bytes - one.peak_bytes, than=best.setting)
    return [one]


def _other_steps(cell: Cell, gpu: Gpu, budget: int, peak: int) -> list[Remedy]:
    """What micro-batches, layers computed again, and both together would save.

    Of the layers to compute again those that save most. Where the cell does not fit, the fewest
    micro-batches with which it does, without such layers and with them.
    """
    network, batch = planned(cell).job.network, cell.batch_size

    def tried(accumulate: int | None = None, recompute: Sequence[int] = ()) -> Remedy:
        change = remedies.changed(cell, accumulate, recompute)
        cost = remedies.work(network, planned(change.cell).job.network, batch, _backend(cell, gpu))
        return _remedy(change.settings, _total(change.cell, gpu), peak, budget, cost)

    divisors = remedies.micro_batches(cell)
    found = [tried(n) for n in divisors if n in remedies.USUAL]
    ways = {tried(recompute=layers): layers for layers in remedies.layers_again(cell)}
    again = min(ways, key=lambda one: one.peak_bytes, default=None)
    found += [again] if again else []
    if peak > budget:
        for layers in [(), *([ways[again]] if again else [])]:
            first = bisect_left(divisors, True, key=lambda n: tried(n, layers).fits)
            found += [tried(n, layers) for n in divisors[first : first + 1]]
    return list(dict.fromkeys(found))


def _remedy(setting: str, nbytes: int, peak: int, budget: int, cost: str) -> Remedy:
    return Remedy(setting, nbytes, peak - nbytes, nbytes <= budget, cost)


def _batch(cell: Cell, batch: int) -> Cell:
    return cell.replace(training={"batch_size": batch})


# ---- what a cell trains, without its data and without its device: enough to rehearse it


class Planned(NamedTuple):
    """A job of few rows whose values do not matter, and how many rows the cell has."""

    job: Job
    rows: int

    @property
    def steps(self) -> int:
        """The steps of an epoch on these rows."""
        return -(-self.rows // self.job.batch_size)


def planned(cell: Mapping[str, Any], batches: int = 4) -> Planned:
    """What a cell trains, with the rows of a few batches in place of its own. ``batches``: at most so many.

    Raises DataError where its data set's size cannot be found, ConfigError where it does not fit the network
    or, as TooLargeHere, this machine.
    """
    (table_rows, columns), facts = _table_shape(cell["dataset"])
    rows, _ = datasets.counts(table_rows, cell["dataset"])
    batch = cell["training"]["batch_size"]
    if cell["training"]["drop_last"]:
        rows = rows // batch * batch
    few = min(rows, batches * batch + rows % batch)
    needed = _COPIES_OF_ROWS * _FLOAT * few * columns
    if needed > usable_bytes():
        raise TooLargeHere(
            f"a plan of {few} rows of dataset={cell['dataset']['name']} takes {needed / 1e9:.3g} GB of "
            f"memory here, but this machine has {usable_bytes() / 1e9:.3g} GB: plan a smaller batch"
        )
    dataset = {key: value for key, value in cell["dataset"].items() if key not in _OF_ROWS}
    zeros = datasets.Table(np.zeros((few, columns), dtype=np.float32), facts)
    job = job_of({**cell, "dataset": dataset}, zeros)
    return Planned(replace(job, test=None), rows)


def _table_shape(choice: Mapping[str, Any]) -> tuple[tuple[int, int], Mapping[str, Any]]:
    """Rows and columns of a data set's table, without making it where its choice says them; and the facts of
    one that is made."""
    known = datasets.completed(choice)
    shape = known.get("shape") or ([known["features"]] if known.get("features") else None)
    if known.get("rows") is None or shape is None:
        read = _read if choice.get("sha256") else _read.__wrapped__
        return read(json.dumps(choice))
    return (known["rows"] + (known.get("test_rows") or 0), prod(shape) + 1), {}


@cache
def _read(choice: str) -> tuple[tuple[int, int], Mapping[str, Any]]:
    """Shape and facts of a table that has to be read, once for each content: the choice has its digest."""
    table = datasets.make(json.loads(choice))
    rows, columns = table.values.shape
    return (rows, columns), table.facts
