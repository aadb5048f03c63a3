"""Where results are published: one folder per device, with a folder for each set of measurements in it.

A set is what was measured at one time, often on one card: its records, tables, figures, and a README.md.
Times of two sets are not compared.
"""

from pathlib import Path

from snn.files.revision import ROOT

PUBLISHED = ROOT / "results/published"


def sets(published: Path = PUBLISHED) -> list[Path]:
    """The folders of all sets, by device and name."""
    return sorted(path.parent for path in published.glob("*/*/README.md"))


def name_of(folder: Path) -> str:
    """The name of a set: nvidia-h200/cnn."""
    return f"{folder.parent.name}/{folder.name}"
