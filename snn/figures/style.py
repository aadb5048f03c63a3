"""The looks of series, the same in every figure, and the format of numbers.

``figures.mplstyle`` sets fonts and lines.
"""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D

from snn.analysis.verdicts import NOT_SIGNIFICANT

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, VERMILLION, PURPLE = "#f0e442", "#0072b2", "#d55e00", "#cc79a7"
"""The colours of Okabe and Ito, which colour-blind readers can distinguish. Yellow is too pale for lines."""

GREY, PALE = "#6b7280", "#d1d5db"
LINES = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK)
"""The colours of series other than strategies, in order."""
MARKERS = "os^DvPX*"
"""The markers of these series, in the same order."""

SMALLEST = 7.0
"""The smallest size of text in points. Numbers have no exponents, which would be smaller."""


class Look(NamedTuple):
    """The style of a series. No two listed strategies share both colour and marker."""

    colour: str = BLUE
    marker: str = "o"
    line: str = ""
    """A line style of Matplotlib; empty for markers only."""
    face: str = ""
    """The colour inside the marker: white, none (transparent), or empty for the series' colour."""
    size: float = 4.0
    width: float = 1.2

    @property
    def options(self) -> dict[str, Any]:
        """The options of a Matplotlib line. Open markers are above others, lines without markers below."""
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
        """The series' entry in a key."""
        return Line2D([], [], label=label, **self.options)


RULE = Look(GREY, "", "--", width=0.8)
"""The line of a value to compare with, behind the others."""

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
    "keepalive": Look(GREY, "*"),
    "combined_kept": Look(GREEN, "*"),
    "managed_kept": Look(VERMILLION, "*"),
    "mapped": Look(SKY, "*"),
    "sequential": Look(BLACK, "s"),
    "threads": Look(BLACK, "^"),
    "blas": Look(BLACK, "v"),
    "torch_eager": Look(ORANGE, "P"),
    "torch_graph": Look(VERMILLION, "P"),
    "torch_compile": Look(PURPLE, "P"),
    "torch_loader": Look(ORANGE, "X"),
    "jax_scan": Look(SKY, "P"),
    "jax_vmap": Look(SKY, "X"),
    "torch_bmm": Look(VERMILLION, "X"),
}
_STYLES = ("-", ":", "-.", "--")
DARKEST = 0.4
"""Black's share in the last of several series of one name; paler colours are hard to see on white."""
_OTHERS = "h8<>p"  # markers of strategies that are not listed

# The font may lack a name's script; the table also has the name. Layout triggers the warning, too.
warnings.filterwarnings("ignore", r"Glyph .* missing from")
matplotlib.rcdefaults()  # independent of the user's matplotlibrc
plt.style.use(Path(__file__).with_name("figures.mplstyle"))


def look(strategy: str) -> Look:
    """A strategy's colour and marker, the same in every figure; if not listed, they follow from its name."""
    if strategy in LOOKS:
        return LOOKS[strategy]
    shade, marker, *_ = hashlib.sha256(strategy.encode()).digest()
    return Look(LINES[shade % len(LINES)], _OTHERS[marker % len(_OTHERS)])


def numbered(i: int) -> Look:
    """The look of the i-th series other than strategies."""
    line = _STYLES[i // len(LINES) % len(_STYLES)]
    return Look(LINES[i % len(LINES)], MARKERS[i % len(MARKERS)], line)


def looks(names: Sequence[str], base: Callable[[str], Look] = look) -> list[Look]:
    """The look of each series, with a line, from the name of its strategy.

    The first series of a name has the name's look; further ones are darker, with other markers and lines.
    """
    found = []
    for i, name in enumerate(names):
        number, last = list(names[:i]).count(name), list(names).count(name) - 1
        shade, marker, *_ = base(name)
        marker = MARKERS[(MARKERS.find(marker) + 3 * number) % len(MARKERS)] if number else marker
        shade = mixed(shade, "black", DARKEST * number / max(last, 1))
        found.append(Look(shade, marker, _STYLES[number % len(_STYLES)]))
    return found


def mixed(shade: str, other: str, share: float) -> str:
    """Mix a colour with this share of another."""
    parts = zip(to_rgb(shade), to_rgb(other), strict=True)
    return to_hex(tuple(own * (1 - share) + more * share for own, more in parts))  # type: ignore[arg-type]


def times(ratio: float, verdict: object = "") -> str:
    """Format a ratio with three digits: ``1.45×``, ``1,450×``; adds a question mark if not significant."""
    digits = f"{float(f'{ratio:.3g}'):,.0f}" if ratio >= 100 else f"{ratio:#.3g}".rstrip(".")
    return f"{digits}×{'?' if verdict == NOT_SIGNIFICANT else ''}"


def plain(value: float, _position: object = None) -> str:
    """Format a number for a text: ``0.001``, ``1024``, ``1,000,000``."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:g}"


def binary_size(nbytes: float) -> str:
    """Format a number of bytes, such as ``64 KiB``."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes >= 1 << shift:
            return f"{nbytes / (1 << shift):g} {unit}"
    return f"{nbytes:g} B"
