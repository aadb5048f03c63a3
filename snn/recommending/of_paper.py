"""The paper's speedups of a training on the paper's GPU, for which there are no records."""

from collections.abc import Mapping
from typing import Any

from snn.analysis import published
from snn.config import groups
from snn.config.groups import CONFIG, read_yaml
from snn.models.network import network_label

_STRATEGIES = ("combined", "pinned", "streams")
_NETWORKS = {1: "one_hidden", 2: "two_hidden", 3: "three_hidden"}
"""The paper's networks, by their number of hidden layers."""


def lines(cell: Mapping[str, Any], name: str) -> list[str]:
    """What the paper says of a cell's network and data on a GPU; empty where it has no such row or GPU.

    How many epochs the cell trains from which weights, by which strategy and kernel, does not matter.
    """
    of_paper = _NETWORKS.get(len(cell["network"].get("hidden") or ()))
    if of_paper is None or name != read_yaml(CONFIG / "paper/gpu.yaml")["device"]:
        return []
    paper = {table: read_yaml(CONFIG / f"paper/{table}.yaml") for table in published.TABLES}
    weights = {key: groups.load("network", of_paper)[key] for key in ("init", "seed")}
    epochs = {"epochs": groups.default_training()["epochs"]}
    as_there = {
        **cell,
        "kernel": groups.load("kernel", "naive"),
        "network": {**cell["network"], **weights},
        "training": {**cell["training"], **epochs},
    }
    said = []
    for strategy in _STRATEGIES:
        values = published.speedups({**as_there, "strategy": groups.load("strategy", strategy)}, paper)
        said += [f"{strategy} {' or '.join(f'{value:g}' for value in values)}"] if values else []
    if not said:
        return []
    return [
        f"The paper has speedups over reference on a {name}, without intervals (docs/results.md):",
        f"  {cell['dataset']['name']}, {network_label(cell['network'])}: {', '.join(said)}",
    ]
