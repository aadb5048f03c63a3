"""The devices of a workflow: planned by the grid or the command line, or else this machine's device."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snn.config.cell import Cell
from snn.errors import ConfigError, DeviceError, shown
from snn.grid import grid_file, sweeps
from snn.grid.sweeps import Sweep
from snn.hardware.devices import BACKENDS, Device, find, gpus_here
from snn.microbenchmarks.settings import resolved

_FAMILIES = ("NVIDIA", "Tesla", "Quadro", "GeForce", "GRID", "TITAN")
"""First words of GPU names as the driver reports them."""

_NAME = re.compile(r"cpu( +\S+)+|\S+( \S+)*")
_MOST_NAME = 100
_FOLDER = re.compile("[a-z][a-z0-9_-]{0,63}")
_RIGHT = "cpu, or a GPU's name as `nvidia-smi --query-gpu=name --format=csv` prints it, such as NVIDIA H200"


@dataclass(frozen=True)
class Plan:
    """The measurements of one device, and the folder of its tables and figures, such as ``nvidia-h200/``.

    This machine's device has a folder only if the user asks for one; no other device has a UUID.
    """

    device: Device
    folder: str
    sweeps: Mapping[str, Sweep]
    microbenchmarks: Mapping[str, Mapping[str, Any]]
    """The settings of each microbenchmark, by name."""
    backend: str | None = None
    """The value of the key ``device``, such as ``auto``; None if the device was planned by name."""

    @property
    def by_name(self) -> bool:
        return self.backend is None

    @property
    def cells(self) -> dict[str, Cell]:
        """Every cell once, by name."""
        return sweeps.all_cells(self.sweeps)


def read(path: Path, asked: Mapping[str, Any]) -> list[Plan]:
    """The plans of a grid file; ``asked`` are the keys of the command line, which come first.

    Sweeps without ``devices`` are planned for the grid's ``devices``, or else for ``device``. Raises the
    errors of ``snn.grid.sweeps.read``, and DeviceError if the device does not exist.
    """
    grid = grid_file.read(path)
    for place, keys in (("--config", asked), (f"{path}:", grid)):
        if "device" in keys and "devices" in keys:
            raise ConfigError(
                f"{place} devices is {shown(keys['devices'])}, but device is {shown(keys['device'])}: "
                "leave one out"
            )
    here: list[str] = []
    planned: dict[str, tuple[Device, list[str]]] = {}
    for name in grid["sweeps"]:
        devices = _devices_of(name, path, grid, asked)
        for device in devices:
            planned.setdefault(device.slug, (device, []))[1].append(name)
        if not devices:
            here.append(name)
    own_folder = _asked_folder(asked, next(iter(planned), None))
    reader, plans = sweeps.Reader(path, grid), []

    def plan(
        device: Device, folder: str, names: list[str], host: Device | None, backend: str | None = None
    ) -> Plan:
        found = microbenchmarks(path, grid, device)
        return Plan(device, folder, reader.sweeps(names, device, host), found, backend)

    if here:
        backend = asked.get("device") or grid.get("device", "auto")
        try:
            device = find(backend)
        except DeviceError as error:
            others = "if jobs run on other machines, name their devices: devices=[NVIDIA H200]"
            raise DeviceError(f"{error}; or {others}") from error
        plans.append(plan(device, own_folder, here, sweeps.host_of(device), backend))
    for slug, (device, names) in planned.items():
        host = device if device.backend == "cpu" else None
        plans.append(plan(device, f"{slug}/", names, host))
    return plans


def microbenchmarks(path: Path, grid: Mapping[str, Any], device: Device) -> dict[str, dict[str, Any]]:
    """The grid's settings of each microbenchmark for this device, by name, sorted by key.

    Raises ConfigError, naming file, microbenchmark, key and value; checks the settings of other devices, too.
    """
    found = {}
    for name, given in grid.get("microbenchmarks", {}).items():
        settings = {key: value for key, value in given.items() if key != grid_file.ON_CPU}
        on_cpu = {**settings, **given.get(grid_file.ON_CPU, {})}
        for where, each in (("", settings), (f" with {grid_file.ON_CPU}", on_cpu)):
            try:
                resolved(name, each)
            except ConfigError as error:
                raise ConfigError(f"{path}: microbenchmarks.{name}{where}: {error}") from error
        found[name] = dict(sorted((on_cpu if device.backend == "cpu" else settings).items()))
    return found


def _asked_folder(asked: Mapping[str, Any], named: str | None) -> str:
    """The folder that the command line asks for, such as ``mine/``; ``named`` is a planned device's slug."""
    folder = asked.get("folder")
    if folder is None:
        return ""
    if not isinstance(folder, str) or not _FOLDER.fullmatch(folder):
        right = "at most 64 of a-z, digits, _ and -, starting with a letter"
        raise ConfigError(f"--config folder is {shown(folder)}: it must be the name of a folder, {right}")
    if named is not None:
        others = f"devices planned by name have separate folders, such as {named}"
        raise ConfigError(f"--config folder is {shown(folder)}, but {others}: leave it out")
    return f"{folder}/"


def _devices_of(
    sweep: str, path: Path, grid: Mapping[str, Any], asked: Mapping[str, Any]
) -> tuple[Device, ...]:
    """The devices planned by name for a sweep; may be empty."""
    if "devices" in asked:
        return named(asked["devices"], "--config devices")
    places = {f"sweeps.{sweep}.devices": grid["sweeps"][sweep], "devices": grid}
    given = (named(at["devices"], f"{path}: {place}") for place, at in places.items() if "devices" in at)
    return () if asked.get("device") else next(given, ())


def named(value: object, place: str) -> tuple[Device, ...]:
    """The devices that a key lists: one, or several without duplicates.

    ``cpu`` is the CPU of this machine, ``cpu NAME`` the CPU of another. Raises ConfigError.
    """
    names = value if isinstance(value, list) else [value]
    if not names:
        raise ConfigError(f"{place} is []: it must be one or more of {_RIGHT}")
    devices: dict[str, Device] = {}
    for name in names:
        device = _device(name, place)
        if device.slug in devices:
            raise ConfigError(
                f"{place}: {shown(name)} appears twice, as {shown(devices[device.slug].name)}: name it once"
            )
        devices[device.slug] = device
    return tuple(devices.values())


def _device(name: object, place: str) -> Device:
    if (
        not isinstance(name, str)
        or len(name) > _MOST_NAME
        or not (_NAME.fullmatch(name) and name.isprintable())
    ):
        raise ConfigError(f"{place}: {shown(name)} is not the name of a device: it must be {_RIGHT}")
    if name == "cpu":
        return find("cpu")
    family, _, rest = name.partition(" ")
    if family == "cpu":
        return Device("cpu", rest)
    if family not in _FAMILIES or not rest:
        hint = f" ({name} is a value of the key device)" if name in BACKENDS else ""
        raise ConfigError(f"{place}: {shown(name)} is not the name of a device{hint}: it must be {_RIGHT}")
    device = Device("cuda", name)
    for gpu in gpus_here():
        if gpu.slug == device.slug and gpu.name != name:
            raise ConfigError(f"{place}: {shown(name)} is not the name of a device: here it is {gpu.name!r}")
    return device
