"""The grid as resolved: what each sweep varies, what all have in common, and the thresholds of verdicts."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from snn.hardware.devices import Device
from snn.models.network import label

TITLE = "Configuration"
EVERY_SWEEP = "every sweep"
VERDICTS = "verdicts"


def build(sweeps: Sequence[Mapping[str, Any]], verdicts: Mapping[str, float], device: Device) -> pd.DataFrame:
    """One row a key: whose it is, its values in the order of the grid, and its ``part`` in it.

    A sweep (``name``, ``axes``, ``cells``) has its axes, what follows from them, and what is fixed in it
    alone; keys whose one value is that of all sweeps stand once, before them; thresholds stand last.
    """
    settings = {sweep["name"]: _settings(sweep) for sweep in sweeps}
    common = {
        key: values
        for key, values in next(iter(settings.values())).items()
        if len(values) == 1 and all(one.get(key) == values for one in settings.values())
    }
    rows = [(EVERY_SWEEP, key, "fixed", values) for key, values in common.items()]
    for sweep in sweeps:
        own = {key: values for key, values in settings[sweep["name"]].items() if key not in common}
        found = [(sweep["name"], key, _part(key, values, sweep), values) for key, values in own.items()]
        rows += sorted(found, key=lambda row: ("axis", "follows", "fixed").index(row[2]))
        rows.append((sweep["name"], "cells", "count", [str(len(sweep["cells"]))]))
    rows += [(VERDICTS, key, "threshold", [str(value)]) for key, value in verdicts.items()]
    return pd.DataFrame(
        [(of, key, part, ", ".join(values)) for of, key, part, values in rows],
        columns=["of", "key", "part", "values"],
    ).assign(device=device.name, backend=device.backend)


def _settings(sweep: Mapping[str, Any]) -> dict[str, list[str]]:
    """Every key of the sweep's cells with its distinct values; a choice's name stands under its group."""
    found: dict[str, list[str]] = {}
    for cell in sweep["cells"]:
        for section, given in cell.items():
            for key, value in given.items():
                if key == "_target_" or (section == "device" and key == "name"):
                    continue
                values = found.setdefault(section if key == "name" else f"{section}.{key}", [])
                text = _text(value)
                if text not in values:
                    values.append(text)
    return found


def _part(key: str, values: Sequence[str], sweep: Mapping[str, Any]) -> str:
    if key in sweep["axes"]:
        return "axis"
    return "follows" if len(values) > 1 else "fixed"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return label(value)
    return "none" if value is None else str(value)
