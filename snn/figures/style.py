"""How series look, the same in every figure, and how numbers and names are written.

Fonts and lines are those of ``figures.mplstyle``.
"""

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D

from snn.analysis.verdicts import NOT_SIGNIFICANT

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, VERMILLION, PURPLE = "#f0e442", "#0072b2", "#d55e00", "#cc79a7"
"""The colours of Okabe and Ito, which colour-blind readers tell apart. Yellow is too pale for lines."""

GREY, PALE = "#6b7280", "#d1d5db"
LINES = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK)
"""The colours of series that are not strategies, in their order."""
MARKERS = "os^DvPX*"
"""Their markers, in the same order."""

SMALLEST = 7.0
"""Points: no text of a figure is smaller, nor are the exponents of its numbers, for there are none."""


class Look(NamedTuple):
    """How a series is drawn: no two strategies that are listed have colour and marker in common."""

    colour: str = BLUE
    marker: str = "o"
    line: str = ""
    """A line style of Matplotlib; empty for markers alone."""
    face: str = ""
    """The colour within the marker: white or none, by which what is behind it shows; empty: the colour."""
    size: float = 4.0
    width: float = 1.2

    @property
    def options(self) -> dict[str, Any]:
        """The options of a Matplotlib line. Open markers are above others, and lines alone behind them."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.line,
            "linewidth": self.width,
            "markersize": self.size,
            "markerfacecolor": self.face or self.colour,
            "zorder": {"": 2.1, "white": 2.2, "none": 2.6}[self.face] if self.marker else 1.0,
        }

    def entry(self, label: str) -> Line2D:
        """Its entry in a key."""
        return Line2D([], [], label=label, **self.options)


RULE = Look(GREY, "", "--", width=0.8)
"""A value to compare with, behind the others."""

LOOKS = {
    "reference": Look(GREY, "o"),
    "streams": Look(ORANGE, "^"),
    "pinned": Look(SKY, "s"),
    "combined": Look(GREEN, "D"),
    "preallocated": Look(PURPLE, "v"),
    "resident": Look(VERMILLION, "o"),
    "graph": Look(BLUE, "s"),
    "persistent": Look(BLACK, "D"),
    "ensemble": Look(BLACK, "*"),
    "pipelined": Look(ORANGE, "D"),
    "synchronous": Look(SKY, "v"),
    "pool": Look(GREEN, "o"),
    "async_pool": Look(GREEN, "^"),
    "managed": Look(VERMILLION, "^"),
    "managed_prefetch": Look(VERMILLION, "v"),
    "workspace": Look(PURPLE, "s"),
    "sequential": Look(BLACK, "s"),
    "threads": Look(BLACK, "^"),
    "blas": Look(BLACK, "v"),
    "torch_eager": Look(ORANGE, "P"),
    "torch_graph": Look(VERMILLION, "P"),
    "torch_compile": Look(PURPLE, "P"),
    "torch_loader": Look(ORANGE, "X"),
    "jax_scan": Look(SKY, "P"),
}
_STYLES = ("-", "--", ":", "-.")
_PALEST = 0.55  # of white, in the last of several series of one strategy
_OTHERS = "h8<>p"  # markers of strategies that are not listed

# A name in a script that the font does not have: a table has it, too. It is measured before it is drawn.
warnings.filterwarnings("ignore", r"Glyph .* missing from")
matplotlib.rcdefaults()  # whatever the user's matplotlibrc says
plt.style.use(Path(__file__).with_name("figures.mplstyle"))


def look(strategy: str) -> Look:
    """The strategy's colour and marker, the same in every figure; one not listed gets them from its name."""
    if strategy in LOOKS:
        return LOOKS[strategy]
    shade, marker, *_ = hashlib.sha256(strategy.encode()).digest()
    return Look(LINES[shade % len(LINES)], _OTHERS[marker % len(_OTHERS)])


def numbered(i: int) -> Look:
    """The look of the i-th of series that are not strategies."""
    return Look(LINES[i % len(LINES)], MARKERS[i % len(MARKERS)], "-")


def looks(strategies: Sequence[str]) -> list[Look]:
    """The look of each series, by its strategy, joined by a line.

    The first series of a strategy has its look; those that follow are paler, with other markers and lines.
    Where all are of one strategy, it tells nothing apart: they are as different as colours allow.
    """
    if len(set(strategies)) == 1:
        lines = [_STYLES[i // len(LINES) % len(_STYLES)] for i in range(len(strategies))]
        return [numbered(i)._replace(line=line) for i, line in enumerate(lines)]
    found = []
    for i, strategy in enumerate(strategies):
        number, last = list(strategies[:i]).count(strategy), list(strategies).count(strategy) - 1
        shade, marker, *_ = look(strategy)
        other = MARKERS[(MARKERS.find(marker) + number) % len(MARKERS)] if number else marker
        shade = mixed(shade, "white", _PALEST * number / max(last, 1))
        found.append(Look(shade, other, _STYLES[number % len(_STYLES)]))
    return found


def mixed(shade: str, other: str, share: float) -> str:
    """A colour with this share of another."""
    parts = zip(to_rgb(shade), to_rgb(other), strict=True)
    return to_hex(tuple(own * (1 - share) + more * share for own, more in parts))  # type: ignore[arg-type]


def times(ratio: float, verdict: object = "") -> str:
    """A ratio in three digits: ``1.45×``, ``1,450×``; with a question mark if it is not significant."""
    digits = f"{float(f'{ratio:.3g}'):,.0f}" if ratio >= 100 else f"{ratio:#.3g}".rstrip(".")
    return f"{digits}×{'?' if verdict == NOT_SIGNIFICANT else ''}"


def plain(value: float, _position: object = None) -> str:
    """A number as in a text: ``0.001``, ``1024``, ``1,000,000``."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:g}"


def binary_size(nbytes: float) -> str:
    """``64 KiB`` of a number of bytes."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes >= 1 << shift:
            return f"{nbytes / (1 << shift):g} {unit}"
    return f"{nbytes:g} B"


def where(table: pd.DataFrame) -> str:
    """The devices that a table was measured on, the GPU before its host; a CPU is marked as one."""
    devices = table[["device", "backend"]].dropna().drop_duplicates().sort_values("backend", ascending=False)
    return " and ".join(
        device if backend == "cuda" else f"{device} (CPU backend)"
        for device, backend in devices.itertuples(index=False)
    )


def texts(table: pd.DataFrame, names: Sequence[str], between: str = ", ") -> pd.Series:
    """The values of these columns joined to one text per row; empty values are left out."""
    rows = table[list(names)].to_numpy(dtype=object)  # keeps the rows even where there are no names
    return pd.Series(
        [between.join(_text(value) for value in row if pd.notna(value)) for row in rows],
        table.index,
        dtype=object,
    )


def varied(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Those of these columns in which the rows of a table differ."""
    return [name for name in names if name in table and table[name].nunique() > 1]


def differing(table: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """What tells rows of different values of these columns apart; empty where all are the same."""
    return texts(table, varied(table, names))


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
