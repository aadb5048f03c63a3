"""What all figures share: a colour for each strategy that never changes, and how they are saved."""

import hashlib
from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

COLOURS = {
    "reference": "#6b7280",
    "streams": "#d97706",
    "pinned": "#2563eb",
    "combined": "#059669",
    "preallocated": "#9333ea",
}
PAPER_COLOUR = "#111827"
_OTHERS = ("#dc2626", "#0891b2", "#65a30d", "#db2777", "#7c2d12", "#4338ca", "#0f766e", "#a16207")

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
    """The strategy's colour: its own where it has one, otherwise one that its name decides."""
    if strategy in COLOURS:
        return COLOURS[strategy]
    number = int.from_bytes(hashlib.sha256(strategy.encode()).digest()[:4], "big")
    return _OTHERS[number % len(_OTHERS)]


def save(figure: Figure, paths: Sequence[str]) -> None:
    """Write the figure to each path, in the format of its ending; the same figure gives the same bytes."""
    for path in paths:
        metadata = {"Date": None} if path.endswith(".svg") else {}
        figure.savefig(path, metadata=metadata)
    plt.close(figure)


def device_text(device: str, backend: str) -> str:
    """How a figure names the device: a CPU is called one."""
    return device if backend == "cuda" else f"{device} (CPU backend)"
