"""Where every record comes from: device, driver, versions, commit, sources, when and how long."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from snn.models.network import label
from snn.records.store import read

TITLE = "Where every record comes from"


def load(paths: Iterable[str]) -> pd.DataFrame:
    """The provenance of the records at these paths."""
    return build({path: read(Path(path)) for path in paths})


def build(records: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """One row a record, in the order given; ``uncommitted`` says whether tracked files differed."""
    return pd.DataFrame([_row(path, record) for path, record in records.items()])


def _row(path: str, record: Mapping[str, Any]) -> dict[str, Any]:
    cell, where = record["cell"], record["provenance"]
    return {
        "strategy": cell["strategy"]["name"],
        "dataset": cell["dataset"]["name"],
        "network": label(cell["network"]["hidden"]),
        "round": record["round"],
        "status": record["status"],
        "runs": len(record["runs"]),
        "stopped": record["stopped"],
        "started": where["started"],
        "elapsed_s": where["elapsed_seconds"],
        "source_hash": where["source_hash"],
        "commit": where["git"]["commit"],
        "uncommitted": {True: "yes", False: "no"}.get(where["git"]["dirty"]),
        "device": where["device"],
        "backend": where["backend"],
        "device_uuid": where["device_uuid"],
        "driver": where["driver"],
        "cuda_runtime": _version(where["cuda_runtime"]),
        "cupy": where["versions"]["cupy"],
        "numpy": where["versions"]["numpy"],
        "torch": where["versions"].get("torch"),
        "jax": where["versions"].get("jax"),
        "python": where["versions"]["python"],
        "system": where["host"]["system"],
        "cpus": where["host"]["cpus"],
        "record": path,
    }


def _version(number: int | None) -> str | None:
    """13020, as the CUDA runtime says it, is 13.2."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"
