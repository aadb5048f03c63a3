"""A grid file: its keys and values, checked against the settings of a cell before any cell is made."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from snn.config import choices, groups
from snn.config.cell import SECTIONS
from snn.config.settings import ANYTHING, KINDS, error
from snn.config.suggestions import meant, nearest
from snn.errors import ConfigError, shown
from snn.files import outputs
from snn.grid.catalogue import MICROBENCHMARKS, check_name

KEYS: Mapping[str, str] = {
    "device": "one of auto, cpu, cuda",
    "devices": "the names of one or more devices, such as [NVIDIA H200, cpu]",
    "defaults": "the settings that every sweep starts from",
    "on_cpu": "settings that replace the defaults on the CPU backend",
    "sweeps": "one or more sweeps, each a name (letters, digits, _) with its axes",
    "microbenchmarks": "measurements without a cell, by name",
}
"""The keys of a grid file."""

AXES = (
    *(group for group in groups.GROUPS if group != "device"),
    *(key for key in KINDS if key.startswith(("network.", "training.", "protocol."))),
)
"""The settings of a sweep that do not depend on a choice."""

OF_CHOICES = "a key of the chosen data set, strategy or kernel, such as dataset.rows"
OF_CHOICES_FORM = r"(dataset|strategy|kernel)\.[a-z][a-z0-9_]*"
IN_SWEEPS: Mapping[str, str] = {
    "devices": "the names of one or more devices, such as [NVIDIA H200, cpu]",
    "union": "a list of products, whose cells are joined",
    "on_cpu": "settings that replace the others on the CPU backend",
}
"""Keys of a sweep other than settings. Products of a union lack ``devices``; others have only ``union``."""

ON_CPU = "on_cpu"
_SETTINGS = "settings, each a key with its value, such as strategy: combined"
_AS_SWEEPS = ": a grid has sweeps, such as sweeps: {mine: {strategy: [reference, combined]}}"
_HINTS = {
    "microbenchmarks": " (a sweep belongs under sweeps, which ends before microbenchmarks)",
    ON_CPU: " (it belongs in a sweep, or next to defaults)",
    "devices": " (it belongs in a sweep, or next to defaults)",
}
_MOST_KEYS = 5  # in a message


def read(path: Path) -> dict[str, Any]:
    """The content of a grid file. Raises ConfigError, naming file, place, value and what would be right."""
    if path == Path():
        raise ConfigError("grid is empty: it must be the path of a grid file, such as grid=config/grid.yaml")
    grid = groups.read_yaml(path)
    try:
        check(grid)
    except ConfigError as wrong:
        raise ConfigError(f"{path}: {wrong}") from wrong
    return grid


def check(grid: Any) -> None:
    """Raise ConfigError, naming place, value and what would be right, for an invalid grid.

    Keys of a choice and combinations of values are checked later, when cells are made.
    """
    if not isinstance(grid, dict):
        given = "empty" if grid is None else shown(grid)
        raise ConfigError(f"the file is {given}: it must be the keys {', '.join(KEYS)}, each with its value")
    if "sweeps" not in grid:
        found = nearest("sweeps", grid)
        hint = f" (is {found} meant to be it?)" if found else ""
        raise ConfigError(f"the key sweeps is missing{hint}{_AS_SWEEPS}")
    _check_keys("", grid, KEYS)
    for key in ("sweeps", "microbenchmarks"):
        if not isinstance(grid.get(key, {}), dict) or not grid["sweeps"]:
            raise error(key, grid[key], KEYS[key])
    if "device" in grid:
        _check_choice("device", "device", grid["device"])
    if "devices" in grid:
        _check_devices("devices", grid["devices"])
    for key in ("defaults", ON_CPU):
        if key in grid:
            _check_settings(key, grid[key], ("union",))
    for name, sweep in grid["sweeps"].items():
        check_name(name)
        _check_settings(f"sweeps.{name}", sweep, IN_SWEEPS)
    _check_keys("microbenchmarks", grid.get("microbenchmarks", {}), MICROBENCHMARKS)
    for name, settings in grid.get("microbenchmarks", {}).items():  # values: snn.microbenchmarks.settings
        right = f"the settings of {name}, each with its value"
        if not isinstance(settings, dict):
            raise error(f"microbenchmarks.{name}", settings, right)
        if not isinstance(settings.get(ON_CPU, {}), dict):
            raise error(f"microbenchmarks.{name}.{ON_CPU}", settings[ON_CPU], right)


def _check_settings(place: str, settings: Any, others: Collection[str]) -> None:
    """Check the settings at a place; the keys ``others`` are also allowed there."""
    if not isinstance(settings, dict):
        raise error(place, settings, _SETTINGS)
    _check_keys(place, settings, (*AXES, *others), OF_CHOICES_FORM)
    for key, value in settings.items():
        where = f"{place}.{key}"
        if key == "devices":
            _check_devices(where, value)
        elif key == ON_CPU:
            _check_settings(where, value, ("union",))
        elif key == "union":
            if not isinstance(value, list) or not value:
                raise error(where, value, IN_SWEEPS["union"])
            for number, product in enumerate(value):
                _check_settings(f"{where}.{number}", product, ("union", ON_CPU))
        else:
            _check_axis(key, where, value)


def _check_axis(key: str, where: str, value: Any) -> None:
    """Check a value, or each of a list of values; if the key's value is a list, these are lists of lists."""
    if key not in AXES:
        if isinstance(value, dict):
            raise error(where, value, ANYTHING.right)
        return
    if not isinstance(value, list) or (
        key in groups.list_valued() and not (value and isinstance(value[0], list))
    ):
        _check_value(key, where, value)
        return
    if not value:
        raise error(where, value, "a value, or a list of one or more")
    for number, one in enumerate(value):
        _check_value(key, f"{where}.{number}", one)
    if len({repr(one) if isinstance(one, (bool, list)) else one for one in value}) < len(value):
        raise error(where, value, "a list without duplicates")


def _check_value(key: str, where: str, value: Any) -> None:
    if key in groups.GROUPS:
        _check_choice(key, where, value)
    else:
        KINDS[key].check(where, value)


def _check_choice(group: str, where: str, value: Any) -> None:
    known = groups.names(group)
    if value in known:
        return
    hint = _nested(group, value)
    if isinstance(value, str) and "," in value:
        hint = f" (write a list in brackets, [{value}])"
    elif isinstance(value, (str, int)):
        hint = choices.hint(group, value, ": ")
    raise error(where, value, f"one of {', '.join(known)}{hint}")


def _check_devices(where: str, value: Any) -> None:
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise error(where, value, KEYS["devices"])


def _check_keys(
    place: str, given: Mapping[str, Any], known: Collection[str], form: str | None = None
) -> None:
    """Raise ConfigError, with suggestions, for keys that are neither known nor of this form."""
    unknown = [key for key in given if key not in known and not (form and re.fullmatch(form, key))]
    if not unknown:
        return
    hints = {
        key: _nested(key, given[key]) or meant(key, known) or _HINTS.get(key, "") or _HINTS.get(place, "")
        for key in unknown[:_MOST_KEYS]
    }
    if len(unknown) == 1:
        said = f"{shown(unknown[0])} is not a key here{hints[unknown[0]]}"
    else:
        said = f"{', '.join(f'{shown(key)}{hint}' for key, hint in hints.items())} are not keys here"
    further = f", or {OF_CHOICES}" if form else ""
    raise ConfigError(f"{place + ': ' if place else ''}{said}: one of {', '.join(known)}{further}")


def _nested(section: str, value: Any) -> str:
    """A hint to write the keys inside a section with dots, in parentheses; empty without such keys."""
    if section not in SECTIONS or not isinstance(value, dict) or not value:
        return ""
    key, inner = next(iter(value.items()))
    return f" (keys of {section} are written with a dot: {section}.{key}: {shown(inner)})"


# ---- valid settings that the user may not have meant


def tell_notes(path: Path) -> None:
    """Print the notes on a grid file to stderr."""
    for note in notes(path):
        outputs.note(f"{path}: {note}")


def notes(path: Path) -> Iterator[str]:
    """A sentence for each place of a valid grid file where the user may have meant several networks."""
    grid = groups.read_yaml(path)
    for place in ("defaults", ON_CPU):
        yield from _flat_widths(place, grid.get(place, {}))
    for name, sweep in grid["sweeps"].items():
        yield from _flat_widths(f"sweeps.{name}", sweep)


def _flat_widths(place: str, settings: Mapping[str, Any]) -> Iterator[str]:
    widths = settings.get("network.hidden", [])
    if len(widths) > 1 and not isinstance(widths[0], list) and len({*widths}) == len(widths):
        several = ", ".join(f"[{width}]" for width in widths)
        yield (
            f"{place}: network.hidden: {widths} is one network with {len(widths)} hidden layers; "
            f"write [{several}] for {len(widths)} networks, and [{widths}] for this one without this note"
        )
    if ON_CPU in settings:
        yield from _flat_widths(f"{place}.{ON_CPU}", settings[ON_CPU])
    for number, product in enumerate(settings.get("union", ())):
        yield from _flat_widths(f"{place}.union.{number}", product)
