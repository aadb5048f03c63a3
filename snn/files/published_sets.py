"""Where results are published: one folder per device, with a folder for each set of measurements in it.

A set is what was measured at one time, often on one card: its records, tables, figures, and a README.md.
Times of two sets are not compared.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from snn.errors import ConfigError, RecordError, shown
from snn.files.revision import ROOT

PUBLISHED = ROOT / "results/published"

README = "README.md"
CONTENTS = (
    *("records.jsonl.gz", "sweeps.json", "limits.json", "limits", "microbenchmarks"),
    *("tables", "figures", README),
)
"""What a set has at most."""

_NAME = re.compile(r"(?!index$|.*\.md$)[a-z0-9][a-z0-9._-]{0,63}")


def sets(published: Path = PUBLISHED, device: str = "*") -> list[Path]:
    return sorted(path.parent for path in published.glob(f"{device}/[!.]*/{README}"))


def checked(published: Path = PUBLISHED, device: str = "*", besides: Path | None = None) -> list[Path]:
    """The folders of all sets, ``besides`` one that may be there or not. Raises RecordError where there is a
    set in another place, or a part of one."""
    found = sets(published, device)
    for path in _contents(published, device, CONTENTS[:-1]):
        raise RecordError(
            f"{path.parent} is a set itself, for it holds {path.name}, but a set is a folder in that of its "
            f"device: move all that it holds into one such as {path.parent / 'all'}"
        )
    for path in _contents(published, f"{device}/[!.]*", CONTENTS[:-1]):
        if path.parent not in (*found, besides):
            raise RecordError(
                f"{path.parent} holds {path.name}, but no {README}: publish the set again with "
                "scripts/publish, or remove the folder"
            )
    return [folder for folder in found if folder != besides]


def _contents(published: Path, folders: str, names: Iterable[str]) -> list[Path]:
    return sorted(path for name in names for path in published.glob(f"{folders}/{name}"))


def name_of(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def moved(folder: Path, published: Path = PUBLISHED) -> list[Path]:
    """The sets that a folder of an earlier version may be now: nvidia-h200/cnn of nvidia-h200-cnn."""
    return [
        path
        for path in sets(published)
        if folder.name.endswith(f"-{path.name}")
        and path.parent.name.startswith(folder.name.removesuffix(f"-{path.name}"))
    ]


def check_name(name: str) -> None:
    """Raise ConfigError for what cannot be the name of a set, which is that of a folder and of a page."""
    if not _NAME.fullmatch(name) or name in CONTENTS:
        raise ConfigError(
            f"the name of the set is {shown(name)}: it must be 1 to 64 of a to z, 0 to 9, '.', '_' and '-', "
            "the first a letter or digit, and neither index, nor end with .md, nor be a name within a set: "
            f"{', '.join(CONTENTS[:-1])}"
        )
