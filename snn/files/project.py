"""Where the project's files are: a clone has them next to the package, an installed wheel in ``snn/_share``.

Paths in messages, records and hashes are as in a clone, such as ``kernels/naive.cu`` and ``snn/cli.py``.
"""

from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[2]
"""The folder that holds the package ``snn``."""

_SHARE = PACKAGES / "snn/_share"
IS_INSTALLED = _SHARE.is_dir()
ROOT = _SHARE if IS_INSTALLED else PACKAGES
"""The folder of ``config/``, ``kernels/``, ``workflow/`` and the archived results."""


def locate(path: str) -> Path:
    """The place of a file or folder with this path in a clone."""
    return (PACKAGES if path.startswith("snn/") else ROOT) / path


def shown_path(path: str) -> str:
    """The path to print for a file of a clone: the same, or its place in the installed package."""
    return str(locate(path)) if IS_INSTALLED else path


def path_in_clone(place: Path) -> str:
    """The path in a clone of one of the project's files or folders."""
    return place.relative_to(ROOT if place.is_relative_to(ROOT) else PACKAGES).as_posix()
