"""``config/grid.yaml`` to cells: every sweep's axes multiplied out, every cell a plain dict, keys sorted."""

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from snn import choices
from snn.checks import check_cell, settle
from snn.datasets.csv_table import digest as file_digest
from snn.devices import Device
from snn.errors import ConfigError, SnnError
from snn.network import label

Cell = dict[str, Any]
SECTIONS = ("dataset", "device", "kernel", "network", "precision", "protocol", "strategy", "training")
TABLES: dict[str, tuple[str, str | None]] = {
    "correctness": ("dataset_size", "small"),
    "training_time": ("dataset_size", None),
    "speedup": ("dataset_size", None),
    "attribution": ("dataset_size", None),
    "memory": ("dataset_size", None),
    "timeline": ("dataset_size", "small"),
    "neurons": ("neurons", None),
    "depth": ("depth", None),
}
"""Tables with a form of their own (``snn.tables.NAME``): the sweep that each is of, and the data set if one.

Any sweep that is not called as one of them has a tidy table of its own name as well."""

FIGURES = {
    "speedup_vs_neurons": "neurons",
    "time_by_depth": "depth",
    "attribution": "attribution",
    "timeline": "timeline",
}
"""Figures with a form of their own (``snn.figures.NAME``), and the table that each is drawn from."""

_NAMED = ("dataset", "strategy", "kernel", "precision")
"""Sections that know the name of the file they come from."""

LIST_VALUED = ("network.hidden", "kernel.block", "kernel.work")
"""Keys whose one value is a list."""

REAL_VALUED = (
    ("network", "clip_norm"),
    ("training", "learning_rate"),
    ("protocol", "max_seconds"),
    ("protocol", "precision"),
    ("protocol", "warmup_seconds"),
    ("protocol", "max_warmup_seconds"),
)
"""Keys that may be written 5 or 5.0: one value, so one cell."""

OVERALL = ("overview", "provenance")
"""Tables of the cells of all sweeps."""

RESERVED = {"gpu", "datasets", "configuration", *OVERALL, *TABLES, *FIGURES} - {
    sweep for sweep, _ in TABLES.values()
}
"""Names of tables and figures that no sweep may take."""


@dataclass(frozen=True)
class Sweep:
    """A named product of axes. ``axes`` are the keys that take more than one value in it."""

    name: str
    axes: tuple[str, ...]
    cells: tuple[Cell, ...]


def read(path: Path, device: Device) -> dict[str, Sweep]:
    """The sweeps of a grid file, their cells resolved for this device.

    Raises ConfigError, naming file, sweep, key and value, for whatever the schema, the choices or the
    engine's own checks refuse; DataError where a data set's file cannot be read.
    """
    grid = choices.read_yaml(path)
    _validate(path, grid)
    common = {**grid.get("defaults", {})}
    if device.backend == "cpu":
        common |= grid.get("on_cpu", {})
    sweeps = {}
    for name, given in grid["sweeps"].items():
        settings = {**common, **given}
        try:
            sweeps[name] = _expand(name, settings, device)
        except SnnError as error:
            raise type(error)(f"{path}: sweeps.{name}: {error}") from error
    return sweeps


def device_of(path: Path) -> str:
    """The device that a grid file asks for: auto, cuda or cpu."""
    grid = choices.read_yaml(path)
    return grid.get("device", "auto") if isinstance(grid, dict) else "auto"


def name_of(cell: Cell) -> str:
    """A cell's name in paths: readable to the strategy, then a digest of the whole cell."""
    device = Device(cell["device"]["backend"], cell["device"]["name"])
    network = label(cell["network"]["hidden"])
    strategy, kernel = cell["strategy"]["name"], cell["kernel"]["name"]
    return f"{device.slug}/{cell['dataset']['name']}/{network}/{strategy}-{kernel}-{digest(cell)}"


def record_path(name: str, number: int) -> str:
    """Where the record of a cell's round stands; rounds are numbered from 1."""
    return f"results/cells/{name}-round{number}.json"


def record_paths(cell: Cell) -> list[str]:
    """Where the records of a cell stand, one a round."""
    return [record_path(name_of(cell), number) for number in rounds_of(cell)]


def rounds_of(cell: Cell) -> range:
    """The numbers of a cell's rounds."""
    return range(1, cell["protocol"]["rounds"] + 1)


def dataset_path(cell: Cell) -> str:
    """Where a cell's prepared data set stands."""
    return f"results/datasets/{cell['dataset']['name']}-{digest(cell['dataset'])}.npy"


def digest(values: Mapping[str, Any]) -> str:
    """Eight hexadecimal digits that name these values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def overrides(cell: Cell) -> list[str]:
    """The Hydra overrides with which ``python -m snn`` composes this cell: what differs from its files."""
    chosen = choices.default_choices() | {g: cell[g]["name"] for g in _NAMED}
    chosen["device"] = cell["device"]["backend"]
    found = [f"{g}={chosen[g]}" for g in (*_NAMED, "device")]
    for section in SECTIONS:
        given = (
            choices.default_training() if section == "training" else choices.load(section, chosen[section])
        )
        for key, value in cell[section].items():
            if value != given.get(key) and not (section == "device" and key == "backend"):
                found.append(f"{section}.{key}={_hydra_value(value)}")
    return found


def _validate(path: Path, grid: Any) -> None:
    """Check the file against its JSON schema, with the choices of ``config/`` as the allowed values."""
    import jsonschema

    error = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(_schema()).iter_errors(grid),
        key=lambda error: -len(error.absolute_path),
    )
    if error is not None:
        error = _branch(error)
        place = ".".join(str(part) for part in error.absolute_path)
        raise ConfigError(f"{path}: {place + ': ' if place else ''}{_say(error)}")
    for name in grid["sweeps"]:
        if name in RESERVED:
            raise ConfigError(f"{path}: sweeps.{name}: the name is taken by a table or figure of the paper")


@cache
def _schema() -> dict[str, Any]:
    schema = json.loads((choices.ROOT / "workflow/schemas/grid.schema.json").read_text(encoding="utf-8"))
    for group in choices.GROUPS:
        schema["$defs"][group]["enum"] = choices.names(group)
    return schema


def _branch(error: Any) -> Any:
    """Of an axis that may be one value or a list, the error of the form that the user chose."""
    while error.validator == "anyOf" and error.context:
        is_list = isinstance(error.instance, list)
        if is_list and error.path and error.path[-1] in LIST_VALUED:
            is_list = bool(error.instance) and isinstance(error.instance[0], list)
        branch = [one for one in error.context if one.schema_path[0] == int(is_list)]
        error = branch[0]
    return error


def _say(error: Any) -> str:
    """A validation error in the words of the grid: the value, and what would be right."""
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        unknown = [key for key in error.instance if key not in known]
        return f"{', '.join(map(repr, unknown))} is not a key here: one of {', '.join(known)}"
    if error.validator == "enum":
        return f"{error.instance!r} is not a choice: one of {', '.join(map(str, error.validator_value))}"
    if error.validator == "uniqueItems":
        return f"{error.instance!r} holds a value twice"
    if "description" in error.schema:
        return f"{error.instance!r} is not right: it must be {error.schema['description']}"
    return error.message


def _expand(name: str, settings: Mapping[str, Any], device: Device) -> Sweep:
    values = {key: _axis(key, value) for key, value in settings.items()}
    axes = tuple(key for key, options in values.items() if len(options) > 1)
    points = itertools.product(*values.values())
    cells = [_resolve(dict(zip(values, point, strict=True)), device) for point in points]
    unique = {name_of(cell): cell for cell in cells}
    for table, (sweep, _) in TABLES.items():
        if sweep == name:
            _check_paper_table(table, list(unique.values()))
    return Sweep(name, axes, tuple(unique.values()))


def _axis(key: str, value: Any) -> list[Any]:
    """The values of an axis; a network's widths are a list themselves, so an axis of them is one of lists."""
    if key in LIST_VALUED:
        return value if isinstance(value[0], list) else [value]
    return value if isinstance(value, list) else [value]


def _check_paper_table(table: str, cells: list[Cell]) -> None:
    """Raise ConfigError where the paper's table cannot be made from these cells."""
    by_network = table in ("neurons", "depth")
    needed = {"reference", "combined"} if by_network else {"reference"}
    missing = needed - {cell["strategy"]["name"] for cell in cells}
    if missing:
        raise ConfigError(f"strategy: {', '.join(sorted(missing))} is missing: {table}.csv divides by it")
    if table == "correctness" and not any(cell["dataset"]["name"] == "small" for cell in cells):
        raise ConfigError("dataset: small is missing: correctness.csv is about it")
    rows = Counter(
        (
            cell["strategy"]["name"],
            label(cell["network"]["hidden"]) if by_network else cell["dataset"]["name"],
        )
        for cell in cells
    )
    (strategy, point), count = rows.most_common(1)[0]
    if count > 1:
        raise ConfigError(
            f"{count} cells are {strategy} with {point}, {table}.csv has room for one: "
            "give the sweep with the further axis a name of its own"
        )


def _resolve(point: Mapping[str, Any], device: Device) -> Cell:
    """One point of the grid, as Hydra will compose it: group files first, then the keys set by hand."""
    chosen = choices.default_choices() | {k: v for k, v in point.items() if k in choices.GROUPS}
    cell: Cell = {group: choices.load(group, chosen[group]) for group in choices.GROUPS}
    cell["training"] = choices.default_training()
    cell["device"] = {"backend": device.backend, "name": device.name}
    for key, value in point.items():
        section, _, leaf = key.partition(".")
        if leaf:
            if leaf not in cell[section]:
                known = [key for key in cell[section] if key not in ("_target_", "name")]
                raise ConfigError(
                    f"{key}: {section} {cell[section].get('name', '')!r} has no such key: "
                    f"{', '.join(known) or 'it has none'}"
                )
            cell[section][leaf] = value
    check_cell(cell)
    settle(cell)
    if cell["dataset"].get("path"):
        cell["dataset"]["sha256"] = file_digest(Path(cell["dataset"]["path"]))
    for section, key in REAL_VALUED:
        if cell[section][key] is not None:
            cell[section][key] = float(cell[section][key])
    return {section: dict(sorted(cell[section].items())) for section in SECTIONS}


def _hydra_value(value: Any) -> str:
    """A value in the grammar of Hydra's overrides."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'") if "'" in value else value
        return f"'{escaped}'"
    if isinstance(value, list):
        return "[" + ",".join(_hydra_value(one) for one in value) + "]"
    return repr(value)


def cells_of(table: str, sweeps: Mapping[str, Sweep]) -> list[Cell]:
    """The cells that a table is made from; none where the grid has no such sweep."""
    if table in OVERALL:
        return list(all_cells(sweeps))
    sweep, dataset = TABLES.get(table, (table, None))
    cells = sweeps[sweep].cells if sweep in sweeps else ()
    return [cell for cell in cells if dataset in (None, cell["dataset"]["name"])]


def own_tables(sweeps: Mapping[str, Sweep]) -> list[str]:
    """The tables with a form of their own that these sweeps give."""
    return [table for table, (sweep, _) in TABLES.items() if sweep in sweeps]


def sweep_tables(sweeps: Mapping[str, Sweep]) -> list[str]:
    """The tidy tables that these sweeps give: those whose name no other table has."""
    return [name for name in sweeps if name not in TABLES]


def all_cells(sweeps: Mapping[str, Sweep]) -> Iterator[Cell]:
    """Every cell once, however many sweeps hold it."""
    yield from {name_of(cell): cell for sweep in sweeps.values() for cell in sweep.cells}.values()
