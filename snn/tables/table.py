"""What a table is, how it is made, and the columns that many tables have.

A table of cells is a declaration, ``cells_table``: its title and its columns and, where they differ from the
cells of its sweep, its rows and the rows that they are compared with. It is a variable with the table's name
in a file of this folder, which the catalogue (``snn.grid.catalogue``) names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis import frame, roofline
from snn.analysis.grouping import first_at, texts, varied
from snn.analysis.intervals import holm, mean_interval
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import EVIDENCE, FAMILY, SPEEDUP, over_baselines

Row = Mapping[str, Any]
Pairs = list[tuple[int, int]]
"""Numbers of rows that are compared: a baseline, and a row over it."""


@dataclass(frozen=True)
class Table:
    """A table: ``title`` of its page, and ``build``, which makes it.

    A table of cells is built from the rows of ``snn.analysis.frame``, published values and thresholds;
    ``pairs`` gives the cells that it compares, if that is another choice than that of
    ``snn.analysis.grouping.baselines``. Any other table is built from what its function says.
    """

    title: str
    build: Callable[..., pd.DataFrame]
    pairs: Callable[[pd.DataFrame], Pairs] | None = None


@dataclass(frozen=True)
class Rows:
    """What the columns of a table of cells are made from.

    ``frame`` has the columns of ``snn.analysis.frame`` and, of rows that are compared with others, those of
    ``snn.analysis.speedups.over_baselines``, whose ``machine`` is the state of both machines. ``over`` are
    the numbers of these others, -1 for none.
    """

    frame: pd.DataFrame
    published: Mapping[str, Any]
    thresholds: Thresholds
    over: Sequence[int] = ()

    def with_baselines(self) -> list[tuple[Row, Row | None]]:
        """Each row, and the one that it is compared with."""
        listed = self.frame.to_dict("records")
        over = self.over or [-1] * len(listed)
        return [(row, listed[i] if i >= 0 else None) for row, i in zip(listed, over, strict=True)]


Column = str | Callable[[Rows], pd.Series | pd.DataFrame]
"""Names of columns of the rows, with spaces between them, or a function that computes one or more columns."""


def cells_table(
    title: str,
    *columns: Column,
    rows: Callable[[pd.DataFrame], pd.DataFrame] = lambda cells: cells,
    over: Callable[[pd.DataFrame], list[int]] | None = None,
    pairs: Callable[[pd.DataFrame], Pairs] | None = None,
    factors: Callable[[int], list[int]] = holm,
) -> Table:
    """A table of cells with these columns.

    ``rows`` makes its rows from those of the cells. ``over`` gives the number of the row that each row is
    compared with, -1 for none; ``pairs`` says it of a table that compares in another way. ``factors`` adjust
    the p-values (``snn.analysis.intervals.adjust``).
    """

    def build(cells: pd.DataFrame, published: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
        made, numbers = rows(cells), []
        if over is not None:
            numbers = over(made)
            made = made.assign(**over_baselines(made, numbers, thresholds, factors))
        return assemble(Rows(made, published, thresholds, numbers), *columns)

    def pairs_over(cells: pd.DataFrame) -> Pairs:
        return [(other, i) for i, other in enumerate(over(rows(cells))) if other >= 0] if over else []

    return Table(title, build, pairs_over if over else pairs)


def assemble(rows: Rows, *columns: Column) -> pd.DataFrame:
    """The table with these columns."""
    parts = [rows.frame[one.split()] if isinstance(one, str) else one(rows) for one in columns]
    return pd.concat(parts, axis=1)


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
    primary: Mapping[str, str] | None = None,
) -> tuple[pd.DataFrame, str]:
    """A table of cells from their records, and its title.

    Cells with the settings ``primary`` are one family of comparisons, and all others another.

    ``beside`` are the published values, or of the form of any sweep its axes. Raises RecordError as
    ``snn.analysis.frame.tabulate`` and ``snn.analysis.roofline.with_floors`` do.
    """
    table, cells = find_table(form), frame.tabulate(records, thresholds)
    cells = mark_families(cells, primary)
    if limits:
        cells = roofline.with_floors(cells, *limits)
    return table.build(cells, beside, thresholds), table.title


def mark_families(cells: pd.DataFrame, primary: Mapping[str, str] | None) -> pd.DataFrame:
    """The cells with the column ``FAMILY``, if some comparisons are primary."""
    if not primary:
        return cells
    return cells.assign(**{FAMILY: (cells[[*primary]] == pd.Series(primary)).all(axis=1)})


# ---- columns

DEVICE = "machine device backend"
"""The columns that tables end with: the state of the machine, and which device it was."""

LEDGER = "mallocs host_allocs h2d_copies h2d_bytes d2h_copies d2h_bytes launches synchronizations"


def copy(**columns: str) -> Column:
    """Columns of the rows under other names, ``final_mse="final_loss"``."""
    return lambda rows: pd.DataFrame({new: rows.frame[old] for new, old in columns.items()})


def each(**columns: Callable[[Row, Any], Any]) -> Callable[[Rows], pd.DataFrame]:
    """Columns by name, each a function of a row and of the one that it is compared with, or None."""

    def compute(rows: Rows) -> pd.DataFrame:
        both = rows.with_baselines()
        return pd.DataFrame(
            {name: [of(*two) for two in both] for name, of in columns.items()}, rows.frame.index
        )

    return compute


def further(names: Callable[[pd.DataFrame], list[str]], *within: str) -> Column:
    """The settings with these names in which rows differ that are equal in the columns ``within``."""
    return lambda rows: rows.frame[varied(rows.frame, names(rows.frame), within)]


epochs = further(lambda frame: ["training.epochs"], "backend")
"""``training.epochs``, if rows of a device differ in it."""


def ratio(name: str = "speedup") -> Column:
    """The ratio over the baseline under this name, with the ends of its interval and its evidence."""
    return copy(**{one.replace("speedup", name): one for one in (*SPEEDUP, *EVIDENCE)})


def published_value(name: str, *keys: str, field: str | None = None) -> Callable[[Rows], pd.Series]:
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


def optional(prefix: str, names: str) -> Column:
    """Columns of which the frame may lack some, since no cell was measured: ``ledger.``, ``memory.``."""
    return lambda rows: pd.DataFrame(
        {name: rows.frame.get(prefix + name) for name in names.split()}, index=rows.frame.index
    )


def from_frame(function: Callable[[pd.DataFrame], pd.Series | pd.DataFrame]) -> Column:
    """The columns that a function makes of the frame of the rows."""
    return lambda rows: function(rows.frame)


status = from_frame(frame.outcome)
"""``status``, ``plan`` and ``reason``, the latter two where a row has one."""

scores = from_frame(frame.beside_times)
"""``step_us`` of classifications, and the scores on test rows, where a row has one."""

fraction_of_limit = from_frame(roofline.fraction_of_limit)
"""The floor of a step over its time."""


def note(rows: Rows) -> pd.Series:
    """The warnings about each row's comparison, if it has one, and about a time below its floor."""
    pairs = zip(rows.frame.get("note", repeat("")), roofline.warnings(rows.frame), strict=False)
    return pd.Series(["; ".join(filter(None, pair)) for pair in pairs], rows.frame.index, name="note")


def step_times(rows: Rows) -> pd.DataFrame:
    """``step_us`` with its 95% interval."""
    per_step = 1e6 / roofline.steps(rows.frame)
    ends = pd.DataFrame([mean_interval(rounds) for rounds in rows.frame["rounds"]], rows.frame.index, [0, 1])
    names = ("step_us", "step_ci_low_us", "step_ci_high_us")
    values = (rows.frame["mean_s"], ends[0], ends[1])
    return pd.DataFrame({name: per_step * seconds for name, seconds in zip(names, values, strict=True)})


def reference(*keys: str) -> Callable[[pd.DataFrame], list[int]]:
    """The number of the reference with each row's values in these columns, -1 where there is none."""
    return lambda cells: first_at(texts(cells, keys), np.flatnonzero(cells["strategy"] == "reference"))
