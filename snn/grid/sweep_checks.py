"""Whether the tables of a sweep can be made from its cells, before any of them is measured."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from snn.config.neighbour import NONE
from snn.errors import ConfigError
from snn.grid.catalogue import CNN_REPORT, TABLES
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import network_label
from snn.strategies.common.traits import side_by_side

NEIGHBOURS = "neighbours"
"""The table of cells beside others of themselves alone."""

_OF_MEMBERS = ("correctness", "learning_rates")
"""Those that tell of each network of a launch; the others' times are of one network alone."""


def check_sweep(sweep: str, cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise ConfigError where a table of this sweep cannot be made from its cells."""
    several = next((cell["strategy"]["name"] for cell in cells if side_by_side(cell["strategy"])), None)
    for name, table in TABLES.items():
        if table.sweep != sweep:
            continue
        for section, choice in table.only.items():
            if not any(cell[section]["name"] == choice for cell in cells):
                raise ConfigError(f"{section}: {choice} is missing: {name}.csv is about it")
        if table.one_row_per:
            _check_one_row(name, table.one_row_per, cells)
        if table.category == CNN_REPORT:
            _check_images(name, cells)
        if name == NEIGHBOURS:
            _check_alone(cells)
        if several and name not in _OF_MEMBERS:
            raise ConfigError(
                f"strategy: a run of {several} trains several networks, and times in {name}.csv are of one: "
                "give the sweep a name of its own"
            )


def _check_one_row(table: str, per: str, cells: Sequence[Mapping[str, Any]]) -> None:
    needed = {"reference", "combined"} if per == "network" else {"reference"}
    missing = needed - {cell["strategy"]["name"] for cell in cells}
    if missing:
        raise ConfigError(f"strategy: {', '.join(sorted(missing))} is missing: {table}.csv divides by it")
    rows = Counter((cell["strategy"]["name"], _place(cell, per)) for cell in cells)
    (strategy, point), count = rows.most_common(1)[0]
    if count > 1:
        raise ConfigError(
            f"{count} cells are {strategy} with {point}, {table}.csv has room for one: "
            "give the sweep with the further axis a name of its own"
        )


def _check_images(table: str, cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise ConfigError unless every cell has what tables of the CNN report show: epochs and an accuracy."""
    for cell in cells:
        dataset, network = cell["dataset"], cell["network"]
        if "test_rows" not in dataset:
            raise ConfigError(
                f"dataset: {dataset['name']} has no test rows, and {table}.csv shows the accuracy on them: "
                "give the sweep a name of its own, or choose a data set of images, as patterns"
            )
        if network.get("loss") != CROSS_ENTROPY.name:
            raise ConfigError(
                f"network: {network_label(network)} is not trained with cross_entropy, and {table}.csv shows "
                "accuracies: give the sweep a name of its own, or choose network: cnn"
            )


def _check_alone(cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise ConfigError unless every cell is there alone, and some of them beside a neighbour."""
    alone = {_alone(cell) for cell in cells if cell["protocol"].get("neighbour") == NONE}
    if len(alone) == len(cells) or not alone.issuperset(map(_alone, cells)):
        raise ConfigError(
            f"protocol.neighbour must be a list of {NONE} and one or more strategies: {NEIGHBOURS}.csv "
            "divides the time of each cell beside a neighbour by its time alone"
        )


def _alone(cell: Mapping[str, Any]) -> str:
    """The same cell without a neighbour, as text."""
    return json.dumps({**cell, "protocol": {**cell["protocol"], "neighbour": NONE}}, sort_keys=True)


def _place(cell: Mapping[str, Any], per: str) -> str:
    return network_label(cell["network"]) if per == "network" else cell["dataset"]["name"]
