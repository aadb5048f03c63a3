"""The resolved grid: what each sweep varies, what all have in common, and the thresholds of verdicts."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pandas as pd

from snn.analysis.grouping import setting
from snn.hardware.devices import Device

TITLE = "Configuration"
ALL_SWEEPS = "all sweeps"
VERDICTS = "verdicts"
_ROLES = ("axis", "derived", "fixed")


def build(
    sweeps: Sequence[Mapping[str, Any]],
    thresholds: Mapping[str, float],
    device: Device,
    microbenchmarks: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> pd.DataFrame:
    """One row per sweep and key: its values in the order of the grid, and its ``role``.

    A sweep (``name``, ``axes``, ``cells``) has its axes, what is derived from them, and what is fixed in it
    alone. Keys that have the same single value in all sweeps stand once, before them. The settings of
    microbenchmarks and the thresholds stand last.
    """
    settings = {sweep["name"]: _settings(sweep) for sweep in sweeps}
    common = {
        key: values
        for key, values in next(iter(settings.values())).items()
        if len(values) == 1 and all(of_sweep.get(key) == values for of_sweep in settings.values())
    }
    rows = [(ALL_SWEEPS, key, "fixed", values) for key, values in common.items()]
    for sweep in sweeps:
        own = {key: values for key, values in settings[sweep["name"]].items() if key not in common}
        of_sweep = [(sweep["name"], key, _role(key, values, sweep), values) for key, values in own.items()]
        rows += sorted(of_sweep, key=lambda row: _ROLES.index(row[2]))
        rows.append((sweep["name"], "cells", "count", [str(len(sweep["cells"]))]))
    for name, given in microbenchmarks.items():
        for key, value in given.items():
            rows.append((name, key, "setting", list(map(str, value if isinstance(value, list) else [value]))))
    rows += [(VERDICTS, key, "threshold", [str(value)]) for key, value in thresholds.items()]
    return pd.DataFrame(
        [(sweep, key, role, ", ".join(values)) for sweep, key, role, values in rows],
        columns=["sweep", "key", "role", "values"],
    ).assign(device=device.name, backend=device.backend)


def _settings(sweep: Mapping[str, Any]) -> dict[str, list[str]]:
    """Every key of the sweep's cells with its distinct values; a choice's name stands under its group."""
    settings: dict[str, list[str]] = {}
    for cell in sweep["cells"]:
        for section, given in cell.items():
            for key, value in given.items():
                if key == "_target_" or (section == "device" and key == "name"):
                    continue
                values = settings.setdefault(section if key == "name" else f"{section}.{key}", [])
                text = "none" if value is None else str(setting(value))
                if text not in values:
                    values.append(text)
    return settings


def _role(key: str, values: Sequence[str], sweep: Mapping[str, Any]) -> str:
    if key in sweep["axes"]:
        return "axis"
    return "derived" if len(values) > 1 else "fixed"
