"""The same training in PyTorch, in JAX and with the fastest strategies here: µs per step."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.figures import layout, rows
from snn.figures.style import BLUE, ORANGE, Look, texts, times, varied

_LOOKS = {True: Look(ORANGE, "s"), False: Look(BLUE, "o")}
_KINDS = {True: "PyTorch or JAX", False: "this project"}
_ROOM = 2.0  # the axis ends at this factor beyond the smallest and largest time; longer intervals are cut off
_WHOLE_FROM = 100  # microseconds, from which on no decimals are written
_NOTE = (
    "Dots: mean time per step, on a log axis; bars: its 95% confidence interval{cut}. On the right: this "
    "time in µs, and the speedup over the best peer; ? marks what is not significant at 95%."
)
_CUT = ", cut off at the ends of the axis"
_PRECISION = " The precision is fp32 where none is named."
_SHARED = " Rows are in the order of the geometric mean over the panels."


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``peers.csv``: the time per step with its 95% interval on a log axis, a panel per network, the
    fastest on top, and beside it the speedup over the best peer, which the dashed line marks. The paper has
    no such figure, so its device is not named.
    """
    if not table["step_us"].notna().any():
        return layout.nothing("peers: no cell has a time per step")
    table = table.assign(peer=table["runtime"].astype(object).fillna("") != "")
    panelled = varied(table, ("dataset", "network", "precision"))
    points = texts(table, panelled)
    names = _names(table, points)
    order = rows.in_order(table, names, points, "step_us")
    titles = list(dict.fromkeys(points))
    figure, panels = rows.grid(order, len(titles))
    cut = [
        _panel(axes, table[points == point], names, order) for axes, point in zip(panels, titles, strict=True)
    ]
    looks = {_KINDS[peer]: _LOOKS[peer] for peer in (True, False) if (table["peer"] == peer).any()}
    key = [*rows.key(looks), rows.dashed("best peer")]
    note = _NOTE.format(cut=_CUT if any(cut) else "") + (_SHARED if len(titles) > 1 else "")
    note += rows.of_blanks(names, points) + _kernels(table, points, names)
    note += "" if "precision" in panelled else _PRECISION
    return rows.framed(
        figure, panels, titles, "Time per training step", layout.about(table, trained), note, key
    )


def _names(table: pd.DataFrame, points: pd.Series) -> pd.Series:
    """The strategies' names; of one that a panel has twice, with its kernel and its options."""
    twice = table.groupby(points)["strategy"].apply(lambda names: set(names[names.duplicated()]))
    several = table["strategy"].isin(set().union(*twice))
    beside = varied(table, ("kernel", "options")) if several.any() else []
    shown = {name: table[name].astype(object).where(several & (table[name] != "")) for name in beside}
    return texts(table.assign(**shown), ["strategy", *beside])


def _kernels(table: pd.DataFrame, points: pd.Series, names: pd.Series) -> str:
    """What the note says of the kernels of this project's strategies, of those that rows do not name.

    A strategy that has several has them in different panels, which are named.
    """
    unnamed = ~table["peer"] & (names == table["strategy"]) & table["kernel"].astype(object).fillna("").ne("")
    said = []
    for strategy, cells in table[unnamed].groupby("strategy", sort=False):
        panels = points[cells.index].groupby(cells["kernel"], sort=False).agg(", ".join)
        alone = len(panels) == 1
        kernels = [kernel if alone else f"{kernel} ({where})" for kernel, where in panels.items()]
        said.append(f"{strategy} {', '.join(kernels)}")
    return f" Kernels: {'; '.join(said)}." if said else ""


def _panel(axes: Axes, cells: pd.DataFrame, names: pd.Series, order: list[str]) -> bool:
    """A row per cell, in the order given; those without a time say why.

    Returns whether an interval is longer than the axis.
    """
    rows.rule(axes, cells.loc[cells["peer"], "step_us"].min())
    for i, cell in cells.iterrows():
        row, step = order.index(names[i]), cell["step_us"]
        if pd.isna(step):
            rows.status(axes, row, cell["status"])
            continue
        ends = cell["step_ci_low_us"], cell["step_ci_high_us"]
        rows.dot(axes, row, step, ends, *_LOOKS[cell["peer"]])
        rows.beside(axes, row, _text(cell))
    steps = cells["step_us"].dropna()
    rows.scale(axes, [*(steps / _ROOM), *(steps * _ROOM)], log=True)
    axes.set_xlabel("time per step (µs)")
    low, high = axes.get_xlim()
    return bool((cells["step_ci_low_us"] < low).any() or (cells["step_ci_high_us"] > high).any())


def _text(row: pd.Series) -> str:
    """``11.9 µs, 1.2×``; without the ratio where there is none."""
    time, ratio = row["step_us"], row["speedup_over_best_peer"]
    digits = f"{time:#.3g}".rstrip(".") if time < _WHOLE_FROM else f"{time:.0f}"
    return f"{digits} µs" + ("" if pd.isna(ratio) else f", {times(ratio, row['verdict'])}")
