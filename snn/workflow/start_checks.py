"""Checks before a workflow starts: targets that the grid does not have, and cells that do not fit."""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path, PurePosixPath

from snn import datasets
from snn.config import groups, sizes
from snn.config.groups import MIB
from snn.config.suggestions import any_of, meant
from snn.errors import DeviceError, SnnError
from snn.grid.catalogue import FIGURES, TABLES
from snn.grid.plans import Plan
from snn.grid.sweeps import Cell
from snn.hardware import devices
from snn.hardware.devices import Device

_FOLDERS = ("results/tables/", "results/figures/")
_FORMS = (".csv", ".html", ".svg", ".png")

_RUNTIME = 1 << 30  # bytes: more than the CUDA runtime takes
_SECONDS = 10.0
"""For predictions, each of which takes up to a second or so; further cells are not looked at."""


def error_of_target(target: str, made: Collection[str], grid: str) -> str | None:
    """Error text for a table or figure that the grid does not make; None if it does, or for other targets.

    ``made``: the files that the grid makes; ``grid``: text of its file and its planned devices.
    """
    if not target.startswith(_FOLDERS) or not target.endswith(_FORMS) or target in made:
        return None
    asked = PurePosixPath(target)
    tables = asked.suffix in (".csv", ".html")
    entry, source = (TABLES.get(asked.stem), "sweep") if tables else (FIGURES.get(asked.stem), "table")
    of_devices = sorted(path for path in made if PurePosixPath(path).name == asked.name)
    if entry is not None and not of_devices:
        hint = f" (it is made of the {source} {getattr(entry, source)}, which this grid does not have)"
    else:
        stems = sorted({PurePosixPath(path).stem for path in made})
        of_name = [path for path in sorted(made) if PurePosixPath(path).stem == asked.stem]
        of_name = [path for path in of_name if path.endswith((".csv", ".svg"))]
        hint = any_of(of_devices or of_name) or meant(asked.stem, stems)
    return (
        f"{target}: not a table or figure of {grid}{hint}: "
        "--config grid=FILE names another grid, and with devices=... each device has a separate folder"
    )


def error_of_report(
    arguments: Sequence[str], shown: Sequence[str], rules: AbstractSet[str], grid: str
) -> str | None:
    """Error text if ``snakemake --report`` lacks files; None if it has them, or if no report is asked for.

    A report shows all tables and figures of the grid that it can, ``shown``, or those in the arguments. If
    the arguments name ``rules``, their files are unknown, and nothing is checked.
    """
    asks = any(argument == "--report" or argument.startswith("--report=") for argument in arguments)
    if not asks or not rules.isdisjoint(arguments):
        return None
    of = [path for path in arguments if path.startswith(_FOLDERS)] or shown
    missing = [path for path in of if not Path(path).exists()]
    if not missing:
        return None
    return (
        f"--report: {len(missing)} of {len(of)} tables and figures of {grid} are not made, "
        f"such as {missing[0]}: make them first; or name the grid that was made, with --config grid=FILE; or "
        "name, after the report's file, tables and figures that are made"
    )


def warn_of_large_cells(plans: Iterable[Plan], seconds: float = _SECONDS) -> Iterator[str]:
    """Warnings: one per sweep with cells predicted not to fit, and one for cells that are not predicted.

    Only cells that are large in bytes are predicted; for the others a bound suffices, which costs little. No
    file is read for this, since that may take longer than everything else.
    """
    until, left = time.monotonic() + seconds, list[str]()
    for plan in plans:
        has = _memory(plan.device)
        large = [] if has is None else list(_large(plan, has))
        if has is None or not large:
            continue
        from snn.planning import gpus  # these import every strategy, which most grids need not
        from snn.planning.plan import TooLargeHere, predicted

        sweeps: dict[str, list[str]] = {}
        for sweep, name, cell, is_file in large:
            if is_file or time.monotonic() > until:
                left.append(name)
                continue
            try:
                peak = sum(predicted(cell, gpus.of_memory(plan.device.name, has)).values())
            except TooLargeHere as error:
                left.append(f"{name}: {error}")
                continue
            except SnnError:  # peers are not predicted; if a cell cannot train, its record says why
                continue
            if peak > has:
                sweeps.setdefault(sweep, []).append(f"{name} needs {peak / MIB:.0f} MiB")
        for sweep, found in sweeps.items():
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            yield (
                f"sweeps.{sweep}: {len(found)} of its cells will not fit into the {has / MIB:.0f} MiB of "
                f"{plan.device.name}: {', '.join(found[:3])}{more}. snn plan says what would"
            )
    if left:
        said = f"{len(left)} large cells were not predicted (snn plan sweep=NAME says whether they fit)"
        yield f"{said}: {left[0]}"


def _large(plan: Plan, nbytes: int) -> Iterator[tuple[str, str, Cell, bool]]:
    """The cells of a plan that may exceed ``nbytes``: sweep, name, cell, and whether a file must be read."""
    tables: dict[tuple[str, ...], tuple[int, int] | None] = {}
    for sweep in plan.sweeps.values():
        for name, cell in zip(sweep.named, sweep.cells, strict=True):
            file = tuple(cell["dataset"].get(key) for key in ("path", "delimiter", "text_columns"))
            if file not in tables:
                tables[file] = datasets.at_most(cell["dataset"]) if file[0] else None
            if sizes.at_most(cell, tables[file]) + _RUNTIME > nbytes:
                yield sweep.name, name, cell, tables[file] is not None


def _memory(device: Device) -> int | None:
    """The bytes of a GPU's memory from config/gpus.yaml, or else those free on it; None if unknown."""
    if device.backend != "cuda":
        return None
    known = groups.gpu_memory_bytes(device.name)
    if known is not None:
        return known
    try:
        return devices.free_bytes(device) if device.uuid else None
    except DeviceError:
        return None
