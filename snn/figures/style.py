"""Style shared by all figures: fonts, the look of each strategy, names and numbers, how figures are saved."""

import hashlib
import io
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from snn.analysis.verdicts import NOT_SIGNIFICANT
from snn.figures.description import described
from snn.files import sealed

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, VERMILLION, PURPLE = "#f0e442", "#0072b2", "#d55e00", "#cc79a7"
"""The colours of Okabe and Ito, which colour-blind readers tell apart. Yellow is too pale for lines."""

GREY, PALE = "#6b7280", "#d1d5db"
PAPER_COLOUR = BLACK
LINES = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK)
"""The colours of series that are not strategies, in their order."""
MARKERS = "os^DvPX*"
"""Their markers, in the same order."""

_NAMED = re.compile(rb'(?<=["#])([pm])[0-9a-f]{10}(?=[")])')
"""The name of a clip box (p) or a marker (m) in an SVG file, where it is given and where it is used."""

SMALLEST = 7.0
"""Points: no text of a figure is smaller, nor are the exponents of its numbers, for there are none."""


class Look(NamedTuple):
    """How a series is drawn: no two strategies that are listed have colour and marker in common."""

    colour: str
    marker: str


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
_COLOURS = 256  # of a PNG file: those of a dozen series with their soft edges
_MOST_PIXELS = 30_000
"""Of a side of a PNG file: readers and matplotlib refuse those of 65,536."""

# A name in a script that the font does not have: a table has it, too. It is measured before it is drawn.
warnings.filterwarnings("ignore", r"Glyph .* missing from")
matplotlib.rcdefaults()  # whatever the user's matplotlibrc says
plt.rcParams.update(
    {
        "figure.dpi": 200,
        "figure.constrained_layout.use": True,
        "text.hinting": "no_hinting",  # so that a text is as wide in every format and at every resolution
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.labelsize": 7.5,
        "xtick.labelsize": SMALLEST,
        "ytick.labelsize": SMALLEST,
        "legend.fontsize": SMALLEST,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "lines.linewidth": 1.2,
        "lines.markersize": 4,
        "errorbar.capsize": 2,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "grid.color": "#e5e7eb",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.formatter.useoffset": False,
        "legend.frameon": False,
        "hatch.linewidth": 0.5,
        "svg.hashsalt": "snn",
    }
)


def look(strategy: str) -> Look:
    """The strategy's colour and marker, the same in every figure; one not listed gets them from its name."""
    if strategy in LOOKS:
        return LOOKS[strategy]
    shade, marker, *_ = hashlib.sha256(strategy.encode()).digest()
    return Look(LINES[shade % len(LINES)], _OTHERS[marker % len(_OTHERS)])


def colour(strategy: str) -> str:
    """The strategy's colour."""
    return look(strategy).colour


def looks(strategies: Sequence[str]) -> list[tuple[str, str, str]]:
    """Colour, marker and line of each series, by its strategy.

    The first series of a strategy has its look; those that follow are paler, with other markers and lines.
    Where all are of one strategy, it tells nothing apart: they are as different as colours allow.
    """
    if len(set(strategies)) == 1:
        return [
            (LINES[i % len(LINES)], MARKERS[i % len(MARKERS)], _STYLES[i // len(LINES) % len(_STYLES)])
            for i in range(len(strategies))
        ]
    found = []
    for i, strategy in enumerate(strategies):
        number, last = list(strategies[:i]).count(strategy), list(strategies).count(strategy) - 1
        shade, marker = look(strategy)
        other = MARKERS[(MARKERS.find(marker) + number) % len(MARKERS)] if number else marker
        found.append((paler(shade, _PALEST * number / max(last, 1)), other, _STYLES[number % len(_STYLES)]))
    return found


def paler(shade: str, share: float) -> str:
    """A colour with this share of white."""
    return to_hex(tuple(1 - (1 - part) * (1 - share) for part in to_rgb(shade)))  # type: ignore[arg-type]


def darker(shade: str, share: float) -> str:
    """A colour with this share of black."""
    return to_hex(tuple(part * (1 - share) for part in to_rgb(shade)))  # type: ignore[arg-type]


def times(ratio: float, verdict: object = "") -> str:
    """A ratio in three digits: ``1.45×``, ``1,450×``; with a question mark if it is not significant."""
    digits = f"{float(f'{ratio:.3g}'):,.0f}" if ratio >= 100 else f"{ratio:#.3g}".rstrip(".")
    return f"{digits}×{'?' if verdict == NOT_SIGNIFICANT else ''}"


def where(table: pd.DataFrame) -> str:
    """The devices that a table was measured on, the GPU before its host."""
    devices = table[["device", "backend"]].dropna().drop_duplicates().sort_values("backend", ascending=False)
    return " and ".join(device_text(*row) for row in devices.itertuples(index=False))


def device_text(device: str, backend: str) -> str:
    """The device's name in a figure; a CPU is marked as one."""
    return device if backend == "cuda" else f"{device} (CPU backend)"


def texts(table: pd.DataFrame, names: Sequence[str], between: str = ", ") -> pd.Series:
    """The values of these columns joined to one text per row; empty values are left out."""
    rows = table[list(names)].to_numpy(dtype=object)  # keeps the rows even where there are no names
    return pd.Series(
        [between.join(_text(value) for value in row if pd.notna(value)) for row in rows], table.index
    )


def varied(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Those of these columns in which the rows of a table differ."""
    return [name for name in names if name in table and table[name].nunique() > 1]


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def literally(artist: Artist) -> None:
    """Show the texts within an artist as they are: a dollar sign in a user's name begins no formula."""
    for text in artist.findobj(Text):
        text.set_parse_math(False)


def save(figure: Figure, paths: Sequence[str]) -> None:
    """Write the figure to an SVG file and to the others beside it; equal figures give equal bytes.

    A figure of very many rows has fewer pixels per inch, so that a PNG file can hold it.
    """
    figure.set_dpi(min(figure.dpi, _MOST_PIXELS / max(figure.get_size_inches())))
    literally(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is done; each format would repeat it twice
    drawn = {Path(path): _rendered(figure, Path(path).suffix[1:]) for path in paths}
    plt.close(figure)
    first, *others = drawn
    sealed.write(first, drawn[first], {other: drawn[other] for other in others})


def _rendered(figure: Figure, form: str) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=form, dpi=figure.dpi, metadata={"Date": None} if form == "svg" else {})
    if form == "svg":
        return described(_numbered(content.getvalue()), figure)
    return _in_few_colours(content.getvalue()) if form == "png" else content.getvalue()


def _numbered(svg: bytes) -> bytes:
    """The same picture, its clip boxes and markers numbered in their order.

    Matplotlib names them by a digest of their exact sizes, whose last bits the layout's solver leaves open.
    """
    numbers: dict[bytes, bytes] = {}
    return _NAMED.sub(lambda found: numbers.setdefault(found[0], b"%s%d" % (found[1], len(numbers))), svg)


def _in_few_colours(png: bytes) -> bytes:
    """The same picture with a palette, which takes a third of the bytes."""
    content = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
        few.save(content, format="png", optimize=True, dpi=picture.info["dpi"])
    return content.getvalue()
