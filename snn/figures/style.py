"""Style shared by all figures: the colour of each strategy, how a device is named, how figures are saved."""

import hashlib
import io
from collections.abc import Sequence
from colorsys import hls_to_rgb
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from snn.files import sealed

COLOURS = {
    "reference": "#6b7280",
    "streams": "#d97706",
    "pinned": "#2563eb",
    "combined": "#059669",
    "preallocated": "#9333ea",
    "resident": "#dc2626",
    "graph": "#0891b2",
    "pipelined": "#db2777",
    "synchronous": "#701a75",
    "pool": "#65a30d",
    "async_pool": "#a3e635",
    "managed": "#7c2d12",
    "managed_prefetch": "#c2845a",
    "workspace": "#4338ca",
    "sequential": "#111827",
    "threads": "#475569",
    "blas": "#94a3b8",
    "torch_eager": "#fdba74",
    "torch_graph": "#f97316",
    "torch_compile": "#c2410c",
    "torch_loader": "#fbbf24",
    "jax_scan": "#0d9488",
}
_MOST_PIXELS = 30_000
"""Of a side of a PNG file: readers and matplotlib refuse those of 65,536."""

PAPER_COLOUR = "#111827"

_LITTLE = 20  # ratio of the ends of a log axis up to which numbers between powers of ten are written

plt.rcParams.update(
    {
        "figure.dpi": 150,
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "grid.color": "#e5e7eb",
        "axes.axisbelow": True,
        "legend.frameon": False,
        "svg.hashsalt": "snn",
    }
)


def colour(strategy: str) -> str:
    """The strategy's colour, the same in every figure; one that is not listed gets a colour from its name."""
    if strategy in COLOURS:
        return COLOURS[strategy]
    hue, lightness, *_ = hashlib.sha256(strategy.encode()).digest()
    return to_hex(hls_to_rgb(hue / 256, 0.35 + 0.25 * lightness / 256, 0.6))


def list_rows(axes: Axes, names: Sequence[str]) -> None:
    """One name per row, from the top down, with room for a text above each; grid lines for values alone."""
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.8)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")


def plain_numbers(axis: Axis) -> None:
    """Label a log axis with 0.1, 1, 10 instead of powers; where it spans little, also what lies between."""
    low, high = sorted(axis.get_view_interval())
    axis.set_major_formatter("{x:g}")
    if high < _LITTLE * low:
        axis.set_minor_formatter("{x:g}")
    else:
        axis.set_minor_formatter(NullFormatter())


def times(ratio: float) -> str:
    """A ratio in three digits: ``1.45×``, ``1,450×``."""
    return f"{float(f'{ratio:.3g}'):,.0f}×" if ratio >= 100 else f"{ratio:.3g}×"


def where(table: pd.DataFrame) -> str:
    """The devices that a table was measured on, the GPU before its host."""
    devices = table[["device", "backend"]].drop_duplicates().sort_values("backend", ascending=False)
    return " and ".join(device_text(*row) for row in devices.itertuples(index=False))


def nothing(message: str) -> Figure:
    """A figure that only holds a message, of a table that has nothing to draw."""
    figure, axes = plt.subplots(figsize=(6, 1.5))
    axes.axis("off")
    axes.text(0.5, 0.5, message, ha="center", va="center", color="#6b7280")
    return figure


def texts(table: pd.DataFrame, names: Sequence[str], between: str = ", ") -> pd.Series:
    """The values of these columns joined to one text per row; empty values are left out."""
    rows = table[list(names)].to_numpy(dtype=object)  # keeps the rows even where there are no names
    return pd.Series(
        [between.join(_text(value) for value in row if pd.notna(value)) for row in rows], table.index
    )


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def missing(axes: Axes, at: float, status: str) -> None:
    """Write the status of a cell without a time where its bar would stand."""
    foot: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "bottom", "fontsize": 7, "color": "#6b7280"}
    axes.text(at, 0.02, status, transform=axes.get_xaxis_transform(), **foot)


def save(figure: Figure, paths: Sequence[str]) -> None:
    """Write the figure to an SVG file and to the others beside it; equal figures give equal bytes.

    A figure of very many rows has fewer pixels per inch, so that a PNG file can hold it.
    """
    figure.set_dpi(min(figure.dpi, _MOST_PIXELS / max(figure.get_size_inches())))
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is done; each format would repeat it twice
    drawn = {Path(path): _rendered(figure, Path(path).suffix[1:]) for path in paths}
    plt.close(figure)
    first, *others = drawn
    sealed.write(first, drawn[first], {other: drawn[other] for other in others})


def _rendered(figure: Figure, form: str) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=form, dpi=figure.dpi, metadata={"Date": None} if form == "svg" else {})
    return content.getvalue()


def device_text(device: str, backend: str) -> str:
    """The device's name in a figure; a CPU is marked as one."""
    return device if backend == "cuda" else f"{device} (CPU backend)"
