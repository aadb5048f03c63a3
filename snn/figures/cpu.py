"""CPU and GPU of one machine: the speedup of each strategy over one CPU core."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.figures import layout, rows
from snn.figures.style import texts, times, varied

_RATIO = "speedup_over_sequential"
_LOOKS = dict(zip(("device", "host"), rows.HOST.values(), strict=True))
_NOTE = (
    "Dots: time of one CPU core (sequential) over the strategy's, on a log axis, and as a number on the "
    "right; bars: 95% confidence interval of the ratio; ? marks what is not significant at 95%."
)
_ROUNDS = "sequential in the same rounds, not the quotient of the mean times"
_SHARED = " Rows are in the order of the geometric mean over the panels."


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``cpu.csv``: speedups over one CPU core with their 95% intervals on a log axis, a panel per data
    set, the fastest on top; the dashed line is the fastest CPU baseline. The paper has no such figure, so its
    device is not named.
    """
    if not table[_RATIO].notna().any():
        return layout.nothing("cpu: there is no time of one core to compare with")
    points, names = texts(table, varied(table, ("dataset", "network"))), rows.named(table)
    order = rows.in_order(table.assign(inverse=1 / table[_RATIO]), names, points, "inverse")
    titles = list(dict.fromkeys(points))
    figure, panels = rows.grid(order, len(titles))
    for axes, point in zip(panels, titles, strict=True):
        _panel(axes, table[points == point], names, order)
    plain = {f"on the {kind}": _LOOKS[kind] for kind in dict.fromkeys(table["ran_on"])}
    looks = rows.HOST if rows.on_host(table).any() else plain
    key = [*rows.key(looks), rows.dashed("fastest CPU baseline")]
    note = _NOTE + rows.of_common_rounds(_ratios(table, points), _ROUNDS)
    note += _SHARED if len(titles) > 1 else ""
    return rows.framed(
        figure, panels, titles, "Speedup over one CPU core", layout.about(table, trained), note, key
    )


def _ratios(table: pd.DataFrame, points: pd.Series) -> pd.Series:
    """The speedups over one core, each over the quotient of the means."""
    cores = table[table["strategy"] == "sequential"].groupby(points)["mean_s"].first()
    return table[_RATIO] / (points.map(cores) / table["mean_s"])


def _panel(axes: Axes, cells: pd.DataFrame, names: pd.Series, order: list[str]) -> None:
    """A row per cell, in the order given; those without a time say why."""
    rows.rule(axes, cells.loc[cells["ran_on"] == "host", _RATIO].max())
    for i, cell in cells.iterrows():
        row, ratio = order.index(names[i]), cell[_RATIO]
        if pd.isna(ratio):
            rows.status(axes, row, cell["status"])
            continue
        ends = cell[f"{_RATIO}_ci_low"], cell[f"{_RATIO}_ci_high"]
        rows.dot(axes, row, ratio, ends, *_LOOKS[cell["ran_on"]])
        rows.beside(axes, row, times(ratio, cell["verdict_over_sequential"]))
    rows.scale(
        axes, cells[[_RATIO, f"{_RATIO}_ci_low", f"{_RATIO}_ci_high"]].to_numpy(float).ravel(), log=True
    )
    axes.set_xlabel("speedup over one core")
