"""What is said before a workflow starts: of targets that a grid does not have, and cells that do not fit."""

import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path, PurePosixPath

from snn import datasets
from snn.config import groups, sizes
from snn.config.groups import MIB, ROOT
from snn.config.suggestions import any_of, meant
from snn.errors import DeviceError, SnnError
from snn.grid.catalogue import FIGURES, MICROBENCHMARKS, PAGES, TABLES, Entry
from snn.grid.plans import Plan
from snn.grid.sweeps import Cell
from snn.hardware import devices
from snn.hardware.devices import Device

_FOLDERS = ("results/tables/", "results/figures/")
_FORMS = (".csv", ".html", ".svg", ".png")

_RUNTIME = 1 << 30  # bytes: more than CUDA takes for itself
_SECONDS = 10.0
"""For predictions, each of which takes up to a second or so; further cells are not looked at."""


def error_of_target(target: str, made: Collection[str], grid: str) -> str | None:
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


def error_of_report(
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
        modules, entry, of = f"snn/tables/{name}.py", TABLES.get(name), "sweep"
        listed, form = "TABLES", rf"^(def build\(|(build|{re.escape(name)}) = )"
    else:
        modules, entry, of = "snn/figures/*.py", FIGURES.get(name), "table"
        listed, form = "FIGURES", rf'^    "{re.escape(name)}": '
    if entry is not None:
        return f" (it is made of the {of} {getattr(entry, of)}, which this grid does not have)"
    if name in (*PAGES, *MICROBENCHMARKS):
        return ""
    for module in ROOT.glob(modules):
        if re.search(form, module.read_text(encoding="utf-8"), re.MULTILINE):
            found = module.relative_to(ROOT)
            return f" ({name} is in {found}, but {listed} of snn/grid/catalogue.py has no line for it)"
    return ""


def warn_of_large_cells(plans: Iterable[Plan], seconds: float = _SECONDS) -> Iterator[str]:
    """A sentence per sweep with cells that are predicted not to fit; others for those that are not predicted.

    Only cells that are large in bytes are predicted; of other cells a bound is enough, which costs little. No
    file is read for this, as it may take longer than all the rest.
    """
    until, left, unplanned = time.monotonic() + seconds, 0, list[str]()
    for plan in plans:
        has = _memory(plan.device)
        large = list(_large(plan, has)) if has is not None else []
        if has is None or not large:
            continue
        from snn.planning import gpus  # these import every strategy, which most grids need not
        from snn.planning.plan import TooLargeHere, predicted

        sweeps: dict[str, list[str]] = {}
        for sweep, name, cell, is_file in large:
            if is_file or time.monotonic() > until:
                left += 1
                continue
            try:
                peak = sum(predicted(cell, gpus.of_memory(plan.device.name, has)).values())
            except TooLargeHere as error:
                unplanned.append(f"{name}: {error}")
                continue
            except SnnError:  # of a peer nothing is predicted; what cannot train says so in its record
                continue
            if peak > has:
                sweeps.setdefault(sweep, []).append(f"{name} needs {peak / MIB:.0f} MiB")
        for sweep, found in sweeps.items():
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            yield (
                f"sweeps.{sweep}: {len(found)} of its cells will not fit into the {has / MIB:.0f} MiB of "
                f"{plan.device.name}: {', '.join(found[:3])}{more}. snn plan says what would"
            )
    if unplanned:
        yield f"{len(unplanned)} large cells cannot be planned on this machine: {unplanned[0]}"
    if left:
        yield f"{left} large cells were not looked at: snn plan sweep=NAME says whether they fit"


def _large(plan: Plan, nbytes: int) -> Iterator[tuple[str, str, Cell, bool]]:
    """The cells of a plan that may not fit into so many bytes: sweep, name, cell, and if a file must tell."""
    tables: dict[tuple[str, ...], tuple[int, int] | None] = {}
    for sweep in plan.sweeps.values():
        for name, cell in zip(sweep.named, sweep.cells, strict=True):
            file = tuple(cell["dataset"].get(key) for key in ("path", "delimiter", "text_columns"))
            if file not in tables:
                tables[file] = datasets.at_most(cell["dataset"]) if file[0] else None
            if sizes.at_most(cell, tables[file]) + _RUNTIME > nbytes:
                yield sweep.name, name, cell, tables[file] is not None


def _memory(device: Device) -> int | None:
    """The bytes of a GPU's memory: what config/gpus.yaml says, else what is free on it; None if not known."""
    if device.backend != "cuda":
        return None
    known = groups.gpu_memory_bytes(device.name)
    if known is not None:
        return known
    try:
        return devices.free_bytes(device) if device.uuid else None
    except DeviceError:
        return None
