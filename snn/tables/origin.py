"""Where results come from: the device, the resolved grid, each record's provenance and its samples."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import Any

import pandas as pd

from snn.analysis.frame import frame_of
from snn.analysis.grouping import setting
from snn.analysis.machine_state import Thresholds, watched
from snn.config.cell import Cell
from snn.hardware.devices import Device
from snn.hardware.limits import BYTES, CYCLES, FLOPS, SECONDS, Measured
from snn.tables.table import Table

Record = Mapping[str, Any]

# ---- gpu (Table I): properties of the device


def _gpu(records: Iterable[Record], paper: Mapping[str, Any]) -> pd.DataFrame:
    """One row per property, from records of one kind of device: limits, cells or microbenchmarks.

    Records of a GPU's host are left out. If no record of a GPU contains a property, as in earlier versions,
    ``value`` is empty and ``note`` explains why; a CPU's rows for GPUs are just empty.
    """
    found = list(records)
    gpus = [record for record in found if record["provenance"]["backend"] == "cuda"]
    provenance = (gpus or found)[0]["provenance"]
    values: dict[str, dict[Any, None]] = {name: {} for name in paper["values"]}
    for record in gpus or found:
        for name, value in _properties(record).items():
            values.setdefault(name, {}).update({} if value is None else {value: None})
    return pd.DataFrame(
        {
            "parameter": name,
            "value": _join(list(known)),
            "paper_value": paper["values"].get(name, ""),
            "note": "not recorded" if gpus and not known else "",
        }
        for name, known in values.items()
    ).assign(device=provenance["device"], backend=provenance["backend"], paper_device=paper["device"])


def _properties(record: Record) -> dict[str, Any]:
    """The properties in one record, in the paper's units; None for those that it lacks."""
    provenance = record["provenance"]
    limits = Measured.of(record) if "limits" in record else Measured(())
    system = limits.properties
    memory = system.get("memory_bytes") or (record.get("memory") or {}).get("total_bytes")
    found = {"Memory (GB)": memory and round(memory / 1e9)}
    if provenance["backend"] == "cpu":
        return {"CPU cores": provenance["host"]["cpus"], **found}
    clock, bits = system.get("memory_clock_mhz"), system.get("memory_bus_bits")
    read = [one.value for one in limits.limits if (one.what, one.unit) == ("dram_read", BYTES) and one.value]
    return {
        "CUDA cores": system.get("cuda_cores"),
        **found,
        # Two transfers per clock: MHz x 2 x bits / 8 = MB/s.
        "Memory bandwidth (GB/s)": round(clock * 2 * bits / 8 / 1000) if clock and bits else None,
        "Compute capability": system.get("compute_capability"),
        "Copy engines": system.get("copy_engines"),
        "Measured read bandwidth (GB/s)": round(read[0] / 1e9) if read else None,
        "Multiprocessors": limits.multiprocessors,
        "L2 cache (MB)": limits.l2_bytes and round(limits.l2_bytes / 1e6),
        "Driver": provenance["driver"],
    }


def _join(values: list[Any]) -> Any:
    """One value, the range of several numbers (of several cards), or a list of several texts."""
    if len(values) < 2:
        return values[0] if values else ""
    if all(isinstance(value, int) for value in values):
        return f"{min(values)} to {max(values)}"
    return ", ".join(map(str, values))


gpu = Table("The device (Table I)", _gpu)


# ---- device_limits: the rates and latencies that floors are computed from

_UNITS = {FLOPS: ("GFLOP/s", 1e-9), BYTES: ("GB/s", 1e-9), SECONDS: ("us", 1e6), CYCLES: ("cycles", 1.0)}


def _limits(record: Record) -> pd.DataFrame:
    """One row per limit of a record; ``unsupported`` if the device lacks the feature."""
    rows = []
    for limit in Measured.of(record).limits:
        unit, factor = _UNITS[limit.unit]
        samples = [factor * sample for sample in limit.samples]
        rows.append(
            {
                "limit": limit.what,
                "blocks": limit.blocks,
                "median": factor * limit.value if limit.value is not None else None,
                "min": min(samples, default=None),
                "max": max(samples, default=None),
                "unit": unit,
                "samples": len(samples),
                "method": limit.how,
                "status": "ok" if samples else "unsupported",
                "reason": limit.reason,
            }
        )
    where = record["provenance"]
    return frame_of(rows).assign(device=where["device"], backend=where["backend"])


device_limits = Table("Measured limits of the device", _limits)


# ---- configuration

_ROLES = ("axis", "derived", "fixed")


def _configuration(
    sweeps: Sequence[Mapping[str, Any]],
    thresholds: Mapping[str, float],
    device: Device,
    microbenchmarks: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> pd.DataFrame:
    """One row per sweep and key: its values in the order of the grid, and its ``role``.

    A sweep (``name``, ``axes``, ``cells``) has its axes, values derived from them, and values fixed in it
    alone. Keys with the same single value in all sweeps are listed once, before them. The settings of
    microbenchmarks and the thresholds come last.
    """
    settings = {sweep["name"]: _settings(sweep) for sweep in sweeps}
    common = {
        key: values
        for key, values in next(iter(settings.values())).items()
        if len(values) == 1 and all(known.get(key) == values for known in settings.values())
    }
    rows = [("all sweeps", key, "fixed", values) for key, values in common.items()]
    for sweep in sweeps:
        name, own = sweep["name"], []
        for key, values in settings[name].items():
            if key not in common:
                role = "axis" if key in sweep["axes"] else "derived" if len(values) > 1 else "fixed"
                own.append((name, key, role, values))
        rows += sorted(own, key=lambda row: _ROLES.index(row[2]))
        rows.append((name, "cells", "count", [str(len(sweep["cells"]))]))
    for name, given in microbenchmarks.items():
        for key, value in given.items():
            rows.append((name, key, "setting", list(map(str, value if isinstance(value, list) else [value]))))
    rows += [("verdicts", key, "threshold", [str(value)]) for key, value in thresholds.items()]
    table = pd.DataFrame(rows, columns=["sweep", "key", "role", "values"])
    joined = table["values"].map(", ".join)
    return table.assign(values=joined, device=device.name, backend=device.backend)


def _settings(sweep: Mapping[str, Any]) -> dict[str, list[str]]:
    """Every key of the sweep's cells with its distinct values; a choice's name stands under its group."""
    settings: dict[str, dict[str, None]] = {}
    for cell in sweep["cells"]:
        for section, given in cell.items():
            for key, value in given.items():
                if key != "_target_" and (section, key) != ("device", "name"):
                    text = "none" if value is None else str(setting(value))
                    name = section if key == "name" else f"{section}.{key}"
                    settings.setdefault(name, {})[text] = None
    return {name: list(values) for name, values in settings.items()}


configuration = Table("Configuration", _configuration)


# ---- provenance and warnings: one row per record, in the order given


def _what(record: Record) -> dict[str, Any]:
    cell = Cell(record["cell"])
    names = {name: getattr(cell, name) for name in ("strategy", "dataset", "network")}
    return {**names, "round": record["round"]}


def _provenance(records: Mapping[str, Record]) -> pd.DataFrame:
    """``dirty`` says whether the working tree was; of the CUDA runtime's number 13020, ``13.2`` is shown."""
    rows = []
    for path, record in records.items():
        of = record["provenance"]
        cuda = of["cuda_runtime"]
        rows.append(
            {
                **_what(record),
                "status": record["status"],
                "runs": len(record["runs"]),
                "stopped_by": record["stopped"],
                "started": of["started"],
                "elapsed_s": of["elapsed_seconds"],
                "source_hash": of["source_hash"],
                "commit": of["git"]["commit"],
                "dirty": {True: "yes", False: "no"}.get(of["git"]["dirty"]),
                **{key: of[key] for key in ("device", "backend", "device_uuid", "driver")},
                "cuda_runtime": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
                **{name: of["versions"].get(name) for name in ("cupy", "numpy", "torch", "jax", "python")},
                "system": of["host"]["system"],
                "cpus": of["host"]["cpus"],
                "record": path,
            }
        )
    return pd.DataFrame(rows)


provenance = Table("Provenance of every record", _provenance)

_EXTREMES: Mapping[str, tuple[str, Callable[[list[float]], float]]] = {
    "temperature_c": ("max_temperature_c", max),
    "utilisation": ("median_utilisation", median),
    "power_w": ("median_power_w", median),
    "sm_mhz": ("min_sm_mhz", min),
}
"""Columns of samples, with the figure that the table shows of each; a median is of timed runs alone."""


def _warnings(records: Mapping[str, Record], thresholds: Thresholds) -> pd.DataFrame:
    """``warnings`` has the words, ``note`` when it was and how much, in seconds since the round began.

    A record from before there were samples has none of this.
    """
    rows = []
    for path, record in records.items():
        found, device = watched(record, thresholds), record["cell"]["device"]
        rows.append(
            {
                **_what(record),
                "warnings": ", ".join(found),
                "note": "; ".join(found.values()),
                **_figures(record),
                "device": device["name"],
                "backend": device["backend"],
                "record": path,
            }
        )
    return pd.DataFrame(rows)


def _figures(record: Record) -> dict[str, float | None]:
    """Extremes and medians of a record's samples, and the share of a CPU that sampling took."""
    samples, elapsed = record["machine"].get("samples"), record["provenance"]["elapsed_seconds"]
    columns = samples["columns"] if samples else {}

    def values(key: str, is_timed: bool = False) -> list[float]:
        pairs = zip(columns.get(key, ()), columns.get("timed", ()), strict=False)
        return [value for value, timed in pairs if value is not None and (timed or not is_timed)]

    used, memory = values("memory_used_bytes"), samples and samples["limits"].get("memory_bytes")
    figures = {
        "samples": samples and samples["taken"],
        "max_memory_fraction": max(used) / memory if used and memory else None,
    }
    for key, (name, of) in _EXTREMES.items():
        found = values(key, is_timed=of is median)
        figures[name] = of(found) if found else None
    return figures | {"sampling": samples["cpu_seconds"] / elapsed if samples and elapsed > 0 else None}


warnings = Table("Memory, heat, utilisation and power over time, with warnings", _warnings)
