"""Finds the paper's speedups (Tables V to VII) of a cell."""

from collections.abc import Mapping
from typing import Any

from snn.config import groups
from snn.config.cell import Cell
from snn.config.settings import settled_strategy, settled_training
from snn.models.network import LEAN, network_label, without_defaults

TABLES = ("speedup", "depth", "neurons")
"""The files of ``config/paper/`` that hold speedups over the reference: Tables V, VII and VI."""

_NETWORKS = ("one_hidden", "two_hidden", "three_hidden")
_DATASET = "large"
"""The data set of Tables VI and VII."""


def speedups(cell: Cell, paper: Mapping[str, Mapping[str, Any]]) -> list[float]:
    """The speedups over the reference that the paper's tables state for a cell.

    Device, protocol and ``training.fidelity`` are ignored. ``paper`` holds the content of each file of
    ``TABLES``. Several tables may have the same cell, so there may be several values; a cell with other
    settings has none.
    """
    networks = [without_defaults(groups.load("network", name)) for name in _NETWORKS]
    strategy, dataset, network = cell.strategy, cell.dataset, cell["network"]
    width = {"hidden": network["hidden"]} if len(network.get("hidden") or ()) == 1 else {}
    kernel, usual = groups.load("kernel", "naive"), groups.default_training()
    if not (
        all(cell["kernel"][key] == kernel[key] for key in ("name", "block"))
        and cell.precision == "fp32"
        and network in [networks[0] | width, *networks[1:]]
        and cell["training"] | {"fidelity": LEAN} == settled_training(usual) | {"fidelity": LEAN}
        and _is_as_in_its_file("dataset", cell["dataset"])
        and _is_as_in_its_file("strategy", cell["strategy"])
    ):
        return []
    label, found = cell.network, []
    if label == network_label(networks[0]):
        found.append(paper["speedup"].get(strategy, {}).get(dataset))
    if strategy == "combined" and dataset == _DATASET:
        found += [paper[name].get(label, {}).get("speedup") for name in ("depth", "neurons")]
    return list(dict.fromkeys(value for value in found if value is not None))


def _is_as_in_its_file(group: str, choice: Mapping[str, Any]) -> bool:
    name = choice["name"]
    if name not in groups.names(group):
        return False
    usual, ignored = groups.load(group, name), {"_target_": None}
    usual = settled_strategy(usual) if group == "strategy" else usual
    return usual | ignored == {**choice, **ignored}
