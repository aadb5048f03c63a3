"""Time per training step by shape: in one launch, by ``graph``, and by the fastest peer."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.medians import median_interval
from snn.microbenchmarks.readings import OK, Reading
from snn.microbenchmarks.shapes import GRAPH, PERSISTENT

TITLE = "Time per step by shape"

_SHAPE = ("shape", "batch", "features", "hidden", "outputs", "biases")
_TIMES = tuple(f"{name}_us{end}" for name in (PERSISTENT, GRAPH) for end in ("", "_low", "_high"))
_RATIOS = ("speedup_over_graph", "best_peer_us", "speedup_over_best_peer")


def build(record: Mapping[str, Any]) -> pd.DataFrame:
    """One row per shape: median time per step with its 95% interval, in us, of ``persistent`` and ``graph``.

    ``persistent`` is measured without its fallback: where no plan takes the shape, ``status`` and ``reason``
    say so, and there is no time. ``best_peer`` is the fastest of the peers that trained the shape.
    """
    shapes: dict[int, dict[str, Reading]] = {}
    for reading in map(Reading.of, record["readings"]):
        shapes.setdefault(reading.point["shape"], {})[reading.point["strategy"]] = reading
    provenance = record["provenance"]
    table = pd.DataFrame([_row(readings) for readings in shapes.values()])
    table = table.astype(dict.fromkeys((*_TIMES, *_RATIOS), float))
    return table.assign(device=provenance["device"], backend=provenance["backend"])


def _row(readings: Mapping[str, Reading]) -> dict[str, Any]:
    own = readings[PERSISTENT]
    row: dict[str, Any] = {key: own.point[key] for key in _SHAPE} | dict.fromkeys((*_TIMES, *_RATIOS))
    row |= {"best_peer": None, "plan": own.point.get("plan"), "status": own.status, "reason": own.reason}
    times = {}
    for name, reading in readings.items():
        if reading.status == OK:
            times[name] = median_interval([1e6 * seconds for seconds in reading.seconds])
    for name in (PERSISTENT, GRAPH):
        if name in times:
            row[f"{name}_us"], row[f"{name}_us_low"], row[f"{name}_us_high"] = times[name]
    peers = {name: median for name, (median, *_) in times.items() if name not in (PERSISTENT, GRAPH)}
    if peers:
        row["best_peer"] = min(peers, key=peers.__getitem__)
        row["best_peer_us"] = peers[row["best_peer"]]
    for other, ratio in (("graph_us", "speedup_over_graph"), ("best_peer_us", "speedup_over_best_peer")):
        if row[other] and row["persistent_us"]:
            row[ratio] = row[other] / row["persistent_us"]
    return row
