"""Whether records may stand together: one per round of a cell, all measured with the same."""

import json
from collections.abc import Mapping
from typing import Any

from snn.errors import RecordError
from snn.records.store import again

Record = Mapping[str, Any]
_OPTIONAL = ("numba", "torch", "jax")
"""Packages that only some strategies train with."""

NUMA = "NUMA node of the process"


def check(records: Mapping[str, Record]) -> None:
    """Raise RecordError, naming both places, where two records by place do not belong together.

    They do not where they are of one round of one cell, or of two rounds of a cell that differ in their
    sources, the versions of what took part, their threads, surroundings or ledgers.
    """
    cells: dict[str, dict[str, Record]] = {}
    for place, record in records.items():
        cells.setdefault(json.dumps(record["cell"], sort_keys=True), {})[place] = record
    for rounds in cells.values():
        _check_rounds(rounds)


def host(provenance: Mapping[str, Any]) -> list[Any]:
    """The machine around a device, as far as it is known; records of equal GPUs of equal ones go together."""
    return [provenance.get("host", {}).get(key) for key in ("system", "cpu", "cpus")]


def surroundings(record: Record) -> dict[str, str]:
    """What changes the times of a record from outside (``snn.measurement.provenance``), by what it is.

    Only what concerns its strategy, device and kernel; empty for earlier records, which do not say it.
    """
    found = record["provenance"].get("surroundings")
    if not found:
        return {}
    variables, traits, kernel = found["environment"], record.get("traits") or {}, record["cell"].get("kernel")
    runtime, said = traits.get("own_runtime"), {}
    if runtime == "jax":
        said["XLA_FLAGS"] = variables.get("XLA_FLAGS") or "none"
    if record["provenance"]["backend"] != "cuda":
        return said
    if runtime or (kernel or {}).get("name") == "cublas":
        said["NVIDIA_TF32_OVERRIDE"] = variables.get("NVIDIA_TF32_OVERRIDE") or "none"
    blocking = variables.get("CUDA_LAUNCH_BLOCKING") or "0"
    known = {"CUDA_LAUNCH_BLOCKING": blocking, "schedule of waits": found.get("schedule")}
    nodes, of_gpu = found.get("numa_nodes"), found.get("gpu_numa_node")
    if nodes and of_gpu is not None:
        known[NUMA] = "any" if len(nodes) > 1 else "the GPU's" if nodes == [of_gpu] else "another"
    return said | {what: value for what, value in known.items() if value is not None}


def _check_rounds(rounds: Mapping[str, Record]) -> None:
    """Compare the records of one cell, each with the first that holds the same kind of thing."""
    numbers: dict[int, str] = {}
    first: dict[str, tuple[str, Any]] = {}
    older = min(rounds, key=lambda place: rounds[place]["provenance"]["started"])
    for place, record in rounds.items():
        number = record["round"]
        if number in numbers:
            raise RecordError(
                f"{numbers[number]} and {place} are both round {number} of one cell: remove one of them"
            )
        numbers[number] = place
        for what, value in _measured_with(record).items():
            other, known = first.setdefault(what, (place, value))
            if value != known:
                raise RecordError(
                    f"{other} and {place}: the rounds of one cell have different {what}"
                    f"{_shown(known)}{_shown(value)}: {older} is the oldest{again(older)}"
                )


def _measured_with(record: Record) -> dict[str, Any]:
    """What all rounds of a cell must share. A ledger is compared where there is one."""
    provenance, traits = record["provenance"], record.get("traits")
    shared = {"sources": provenance["source_hash"], "BLAS threads": provenance.get("blas_threads")}
    left_out = set()
    if traits:
        left_out = set(_OPTIONAL) - {traits["own_runtime"], "numba" if traits["on_host"] else None}
    packages = provenance["versions"].keys() - left_out
    shared |= {f"versions of {package}": provenance["versions"][package] for package in sorted(packages)}
    shared |= surroundings(record) | ({"ledgers": record["ledger"]} if record["ledger"] else {})
    shared.pop(NUMA, None)  # rounds may be measured on GPUs in turn
    return shared


def _shown(value: Any) -> str:
    return "" if isinstance(value, dict) else f", {value}"
