"""Finds the fastest strategy in records that the workflow or ``snn recommend`` left in this folder."""

import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from glob import escape
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from snn.config import groups
from snn.config.cell import Cell
from snn.errors import RecordError
from snn.hardware.devices import Device
from snn.models.network import network_label
from snn.recommending import PROJECT
from snn.records import store
from snn.strategies import factory

_OF_A_STEP = ("batch_size", "optimizer", "shuffle", "accumulate", "gradient", "validation")
"""Keys of ``training`` that decide what a step computes."""
_NOT_OF_A_STEP = ("init", "seed")
"""Keys of ``network`` that do not."""


class Winner(NamedTuple):
    """Sections ``strategy`` and ``kernel`` of the fastest of ``compared`` cells, and when it was measured."""

    strategy: dict[str, Any]
    kernel: dict[str, Any]
    compared: int
    date: str


def winner(cell: Cell, features: int, device: Device) -> Winner | None:
    """The fastest strategy of the latest records of the same steps on a device; None without two of them.

    The number of epochs, the learning rate and the data may differ, but not the number of features. Peers,
    and strategies that train several networks, are left out.
    """
    jobs: dict[str, dict[str, list[store.Record]]] = defaultdict(lambda: defaultdict(list))
    folder = PROJECT / "results/cells" / device.slug
    for path in folder.glob(f"*/{escape(network_label(cell['network']))}/*-round*.json"):
        with suppress(RecordError):
            record = store.read(path)
            made = record["cell"]
            if record["status"] != "ok" or record["provenance"]["device"] != device.name:
                continue
            if _steps(made) != _steps(cell) or record["data"]["features"] != features:
                continue
            if not (factory.own_runtime(made["strategy"]) or factory.side_by_side(made["strategy"])):
                job = json.dumps([made["dataset"], made["training"]], sort_keys=True)
                jobs[job][json.dumps([made["strategy"], made["kernel"]], sort_keys=True)].append(record)
    compared = [job for job in jobs.values() if len(job) > 1]
    if not compared:
        return None
    latest = max(compared, key=lambda job: max(map(_started, chain.from_iterable(job.values()))))
    fastest = min(latest.values(), key=lambda records: np.mean([*map(_mean, records)]))
    made = fastest[0]["cell"]
    strategy, kernel = (
        {**groups.load(key, made[key]["name"]), **made[key]} for key in ("strategy", "kernel")
    )
    return Winner(strategy, kernel, len(latest), max(map(_started, fastest))[:10])


def _steps(cell: Mapping[str, Any]) -> list[Any]:
    network = {key: value for key, value in cell["network"].items() if key not in _NOT_OF_A_STEP}
    return [network, cell["precision"], *(cell["training"].get(key) for key in _OF_A_STEP)]


def _started(record: store.Record) -> str:
    return str(record["provenance"]["started"])


def _mean(record: store.Record) -> float:
    return float(np.mean(store.run_seconds(record)))
