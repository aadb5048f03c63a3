"""Where results come from: the device, the resolved grid, each record's provenance and its samples."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import Any

import pandas as pd

from snn.analysis.grouping import setting
from snn.analysis.machine_state import Thresholds, watched
from snn.config.cell import Cell
from snn.hardware.devices import Device
from snn.hardware.limits import BYTES, CYCLES, FLOPS, SECONDS, Measured
from snn.tables.table import Table

Record = Mapping[str, Any]

# ---- gpu (Table I): properties of the device


def _gpu(records: Iterable[Mapping[str, Any]], paper: Mapping[str, Any]) -> pd.DataFrame:
    """One row per property, from any records of one kind of device: of limits, cells or microbenchmarks.

    Records of a GPU's host are left out. If no record of a GPU contains a property, as in earlier versions,
    ``value`` is empty and ``note`` explains why; a CPU's rows for GPUs are just empty.
    """
    found = list(records)
    gpus = [record for record in found if record["provenance"]["backend"] == "cuda"]
    provenance = (gpus or found)[0]["provenance"]
    values: dict[str, list[Any]] = {name: [] for name in paper["values"]}
    for record in gpus or found:
        for name, value in _properties(record).items():
            values.setdefault(name, [])
            if value is not None and value not in values[name]:
                values[name].append(value)
    return pd.DataFrame(
        {
            "parameter": name,
            "value": _join(known),
            "paper_value": paper["values"].get(name, ""),
            "note": "not recorded" if gpus and not known else "",
        }
        for name, known in values.items()
    ).assign(device=provenance["device"], backend=provenance["backend"], paper_device=paper["device"])


def _properties(record: Mapping[str, Any]) -> dict[str, Any]:
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


def _limits(limits: Record) -> pd.DataFrame:
    """One row per limit of a record.

    ``blocks`` is the number of blocks that it was measured with or between, each on an SM of its own. Where
    the device lacks the feature, the row is ``unsupported`` and ``reason`` says why.
    """
    rows = []
    for limit in Measured.of(limits).limits:
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
    provenance = limits["provenance"]
    table = pd.DataFrame(rows).astype({"blocks": "Int64", "median": float, "min": float, "max": float})
    return table.assign(device=provenance["device"], backend=provenance["backend"])


device_limits = Table("Measured limits of the device", _limits)


# ---- configuration

ALL_SWEEPS = "all sweeps"
VERDICTS = "verdicts"
_ROLES = ("axis", "derived", "fixed")


def _configuration(
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
        if len(values) == 1 and all(known.get(key) == values for known in settings.values())
    }
    rows = [(ALL_SWEEPS, key, "fixed", values) for key, values in common.items()]
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


configuration = Table("Configuration", _configuration)


# ---- provenance and warnings: one row per record, in the order given


def _what(record: Record) -> dict[str, Any]:
    cell = Cell(record["cell"])
    return {
        "strategy": cell.strategy,
        "dataset": cell.dataset,
        "network": cell.network,
        "round": record["round"],
    }


def _provenance(records: Mapping[str, Record]) -> pd.DataFrame:
    """``dirty`` says whether the working tree was; of the CUDA runtime's number 13020, ``13.2`` is shown."""
    rows = []
    for path, record in records.items():
        of = record["provenance"]
        cuda = of["cuda_runtime"]
        row = {
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
        rows.append(row)
    return pd.DataFrame(rows)


provenance = Table("Provenance of every record", _provenance)

_EXTREMES: Mapping[str, tuple[str, Callable[[list[float]], float]]] = {
    "temperature_c": ("max_temperature_c", max),
    "utilisation": ("median_utilisation", median),
    "power_w": ("median_power_w", median),
    "sm_mhz": ("min_sm_mhz", min),
}


def _warnings(records: Mapping[str, Record], thresholds: Thresholds) -> pd.DataFrame:
    """``warnings`` has the words, ``note`` when it was and how much, in seconds since the round began.

    A record from before there were samples has none of this.
    """
    rows = []
    for path, record in records.items():
        found = watched(record, thresholds)
        row = {
            **_what(record),
            "warnings": ", ".join(found),
            "note": "; ".join(found.values()),
            **_figures(record["machine"].get("samples"), record["provenance"]["elapsed_seconds"]),
            "device": record["cell"]["device"]["name"],
            "backend": record["cell"]["device"]["backend"],
            "record": path,
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _figures(samples: Mapping[str, Any] | None, elapsed: float) -> dict[str, float | None]:
    """Extremes of all samples, medians of those in timed runs, and the share of a CPU that sampling took."""
    names = [name for name, _ in _EXTREMES.values()]
    figures: dict[str, float | None] = dict.fromkeys(("samples", "max_memory_fraction", *names, "sampling"))
    if samples is None:
        return figures
    columns, memory = samples["columns"], samples["limits"].get("memory_bytes")
    used = [value for value in columns.get("memory_used_bytes", ()) if value is not None]
    figures["samples"] = samples["taken"]
    figures["max_memory_fraction"] = max(used) / memory if used and memory else None
    for key, (name, of) in _EXTREMES.items():
        rows = zip(columns.get(key, ()), columns["timed"], strict=False)
        values = [value for value, timed in rows if value is not None and (timed or of is not median)]
        figures[name] = of(values) if values else None
    figures["sampling"] = samples["cpu_seconds"] / elapsed if elapsed > 0 else None
    return figures


warnings = Table("Memory, heat, utilisation and power over time, with warnings", _warnings)
