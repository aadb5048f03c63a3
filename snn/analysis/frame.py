"""Records, checked against the cells that were asked for, as a data frame: a row a cell, rounds pooled."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds, verdict
from snn.errors import RecordError
from snn.models.network import label
from snn.profiling.memory import PURPOSES
from snn.records.store import read
from snn.strategies.common.traits import on_host, own_runtime

Expected = Mapping[str, Mapping[str, Any]]


def load(expected: Expected, thresholds: Thresholds) -> pd.DataFrame:
    """The records at these paths, in this order, each with a verdict on the machine it was measured on.

    Raises RecordError as ``checked`` and ``tabulate`` do.
    """
    return tabulate(checked(expected), thresholds)


def checked(expected: Expected) -> dict[str, Mapping[str, Any]]:
    """The records at these paths. Raises RecordError where one is not of the cell or sources asked for."""
    records: dict[str, Mapping[str, Any]] = {path: read(Path(path)) for path in expected}
    for path, wanted in expected.items():
        _check(path, records[path], wanted)
    return records


def tabulate(records: Mapping[str, Mapping[str, Any]], thresholds: Thresholds) -> pd.DataFrame:
    """Records by name as rows, the rounds of a cell as one.

    A GPU's rows may stand beside those of strategies that run on its host. Raises RecordError, with names,
    where records are otherwise of two devices, or where the rounds of a cell did not do the same.
    """
    _check_one_device(records)
    cells: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, record in records.items():
        key = json.dumps(record["cell"], sort_keys=True)
        cells.setdefault(key, {})[name] = record
    rows = [pool(rounds, thresholds) for rounds in cells.values()]
    frame = pd.DataFrame(rows)
    whole = [key for key in frame if _lacks_some_of_whole_numbers([row.get(key) for row in rows])]
    return frame.astype(
        dict.fromkeys(whole, "Int64") | dict.fromkeys(("mean_s", "std_s", "final_mse"), "float")
    )


def _lacks_some_of_whole_numbers(values: Sequence[Any]) -> bool:
    """Whether pandas would make real numbers of these, since some rows have none."""
    given = [value for value in values if value is not None]
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in given)
    return bool(given) and whole and len(given) < len(values)


def _check(path: str, record: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    again = f"run it again: snakemake --cores 1 --force {path}"
    if record["cell"] != wanted["cell"]:
        changed = [key for key in wanted["cell"] if record["cell"].get(key) != wanted["cell"][key]]
        raise RecordError(f"{path}: the record of another cell (its {', '.join(changed)} differ): {again}")
    if record["round"] != wanted["round"]:
        raise RecordError(f"{path}: the record of round {record['round']}, not {wanted['round']}: {again}")
    found = record["provenance"]["source_hash"]
    if found != wanted["source_hash"]:
        raise RecordError(
            f"{path}: measured with other sources ({found}) than now ({wanted['source_hash']}): {again}"
        )


def _check_one_device(records: Mapping[str, Mapping[str, Any]]) -> None:
    """One device for what asks for one, and one host for what runs there; and the device is in that host."""
    first: dict[bool, tuple[str, Mapping[str, Any]]] = {}
    for path, record in records.items():
        where = record["provenance"]
        other, known = first.setdefault(on_host(record["cell"]["strategy"]), (path, where))
        if _device(where) != _device(known):
            raise _two_devices(path, _device(where), other, _device(known))
    if len(first) == 2:
        (path, where), (other, known) = first.values()
        if _device(where) != _device(known) and _host(where) != _host(known):
            raise _two_devices(path, _device(where), other, f"{_device(known)} of another host")


def _two_devices(path: str, device: str, other: str, others: str) -> RecordError:
    return RecordError(
        f"{path} was measured on {device}, but {other} on {others}: times of two devices do "
        "not go into one table; run the older cells again with --force"
    )


def _device(where: Mapping[str, Any]) -> str:
    return " ".join(str(where[key]) for key in ("device", "device_uuid") if where[key])


def _host(where: Mapping[str, Any]) -> list[Any]:
    return [where.get("host", {}).get(key) for key in ("system", "cpu", "cpus")]


def pool(rounds: Mapping[str, Mapping[str, Any]], thresholds: Thresholds) -> dict[str, Any]:
    """The row of a cell from its rounds' records by name: runs together, words joined, costs their median.

    ``mean_s`` and ``std_s`` are of one training, over all runs; ``rounds`` holds the seconds by round. Where
    a run is one launch that trains several ``members``, a training's seconds are its share of the launch,
    which takes ``launch_s``, and ``member_mse`` holds each of them with its ``final_mse``, over all runs.
    """
    records = list(rounds.values())
    first = next((one for one in records if one["runs"]), records[0])  # what had no room says less
    _check_same_work(rounds)
    cell, where = first["cell"], first["provenance"]
    row = {f"{section}.{key}": _plain(value) for section in cell for key, value in cell[section].items()}
    row.setdefault("kernel.work", "1-1")  # before there was a choice
    members = max(len(first.get("members", [])), 1)
    seconds = [[run["seconds"] / members for run in record["runs"]] for record in records]
    times = [one for some in seconds for one in some]
    errors = [run["final_mse"] for record in records for run in record["runs"]]
    word, why = verdict(records, thresholds)
    return row | {
        "strategy": cell["strategy"]["name"],
        "on_host": on_host(cell["strategy"]),
        "runtime": _runtime(first),
        "dataset": cell["dataset"]["name"],
        "kernel": cell["kernel"]["name"],
        "precision": cell.get("precision", {}).get("name", "fp32"),
        "network": label(cell["network"]["hidden"]),
        "mean_s": fmean(times) if times else None,
        "std_s": stdev(times) if len(times) > 1 else None,
        "runs": len(times),
        "members": members,
        "launch_s": members * fmean(times) if times else None,
        "member_mse": _members(first.get("members", []), records),
        "rounds": seconds,
        "stopped": _joined(record["stopped"] for record in records),
        "final_mse": fmean(errors) if errors and None not in errors else None,
        "status": _joined((record["status"] for record in records), "ok"),
        "reason": _joined(record["reason"] for record in records),
        "plan": _joined(record.get("plan") for record in records),
        "machine": word,
        "machine_why": why,
        "device": where["device"],
        "backend": where["backend"],
        "device_uuid": where["device_uuid"],
        "driver": _joined(record["provenance"]["driver"] for record in records),
        "commit": where["git"]["commit"],
        "started": where["started"],
        "probe": _mean_probe(records),
        **_explanation(records, members),
        "trace": first["explanation"] and first["explanation"]["trace"],
        **{f"ledger.{key}": value for key, value in first["ledger"].items()},
        **_memory(first),
    }


def _runtime(record: Mapping[str, Any]) -> str:
    """The package that a peer trains by, with the version that the record was made with; else nothing."""
    package = own_runtime(record["cell"]["strategy"])
    version = record["provenance"].get("versions", {}).get(package)
    return " ".join(filter(None, (package, version)))


def _mean_probe(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Microseconds of each of the probe's costs, over all rounds, before and after."""
    probes = [probe for record in records for probe in record["machine"]["probe"].values() if probe]
    return {key: fmean(probe[key] for probe in probes) for key in probes[0]} if probes else {}


def _check_same_work(rounds: Mapping[str, Mapping[str, Any]]) -> None:
    ledgers = {name: record["ledger"] for name, record in rounds.items() if record["ledger"]}
    if len({json.dumps(ledger, sort_keys=True) for ledger in ledgers.values()}) > 1:
        raise RecordError(f"{', '.join(ledgers)}: rounds of one cell whose ledgers differ")


def _members(
    members: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Each network of a launch with its mean final loss over all runs; None where one is not finite."""
    runs = [run["member_mse"] for record in records for run in record["runs"] if "member_mse" in run]
    losses = [None if None in one else fmean(one) for one in zip(*runs, strict=True)]
    return [{**one, "final_mse": loss} for one, loss in zip(members[: len(losses)], losses, strict=True)]


def _explanation(records: Sequence[Mapping[str, Any]], members: int) -> dict[str, float]:
    """Parts of a training's time and the predicted seconds of its calls: the median of the rounds.

    One of them may have met a slow moment of the processor. Of several in one launch it is a member's share.
    """
    found = [record["explanation"] for record in records if record["explanation"]]
    if not found:
        return {}
    parts = found[0]["attribution"]["seconds"]
    return {
        f"part.{key}": median(one["attribution"]["seconds"][key] for one in found) / members for key in parts
    } | {"predicted_calls_s": median(one["predicted_calls_seconds"] for one in found) / members}


def _memory(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the tables show of the memory of one round; the others did the same."""
    memory = record["memory"]
    if not memory:
        return {}
    device = memory["device"]
    return {
        "memory.peak_bytes": device["peak_bytes"],
        **{f"memory.{kind}_bytes": device["peak_by_kind"].get(kind, 0) for kind in PURPOSES},
        **{f"memory.{key}": device[key] for key in ("reserved_bytes", "largest_free_bytes", "fragmentation")},
        "memory.page_locked_bytes": memory["page_locked"]["peak_bytes"],
        "memory.in_use": 1 - memory["least_free_bytes"] / memory["total_bytes"],
        "memory.warnings": "; ".join(memory["warnings"]),
    }


def _joined(words: Iterable[str | None], best: str = "") -> str:
    """The words that occur, once each; ``best`` only where there is no other."""
    found = dict.fromkeys(word for word in words if word and word != best)
    return ", ".join(found) or best


def _plain(value: Any) -> Any:
    return label(value) if isinstance(value, list) else value
