"""Table I: properties of the device, next to those of the paper's."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from snn.hardware.limits import BYTES, Measured

TITLE = "The device (Table I)"
_GIGA, _MEGA = 1e9, 1e6
_UNKNOWN = "not recorded"


def build(records: Iterable[Mapping[str, Any]], paper: Mapping[str, Any]) -> pd.DataFrame:
    """One row per property, from any records of one kind of device: of limits, cells or microbenchmarks.

    Records of a GPU's host are left out. If no record of a GPU contains a property, as in earlier versions,
    ``value`` is empty and ``note`` explains why; a CPU's rows for GPUs are just empty. Measured rates of
    several cards are given as a range.
    """
    found = list(records)
    of_gpu = [record for record in found if record["provenance"]["backend"] == "cuda"]
    found = of_gpu or found
    device, backend = (found[0]["provenance"][key] for key in ("device", "backend"))
    values: dict[str, list[Any]] = {name: [] for name in paper["values"]}
    for record in found:
        for name, value in _properties(record).items():
            values.setdefault(name, [])
            if value is not None and value not in values[name]:
                values[name].append(value)
    return pd.DataFrame(
        [
            {
                "parameter": name,
                "value": _joined(known),
                "paper_value": paper["values"].get(name, ""),
                "note": _UNKNOWN if of_gpu and not known else "",
                "device": device,
                "backend": backend,
                "paper_device": paper["device"],
            }
            for name, known in values.items()
        ]
    )


def _properties(record: Mapping[str, Any]) -> dict[str, Any]:
    """The properties in one record, in the paper's units; None for those that it lacks."""
    provenance = record["provenance"]
    limits = Measured.of(record) if "limits" in record else Measured(())
    system = limits.properties
    memory = system.get("memory_bytes") or (record.get("memory") or {}).get("total_bytes")
    found = {"Memory (GB)": memory and round(memory / _GIGA)}
    if provenance["backend"] == "cpu":
        return {"CPU cores": provenance["host"]["cpus"], **found}
    clock, bits = system.get("memory_clock_mhz"), system.get("memory_bus_bits")
    return {
        "CUDA cores": system.get("cuda_cores"),
        **found,
        # Two transfers per clock: MHz x 2 x bits / 8 = MB/s.
        "Memory bandwidth (GB/s)": round(clock * 2 * bits / 8 / 1000) if clock and bits else None,
        "Compute capability": system.get("compute_capability"),
        "Copy engines": system.get("copy_engines"),
        "Measured read bandwidth (GB/s)": _rate(limits, "dram_read"),
        "Multiprocessors": limits.multiprocessors,
        "L2 cache (MB)": limits.l2_bytes and round(limits.l2_bytes / _MEGA),
        "Driver": provenance["driver"],
    }


def _rate(limits: Measured, name: str) -> int | None:
    """A measured rate in GB/s."""
    rates = [one.value for one in limits.limits if (one.what, one.unit) == (name, BYTES)]
    return round(rates[0] / _GIGA) if rates and rates[0] else None


def _joined(values: list[Any]) -> Any:
    """One value, the range of several numbers, or a list of several texts."""
    if len(values) < 2:
        return values[0] if values else ""
    if all(isinstance(value, int) for value in values):
        return f"{min(values)} to {max(values)}"
    return ", ".join(map(str, values))
