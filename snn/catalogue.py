"""Which tables and figures there are: those with a form of their own, and one of each for any other sweep."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from snn.errors import ConfigError
from snn.network import label

TABLES: dict[str, tuple[str, str | None]] = {
    "correctness": ("dataset_size", "small"),
    "training_time": ("dataset_size", None),
    "speedup": ("dataset_size", None),
    "attribution": ("dataset_size", None),
    "memory": ("dataset_size", None),
    "timeline": ("dataset_size", "small"),
    "neurons": ("neurons", None),
    "depth": ("depth", None),
}
"""Tables with a form of their own (``snn.tables.NAME``): the sweep that each is of, and the data set if one.

Any sweep that is not called as one of them has a tidy table of its own name as well."""

FIGURES = {
    "speedup_vs_neurons": "neurons",
    "time_by_depth": "depth",
    "attribution": "attribution",
    "timeline": "timeline",
    "ranking": "strategies",
}
"""Figures with a form of their own (``snn.figures.NAME``), and the table that each is drawn from."""

OVERALL = ("recommendation", "overview", "provenance")
"""Tables of the cells of all sweeps."""

RESERVED = {"gpu", "datasets", "configuration", *OVERALL, *TABLES, *FIGURES} - {
    sweep for sweep, _ in TABLES.values()
}
"""Names of tables and figures that no sweep may take."""


def own_tables(sweeps: Iterable[str]) -> list[str]:
    """The tables with a form of their own that sweeps of these names give."""
    given = set(sweeps)
    return [table for table, (sweep, _) in TABLES.items() if sweep in given]


def sweep_tables(sweeps: Iterable[str]) -> list[str]:
    """The tidy tables that sweeps of these names give: those whose name no other table has."""
    return [name for name in sweeps if name not in TABLES]


def check_name(sweep: str) -> None:
    """Raise ConfigError where a sweep may not have this name."""
    if sweep in RESERVED:
        raise ConfigError("the name is taken by a table or figure")


def check_sweep(sweep: str, cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise ConfigError where a table of this sweep cannot be made from its cells."""
    for table, (of, _) in TABLES.items():
        if of == sweep:
            _check_table(table, cells)


def _check_table(table: str, cells: Sequence[Mapping[str, Any]]) -> None:
    by_network = table in ("neurons", "depth")
    needed = {"reference", "combined"} if by_network else {"reference"}
    missing = needed - {cell["strategy"]["name"] for cell in cells}
    if missing:
        raise ConfigError(f"strategy: {', '.join(sorted(missing))} is missing: {table}.csv divides by it")
    if table == "correctness" and not any(cell["dataset"]["name"] == "small" for cell in cells):
        raise ConfigError("dataset: small is missing: correctness.csv is about it")
    rows = Counter(
        (
            cell["strategy"]["name"],
            label(cell["network"]["hidden"]) if by_network else cell["dataset"]["name"],
        )
        for cell in cells
    )
    (strategy, point), count = rows.most_common(1)[0]
    if count > 1:
        raise ConfigError(
            f"{count} cells are {strategy} with {point}, {table}.csv has room for one: "
            "give the sweep with the further axis a name of its own"
        )
