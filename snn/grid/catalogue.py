"""Which tables and figures there are: those with a form of their own, and one of each for any other sweep."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from snn.errors import ConfigError
from snn.models.network import network_label
from snn.strategies.common.traits import side_by_side


@dataclass(frozen=True)
class Source:
    """Whose cells a table shows: a sweep's, and those of others that the grid has; ``only`` of some choices.

    ``room``, if any, says that it has room for one cell of each strategy and ``dataset``, or ``network``.
    """

    sweep: str
    room: str | None = None
    also: tuple[str, ...] = ()
    only: Mapping[str, str] = field(default_factory=dict)

    def holds(self, cell: Mapping[str, Any]) -> bool:
        """Whether a cell of these sweeps is shown; one from before there was a choice had the only one."""
        return all(cell.get(section, {}).get("name", name) == name for section, name in self.only.items())


TABLES = {
    "correctness": Source(
        "dataset_size", "dataset", ("strategies", "kernels"), {"dataset": "small", "precision": "fp32"}
    ),
    "training_time": Source("dataset_size", "dataset"),
    "speedup": Source("dataset_size", "dataset"),
    "attribution": Source("dataset_size", "dataset"),
    "memory": Source("dataset_size", "dataset"),
    "timeline": Source("dataset_size", "dataset", only={"dataset": "small"}),
    "neurons": Source("neurons", "network"),
    "depth": Source("depth", "network"),
    "precision": Source("precision"),
    "cpu": Source("cpu"),
    "peers": Source("peers"),
    "learning_rates": Source("learning_rates"),
}
"""Tables with a form of their own (``snn.tables.NAME``), and the cells that each is of.

Any sweep that is not called as one of them has a tidy table of its own name as well."""

_OF_MEMBERS = ("correctness", "learning_rates")
"""Those that tell of each network of a launch; the others' times are of one network alone."""

FIGURES = {
    "speedup_vs_neurons": "neurons",
    "time_by_depth": "depth",
    "attribution": "attribution",
    "timeline": "timeline",
    "ranking": "strategies",
    "precision": "precision",
    "cpu": "cpu",
    "peers": "peers",
}
"""Figures with a form of their own (``snn.figures.NAME``), and the table that each is drawn from."""

OVERALL = ("recommendation", "overview", "provenance")
"""Tables of the cells of all sweeps."""

RESERVED = {"gpu", "datasets", "device_limits", "configuration", *OVERALL, *TABLES, *FIGURES} - {
    source.sweep for source in TABLES.values()
}
"""Names of tables and figures that no sweep may take."""


def own_tables(sweeps: Iterable[str]) -> list[str]:
    """The tables with a form of their own that sweeps of these names give."""
    given = set(sweeps)
    return [table for table, source in TABLES.items() if source.sweep in given]


def sweep_tables(sweeps: Iterable[str]) -> list[str]:
    """The tidy tables that sweeps of these names give: those whose name no other table has."""
    return [name for name in sweeps if name not in TABLES]


def check_name(sweep: str) -> None:
    """Raise ConfigError where a sweep may not have this name."""
    if sweep in RESERVED:
        raise ConfigError("the name is taken by a table or figure")


def check_sweep(sweep: str, cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise ConfigError where a table of this sweep cannot be made from its cells."""
    several = next((cell["strategy"]["name"] for cell in cells if side_by_side(cell["strategy"])), None)
    for table, source in TABLES.items():
        if source.sweep != sweep:
            continue
        if source.room:
            _check_room(table, source.room, cells)
        if several and table not in _OF_MEMBERS:
            raise ConfigError(
                f"strategy: a run of {several} trains several networks, and times in {table}.csv are of one: "
                "give the sweep a name of its own"
            )


def _check_room(table: str, room: str, cells: Sequence[Mapping[str, Any]]) -> None:
    needed = {"reference", "combined"} if room == "network" else {"reference"}
    missing = needed - {cell["strategy"]["name"] for cell in cells}
    if missing:
        raise ConfigError(f"strategy: {', '.join(sorted(missing))} is missing: {table}.csv divides by it")
    if table == "correctness" and not any(cell["dataset"]["name"] == "small" for cell in cells):
        raise ConfigError("dataset: small is missing: correctness.csv is about it")
    rows = Counter((cell["strategy"]["name"], _place(cell, room)) for cell in cells)
    (strategy, point), count = rows.most_common(1)[0]
    if count > 1:
        raise ConfigError(
            f"{count} cells are {strategy} with {point}, {table}.csv has room for one: "
            "give the sweep with the further axis a name of its own"
        )


def _place(cell: Mapping[str, Any], room: str) -> str:
    return network_label(cell["network"]) if room == "network" else cell["dataset"]["name"]
