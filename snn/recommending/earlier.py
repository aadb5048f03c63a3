"""Finds the fastest strategy in records that the workflow or ``snn recommend`` left in this folder."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from glob import escape
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from snn.config import groups
from snn.config.cell import Cell
from snn.errors import RecordError
from snn.files import regular
from snn.hardware.devices import Device
from snn.models.network import network_label
from snn.recommending import PROJECT
from snn.records import store
from snn.records.untrusted import MOST_BYTES
from snn.strategies import factory

_OF_A_STEP = ("batch_size", "optimizer", "shuffle", "accumulate", "gradient", "validation")
"""Keys of ``training`` that decide what a step computes."""
_NOT_OF_A_STEP = ("init", "seed")
"""Keys of ``network`` that do not."""


_DECODER = json.JSONDecoder()
_CELL, _STARTED = re.compile(r'"cell":\s*'), re.compile(r'"started":\s*"([^"]*)"')
"""Patterns of two keys in a record's text; no other key of a record has these names."""


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
    paths = _paths_by_job(cell, PROJECT / "results/cells" / device.slug)
    latest, fastest, compared = "", [], 0
    # Newest jobs first, by the starts that records state: older ones need not be read as a whole.
    for said, of_job in sorted(paths.items(), key=lambda one: max(one[1]), reverse=True):
        if max(of_job)[0] <= latest:
            break
        by_strategy = _comparable([path for _, path in of_job], said, features, device)
        if len(by_strategy) > 1 and (last := max(map(_started, chain(*by_strategy)))) > latest:
            latest, compared = last, len(by_strategy)
            fastest = min(by_strategy, key=lambda records: float(np.mean([*map(_mean, records)])))
    if not fastest:
        return None
    made = fastest[0]["cell"]
    strategy, kernel = (
        {**groups.load(key, made[key]["name"]), **made[key]} for key in ("strategy", "kernel")
    )
    return Winner(strategy, kernel, compared, max(map(_started, fastest))[:10])


def _paths_by_job(cell: Cell, folder: Path) -> dict[str, list[tuple[str, Path]]]:
    """Paths of the records of the same steps, each with its start, by data set and training settings.

    There may be thousands of records, so only these keys are read from each, and nothing is checked.
    """
    found: dict[str, list[tuple[str, Path]]] = defaultdict(list)
    for path in folder.glob(f"*/{escape(network_label(cell['network']))}/*-round*.json"):
        with suppress(RecordError, ValueError, KeyError, TypeError, AttributeError):
            text = regular.read(path, RecordError, MOST_BYTES).decode()
            at, started = _CELL.search(text), _STARTED.search(text)
            if at and started:
                stated, _ = _DECODER.raw_decode(text, at.end())
                made = store.lift({"cell": stated})["cell"]
                if _steps(made) == _steps(cell):
                    found[_job(made)].append((started[1], path))
    return found


def _comparable(paths: Sequence[Path], job: str, features: int, device: Device) -> list[list[store.Record]]:
    """The records that may be compared, of each strategy with its kernel."""
    found: dict[str, list[store.Record]] = defaultdict(list)
    for path in paths:
        with suppress(RecordError):
            record = store.read(path)
            made = record["cell"]
            if record["status"] != "ok" or record["provenance"]["device"] != device.name:
                continue
            if _job(made) != job or record["data"]["features"] != features:
                continue
            if not (factory.own_runtime(made["strategy"]) or factory.side_by_side(made["strategy"])):
                found[json.dumps([made["strategy"], made["kernel"]], sort_keys=True)].append(record)
    return [*found.values()]


def _job(cell: Mapping[str, Any]) -> str:
    return json.dumps([cell["dataset"], cell["training"]], sort_keys=True)


def _steps(cell: Mapping[str, Any]) -> list[Any]:
    network = {key: value for key, value in cell["network"].items() if key not in _NOT_OF_A_STEP}
    return [network, cell["precision"], *(cell["training"].get(key) for key in _OF_A_STEP)]


def _started(record: store.Record) -> str:
    return str(record["provenance"]["started"])


def _mean(record: store.Record) -> float:
    return float(np.mean(store.run_seconds(record)))
