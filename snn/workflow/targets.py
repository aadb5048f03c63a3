"""Tables and figures that were asked for, and that are not of the grid: what was meant."""

from collections.abc import Collection
from pathlib import PurePosixPath

from snn.config.suggestions import meant

_FOLDERS = ("results/tables/", "results/figures/")
_FORMS = (".csv", ".html", ".svg", ".png")


def is_unknown(target: str, made: Collection[str]) -> bool:
    """Whether a target is a table or figure, but none of those that the workflow makes."""
    return target.startswith(_FOLDERS) and target.endswith(_FORMS) and target not in made


def suggestion(target: str, made: Collection[str]) -> str:
    """`` (did you mean PATH?)``: the same file of a device's folder, or one of a similar name; else empty."""
    asked = PurePosixPath(target)
    of_devices = sorted(path for path in made if PurePosixPath(path).name == asked.name)
    if of_devices:
        return f" (did you mean {' or '.join(of_devices)}?)"
    return meant(asked.stem, sorted({PurePosixPath(path).stem for path in made}))
