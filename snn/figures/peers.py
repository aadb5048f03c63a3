"""The same training in PyTorch, in JAX and with the fastest strategies here: µs per step."""

import textwrap

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.figures.style import colour, list_rows, nothing, plain_numbers, texts, times, where

_KINDS = {True: ("s", "PyTorch or JAX"), False: ("o", "this project")}

_ROOM = 2.5  # the axis ends at this factor beyond the smallest and largest time; longer intervals are cut off
_TITLE = 28  # characters of a title's line
_WHOLE_FROM = 100  # microseconds, from which on no decimals are written


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``peers.csv``: the time per step with its 95% interval on a log axis, a panel per network, the
    fastest on top, and beside it the speedup over the best peer, which the dashed line marks. The paper has
    no such figure, so its device is not named.
    """
    if not table["step_us"].notna().any():
        return nothing("peers: no cell has a time per step")
    table = table.assign(peer=table["runtime"].astype(object).fillna("") != "")
    points = texts(table, ["dataset", "network", *(["precision"] if "precision" in table else [])])
    panels = [table[points == point] for point in dict.fromkeys(points)]
    size = (1.5 + 3.2 * len(panels), 1.8 + 0.34 * max(map(len, panels)))
    figure, grid = plt.subplots(1, len(panels), figsize=size, squeeze=False)
    for axes, rows, point in zip(grid[0], panels, dict.fromkeys(points), strict=True):
        _panel(axes, rows.sort_values("step_us", kind="stable").reset_index(drop=True))
        axes.set_title(textwrap.fill(point, _TITLE), fontsize=10)
    handles = [
        Line2D([], [], color="#374151", marker=marker, linestyle="", label=label)
        for peer, (marker, label) in _KINDS.items()
        if (table["peer"] == peer).any()
    ]
    handles.append(Line2D([], [], color="#9ca3af", linestyle="--", label="the best peer"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8)
    figure.suptitle(f"Time per training step: {where(table)}", fontsize=10)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    """A row per cell, in the order given; those without a time are last, with their status."""
    best = rows.loc[rows["peer"], "step_us"].min()
    if pd.notna(best):
        axes.axvline(best, color="#9ca3af", linewidth=1, linestyle="--")
    for i, row in rows.iterrows():
        if pd.isna(row["step_us"]):
            at = axes.get_yaxis_transform()
            axes.text(0.02, i, row["status"], transform=at, fontsize=7, va="center", color="#6b7280")
            continue
        low, high = row["step_ci_low_us"], row["step_ci_high_us"]
        spread = None if pd.isna(low) else [[max(0, row["step_us"] - low)], [max(0, high - row["step_us"])]]
        marker, _ = _KINDS[row["peer"]]
        axes.errorbar(
            row["step_us"], i, xerr=spread, fmt=marker, markersize=5, capsize=3, color=colour(row["strategy"])
        )
        axes.annotate(
            _text(row),
            (row["step_us"], i),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=7,
        )
    axes.set_xscale("log")
    if rows["step_us"].notna().any():
        axes.set_xlim(rows["step_us"].min() / _ROOM, rows["step_us"].max() * _ROOM)
    plain_numbers(axes.xaxis)
    axes.set_xlabel("time per step (µs)")
    list_rows(axes, _names(rows))


def _text(row: pd.Series) -> str:
    """``11.9 µs, 1.2×``; without the ratio where there is none."""
    time, ratio = row["step_us"], row["speedup_over_best_peer"]
    digits = f"{time:.3g}" if time < _WHOLE_FROM else f"{time:.0f}"
    return f"{digits} µs" + ("" if pd.isna(ratio) else f", {times(ratio)}")


def _names(rows: pd.DataFrame) -> list[str]:
    """The strategies' names; of one that occurs twice, with its kernel and its options."""
    twice = rows["strategy"].duplicated(keep=False)
    beside = [rows[key].astype(object).fillna("").astype(str) for key in ("kernel", "options") if key in rows]
    return [
        ", ".join([name, *(text for text in texts if both and text)])
        for name, both, *texts in zip(rows["strategy"], twice, *beside, strict=True)
    ]
