"""The provenance of every record: device, driver, versions, commit, source hash, time and duration."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.models.network import network_label

TITLE = "Provenance of every record"


def build(records: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """One row per record, in the order given; ``dirty`` says whether the working tree was."""
    return pd.DataFrame([_row(path, record) for path, record in records.items()])


def _row(path: str, record: Mapping[str, Any]) -> dict[str, Any]:
    cell, provenance = record["cell"], record["provenance"]
    return {
        "strategy": cell["strategy"]["name"],
        "dataset": cell["dataset"]["name"],
        "network": network_label(cell["network"]),
        "round": record["round"],
        "status": record["status"],
        "runs": len(record["runs"]),
        "stopped_by": record["stopped"],
        "started": provenance["started"],
        "elapsed_s": provenance["elapsed_seconds"],
        "source_hash": provenance["source_hash"],
        "commit": provenance["git"]["commit"],
        "dirty": {True: "yes", False: "no"}.get(provenance["git"]["dirty"]),
        "device": provenance["device"],
        "backend": provenance["backend"],
        "device_uuid": provenance["device_uuid"],
        "driver": provenance["driver"],
        "cuda_runtime": _version(provenance["cuda_runtime"]),
        "cupy": provenance["versions"]["cupy"],
        "numpy": provenance["versions"]["numpy"],
        "torch": provenance["versions"].get("torch"),
        "jax": provenance["versions"].get("jax"),
        "python": provenance["versions"]["python"],
        "system": provenance["host"]["system"],
        "cpus": provenance["host"]["cpus"],
        "record": path,
    }


def _version(number: int | None) -> str | None:
    """``13.2`` from the CUDA runtime's number 13020."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"
