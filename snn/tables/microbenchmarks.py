"""The tables of microbenchmarks, from the readings of a record.

Times and rates are medians of independent samples, with a 95% interval that assumes nothing of their
distribution.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis import launch_gain as gain
from snn.analysis.frame import frame_of
from snn.analysis.roofline import limit_of
from snn.microbenchmarks.fragmentation import AGAIN, CAP, FIRST
from snn.microbenchmarks.memory_calls import BOTH, COPIES, FROM_PAGEABLE, FROM_PINNED, PRODUCTS
from snn.microbenchmarks.readings import OK, OUT_OF_MEMORY, Reading
from snn.microbenchmarks.shapes import GRAPH, PERSISTENT
from snn.tables.table import Table

Record = Mapping[str, Any]
Row = dict[str, Any]
Readings = Sequence[Reading]
_GB = 1e-9


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


def _interval(samples: Sequence[float], name: str = "") -> Row:
    """``median``, ``low`` and ``high``, or ``name`` with these endings; None without samples."""
    names = (name, f"{name}_low", f"{name}_high") if name else ("median", "low", "high")
    return dict(zip(names, median_interval(samples) if samples else (None, None, None), strict=True))


def _end(reading: Reading) -> Row:
    return {"status": reading.status, "reason": reading.reason}


def _table(record: Record, rows: Sequence[Row]) -> pd.DataFrame:
    where = record["provenance"]
    return frame_of(rows).assign(device=where["device"], backend=where["backend"])


def readings_table(title: str, rows: Callable[[Readings], Sequence[Row]]) -> Table:
    """A table of these rows of the readings of a record."""
    return Table(title, lambda record: _table(record, rows(list(map(Reading.of, record["readings"])))))


def _group(readings: Readings, *keys: str) -> dict[Any, dict[Any, list[Reading]]]:
    """Readings by the values of all ``keys`` but the last, and then by that of the last."""
    groups: dict[Any, dict[Any, list[Reading]]] = {}
    for reading in readings:
        *place, kind = (reading.point[key] for key in keys)
        groups.setdefault(tuple(place), {}).setdefault(kind, []).append(reading)
    return groups


def _access(record: Record, *limits: Record) -> pd.DataFrame:
    """One row per pattern, value and access, with the requested bytes per second.

    ``moved_gb_s`` counts the whole sectors (on a CPU: lines of the cache) that hold these bytes, once for
    each group of threads that asks for them; if a cache serves repeated requests, it can exceed the limit.
    """
    known = {access: limit_of(record, limits, f"dram_{access}") for access in ("read", "copy")}
    rows = []
    for reading in map(Reading.of, record["readings"]):
        point, limit = reading.point, known[reading.point["access"]]
        rates = [_GB * point["useful_bytes"] / seconds for seconds in reading.seconds]
        interval = _interval(rates)
        rate = interval["median"]
        rows.append(
            {
                **point,
                **interval,
                "unit": "GB/s",
                "moved_gb_s": rate and rate * point["moved_bytes"] / point["useful_bytes"],
                "limit_gb_s": limit and _GB * limit,
                "fraction_of_limit": rate / (_GB * limit) if rate and limit else None,
                "samples": len(rates),
                **_end(reading),
            }
        )
    return _table(record, rows)


memory_access = Table("Bandwidth by pattern of memory access", _access)


# ---- memory_calls


def _calls(readings: Readings) -> list[Row]:
    """One row per call, direction, size and number of streams.

    The rows ``overlap`` are the fraction of the shorter of copies and products that overlaps the longer one:
    (copies + products - both) / min(copies, products), sample by sample.
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


_POINT = ("kind", "call", "direction", "bytes", "live", "streams")


def _call(reading: Reading, unit: str, values: list[float], names: Sequence[str] = _POINT) -> Row:
    point = {key: reading.point.get(key) for key in names}
    return {**point, **_interval(values), "unit": unit, "samples": len(values), **_end(reading)}


memory_calls = readings_table("Time of memory calls", _calls)


# ---- allocation_size

_KNEE = 3.0  # times the time of the smallest size


def _allocation_sizes(readings: Readings) -> list[Row]:
    """One row per call, live blocks, kind and size, with the size at which that call becomes expensive.

    ``knee_bytes`` is the least size from which on each size takes more than ``_KNEE`` times as long as the
    smallest; None if the largest does not.
    """
    rows = []
    for kinds in _group(readings, "call", "live", "kind").values():
        for series in kinds.values():
            found = [
                _call(
                    one, "us", [1e6 * seconds for seconds in one.seconds], ("kind", "call", "bytes", "live")
                )
                for one in series
            ]
            timed = sorted((row for row in found if row["median"]), key=lambda row: row["bytes"])
            knee = None
            for row in reversed(timed):
                if row["median"] <= _KNEE * timed[0]["median"]:
                    break
                knee = row["bytes"]
            rows += [{**row, "knee_bytes": knee} for row in found]
    return rows


allocation_size = readings_table("Time of allocations by size", _allocation_sizes)


# ---- fragmentation


def _fragmentation(readings: Readings) -> list[Row]:
    """One row per trace and allocator; of cudaMalloc, which keeps nothing, both times are the same."""
    rows = []
    for (trace, allocator), kinds in _group(readings, "trace", "allocator", "kind").items():
        first = kinds[FIRST][0]
        again, point = kinds.get(AGAIN, [first])[0], first.point
        used, calls = point["peak_bytes"], point["calls"]
        reserved = float(point["reserved_bytes"]) if first.status == OK else None
        row = {
            **{"trace": trace, "allocator": allocator, "calls": calls, "used_bytes": used},
            **{"reserved_bytes": reserved, "reserved_over_used": reserved and reserved / used},
        }
        for kind, reading in (("first_us", first), ("again_us", again)):
            timed = reading.seconds if reading.status == OK else ()
            row |= _interval([1e6 * seconds / calls for seconds in timed], kind)
        row |= dict.fromkeys(("suffices", "fails", "served"))
        for cap in kinds.get(CAP, ()):
            if cap.status == OK:
                row["suffices"] = cap.point["percent"] / 100
            elif cap.status == OUT_OF_MEMORY:
                row |= {"fails": cap.point["percent"] / 100, "served": cap.point["served"] / calls}
        rows.append(row | _end(first))
    return rows


fragmentation = readings_table("Fragmentation by allocator", _fragmentation)


# ---- memory_map

_BLOCK = ("allocated", "freed", "place", "bytes", "in_use_bytes", "reserved_bytes")


def _map(readings: Readings) -> list[Row]:
    """One row per allocator and block, or with the reason of an allocator that the device does not have.

    ``place`` counts bytes without the parts of the address space that no block of the trace touches.
    """
    rows = []
    for reading in readings:
        names = {key: reading.point[key] for key in ("trace", "allocator")}
        series = reading.series if reading.status == OK else {name: [None] for name in _BLOCK}
        for block in zip(*(series[name] for name in _BLOCK), strict=True):
            rows.append({**names, **dict(zip(_BLOCK, block, strict=True)), **_end(reading)})
    return rows


memory_map = readings_table("Memory map over time", _map)


# ---- shapes

_GRAPHS = (GRAPH, "graph_pdl", "graph_loop")


def _shapes(readings: Readings, backend: str) -> list[Row]:
    """One row per shape: time per step of ``persistent`` without its fallback, of ``graph`` and peers."""
    rows = []
    for strategies in _group(readings, "shape", "strategy").values():
        own = strategies[PERSISTENT][-1]
        samples = {
            name: [1e6 * seconds for seconds in reading.seconds]
            for name, (*_, reading) in strategies.items()
            if reading.status == OK
        }
        medians = {name: median(of) for name, of in samples.items()}
        graphs = {name: medians.pop(name) for name in _GRAPHS if name in medians}
        best_graph = min(graphs, key=graphs.__getitem__, default=None)
        peers = {name: us for name, us in medians.items() if name != PERSISTENT}
        best = min(peers, key=peers.__getitem__, default=None)
        row = {key: own.point[key] for key in ("shape", "batch", "features", "hidden", "outputs", "biases")}
        for name in (PERSISTENT, GRAPH):
            row |= _interval(samples.get(name, ()), f"{name}_us")
        kernels = _kernels(row, backend)
        graph_us = best_graph and graphs[best_graph]
        row |= {"kernels": kernels, "kernel_us": kernels and graph_us and graph_us / kernels}
        times = (row["persistent_us"], row["graph_us"], graph_us, best and peers[best])
        over_graph, over_best_graph, over_peer = (
            other / times[0] if other and times[0] else None for other in times[1:]
        )
        row |= {
            "speedup_over_graph": over_graph,
            "best_graph": best_graph,
            "speedup_over_best_graph": over_best_graph,
            "best_peer_us": times[3],
            "speedup_over_best_peer": over_peer,
        }
        rows.append(row | {"best_peer": best, "plan": own.point.get("plan"), **_end(own)})
    return rows


def _kernels(row: Row, backend: str) -> int | None:
    """The kernels of a step of a graph, two for the first layer and three for each other.

    None for networks with biases or several outputs, whose steps have had other kernels, and on a CPU.
    """
    is_perceptron = backend == "cuda" and row["outputs"] == 1 and not row["biases"]
    return 3 * gain.hidden_layers(row["hidden"]) + 2 if is_perceptron else None


def _shape_rows(record: Record) -> list[Row]:
    return _shapes(list(map(Reading.of, record["readings"])), record["provenance"]["backend"])


shapes = Table("Time per step by shape", lambda record: _table(record, _shape_rows(record)))


def _gains(record: Record, *limits: Record) -> pd.DataFrame:
    """One row per number of hidden layers, and one of two layers and more: the law of ``launch_gain``."""
    rows: dict[int, list[Row]] = {}
    for row in _shape_rows(record):
        rows.setdefault(gain.hidden_layers(row["hidden"]), []).append(row)
    groups = {str(layers): rows[layers] for layers in sorted(rows)}
    deeper = [row for layers, some in rows.items() if layers > 1 for row in some]
    gap = limit_of(record, limits, "graph_node")
    found = []
    for name, some in (groups | {f"2-{max(rows)}": deeper} if max(rows) > 2 else groups).items():
        known = [row for row in some if row["kernel_us"] and row["speedup_over_best_graph"]]
        x, y = (np.array([row[key] for row in known]) for key in ("kernel_us", "speedup_over_best_graph"))
        law = gain.fit(x, y)
        medians = (float(np.median(x)), float(np.median(y))) if known else (None, None)
        row = {"hidden_layers": name, "shapes": len(known), "kernel_us": medians[0], "speedup": medians[1]}
        row |= law._asdict() if law else dict.fromkeys(gain.Law._fields)
        found.append(row | {"gap_us": gap and 1e6 * gap})
    return _table(record, found)


launch_gain = Table("Gain of one launch over a CUDA graph", _gains)
