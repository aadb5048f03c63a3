"""Does a cell fit into a device's memory, which batch is the largest that does, and what would help."""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
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
from snn.models import validation
from snn.models.gradients import EXACT
from snn.planning import remedies
from snn.planning.gpus import Gpu, PlannedGpu
from snn.planning.remedies import Change
from snn.profiling.rehearsal import Needs, extrapolated, rehearse, span
from snn.strategies import factory
from snn.strategies.factory import Job
from snn.strategies.host_driven import HostDriven

_FLOAT = 4  # bytes
_COPIES_OF_ROWS = 3  # that a rehearsal fills, at most: X and Y, and a strategy's copies on the host
_COPIES_OF_WEIGHTS = 5  # more than a host-driven strategy holds in its rehearsal
_OF_ROWS = ("rows", "test_rows", "held_out")
_FEW = 128  # rows: the launches of a larger batch are not known before it is rehearsed
_MOST_LAUNCHES = 2000  # of a step that is rehearsed


Remedy = dict[str, Any]


class TooLargeHere(ConfigError):
    """This machine has too little memory to plan a cell."""


def _check_here(nbytes: int, what: str, instead: str) -> None:
    """Raise TooLargeHere unless this machine has so much memory for a plan of something."""
    if nbytes > (has := usable_bytes()):
        raise TooLargeHere(
            f"a plan {what} takes {nbytes / 1e9:.3g} GB of memory here, but this machine has "
            f"{has / 1e9:.3g} GB: plan {instead}"
        )


def plan(cell: Mapping[str, Any], gpu: Gpu, budget_bytes: int) -> dict[str, Any]:
    """A cell's memory on a GPU, and what would make it fit the budget, as JSON values; sizes are in bytes.

    ``bytes`` is the result of ``predicted``, ``peak_bytes`` the sum. ``largest_batch`` is None if no batch
    fits; ``limit``, if a larger one would not exceed the budget: "rows" if no rows are left, or else why a
    larger one is not planned. ``plan`` describes how a strategy with several ways to train would train, as
    in records and tables. ``remedies`` are changes of settings, the largest saving first, including some
    that are often proposed but save nothing: each has ``setting``, ``peak_bytes`` and ``fits`` with it,
    ``cost`` in words, and ``saves_bytes`` compared with the change ``than``, or with the unchanged cell.

    Raises ConfigError for a strategy whose memory cannot be known, Unsupported if it cannot train.
    """
    cell = Cell(cell)
    needs = _needs(cell, gpu)
    needed = _by_kind(cell, gpu, needs)
    rehearsed = cache(lambda batch: _rehearsed(_batch(cell, batch), gpu))
    parts, refused = cell.accumulate, dict[int, str]()
    rows = validation.count_trained(cell, planned(_batch(cell, parts)).rows)

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
    return {
        "bytes": needed,
        "peak_bytes": sum(needed.values()),
        "budget_bytes": budget_bytes,
        "fits": sum(needed.values()) <= budget_bytes,
        "largest_batch": largest,
        "limit": limit,
        "plan": needs.plan,
        "remedies": _remedies(cell, gpu, budget_bytes, needs, largest),
    }


def predicted(cell: Mapping[str, Any], gpu: Gpu) -> dict[str, int]:
    """The bytes of device memory at the peak of a cell's training, by kind.

    The kinds are the purposes of ``snn.profiling.memory``; ``rounding``, which the driver maps in
    addition to what is asked for; and ``runtime``, which the CUDA runtime takes. Raises as ``plan`` does.
    """
    cell = Cell(cell)
    return _by_kind(cell, gpu, _needs(cell, gpu))


def largest_batch(needed: Callable[[int], float], budget: int, rows: int, known: int = 1) -> int | None:
    """The largest batch, of at most all rows, within the budget; None if even the ``known`` one exceeds it.

    ``known``: a batch that is expected to fit, or the smallest one. A larger batch hardly ever needs less;
    one that is not planned needs ``inf``. Accurate to half a percent.
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
    """Allowed distance between a batch that fits and the smallest one known not to."""
    return max(1, fits // 200)


def _needs(cell: Cell, gpu: Gpu) -> Needs:
    strategy = cell["strategy"]
    package = factory.own_runtime(strategy)
    if package:
        raise ConfigError(f"strategy={cell.strategy}: {package} allocates by itself: nothing is predicted")
    if factory.on_host(strategy):
        raise ConfigError(f"strategy={cell.strategy} trains on the CPU and uses no device memory")
    check_matrices(cell)
    if issubclass(factory.class_of(strategy), HostDriven):  # it keeps weights on the host
        nbytes = _COPIES_OF_WEIGHTS * _FLOAT * sum(map(prod, planned(cell).job.network.shapes))
        what = f"for network {cell.network} with strategy={cell.strategy}, which keeps weights on the host,"
        _check_here(nbytes, what, "a device-driven strategy, such as graph, or a smaller network")
    return _of_batch(cell, cell.batch_size, lambda n: _rehearsed(_batch(cell, n), gpu))


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
    """The needs of a cell, rehearsed. Raises TooLargeHere if it asks for more than this machine has.

    Host matrices are allocated, but hardly any is filled, so that all but the largest allocations succeed.
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


def _remedies(cell: Cell, gpu: Gpu, budget: int, needs: Needs, largest: int | None) -> list[Remedy]:
    """Changes that save memory, the largest saving first; last, other steps and bf16, which save none."""
    peak, batch = sum(_by_kind(cell, gpu, needs).values()), cell.batch_size
    network = planned(cell).job.network

    def remedy(setting: str, nbytes: int, cost: str) -> Remedy:
        found = {"setting": setting, "peak_bytes": nbytes, "saves_bytes": peak - nbytes}
        return found | {"fits": nbytes <= budget, "cost": cost, "than": ""}

    def total(changed: Cell) -> int:
        return sum(predicted(changed, gpu).values())

    def chosen(changes: Iterable[Change]) -> list[Remedy]:
        """Those of other choices that save memory."""
        tried = []
        for setting, changed in changes:
            with suppress(Unsupported, ConfigError):
                others = _needs(changed, gpu)
                nbytes = sum(_by_kind(changed, gpu, others).values())
                tried.append(remedy(setting, nbytes, remedies.calls(needs.per_step, others.per_step)))
        return [one for one in tried if one["saves_bytes"] > 0]

    def steps(accumulate: int | None = None, recompute: Sequence[int] = ()) -> Remedy:
        """Micro-batches, layers computed again, or both."""
        setting, changed = remedies.changed(cell, accumulate, recompute)
        cost = remedies.work(network, planned(changed).job.network, batch, _backend(cell, gpu))
        return remedy(setting, total(changed), cost)

    found = []
    if peak > budget and largest is not None and largest < batch:
        smaller = _batch(cell, largest)
        cost = remedies.steps(planned(cell).steps, planned(smaller).steps)
        found.append(remedy(f"training.batch_size={largest}", total(smaller), cost))
    kernels = chosen(remedies.choices(cell, "kernel"))
    found += chosen(remedies.choices(cell, "strategy")) + kernels
    if factory.class_of(cell["strategy"]).remedies and cell.gradient == EXACT.name:
        divisors = remedies.micro_batches(cell)
        found += [steps(n) for n in divisors if n in remedies.USUAL]
        # The choice of layers to compute again that saves most.
        ways = [(steps(recompute=layers), layers) for layers in remedies.layers_again(cell)]
        again = min(ways, key=lambda way: way[0]["peak_bytes"], default=None)
        found += [again[0]] if again else []
        if peak > budget:  # the fewest micro-batches with which it fits, without such layers and with them
            for layers in [(), *([again[1]] if again else [])]:
                first = bisect_left(divisors, True, key=lambda n: steps(n, layers)["fits"])
                found += [steps(n, layers) for n in divisors[first : first + 1]]
    with suppress(Unsupported):
        if change := remedies.halved(cell):
            found.append(remedy(change.settings, total(change.cell), remedies.HALVED))
    with suppress(Unsupported):  # a strategy may train in fp32 alone
        if change := remedies.rounded(cell):
            one = remedy(change.settings, total(change.cell), remedies.ROUNDED)
            if kernels and change.cell["kernel"] != cell["kernel"]:
                # Compared with the kernel that saves most without bf16.
                best = min(kernels, key=lambda one: one["peak_bytes"])
                one |= {"saves_bytes": best["peak_bytes"] - one["peak_bytes"], "than": best["setting"]}
            found.append(one)
    by_setting = {one["setting"]: one for one in found}
    return sorted(by_setting.values(), key=lambda one: -one["saves_bytes"])


def _batch(cell: Cell, batch: int) -> Cell:
    return cell.replace(training={"batch_size": batch})


# ---- a cell's training job without its data and device: enough to rehearse it


class Planned(NamedTuple):
    """A job of few rows whose values do not matter, and how many rows the cell has."""

    job: Job
    rows: int

    @property
    def steps(self) -> int:
        """The steps of an epoch on these rows."""
        return -(-self.rows // self.job.batch_size)


def planned(cell: Mapping[str, Any], batches: int = 4) -> Planned:
    """A cell's training job, with the rows of at most ``batches`` spans instead of all of them.

    Raises DataError if the data set's size cannot be found, ConfigError if it does not fit the network, and
    TooLargeHere if it does not fit this machine.
    """
    (table_rows, columns), facts = _table_shape(cell["dataset"])
    rows, _ = datasets.counts(table_rows, cell["dataset"])
    batch = cell["training"]["batch_size"]
    held = validation.count_rows(cell["training"], rows)
    rows -= held
    if cell["training"]["drop_last"]:
        rows = rows // batch * batch
    of_span = span(batch, cell["strategy"])
    few = min(rows, batches * of_span + rows % of_span)
    _check_here(
        _COPIES_OF_ROWS * _FLOAT * (few + held) * columns,
        f"of {few + held} rows of dataset={cell['dataset']['name']}",
        "a smaller batch",
    )
    dataset = {key: value for key, value in cell["dataset"].items() if key not in _OF_ROWS}
    zeros = datasets.Table(np.zeros((few, columns), dtype=np.float32), facts)
    training = {key: value for key, value in cell["training"].items() if key != "validation"}
    job = job_of({**cell, "dataset": dataset, "training": training}, zeros)
    X, Y = (np.zeros((held, matrix.shape[1]), dtype=np.float32) for matrix in (job.X, job.Y))
    return Planned(replace(job, test=None, validation=(X, Y) if held else None), rows)


def _table_shape(choice: Mapping[str, Any]) -> tuple[tuple[int, int], Mapping[str, Any]]:
    """Rows and columns of a data set's table, and the facts of one that must be made.

    The table is only made if its choice does not give the size.
    """
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
