"""Values over a number: a line or markers for each series, with their intervals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.figures import layout
from snn.figures.form import Form, complete, draw_dots, key_of
from snn.figures.style import RULE, Look, plain
from snn.figures.ticks import at_values, hold, is_wide, log_axis

_DODGE, _MOST_DODGE = 0.12, 0.4  # of the distance of two numbers: between two series, and of all


@dataclass(frozen=True, kw_only=True)
class Values(Form):
    """A figure of values over a number.

    Its frame has the number ``x`` of each value; one without is a dashed line, a number without a value a
    cross. It may have the ``label`` and the ``look`` of the series, its ``panel``, the titles ``x_title`` and
    ``y_title`` of the axes, the ``tick`` that is written at a number, ``has_ring``, and ``in_key``: whether
    the key has this label. Series of one ``slot`` stand at the same place.
    """

    x: str = ""
    y: str = ""
    """The titles of the axes."""
    log_x: bool | None = None
    log_y: Callable[[pd.DataFrame], bool] | bool | None = None
    """Whether an axis is logarithmic; None: if its values span much, by default those of all panels."""
    has_ticks_at_values: bool = True
    height: float = 2.8
    """Inches of a panel."""
    most: int = 3
    """Panels side by side."""
    has_one_scale: bool = False
    """Whether all panels have the same vertical axis."""
    has_crosses: bool = True
    """Whether a number without a value has a cross at the foot of the panel."""
    is_dodged: bool = False
    """Whether series stand side by side at a number, so that no bar hides another."""
    keys: int = 0
    """Columns of the key below each panel; 0: all panels have one key."""
    key: Callable[[pd.DataFrame], list[Artist]] = lambda frame: key_of(frame[frame["in_key"]])
    also: Callable[[Axes, pd.DataFrame], None] = lambda axes, cells: None
    """Draws what else a panel has."""

    def draw(self, frame: pd.DataFrame) -> tuple[Figure, list[Artist]]:
        defaults = {"x_title": self.x, "y_title": self.y, "tick": "", "in_key": True, "slot": frame["label"]}
        frame = frame.assign(slot=frame.get("slot", frame["label"]))
        frame = complete(frame, defaults)
        titles = list(dict.fromkeys(frame["panel"]))
        found = frame.groupby("panel", sort=False)
        height = self.height + (0.15 * found["label"].nunique().max() if self.keys == 1 else 0)
        figure, panels = layout.panels(len(titles), height, self.most, titles, sharey=self.has_one_scale)
        for axes, (_, cells) in zip(panels, found, strict=True):
            _across(axes, cells, self)
            shown = frame if self.has_one_scale else cells
            hold(axes.yaxis, shown[["value", "low", "high"]].to_numpy(float), self._is_log(frame, cells))
            self.also(axes, cells)
            axes.set_xlabel(cells["x_title"].iloc[0])
            if layout.is_first(axes) or cells["y_title"].iloc[0] != self.y:
                axes.set_ylabel(cells["y_title"].iloc[0])
            if self.keys:
                layout.key_below(axes, self.key(cells), self.keys)
        return figure, [] if self.keys else self.key(frame)

    def _is_log(self, frame: pd.DataFrame, cells: pd.DataFrame) -> bool:
        if callable(self.log_y):
            return self.log_y(cells)
        return is_wide(frame["value"]) if self.log_y is None else self.log_y


def _across(axes: Axes, cells: pd.DataFrame, form: Values) -> None:
    """The series of a panel, over their numbers."""
    placed = cells[cells["x"].notna()]
    known = sorted(set(placed["x"]))
    log = is_wide(known) if form.log_x is None or not known or known[0] <= 0 else form.log_x
    step = (known[-1] / known[0]) ** (1 / max(len(known) - 1, 1)) if log and known else 1.0
    width = (known[-1] - known[0]) / (len(known) - 1) if len(known) > 1 else abs(max(known, default=1.0)) or 1
    slots = list(dict.fromkeys(placed["slot"]))
    apart = min(_DODGE, _MOST_DODGE / max(len(slots) - 1, 1)) if form.is_dodged else 0.0
    for number, ((label, look), some) in enumerate(cells.groupby(["label", "look"], sort=False)):
        slot = some["slot"].iloc[0]
        shift = apart * (slots.index(slot) - (len(slots) - 1) / 2) if slot in slots else 0.0
        at = some["x"] * step**shift if log else some["x"] + width * shift
        dots = some.assign(x=at).dropna(subset=["x", "value"]).sort_values("x")
        draw_dots(axes, dots, "x", label, look)
        for value in some.loc[some["x"].isna(), "value"].dropna():
            style = "--" if look.marker else look.line
            axes.axhline(value, color=look.colour, linewidth=0.8, linestyle=style, zorder=1)
        crosses = at[some["value"].isna() & at.notna() & form.has_crosses]
        if len(crosses):
            foot: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "linestyle": "", "marker": "x"}
            axes.plot(crosses, [0.03 + 0.05 * (number % 19)] * len(crosses), color=look.colour, **foot)
    if not form.has_ticks_at_values:
        log_axis(axes.xaxis)
        return
    if log:
        axes.set_xscale("log", base=2)
    ticks = dict(zip(placed["x"], placed["tick"], strict=True))
    at_values(axes.xaxis, known, lambda value: ticks.get(value) or plain(value))


def with_rule(frame: pd.DataFrame, value: float, label: str = "", look: Look = RULE) -> pd.DataFrame:
    """The frame with a line across its last panel at a value to compare with."""
    known = {"x": np.nan, "value": value, "low": np.nan, "high": np.nan, "label": label}
    rule = frame.tail(1).assign(**known, is_cut=False, has_diverged=False, look=[look] * bool(len(frame)))
    return pd.concat([frame, rule], ignore_index=True)


def side_by_side(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """What a note says if series of a panel are dodged."""
    placed = frame[frame["x"].notna()]
    slots = placed.groupby("panel")["slot" if "slot" in frame else "label"].nunique()
    several = "Series stand side by side at a number, so that none hides another."
    return several if slots.gt(1).any() else ""
