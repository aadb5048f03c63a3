"""Expands a grid file, such as ``config/grid.yaml``, into cells: the products of each sweep's axes."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from snn import datasets
from snn.config import choices, groups
from snn.config.cell import NONE, SECTIONS, Cell
from snn.config.overrides import written
from snn.config.settings import complete
from snn.config.sizes import check_memory
from snn.errors import ConfigError, SnnError
from snn.grid import grid_file
from snn.grid.catalogue import CNN_REPORT, TABLES, TIDY_TABLE, Table
from snn.grid.naming import dataset_path
from snn.hardware.devices import Device, find
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import MLP_DEFAULTS
from snn.strategies.factory import on_host, side_by_side

ASKED = ("grid", "device", "devices", "folder")
"""The keys of a workflow's command line."""

SHORTENED = "shortened"
"""The key that passes the trained fraction of each run from ``snn recommend`` to its report."""

NEXT = "next_command"
"""The key that passes to this report the command that trains by the fastest strategy."""

MOST_CELLS = 100_000
"""Most cells of a grid. Snakemake plans a job for each, and takes minutes for this many."""


@dataclass(frozen=True)
class Sweep:
    """A named product of axes, or several. ``axes`` are the keys with more than one value."""

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

    Strategies of the host run on ``host``, or else on this machine's CPU. Raises ConfigError, naming file,
    sweep, key and value, and DataError if a data set's file cannot be read.
    """
    grid = grid_file.read(path)
    return Reader(path, grid).sweeps(grid["sweeps"], device, host or host_of(device))


def host_of(device: Device) -> Device:
    """This machine's CPU as the host of a device."""
    return device if device.backend == "cpu" else find("cpu")


class Reader:
    """Resolves the sweeps of a grid file's content for one device after another."""

    def __init__(self, path: Path, grid: Mapping[str, Any]) -> None:
        self._path, self._grid, self._count = path, grid, 0
        self._named: dict[str, Mapping[str, Any]] = {}  # all sweeps share the names
        self._tables: set[str] = set()

    def sweeps(self, names: Iterable[str], device: Device, host: Device | None) -> dict[str, Sweep]:
        """The sweeps of these names for a device; without a ``host``, strategies of the host have no cell."""
        on_cpu = device.backend == "cpu"
        common = {**self._grid.get("defaults", {}), "on_cpu": self._grid.get("on_cpu", {})}
        common = _settle(common, on_cpu)
        found = {}
        for name in names:
            try:
                products = [*_products({**common, **_settle(self._grid["sweeps"][name], on_cpu)})]
                self._count += sum(math.prod(map(len, one.values())) for one in products)
                if self._count > MOST_CELLS:
                    raise ConfigError(
                        f"with this sweep the grid has {self._count} cells: it may have {MOST_CELLS}, "
                        "because the workflow plans a job for each before anything runs"
                    )
                found[name] = self._expand(name, products, device, host)
            except SnnError as error:
                raise type(error)(f"{self._path}: sweeps.{name}: {error}") from error
        return found

    def _expand(
        self, name: str, products: Sequence[Mapping[str, list[Any]]], device: Device, host: Device | None
    ) -> Sweep:
        """The cells of all products; a key that only some of the products have is an axis."""
        keys = dict.fromkeys(key for one in products for key in one)
        values = {key: [value for one in products for value in one.get(key, [None])] for key in keys}
        axes = tuple(key for key, all_ in values.items() if any(value != all_[0] for value in all_))
        unique: dict[str, Cell] = {}
        for one in products:
            for point in itertools.product(*one.values()):
                if cell := _resolve(dict(zip(one, point, strict=True)), device, host):
                    unique[self._name(cell)] = cell
        if not unique:
            raise ConfigError(
                f"strategy: every strategy runs on a GPU's host, so the sweep has no cell on {device.name}: "
                "add cpu under devices, or replace the GPU by it"
            )
        check_sweep(name, list(unique.values()))
        return Sweep(name, axes, unique)

    def _name(self, cell: Cell) -> str:
        """The name of a cell. Raises ConfigError if it, or its data set's name, is already taken."""
        name, table = cell.name, repr(cell["dataset"])
        claimed: dict[str, Mapping[str, Any]] = {name: cell}
        if table not in self._tables:  # many cells, few data sets
            claimed[dataset_path(cell)] = cell["dataset"]
            self._tables.add(table)
        for path, content in claimed.items():
            if self._named.setdefault(path, content) != content:
                raise ConfigError(
                    f"two different cells have the name {path}: their digests are equal by chance; "
                    f"change a setting of {self._named[path]} or of {content}"
                )
        return name


def check_keys(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for a key of ``snakemake --config`` that no workflow reads."""
    unknown = [key for key in config if key not in (*ASKED, SHORTENED, NEXT)]
    if unknown:
        raise ConfigError(f"--config {unknown[0]}: unknown key; the keys are {', '.join(ASKED)}")


def check_sizes(path: Path, sweeps: Mapping[str, Sweep]) -> None:
    """Raise ConfigError if a cell of a grid file's sweeps does not fit into this machine's memory."""
    for sweep in sweeps.values():
        for cell in sweep.cells:
            try:
                check_memory(cell)
            except ConfigError as error:
                raise ConfigError(f"{path}: sweeps.{sweep.name}: {error}") from error


def overrides(cell: Mapping[str, Any]) -> list[str]:
    """The Hydra overrides of this cell for ``python -m snn``: the values that differ from its files."""
    chosen = groups.chosen({group: cell[group]["name"] for group in choices.NAMED})
    chosen["device"] = cell["device"]["backend"]
    found = [f"{group}={chosen[group]}" for group in (*choices.NAMED, "device")]

    def choose(group: str, of: Callable[[Mapping[str, Any]], object]) -> None:
        """Choose a file that matches the cell's section, preferably the one in config/config.yaml."""
        right, known = of(cell[group]), (chosen[group], *groups.names(group))
        chosen[group] = next(name for name in known if of(groups.load(group, name)) == right)
        found.append(f"{group}={chosen[group]}")

    if ("layers" in cell["network"]) != ("layers" in groups.load("network", chosen["network"])):
        choose("network", lambda values: "layers" in values)
    protocol = cell["protocol"]
    if protocol["min_runs"] > protocol["runs"]:  # a user cannot set this, so it comes from a file
        choose("protocol", lambda values: values["min_runs"])
    for section in SECTIONS:
        given = groups.default_training() if section == "training" else groups.load(section, chosen[section])
        unnamed = {key: value for key, value in MLP_DEFAULTS.items() if key in given}
        for key, value in (unnamed | cell[section]).items():
            if value != given.get(key) and not (section == "device" and key == "backend"):
                found.append(f"{section}.{key}={written(value)}")
    return found


def _settle(settings: Mapping[str, Any], on_cpu: bool) -> dict[str, Any]:
    """Settings for one device: on the CPU, ``on_cpu`` replaces the settings next to it."""
    here = {**settings, **(settings.get("on_cpu", {}) if on_cpu else {})}
    for key in ("on_cpu", "devices"):
        here.pop(key, None)
    if "union" in here:
        here["union"] = [_settle(product, on_cpu) for product in here["union"]]
    return here


def _products(settings: Mapping[str, Any]) -> Iterator[dict[str, list[Any]]]:
    """The products of a sweep: each of its ``union`` on top of the other settings, or these alone."""
    beside = {key: value for key, value in settings.items() if key != "union"}
    if "union" not in settings:
        yield {key: _axis(key, value) for key, value in beside.items()}
    for product in settings.get("union", ()):
        yield from _products({**beside, **product})


def _axis(key: str, value: Any) -> list[Any]:
    """The values of an axis. If a value is itself a list, such as a network's widths, these are lists."""
    if key in groups.list_valued():
        return value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    if value == []:
        raise ConfigError(f"{key} is []: it must be a value, or a list of one or more")
    return value if isinstance(value, list) else [value]


def _resolve(point: Mapping[str, Any], device: Device, host: Device | None) -> Cell | None:
    """The cell of one point, as Hydra composes it: group files first, then the keys set in the grid."""
    chosen = groups.chosen(point)
    sections = {group: groups.load(group, chosen[group]) for group in groups.GROUPS}
    for group in groups.GROUPS:
        choices.check_file(group, chosen[group], sections[group])
    sections["training"] = groups.default_training()
    for key, value in point.items():
        section, _, leaf = key.partition(".")
        if leaf:
            choices.check_key(key, chosen.get(section))
            sections[section][leaf] = value
    where = host if on_host(sections["strategy"]) else device
    if where is None:
        return None
    sections["device"] = {"backend": where.backend, "name": where.name}
    cell = complete(sections, point)
    if "sha256" in cell["dataset"]:
        given, found = cell["dataset"]["sha256"], datasets.digest(cell["dataset"])
        if given not in (None, found):
            raise ConfigError(
                f"dataset.sha256 is {given!r}, but {cell['dataset']['path']} has {found}: it has changed"
            )
        cell["dataset"]["sha256"] = found
    return cell


def own_tables(sweeps: Mapping[str, Sweep]) -> list[str]:
    """The tables in a special form that these sweeps give."""
    return [name for name in TABLES if cells_of(name, sweeps)]


def cells_of(table: str, sweeps: Mapping[str, Sweep]) -> dict[str, Cell]:
    """The cells that a table is made from, by name; empty if these sweeps do not give it."""
    entry = TABLES.get(table) or replace(TIDY_TABLE, sweep=table)
    shown = [sweeps[name] for name in (entry.sweep, *entry.also) if name in sweeps]
    cells = {name: cell for sweep in shown for name, cell in sweep.named.items() if entry.holds(cell)}
    has_reference = any(cell.strategy == "reference" for cell in cells.values())
    return cells if entry.sweep in sweeps or has_reference else {}


def trainings(cells: Iterable[Cell]) -> list[Cell]:
    """One cell per data set, batch size and number of epochs, with one hidden layer if there is one."""
    found: dict[str, Cell] = {}
    for cell in cells:
        training = cell["training"]
        steps = [
            training["batch_size"],
            training["epochs"],
            training.get("drop_last", False),
            training.get("validation", 0.0),
        ]
        key = json.dumps([cell["dataset"], *steps], sort_keys=True)
        if key not in found or len(cell["network"].get("hidden", ())) == 1:
            found[key] = cell
    return list(found.values())


def all_cells(sweeps: Mapping[str, Sweep]) -> dict[str, Cell]:
    """Every cell once, by name, even if several sweeps hold it."""
    return {name: cell for sweep in sweeps.values() for name, cell in sweep.named.items()}


# ---- whether the tables of a sweep can be made from its cells

NEIGHBOURS = "neighbours"
"""The table that compares cells next to a busy neighbour with the same cells alone."""

_OF_MEMBERS = ("correctness", "learning_rates", "members")
"""Tables with a row per network of a launch; times in other tables belong to a single network."""

_OWN_NAME = "give the sweep a separate name"


def check_sweep(sweep: str, cells: Sequence[Cell]) -> None:
    """Raise ConfigError if a table of this sweep cannot be made from its cells."""
    for name, table in TABLES.items():
        if table.sweep == sweep and (problem := _find_problem(name, table, cells)):
            raise ConfigError(problem)


def _find_problem(name: str, table: Table, cells: Sequence[Cell]) -> str:
    """Error text for cells from which a table cannot be made; empty if it can."""
    for section, choice in table.only.items():
        if not any(cell[section]["name"] == choice for cell in cells):
            return f"{section}: {choice} is missing: {name}.csv is about it"
    if per := table.one_row_per:
        needed = {"reference", "combined"} if per == "network" else {"reference"}
        if missing := needed - {cell.strategy for cell in cells}:
            return f"strategy: {', '.join(sorted(missing))} is missing: {name}.csv divides by it"
        rows = Counter((cell.strategy, cell.network if per == "network" else cell.dataset) for cell in cells)
        (strategy, point), count = rows.most_common(1)[0]
        if count > 1:
            room = f"{count} cells are {strategy} with {point}, {name}.csv has room for one"
            return f"{room}: give the sweep with the further axis a separate name"
    for cell in cells if table.category == CNN_REPORT else ():
        if "test_rows" not in cell["dataset"]:
            other = f"{_OWN_NAME}, or choose a data set of images, such as patterns"
            lacks = f"{cell.dataset} has no test rows, and {name}.csv shows the accuracy on them"
            return f"dataset: {lacks}: {other}"
        if cell.loss != CROSS_ENTROPY.name:
            lacks = f"{cell.network} is not trained with cross_entropy, and {name}.csv shows accuracies"
            return f"network: {lacks}: {_OWN_NAME}, or choose network: cnn"
    if name == NEIGHBOURS:
        with_alone = [(cell.neighbour, cell.replace(protocol={"neighbour": NONE}).name) for cell in cells]
        alone = {name for neighbour, name in with_alone if neighbour == NONE}
        if len(alone) == len(cells) or not alone.issuperset(name for _, name in with_alone):
            return (
                f"protocol.neighbour must be a list of {NONE} and one or more strategies: {NEIGHBOURS}.csv "
                "divides the time of each cell next to a neighbour by its time alone"
            )
    several = next((cell.strategy for cell in cells if side_by_side(cell["strategy"])), None)
    if several and name not in _OF_MEMBERS:
        times = f"a run of {several} trains several networks, but {name}.csv shows times of one"
        return f"strategy: {times}: {_OWN_NAME}"
    return ""
