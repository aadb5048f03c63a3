"""The tables of microbenchmarks, from the readings of a record.

Times and rates are medians of independent samples, with a 95% interval that assumes nothing of their
distribution.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import pandas as pd

from snn.analysis.roofline import limit_of
from snn.microbenchmarks.fragmentation import AGAIN, CAP, FIRST
from snn.microbenchmarks.memory_calls import BOTH, COPIES, FROM_PAGEABLE, FROM_PINNED, PRODUCTS
from snn.microbenchmarks.readings import OK, OUT_OF_MEMORY, Reading
from snn.microbenchmarks.shapes import GRAPH, PERSISTENT
from snn.tables.table import Table

Record = Mapping[str, Any]
Readings = Sequence[Reading]
_INTERVAL = ("median", "low", "high")


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """The median of independent samples, and the ends of its interval by order statistics.

    The ends are the samples of rank k + 1 from below and from above, with the largest k for which the
    interval holds the median with this probability or more: 1 - 2 P(B <= k), B binomial of as many draws
    of probability 1/2 (David and Nagaraja, Order Statistics, 7.1). Of fewer than six samples no two ends do:
    they are NaN.
    """
    ordered, count = sorted(samples), len(samples)
    rank, beyond = -1, 0.0
    while True:
        beyond += math.comb(count, rank + 1) / 2**count
        if 1 - 2 * beyond < confidence:
            break
        rank += 1
    if rank < 0:
        return median(ordered), math.nan, math.nan
    return median(ordered), ordered[rank], ordered[count - 1 - rank]


def readings_table(
    title: str,
    rows: Callable[[Readings], list[dict[str, Any]]],
    numbers: Sequence[str] = (),
    counts: Sequence[str] = (),
) -> Table:
    """A table of these rows of the readings of a record."""
    return Table(title, lambda record: _table(record, rows(_readings(record)), numbers, counts))


def _readings(record: Record) -> Readings:
    return list(map(Reading.of, record["readings"]))


def _table(
    record: Record, rows: list[dict[str, Any]], numbers: Sequence[str], counts: Sequence[str] = ()
) -> pd.DataFrame:
    """The columns ``numbers`` and ``counts`` hold floats and integers, also where no row has one."""
    table = pd.DataFrame(rows).astype(dict.fromkeys(counts, "Int64") | dict.fromkeys(numbers, float))
    return table.assign(device=record["provenance"]["device"], backend=record["provenance"]["backend"])


def _group(readings: Readings, *keys: str) -> dict[Any, dict[Any, list[Reading]]]:
    """Readings by the values of all ``keys`` but the last, and then by that of the last."""
    groups: dict[Any, dict[Any, list[Reading]]] = {}
    for reading in readings:
        *place, kind = (reading.point[key] for key in keys)
        groups.setdefault(tuple(place), {}).setdefault(kind, []).append(reading)
    return groups


# ---- memory_access

_GB = 1e-9
_RATES = ("moved_gb_s", "limit_gb_s", "fraction_of_limit")


def _access(record: Record, *limits: Record) -> pd.DataFrame:
    """One row per pattern, value and access: the bytes per second that are asked for.

    ``moved_gb_s`` counts the whole sectors (on a CPU: lines of the cache) that hold these bytes, once for
    each group of threads that asks for them; where a cache has them the second time, it can exceed the limit.
    """
    known = {access: limit_of(record, limits, f"dram_{access}") for access in ("read", "copy")}
    rows = []
    for reading in _readings(record):
        useful, limit = reading.point["useful_bytes"], known[reading.point["access"]]
        rates = [_GB * useful / seconds for seconds in reading.seconds]
        row = {**reading.point, **dict.fromkeys((*_INTERVAL, "unit", *_RATES)), "unit": "GB/s"}
        row |= {"samples": len(rates), "status": reading.status, "reason": reading.reason}
        row["limit_gb_s"] = limit and _GB * limit
        if rates:
            row |= dict(zip(_INTERVAL, median_interval(rates), strict=True))
            row["moved_gb_s"] = row["median"] * reading.point["moved_bytes"] / useful
            row["fraction_of_limit"] = row["median"] / (_GB * limit) if limit else None
        rows.append(row)
    return _table(record, rows, (*_INTERVAL, *_RATES))


memory_access = Table("Bandwidth by pattern of memory access", _access)


# ---- memory_calls

_COUNTS = ("bytes", "live", "streams")


def _calls(readings: Readings) -> list[dict[str, Any]]:
    """One row per call, direction, size and number of streams.

    The rows ``overlap`` are the fraction of the shorter of copies and products that runs beside the longer
    one: (copies + products - both) / min(copies, products), sample by sample.
    """
    rows = [_call(reading, "us", [1e6 * seconds for seconds in reading.seconds]) for reading in readings]
    copies = [one for one in readings if one.point.get("kind") in (FROM_PINNED, FROM_PAGEABLE)]
    for parts in _group(copies, "kind", "streams", "call").values():
        if parts.keys() != {COPIES, PRODUCTS, BOTH}:
            continue
        three = [parts[call][-1] for call in (COPIES, PRODUCTS, BOTH)]
        fractions = []
        if all(part.status == OK for part in three):
            times = zip(*(part.seconds for part in three), strict=False)
            fractions = [(alone + other - both) / min(alone, other) for alone, other, both in times]
        rows.append(_call(three[-1], "fraction", fractions) | {"call": "overlap"})
    return rows


def _call(reading: Reading, unit: str, values: list[float]) -> dict[str, Any]:
    interval = median_interval(values) if values else (None, None, None)
    return {
        **{key: reading.point.get(key) for key in ("kind", "call", "direction", *_COUNTS)},
        **dict(zip(_INTERVAL, interval, strict=True)),
        **{"unit": unit, "samples": len(values), "status": reading.status, "reason": reading.reason},
    }


memory_calls = readings_table("Time of memory calls", _calls, _INTERVAL, _COUNTS)


# ---- fragmentation

_SERVED = (
    *("reserved_bytes", "reserved_over_used"),
    *("first_us", "first_us_low", "first_us_high", "again_us", "again_us_low", "again_us_high"),
    *("suffices", "fails", "served"),
)


def _fragmentation(readings: Readings) -> list[dict[str, Any]]:
    """One row per trace and allocator.

    Times per call are through a new allocator (``first_us``), and through one that has served the trace
    before (``again_us``); of cudaMalloc, which keeps nothing, both are the same. ``suffices`` is the least of
    the caps, as a multiple of the peak in use, with which no allocation failed; ``fails`` the largest with
    which one did, after the share ``served`` of the calls.
    """
    rows = []
    for (trace, allocator), kinds in _group(readings, "trace", "allocator", "kind").items():
        first = kinds[FIRST][0]
        again, point = kinds.get(AGAIN, [first])[0], first.point
        used, calls = point["peak_bytes"], point["calls"]
        row = {"trace": trace, "allocator": allocator, "calls": calls, "used_bytes": used}
        row |= dict.fromkeys(_SERVED)
        if first.status == OK:
            row["reserved_bytes"] = point["reserved_bytes"]
            row["reserved_over_used"] = point["reserved_bytes"] / used
        for kind, reading in (("first_us", first), ("again_us", again)):
            if reading.status == OK:
                row |= _times(kind, [1e6 * seconds / calls for seconds in reading.seconds])
        for cap in kinds.get(CAP, ()):
            if cap.status == OK:
                row["suffices"] = cap.point["percent"] / 100
            elif cap.status == OUT_OF_MEMORY:
                row |= {"fails": cap.point["percent"] / 100, "served": cap.point["served"] / calls}
        rows.append(row | {"status": first.status, "reason": first.reason})
    return rows


def _times(name: str, samples: Sequence[float]) -> dict[str, float]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), median_interval(samples), strict=True))


fragmentation = readings_table("Fragmentation by allocator", _fragmentation, _SERVED)


# ---- memory_map

_BLOCK = ("allocated", "freed", "place", "bytes", "in_use_bytes", "reserved_bytes")


def _map(readings: Readings) -> list[dict[str, Any]]:
    """One row per allocator and block: the calls that allocate and free it, its place and its bytes.

    ``place`` counts bytes without the parts of the address space that no block of the trace touches.
    ``in_use_bytes`` and ``reserved_bytes`` are those of all blocks right after the allocation. An allocator
    that the device does not have is one row, with the reason.
    """
    rows = []
    for reading in readings:
        series = reading.series if reading.status == OK else {name: [None] for name in _BLOCK}
        names = {key: reading.point[key] for key in ("trace", "allocator")}
        ends = {"status": reading.status, "reason": reading.reason}
        for block in zip(*(series[name] for name in _BLOCK), strict=True):
            rows.append({**names, **dict(zip(_BLOCK, block, strict=True)), **ends})
    return rows


memory_map = readings_table("Memory map over time", _map, counts=_BLOCK)


# ---- shapes

_TIMES = tuple(f"{name}_us{end}" for name in (PERSISTENT, GRAPH) for end in ("", "_low", "_high"))
_RATIOS = ("speedup_over_graph", "best_peer_us", "speedup_over_best_peer")


def _shapes(readings: Readings) -> list[dict[str, Any]]:
    """One row per shape: time per step, in us, of ``persistent`` and ``graph``.

    ``persistent`` is measured without its fallback: where no plan takes the shape, ``status`` and ``reason``
    say so, and there is no time. ``best_peer`` is the fastest of the peers that trained the shape.
    """
    rows = []
    for strategies in _group(readings, "shape", "strategy").values():
        own = strategies[PERSISTENT][-1]
        row = {key: own.point[key] for key in ("shape", "batch", "features", "hidden", "outputs", "biases")}
        row |= dict.fromkeys((*_TIMES, *_RATIOS))
        row |= {"best_peer": None, "plan": own.point.get("plan"), "status": own.status, "reason": own.reason}
        peers = {}
        for name, (*_, reading) in strategies.items():
            if reading.status == OK:
                samples = [1e6 * seconds for seconds in reading.seconds]
                if name in (PERSISTENT, GRAPH):
                    row |= _times(f"{name}_us", samples)
                else:
                    peers[name] = median(samples)
        if peers:
            row["best_peer"] = min(peers, key=peers.__getitem__)
            row["best_peer_us"] = peers[row["best_peer"]]
        for other in ("graph", "best_peer"):
            if row[f"{other}_us"] and row["persistent_us"]:
                row[f"speedup_over_{other}"] = row[f"{other}_us"] / row["persistent_us"]
        rows.append(row)
    return rows


shapes = readings_table("Time per step by shape", _shapes, (*_TIMES, *_RATIOS))
