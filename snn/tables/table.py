"""What a table is, how it is made, and the columns that many tables have.

A table of cells is a declaration, ``cells_table``: its title and its columns and, where they differ from the
cells of its sweep, its rows and the rows that they are compared with. It is a variable with the table's name
in a file of this folder, which the catalogue (``snn.grid.catalogue``) names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pandas as pd

from snn.analysis import frame, roofline
from snn.analysis.intervals import mean_interval
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import SPEEDUP, over_baselines

Pairs = list[tuple[int, int]]
"""Numbers of rows that are compared: a baseline, and a row over it."""


@dataclass(frozen=True)
class Table:
    """A table: ``title`` of its page, and ``build``, which makes it.

    A table of cells is built from the rows of ``snn.analysis.frame``, published values and thresholds;
    ``pairs`` gives the cells that it compares, if that is another choice than that of
    ``snn.analysis.baseline``. Any other table is built from what its function says.
    """

    title: str
    build: Callable[..., pd.DataFrame]
    pairs: Callable[[pd.DataFrame], Pairs] | None = None


@dataclass(frozen=True)
class Rows:
    """What the columns of a table of cells are made from.

    ``frame`` has the columns of ``snn.analysis.frame`` and, of rows that are compared with others, those of
    ``snn.analysis.speedups.over_baselines``, whose ``machine`` is the state of both machines.
    """

    frame: pd.DataFrame
    published: Mapping[str, Any]
    thresholds: Thresholds


Column = str | Callable[[Rows], pd.Series | pd.DataFrame]
"""Names of columns of the rows, with spaces between them, or a function that computes one or more columns."""


def cells_table(
    title: str,
    *columns: Column,
    rows: Callable[[pd.DataFrame], pd.DataFrame] = lambda cells: cells,
    over: Callable[[pd.DataFrame], list[int]] | None = None,
) -> Table:
    """A table of cells with these columns.

    ``rows`` makes its rows from those of the cells. ``over`` gives the number of the row that each row is
    compared with, -1 for none.
    """

    def build(cells: pd.DataFrame, published: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
        made = rows(cells)
        if over is not None:
            made = made.assign(**over_baselines(made, over(made), thresholds))
        return assemble(Rows(made, published, thresholds), *columns)

    def pairs(cells: pd.DataFrame) -> Pairs:
        return pair_up(over(rows(cells))) if over else []

    return Table(title, build, pairs if over else None)


def assemble(rows: Rows, *columns: Column) -> pd.DataFrame:
    """The table with these columns."""
    parts = [rows.frame[one.split()] if isinstance(one, str) else one(rows) for one in columns]
    return pd.concat(parts, axis=1)


def pair_up(baselines: Sequence[int]) -> Pairs:
    """The pairs of a baseline for each row, -1 where there is none."""
    return [(baseline, i) for i, baseline in enumerate(baselines) if baseline >= 0]


def find_table(form: str) -> Table:
    """The table of a form, as ``snn.grid.catalogue.table_form`` names it: ``paper.speedup``.

    A module with a ``TITLE`` and a function ``build`` is a table, too.
    """
    file, _, name = form.partition(".")
    module = import_module(f"snn.tables.{file}")
    table = getattr(module, name, None)
    if isinstance(table, Table):
        return table
    return Table(module.TITLE, module.build, getattr(module, "pairs", None))


def build(
    form: str,
    records: Mapping[str, frame.Record],
    beside: Mapping[str, Any] | Sequence[str],
    thresholds: Thresholds,
    limits: Sequence[Mapping[str, Any]] = (),
) -> tuple[pd.DataFrame, str]:
    """A table of cells from their records, and its title.

    ``beside`` are the published values, or of the form of any sweep its axes. Raises RecordError as
    ``snn.analysis.frame.tabulate`` and ``snn.analysis.roofline.with_floors`` do.
    """
    table, cells = find_table(form), frame.tabulate(records, thresholds)
    if limits:
        cells = roofline.with_floors(cells, *limits)
    return table.build(cells, beside, thresholds), table.title


# ---- columns

DEVICE = "machine device backend"
"""The columns that tables end with: the state of the machine, and which device it was."""

LEDGER = [
    "mallocs",
    "host_allocs",
    "h2d_copies",
    "h2d_bytes",
    "d2h_copies",
    "d2h_bytes",
    "launches",
    "synchronizations",
]


def copy(**columns: str) -> Column:
    """Columns of the rows under other names, ``final_mse="final_loss"``."""
    return lambda rows: pd.DataFrame({new: rows.frame[old] for new, old in columns.items()})


def each(**columns: Callable[[Mapping[str, Any]], Any]) -> Callable[[Rows], pd.DataFrame]:
    """Columns by name, each a function of the row."""

    def computed(rows: Rows) -> pd.DataFrame:
        listed = rows.frame.to_dict("records")
        return pd.DataFrame({name: list(map(of, listed)) for name, of in columns.items()}, rows.frame.index)

    return computed


def ratio(name: str = "speedup") -> Column:
    """The ratio over the baseline under this name, with the ends of its interval."""
    return copy(**{one.replace("speedup", name): one for one in SPEEDUP})


def published_value(name: str, *keys: str, field: str | None = None) -> Column:
    """The published number under the values of these columns, and there under the key ``field``."""

    def numbers(rows: Rows) -> pd.Series:
        found = []
        for values in rows.frame[list(keys)].itertuples(index=False, name=None):
            value: Any = rows.published
            for key in (*values, field) if field else values:
                value = (value or {}).get(key)
            found.append(value)
        return pd.Series(found, rows.frame.index, dtype=float, name=name)

    return numbers


def optional(prefix: str, *names: str) -> Column:
    """Columns of which the frame may lack some, since no cell was measured: ``ledger.``, ``memory.``."""
    return lambda rows: pd.DataFrame(
        {name: rows.frame.get(prefix + name) for name in names}, index=rows.frame.index
    )


def status(rows: Rows) -> pd.DataFrame:
    """``status``, ``plan`` and ``reason``, the latter two where a row has one."""
    return frame.outcome(rows.frame)


def scores(rows: Rows) -> pd.DataFrame:
    """``step_us`` of classifications, and the scores on test rows, where a row has one."""
    return frame.beside_times(rows.frame)


def fraction_of_limit(rows: Rows) -> pd.Series:
    """The floor of a step over its time."""
    return roofline.fraction_of_limit(rows.frame).rename("fraction_of_limit")


def step_us(cells: pd.DataFrame) -> pd.Series:
    """Microseconds per step of the mean time."""
    return (1e6 * cells["mean_s"] / roofline.steps(cells)).rename("step_us")


def step_times(rows: Rows) -> pd.DataFrame:
    """``step_us`` with its 95% interval."""
    per_step = 1e6 / roofline.steps(rows.frame)
    ends = pd.DataFrame([mean_interval(rounds) for rounds in rows.frame["rounds"]], rows.frame.index, [0, 1])
    names = ("step_us", "step_ci_low_us", "step_ci_high_us")
    values = (rows.frame["mean_s"], ends[0], ends[1])
    return pd.DataFrame({name: per_step * seconds for name, seconds in zip(names, values, strict=True)})


def reference(*keys: str) -> Callable[[pd.DataFrame], list[int]]:
    """The number of the reference with each row's values in these columns, -1 where there is none."""

    def numbers(cells: pd.DataFrame) -> list[int]:
        points = list(cells[list(keys)].itertuples(index=False, name=None))
        named = zip(points, cells["strategy"], strict=True)
        references = {point: i for i, (point, name) in enumerate(named) if name == "reference"}
        return [references.get(point, -1) for point in points]

    return numbers
