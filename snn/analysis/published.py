"""The paper's speedups, by what they are of: which cells its Tables V to VII measured."""

from collections.abc import Mapping
from typing import Any

from snn.config import groups
from snn.models.network import network_label

TABLES = ("speedup", "depth", "neurons")
"""The files of ``config/paper/`` that hold speedups over the reference: Tables V, VII and VI."""

_NETWORKS = ("one_hidden", "two_hidden", "three_hidden")
_DATASET = "large"
"""That of Tables VI and VII."""


def speedups(cell: Mapping[str, Any], paper: Mapping[str, Mapping[str, Any]]) -> list[float]:
    """The speedups over the reference that the paper's tables have of a cell.

    Device and protocol are ignored. ``paper`` holds the content of each file of ``TABLES``. One cell is in
    several of the paper's tables, so there may be several values; none of a cell with other settings.
    """
    if not _is_of_paper(cell):
        return []
    strategy, dataset = cell["strategy"]["name"], cell["dataset"]["name"]
    network = network_label(cell["network"])
    found = []
    if network == network_label(groups.load("network", _NETWORKS[0])):
        found.append(paper["speedup"].get(strategy, {}).get(dataset))
    if strategy == "combined" and dataset == _DATASET:
        found += [paper[name].get(network, {}).get("speedup") for name in ("depth", "neurons")]
    return list(dict.fromkeys(value for value in found if value is not None))


def _is_of_paper(cell: Mapping[str, Any]) -> bool:
    """Whether data, network, strategy, kernel and training are as in the files with the paper's settings.

    The network with one hidden layer may have any width.
    """
    kernel, network = groups.load("kernel", "naive"), dict(cell["network"])
    networks = [groups.load("network", name) for name in _NETWORKS]
    if len(network.get("hidden") or ()) == 1:
        networks[0]["hidden"] = network["hidden"]
    return (
        all(cell["kernel"][key] == kernel[key] for key in ("name", "block"))
        and cell.get("precision", {}).get("name", "fp32") == "fp32"
        and network in networks
        and cell["training"] == groups.default_training()
        and all(
            cell[group]["name"] in groups.names(group)
            and _options(groups.load(group, cell[group]["name"])) == _options(cell[group])
            for group in ("dataset", "strategy")
        )
    )


def _options(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "_target_"}
