"""``config/grid.yaml`` to cells: every sweep's axes multiplied out, every cell a plain dict, keys sorted."""

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from snn import datasets
from snn.config import choice_files, groups, keys
from snn.config.completion import complete
from snn.config.grammar import written
from snn.config.sizes import check_memory
from snn.errors import ConfigError, SnnError
from snn.grid.catalogue import TABLES, TIDY_TABLE, check_name
from snn.grid.naming import SECTIONS, Cell, dataset_path, name_of
from snn.grid.schema import validate
from snn.grid.sweep_checks import check_sweep
from snn.hardware.devices import Device, find
from snn.strategies.common.traits import on_host

ASKED = ("grid", "device", "devices", "folder")
"""The keys of a workflow's command line."""

SHORTENED = "shortened"
"""The key in which ``snn recommend`` tells its report what part of a training each run trained."""

MOST_CELLS = 100_000
"""Cells of a grid. Snakemake plans a job for each, and takes minutes for as many."""


@dataclass(frozen=True)
class Sweep:
    """A named product of axes, or several. ``axes`` are the keys that take more than one value in it."""

    name: str
    axes: tuple[str, ...]
    named: Mapping[str, Cell]
    """The cells by their names in paths."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells in the order of the grid."""
        return tuple(self.named.values())


def read(path: Path, device: Device, host: Device | None = None) -> dict[str, Sweep]:
    """The sweeps of a grid file, their cells resolved for this device.

    ``host``, this machine's CPU unless it is given, is the device of the strategies that run on the host
    whatever the device. Raises ConfigError, naming file, sweep, key and value, for whatever the schema, the
    choices or the engine's own checks refuse; DataError where a data set's file cannot be read.
    """
    grid = validated(path)
    return Reader(path, grid).sweeps(grid["sweeps"], device, host or host_of(device))


def host_of(device: Device) -> Device:
    """This machine's CPU, in the role of the host of a device."""
    return device if device.backend == "cpu" else find("cpu")


class Reader:
    """Resolves the sweeps of a grid file's content for one device after another."""

    def __init__(self, path: Path, grid: Mapping[str, Any]) -> None:
        self._path, self._grid = path, grid
        self._known, self._count = _Known(), 0

    def sweeps(self, names: Iterable[str], device: Device, host: Device | None) -> dict[str, Sweep]:
        """The sweeps of these names, their cells resolved for a device; raises as ``read`` does.

        Without a ``host``, strategies that run there have no cell.
        """
        on_cpu = device.backend == "cpu"
        common = {**self._grid.get("defaults", {}), "on_cpu": self._grid.get("on_cpu", {})}
        common = _settled(common, on_cpu)
        found = {}
        for name in names:
            try:
                options = _options({**common, **_settled(self._grid["sweeps"][name], on_cpu)})
                self._count += sum(math.prod(map(len, one.values())) for one in options)
                if self._count > MOST_CELLS:
                    raise ConfigError(
                        f"with this sweep the grid has {self._count} cells: it may have {MOST_CELLS}, "
                        "for each is a job of the workflow, planned before anything runs"
                    )
                found[name] = _expand(name, options, (device, host), self._known)
            except SnnError as error:
                raise type(error)(f"{self._path}: sweeps.{name}: {error}") from error
        return found


def validated(path: Path) -> dict[str, Any]:
    """The content of a grid file that its schema and the names of its sweeps agree with."""
    if path == Path():
        raise ConfigError("grid is empty: it must be the path of a grid file, as grid=config/grid.yaml")
    grid = groups.read_yaml(path)
    try:
        validate(grid)
        for name in grid["sweeps"]:
            check_name(name)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return grid


def check_keys(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for a key of ``snakemake --config`` that no workflow reads."""
    unknown = [key for key in config if key not in (*ASKED, SHORTENED)]
    if unknown:
        raise ConfigError(f"--config {unknown[0]}: there is no such key: {', '.join(ASKED)}")


def check_sizes(path: Path, sweeps: Mapping[str, Sweep]) -> None:
    """Raise ConfigError where a cell of a grid file's sweeps does not fit into this machine's memory."""
    for sweep in sweeps.values():
        for cell in sweep.cells:
            try:
                check_memory(cell)
            except ConfigError as error:
                raise ConfigError(f"{path}: sweeps.{sweep.name}: {error}") from error


def overrides(cell: Cell) -> list[str]:
    """The Hydra overrides with which ``python -m snn`` composes this cell: what differs from its files."""
    chosen = groups.chosen({g: cell[g]["name"] for g in choice_files.NAMED})
    chosen["device"] = cell["device"]["backend"]
    found = [f"{g}={chosen[g]}" for g in (*choice_files.NAMED, "device")]
    if cell["network"].keys() != groups.load("network", chosen["network"]).keys():
        chosen["network"] = _with_keys("network", cell["network"])
        found.append(f"network={chosen['network']}")
    protocol = cell["protocol"]
    if protocol["min_runs"] > protocol["runs"]:  # it may not be set by hand, so it is that of a file
        chosen["protocol"] = _with_value("protocol", "min_runs", protocol["min_runs"])
        found.append(f"protocol={chosen['protocol']}")
    for section in SECTIONS:
        given = groups.default_training() if section == "training" else groups.load(section, chosen[section])
        for key, value in cell[section].items():
            if value != given.get(key) and not (section == "device" and key == "backend"):
                found.append(f"{section}.{key}={written(value)}")
    return found


def _with_keys(group: str, values: Mapping[str, Any]) -> str:
    """A choice of a group whose file has the keys of these values."""
    return next(name for name in groups.names(group) if groups.load(group, name).keys() == values.keys())


def _with_value(group: str, key: str, value: Any) -> str:
    """A choice of a group whose file gives a key this value: the one of config/config.yaml, if it does."""
    usual = groups.default_choices()[group]
    return next(name for name in (usual, *groups.names(group)) if groups.load(group, name)[key] == value)


def _settled(settings: Mapping[str, Any], on_cpu: bool) -> dict[str, Any]:
    """Settings for one device: on the CPU those of ``on_cpu`` replace what they stand beside."""
    here = {**settings, **(settings.get("on_cpu", {}) if on_cpu else {})}
    for key in ("on_cpu", "devices"):
        here.pop(key, None)
    if "union" in here:
        here["union"] = [_settled(product, on_cpu) for product in here["union"]]
    return here


def _products(settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The products of a sweep: those of its ``union`` on top of what stands beside it, or the one it is."""
    beside = {key: value for key, value in settings.items() if key != "union"}
    if "union" not in settings:
        yield beside
    for product in settings.get("union", ()):
        yield from _products({**beside, **product})


def _options(settings: Mapping[str, Any]) -> list[dict[str, list[Any]]]:
    """The products of a sweep, each with the values of its keys."""
    return [{key: _axis(key, value) for key, value in product.items()} for product in _products(settings)]


def _expand(
    name: str,
    options: Sequence[Mapping[str, list[Any]]],
    devices: tuple[Device, Device | None],
    known: "_Known",
) -> Sweep:
    """The cells of all products; a key that one of them lacks is an axis, if another one has it."""
    keys = dict.fromkeys(key for one in options for key in one)
    values = {key: [value for one in options for value in one.get(key, [None])] for key in keys}
    axes = tuple(key for key, all_ in values.items() if any(value != all_[0] for value in all_))
    points = (
        dict(zip(one, point, strict=True)) for one in options for point in itertools.product(*one.values())
    )
    cells = (_resolve(point, devices) for point in points)
    unique = dict(known.named(cell) for cell in cells if cell is not None)
    if not unique:
        raise ConfigError(
            f"strategy: all of this sweep run on a GPU's host, so it has no cell on {devices[0].name}: "
            "name cpu under devices, beside it or in its place"
        )
    check_sweep(name, list(unique.values()))
    return Sweep(name, axes, unique)


class _Known:
    """The names of a grid's cells and data sets: each stands for one thing, in all sweeps."""

    def __init__(self) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        self._tables: set[str] = set()

    def named(self, cell: Cell) -> tuple[str, Cell]:
        """The cell with its name. Raises ConfigError where another cell or data set has it."""
        name, table = name_of(cell), repr(cell["dataset"])
        self._claim(name, cell)
        if table not in self._tables:  # many cells, few data sets
            self._claim(dataset_path(cell), cell["dataset"])
            self._tables.add(table)
        return name, cell

    def _claim(self, path: str, content: Mapping[str, Any]) -> None:
        if self._named.setdefault(path, content) != content:
            raise ConfigError(
                f"two different cells have the name {path}: their digests are equal by chance; "
                f"change a setting of one of them, which are {self._named[path]} and {content}"
            )


def _axis(key: str, value: Any) -> list[Any]:
    """The values of an axis; a network's widths are a list themselves, so an axis of them is one of lists."""
    if key in groups.list_valued():
        return value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    if value == []:
        raise ConfigError(f"{key} is []: it must be a value, or a list of one or more")
    return value if isinstance(value, list) else [value]


def _resolve(point: Mapping[str, Any], devices: tuple[Device, Device | None]) -> Cell | None:
    """One point of the grid, as Hydra will compose it: group files first, then the keys set by hand.

    ``devices`` are the grid's, and the host's for strategies that run there: without it they have no cell.
    """
    chosen = groups.chosen(point)
    cell: Cell = {group: groups.load(group, chosen[group]) for group in groups.GROUPS}
    for group in groups.GROUPS:
        choice_files.check(group, chosen[group], cell[group])
    cell["training"] = groups.default_training()
    device = devices[on_host(cell["strategy"])]
    if device is None:
        return None
    cell["device"] = {"backend": device.backend, "name": device.name}
    for key, value in point.items():
        section, _, leaf = key.partition(".")
        if leaf:
            keys.check_key(key, chosen.get(section))
            cell[section][leaf] = value
    complete(cell, point)
    if "sha256" in cell["dataset"]:
        cell["dataset"]["sha256"] = _digest_of(cell["dataset"])
    return {section: dict(sorted(cell[section].items())) for section in SECTIONS}


def _digest_of(dataset: Mapping[str, Any]) -> str:
    """The digest of a data set's files. Raises ConfigError if the grid gives another one."""
    found = datasets.digest(dataset)
    if dataset["sha256"] not in (None, found):
        raise ConfigError(
            f"dataset.sha256 is {dataset['sha256']!r}, but {dataset['path']} has {found}: it has changed"
        )
    return found


def own_tables(sweeps: Mapping[str, Sweep]) -> list[str]:
    """The tables with a form of their own that these sweeps give."""
    return [name for name in TABLES if cells_of(name, sweeps)]


def cells_of(table: str, sweeps: Mapping[str, Sweep]) -> dict[str, Cell]:
    """The cells that a table is made from, by name; empty if these sweeps do not give it."""
    entry = TABLES.get(table) or replace(TIDY_TABLE, sweep=table)
    shown = [sweeps[name] for name in (entry.sweep, *entry.also) if name in sweeps]
    cells = {name: cell for sweep in shown for name, cell in sweep.named.items() if entry.holds(cell)}
    has_reference = any(cell["strategy"]["name"] == "reference" for cell in cells.values())
    return cells if entry.sweep in sweeps or has_reference else {}


def trainings(cells: Iterable[Cell]) -> list[Cell]:
    """One cell per data set, batch size and number of epochs, with one hidden layer if there is one."""
    found: dict[str, Cell] = {}
    for cell in cells:
        training = cell["training"]
        steps = [training["batch_size"], training["epochs"], training.get("drop_last", False)]
        key = json.dumps([cell["dataset"], *steps], sort_keys=True)
        if key not in found or len(cell["network"].get("hidden", ())) == 1:
            found[key] = cell
    return list(found.values())


def all_cells(sweeps: Mapping[str, Sweep]) -> dict[str, Cell]:
    """Every cell once, by name, however many sweeps hold it."""
    return {name: cell for sweep in sweeps.values() for name, cell in sweep.named.items()}
