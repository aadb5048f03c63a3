"""The folders of archived results: one per device, each with a folder per set of measurements.

A set was measured at one time, often on one card. It holds records, tables, figures, and a README.md. Times
of two sets are not compared.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from snn.errors import ConfigError, RecordError, shown
from snn.files.project import ROOT

PUBLISHED = ROOT / "results/published"

README = "README.md"
CONTENTS = (
    *("records.jsonl.gz", "sweeps.json", "limits.json", "limits", "microbenchmarks"),
    *("tables", "figures", README),
)
"""The files and folders that a set may hold."""

_NAME = re.compile(r"(?!index$|.*\.md$)[a-z0-9][a-z0-9._-]{0,63}")


def sets(published: Path = PUBLISHED, device: str = "*") -> list[Path]:
    return sorted(path.parent for path in published.glob(f"{device}/[!.]*/{README}"))


def checked(published: Path = PUBLISHED, device: str = "*", besides: Path | None = None) -> list[Path]:
    """The folders of all sets except ``besides``, which may exist or not. Raises RecordError if a set, or
    part of one, is in a wrong place."""
    found = sets(published, device)
    for path in _contents(published, device, CONTENTS[:-1]):
        raise RecordError(
            f"{path.parent} is a set itself, because it holds {path.name}, but a set belongs in the folder "
            f"of its device: move the content into a folder such as {path.parent / 'all'}"
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
    """The possible new places of an earlier version's folder: nvidia-h200/cnn for nvidia-h200-cnn."""
    return [
        path
        for path in sets(published)
        if folder.name.endswith(f"-{path.name}")
        and path.parent.name.startswith(folder.name.removesuffix(f"-{path.name}"))
    ]


def check_name(name: str) -> None:
    """Raise ConfigError if this cannot be the name of a set, and so of a folder and a page."""
    if not _NAME.fullmatch(name) or name in CONTENTS:
        raise ConfigError(
            f"the name of the set is {shown(name)}: it must be 1 to 64 of a to z, 0 to 9, '.', '_' and '-', "
            "begin with a letter or digit, not end with .md, and not be index or a name within a set: "
            f"{', '.join(CONTENTS[:-1])}"
        )
