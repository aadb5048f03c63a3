"""Tables and figures that were asked for, and that are not of the grid or not made: what to say of them."""

import re
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path, PurePosixPath

from snn.config.groups import ROOT
from snn.config.suggestions import any_of, meant
from snn.grid.catalogue import FIGURES, MICROBENCHMARKS, PAGES, TABLES, Entry

_FOLDERS = ("results/tables/", "results/figures/")
_FORMS = (".csv", ".html", ".svg", ".png")


def refusal(target: str, made: Collection[str], grid: str) -> str | None:
    """Why a table or figure is refused that is none of those that are ``made`` of the grid; else None.

    ``grid`` is its file, and the devices that it is planned for.
    """
    if not target.startswith(_FOLDERS) or not target.endswith(_FORMS) or target in made:
        return None
    asked = PurePosixPath(target)
    return (
        f"{target}: not a table or figure of {grid}{_unmade(asked, made) or _suggestion(asked, made)}: "
        "--config grid=FILE names another grid, and with devices=... each device has a folder of its own"
    )


def no_report(
    arguments: Sequence[str], shown: Sequence[str], rules: AbstractSet[str], grid: str
) -> str | None:
    """Why ``snakemake --report`` has nothing to report; None where it has, or where no report is asked for.

    A report is of all tables and figures of the grid that it can show, ``shown``, or of those in the
    arguments; which ones the ``rules`` in the arguments make, is not known here.
    """
    asks = any(argument == "--report" or argument.startswith("--report=") for argument in arguments)
    if not asks or not rules.isdisjoint(arguments):
        return None
    of = [path for path in arguments if path.startswith(_FOLDERS)] or shown
    missing = [path for path in of if not Path(path).exists()]
    if not missing:
        return None
    return (
        f"--report: {len(missing)} of {len(of)} tables and figures of {grid} are not made, as {missing[0]}: "
        "make them first; or name the grid that was made, with --config grid=FILE; or name, after the "
        "report's file, tables and figures that are made"
    )


def _suggestion(asked: PurePosixPath, made: Collection[str]) -> str:
    """The same file in a device's folder, a table for a figure, or one of a similar name; else empty."""
    of_devices = sorted(path for path in made if PurePosixPath(path).name == asked.name)
    of_name = sorted(
        path for path in made if PurePosixPath(path).stem == asked.stem and path.endswith((".csv", ".svg"))
    )
    return (
        any_of(of_devices)
        or any_of(of_name)
        or meant(asked.stem, sorted({PurePosixPath(path).stem for path in made}))
    )


def _unmade(asked: PurePosixPath, made: Collection[str]) -> str:
    """What a table or figure with a form of its own lacks: its line, or its sweep in the grid; else empty."""
    if any(PurePosixPath(path).name == asked.name for path in made):
        return ""
    entry: Entry | None
    name = asked.stem
    if asked.suffix in (".csv", ".html"):
        module, entry, of = f"snn/tables/{name}.py", TABLES.get(name), "sweep"
        listed, function = "TABLES", "build"
    else:
        module, entry, of = f"snn/figures/{name}.py", FIGURES.get(name), "table"
        listed, function = "FIGURES", "draw"
    if entry is not None:
        return f" (it is made of the {of} {getattr(entry, of)}, which this grid does not have)"
    if name in (*PAGES, *MICROBENCHMARKS) or not (ROOT / module).is_file():
        return ""
    text = (ROOT / module).read_text(encoding="utf-8")
    if not re.search(rf"^(def {function}\(|{function} = )", text, re.MULTILINE):
        return ""
    return f" ({module} is there, but {listed} of snn/grid/catalogue.py has no line for it)"
