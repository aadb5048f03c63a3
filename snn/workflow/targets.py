"""Tables and figures that were asked for, and that are not of the grid: what to say of them."""

from collections.abc import Collection
from pathlib import PurePosixPath

from snn.config.suggestions import any_of, meant

_FOLDERS = ("results/tables/", "results/figures/")
_FORMS = (".csv", ".html", ".svg", ".png")


def refusal(target: str, made: Collection[str], grid: str) -> str | None:
    """Why a table or figure is refused that is none of those that are ``made`` of the grid; else None.

    ``grid`` is its file, and the devices that it is planned for.
    """
    if not target.startswith(_FOLDERS) or not target.endswith(_FORMS) or target in made:
        return None
    return (
        f"{target}: not a table or figure of {grid}{_suggestion(PurePosixPath(target), made)}: "
        "--config grid=FILE names another grid, and with devices=... each device has a folder of its own"
    )


def _suggestion(asked: PurePosixPath, made: Collection[str]) -> str:
    """The same file in a device's folder, or one of a similar name; else empty."""
    of_devices = sorted(path for path in made if PurePosixPath(path).name == asked.name)
    return any_of(of_devices) or meant(asked.stem, sorted({PurePosixPath(path).stem for path in made}))
