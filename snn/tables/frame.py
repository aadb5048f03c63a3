"""Records, checked against the cells that were asked for, as one data frame with a row a cell."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from snn.errors import RecordError
from snn.network import label
from snn.records import read
from snn.verdict import Thresholds, verdict

Expected = Mapping[str, Mapping[str, Any]]


def load(expected: Expected, thresholds: Thresholds) -> pd.DataFrame:
    """The records at these paths, in this order, each with a verdict on the machine it was measured on.

    Raises RecordError where a record is not of the cell or the sources that were asked for, or where two
    records were measured on different devices or drivers: their times must not meet in one table.
    """
    records = []
    for path, wanted in expected.items():
        record = read(Path(path))
        _check(path, record, wanted)
        records.append(record)
    return tabulate(dict(zip(expected, records, strict=True)), thresholds)


def tabulate(records: Mapping[str, Mapping[str, Any]], thresholds: Thresholds) -> pd.DataFrame:
    """Records by name as rows. Raises RecordError, with names, where they are of two devices or drivers."""
    _check_one_device(records)
    return pd.DataFrame([_row(record, thresholds) for record in records.values()])


def _check(path: str, record: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    again = f"run it again: snakemake --cores 1 --force {path}"
    if record["cell"] != wanted["cell"]:
        changed = [key for key in wanted["cell"] if record["cell"].get(key) != wanted["cell"][key]]
        raise RecordError(f"{path}: the record of another cell (its {', '.join(changed)} differ): {again}")
    found = record["provenance"]["source_hash"]
    if found != wanted["source_hash"]:
        raise RecordError(
            f"{path}: measured with other sources ({found}) than now ({wanted['source_hash']}): {again}"
        )


def _check_one_device(records: Mapping[str, Mapping[str, Any]]) -> None:
    first: tuple[str, str] | None = None
    for path, record in records.items():
        where = record["provenance"]
        device = " ".join(str(where[key]) for key in ("device", "device_uuid", "driver") if where[key])
        if first is None:
            first = (path, device)
        elif device != first[1]:
            raise RecordError(
                f"{path} was measured on {device}, but {first[0]} on {first[1]}: times of two devices do "
                "not go into one table; run the older cells again with --force"
            )


def _row(record: Mapping[str, Any], thresholds: Thresholds) -> dict[str, Any]:
    cell, summary, where = record["cell"], record["summary"], record["provenance"]
    word, why = verdict(record, thresholds)
    row = {f"{section}.{key}": _plain(value) for section in cell for key, value in cell[section].items()}
    return row | {
        "strategy": cell["strategy"]["name"],
        "dataset": cell["dataset"]["name"],
        "kernel": cell["kernel"]["name"],
        "network": label(cell["network"]["hidden"]),
        "mean_s": summary["mean_seconds"],
        "std_s": summary["std_seconds"],
        "runs": summary["runs"],
        "rounds": [[run["seconds"] for run in record["runs"]]],
        "stopped": record["stopped"],
        "final_mse": summary["mean_final_mse"],
        "status": record["status"],
        "machine": word,
        "machine_why": why,
        "device": where["device"],
        "backend": where["backend"],
        **{f"part.{key}": value for key, value in _parts(record).items()},
        **{f"ledger.{key}": value for key, value in record["ledger"].items()},
    }


def _parts(record: Mapping[str, Any]) -> Mapping[str, float]:
    """The parts of a run's time; a record of before there were any has none."""
    return (record.get("attribution") or {"seconds": {}})["seconds"]


def _plain(value: Any) -> Any:
    return label(value) if isinstance(value, list) else value
