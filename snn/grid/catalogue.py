"""Tables and figures, and where the report lists them; ``workflow/`` makes its rules of them.

A table's form is a variable of its name in a module of ``snn.tables``, a figure's an entry of its name in
``FORMS`` of a module of ``snn.figures``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from snn.errors import ConfigError, shown

OVERVIEW = "Overview"
PAPER_TABLES = "The paper's tables"
PAPER_FIGURES = "The paper's figures"
CNN_REPORT = "The CNN report"
SWEEPS = "Sweeps"
WHY = "Why"
MEMORY = "GPU memory"
ORIGIN = "Configuration and provenance"

CATEGORIES = {
    OVERVIEW: ("table",),
    PAPER_TABLES: ("table",),
    PAPER_FIGURES: ("figure",),
    CNN_REPORT: ("what", "form"),
    SWEEPS: ("sweep", "form"),
    WHY: ("what", "form"),
    MEMORY: ("what", "form"),
    ORIGIN: ("table",),
}
"""The categories of the report, in its order, each with the headings of its menu.

Where a category holds both tables and figures, ``form`` says which of them an entry is.
"""


@dataclass(frozen=True)
class Entry:
    """A table or figure in the menu of the report: its category, and its label there."""

    category: str
    label: str

    def labels(self, form: str) -> dict[str, str]:
        """What the menu shows under each heading; ``form`` is table or figure."""
        return dict(zip(CATEGORIES[self.category], (self.label, form), strict=False))


@dataclass(frozen=True)
class Table(Entry):
    """A table of the cells of a sweep, and of those of the sweeps ``also`` that the grid has.

    One of ``also`` is enough, if the reference is among its cells. The table shows cells with the choices
    ``only``; with ``one_row_per`` dataset or network, a strategy may have one cell of each. Next to the
    measured values are those of the file ``published``, and ``with_limits`` the device's limits. ``form`` is
    the module of ``snn.tables`` with its form, if it is not called as the table.
    """

    sweep: str
    one_row_per: str | None = None
    also: tuple[str, ...] = ()
    only: Mapping[str, str] = field(default_factory=dict)
    published: str | None = None
    with_limits: bool = False
    form: str | None = None

    def holds(self, cell: Mapping[str, Any]) -> bool:
        """Whether a cell of these sweeps is shown; one from before there was a choice had the only one."""
        return all(cell.get(section, {}).get("name", name) == name for section, name in self.only.items())


@dataclass(frozen=True)
class Figure(Entry):
    """A figure that is drawn from a table, in the ``form`` where that is not called as the figure."""

    table: str
    form: str | None = None


@dataclass(frozen=True)
class Microbenchmark(Entry):
    """A microbenchmark of ``snn.microbenchmarks``, whose table has its name.

    ``module`` is the one of ``snn.backends.cuda`` and ``snn.backends.cpu`` that it measures with.
    ``with_limits``: its table includes the limits of the device. ``of``: the microbenchmark whose record the
    table is built from, if it has another name than the table.
    """

    module: str
    with_limits: bool = False
    form: str = "microbenchmarks"
    of: str | None = None


@dataclass(frozen=True)
class Page(Entry):
    """A table that is not of one sweep, with the module ``form`` where that is not called as the table."""

    form: str | None = None


MICROBENCHMARKS = {
    "memory_access": Microbenchmark(MEMORY, "bandwidth by access pattern", "access", with_limits=True),
    "memory_calls": Microbenchmark(MEMORY, "time of memory calls", "backend"),
    "allocation_size": Microbenchmark(MEMORY, "time of allocations by size", "backend"),
    "fragmentation": Microbenchmark(MEMORY, "fragmentation", "backend"),
    "memory_map": Microbenchmark(MEMORY, "memory map over time", "backend"),
    "shapes": Microbenchmark(SWEEPS, "shapes", "backend"),
}

MICROBENCHMARK_TABLES = {
    **MICROBENCHMARKS,
    "launch_gain": Microbenchmark(SWEEPS, "gain of one launch", "backend", True, of="shapes"),
}
"""All tables of microbenchmarks."""


def _paper_table(label: str, sweep: str, published: str, **rest: Any) -> Table:
    """A table of the paper: a row per data set, or per network, beside its values."""
    per = "dataset" if sweep == "dataset_size" else "network"
    file = f"config/paper/{published}.yaml"
    return Table(PAPER_TABLES, label, sweep, per, published=file, form="paper", **rest)


def _cnn_table(label: str, sweep: str, published: str, **rest: Any) -> Table:
    """A table of the CNN report's programs, beside its values."""
    return Table(
        CNN_REPORT, label, sweep, published=f"config/cnn_report/{published}.yaml", form="cnn", **rest
    )


_FP32 = {"precision": "fp32"}
_SMALL = {"dataset": "small", **_FP32}
_KERNEL_STUDY = "config/kernel_study/speedup.yaml"

TABLES = {
    "correctness": _paper_table(
        "III correctness", "dataset_size", "correctness", also=("strategies", "kernels"), only=_SMALL
    ),
    "training_time": _paper_table("IV training time", "dataset_size", "training_time"),
    "speedup": _paper_table("V speedup", "dataset_size", "speedup"),
    "neurons": _paper_table("VI neurons", "neurons", "neurons"),
    "depth": _paper_table("VII depth", "depth", "depth"),
    "cnn_programs": _cnn_table("Tables 3 to 6: programs", "cnn_programs", "cnn_programs"),
    "cnn_loader": _cnn_table(
        "Tables 1 and 2: PyTorch", "cnn_loader", "cnn_loader", only={"strategy": "torch_loader"}
    ),
    "cnn_pytorch": _cnn_table("Tables 1 and 2: PyTorch, with its images", "cnn_pytorch", "cnn_loader"),
    "cnn_pytorch_cpu": Table(CNN_REPORT, "PyTorch on GPU and CPU", "cnn_pytorch", form="cpu"),
    "cnn_epochs": _cnn_table("Figures 1 and 2: epochs", "cnn_epochs", "cnn_epochs"),
    "cnn_block_size": _cnn_table("Figures 3 and 4: block size", "cnn_block_size", "cnn_block_size"),
    "cnn_block_epochs": _cnn_table("Figures 3 and 4: epochs", "cnn_block_size", "cnn_block_size"),
    "cnn_block_calls": Table(
        CNN_REPORT, "calls of a step by block size", "cnn_block_size", form="attribution"
    ),
    "cnn_cpu": Table(CNN_REPORT, "GPU and CPU", "cnn_strategies", form="cpu"),
    "cnn_peers": Table(CNN_REPORT, "peers", "cnn_peers", form="sweep", with_limits=True),
    "cnn_calls": Table(CNN_REPORT, "calls of a step", "cnn_strategies", form="attribution"),
    "cnn_peers_memory": Table(CNN_REPORT, "memory of peers", "cnn_peers", form="memory"),
    "cnn_kernel_gains": Table(CNN_REPORT, "kernels over naive", "cnn_strategies", only=_FP32, form="sweep"),
    "attribution": Table(WHY, "where the time goes", "dataset_size", one_row_per="dataset"),
    "attribution_neurons": Table(
        WHY, "where the time goes, by neurons", "neurons", one_row_per="network", form="attribution"
    ),
    "attribution_depth": Table(
        WHY, "where the time goes, by depth", "depth", one_row_per="network", form="attribution"
    ),
    "attribution_allocation": Table(
        WHY, "where the time goes, with memory kept", "allocation", one_row_per="network", form="attribution"
    ),
    "memory": Table(WHY, "memory by kind", "dataset_size", one_row_per="dataset"),
    "timeline": Table(
        WHY, "call by call", "dataset_size", "dataset", only={"dataset": "small"}, form="attribution"
    ),
    "precision": Table(SWEEPS, "precision", "precision", form="sweep"),
    "cpu": Table(SWEEPS, "cpu", "cpu"),
    "peers": Table(SWEEPS, "peers", "peers", with_limits=True, form="sweep"),
    "peers_memory": Table(WHY, "memory of peers", "peers", form="memory"),
    "kernel_calls": Table(WHY, "calls of a step by kernel", "kernels", form="attribution"),
    "kernel_gains": Table(
        SWEEPS, "kernels over naive", "kernels", only=_FP32, published=_KERNEL_STUDY, form="sweep"
    ),
    "members": Table(SWEEPS, "members", "members", form="sweep"),
    "learning_rates": Table(SWEEPS, "learning_rates", "learning_rates", form="sweep"),
    "neighbours": Table(SWEEPS, "neighbours", "neighbours"),
    "memory_remedies": Table(SWEEPS, "memory_remedies", "memory_remedies", form="memory"),
    "batch_sizes": Table(SWEEPS, "batch_sizes", "batch_sizes", form="memory"),
    "recommend": Table(OVERVIEW, "3 strategies ranked", "recommend"),
}
"""Tables with a form of their own, and the cells that each is of."""

PRIMARY: Mapping[str, Mapping[str, str]] = {
    "strategies": {"dataset": "large"},
    "kernels": {"dataset": "medium"},
    "cpu": {"dataset": "large"},
}
"""Primary comparisons of a table: those of cells with these settings. Their p-values are adjusted for one
another and not for the rest of the table. In other tables all comparisons are equally important."""

FIGURES = {
    "speedup_vs_neurons": Figure(PAPER_FIGURES, "1 speedup by neurons", "neurons"),
    "time_by_depth": Figure(PAPER_FIGURES, "2 time by depth", "depth"),
    "attribution": Figure(WHY, "where the time goes", "attribution"),
    "attribution_neurons": Figure(
        WHY, "where the time goes, by neurons", "attribution_neurons", "attribution"
    ),
    "attribution_depth": Figure(WHY, "where the time goes, by depth", "attribution_depth", "attribution"),
    "attribution_allocation": Figure(
        WHY, "where the time goes, with memory kept", "attribution_allocation", "attribution"
    ),
    "timeline": Figure(WHY, "call by call", "timeline"),
    "cnn_cumulative_time": Figure(CNN_REPORT, "Figure 1: time by epoch", "cnn_epochs", "time_by_epoch"),
    "cnn_loss": Figure(CNN_REPORT, "Figure 2: loss by epoch", "cnn_epochs", "loss_by_epoch"),
    "cnn_block_time": Figure(CNN_REPORT, "Figure 3: time by block size", "cnn_block_epochs", "time_by_epoch"),
    "cnn_block_loss": Figure(CNN_REPORT, "Figure 4: loss by block size", "cnn_block_epochs", "loss_by_epoch"),
    "cnn_ranking": Figure(CNN_REPORT, "strategies ranked", "cnn_strategies", "ranking"),
    "cnn_cpu": Figure(CNN_REPORT, "GPU and CPU", "cnn_cpu", "cpu"),
    "cnn_peers": Figure(CNN_REPORT, "peers", "cnn_peers", "peers"),
    "memory_access": Figure(MEMORY, "bandwidth by access pattern", "memory_access"),
    "memory_calls": Figure(MEMORY, "time of memory calls", "memory_calls"),
    "allocation_size": Figure(MEMORY, "time of allocations by size", "allocation_size"),
    "fragmentation": Figure(MEMORY, "fragmentation", "fragmentation"),
    "memory_map": Figure(MEMORY, "memory map over time", "memory_map"),
    "shapes": Figure(SWEEPS, "shapes", "shapes"),
    "launch_gain": Figure(SWEEPS, "gain of one launch", "shapes"),
    "ranking": Figure(OVERVIEW, "3 strategies ranked", "strategies"),
    "precision": Figure(SWEEPS, "precision", "precision"),
    "members": Figure(SWEEPS, "members", "members"),
    "learning_rates": Figure(SWEEPS, "learning_rates", "learning_rates"),
    "cpu": Figure(SWEEPS, "cpu", "cpu"),
    "peers": Figure(SWEEPS, "peers", "peers"),
    "neighbours": Figure(SWEEPS, "neighbours", "neighbours"),
    "memory_remedies": Figure(SWEEPS, "memory_remedies", "memory_remedies"),
    "batch_sizes": Figure(SWEEPS, "batch_sizes", "batch_sizes"),
    "recommend": Figure(OVERVIEW, "4 strategies ranked", "recommend", "ranking"),
}
"""Figures with a form of their own, and the table that each is drawn from."""

TIDY = "sweep"
"""The form of the table and figure of any sweep that is not called as a table above; both have its name."""

TIDY_TABLE = Table(SWEEPS, "{table}", "{table}", with_limits=True)
TIDY_FIGURE = Figure(SWEEPS, "{figure}", "{figure}")

PAGES = {
    "recommendation": Page(OVERVIEW, "1 what to use, and why"),
    "overview": Page(OVERVIEW, "2 which strategy is fastest"),
    "gpu": Page(PAPER_TABLES, "I the device", "origin"),
    "datasets": Page(PAPER_TABLES, "II data sets", "paper"),
    "warnings": Page(WHY, "the machine meanwhile", "origin"),
    "device_limits": Page(WHY, "what the device can do", "origin"),
    "configuration": Page(ORIGIN, "1 configuration", "origin"),
    "provenance": Page(ORIGIN, "2 provenance", "origin"),
}
"""Tables that are not of one sweep; each has a rule of its own."""

RESERVED = {*PAGES, *TABLES, *FIGURES, *MICROBENCHMARK_TABLES, "opening"} - {
    table.sweep for table in TABLES.values()
}
"""Names of files beside those of the sweeps, in the folders of tables and figures: no sweep may take them."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def sweep_tables(sweeps: Iterable[str]) -> list[str]:
    """The tidy tables that sweeps of these names give: those whose name no other table has."""
    return [name for name in sweeps if name not in TABLES]


def microbenchmark_tables(names: Iterable[str]) -> list[str]:
    """The tables that are built from the records of these microbenchmarks."""
    given = set(names)
    return [name for name, entry in MICROBENCHMARK_TABLES.items() if (entry.of or name) in given]


def table_form(name: str) -> str:
    """The form of a table, as ``snn.tables.table.find_table`` finds it: its module, and its name there."""
    entries: dict[str, Table | Microbenchmark | Page] = {**PAGES, **MICROBENCHMARK_TABLES, **TABLES}
    entry = entries.get(name)
    return f"{entry.form or name}.{name}" if entry else f"{TIDY}.{TIDY}"


def own_figures(tables: Iterable[str]) -> list[str]:
    """The figures with a form of their own that are drawn from these tables."""
    given = set(tables)
    return [name for name, figure in FIGURES.items() if figure.table in given]


def check_name(sweep: object) -> None:
    """Raise ConfigError if a sweep may not have this name, which names files: Small and small may be one."""
    if not isinstance(sweep, str) or not _NAME.fullmatch(sweep):
        raise ConfigError(
            f"sweeps: {shown(sweep)} is not the name of a sweep: it must be at most 64 letters a-z, digits "
            "and _, beginning with a letter"
        )
    if sweep in RESERVED:
        raise ConfigError(f"sweeps.{sweep}: the name is taken by a table or figure")
