"""README.md of a published set and of its device's folder, written from the records alone."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from snn.config.cell import Cell
from snn.errors import RecordError, one_line
from snn.grid import naming
from snn.records import archive, microbenchmarks
from snn.report.write import template

Record = Mapping[str, Any]

_PACKAGES = {"cupy": "CuPy", "numpy": "NumPy", "torch": "PyTorch", "jax": "JAX", "python": "Python"}
_SHORT = 7
"""Digits of a commit in the list of a device's sets."""
_MARKS = re.compile(r"[\\`*_\[\]<>&|~$#]|(?<=:)(?=//)")
"""Characters that Markdown may read as marks, and the point that keeps an address from being a link."""


def escaped(text: str) -> str:
    """Markdown that shows a text without line ends literally."""
    return _MARKS.sub(r"\\\g<0>", text)


def readme(records: Sequence[Record], told: str | None = None, others: Sequence[Record] = ()) -> str:
    """README of a set: when, where and with which versions it was measured, with every distinct value.

    ``told`` is the commit for records that have none; ``others`` are records of microbenchmarks.
    """
    where = _provenances([*records, *others])
    started = _started(records)
    rounds = Counter(Cell(record["cell"]).name for record in records)
    rows = {
        "device": _values(one["device"] for one in where),
        "UUID": _values(one["device_uuid"] for one in where),
        "driver": _values(one["driver"] for one in where),
        "CUDA runtime": _values(one.get("cuda_runtime") for one in where),
        **{said: _values(one["versions"].get(name) for one in where) for name, said in _PACKAGES.items()},
        "CPU": _values(one["host"].get("cpu") for one in where),
        "CPUs": _values(one["host"]["cpus"] for one in where),
        "commit": _values(_commit(one["git"], told) for one in where),
        "first cell": started[0] if started else None,
        "last cell": started[-1] if started else None,
        "records": str(len(records)) if records else None,
        "rounds per cell": _span(rounds.values()),
        "runs per record": _span(len(record["runs"]) for record in records if record["runs"]),
    }
    rows |= {one["name"]: one["provenance"]["started"] for one in others}
    return str(template("set.md").render(devices=len({one["device_uuid"] for one in where}), rows=rows))


def list_of(sets: Mapping[str, Path]) -> str:
    """The README of a device's folder: a table of its sets by name, from the folders that hold them.

    Raises RecordError if a set has no records, or records that do not fit together.
    """
    described = [_describe(name, folder) for name, folder in sorted(sets.items())]
    return str(template("sets.md").render(device=described[0]["device"], rows=described))


def contents(folder: Path) -> Counter[str]:
    """Number of a set's records by sweep, and its microbenchmarks and limits."""
    found = Counter({f"microbenchmark {name}": 1 for name in microbenchmarks.of_devices(folder)})
    found.update(f"limits of {path.stem}" for path in folder.glob("limits/*.json"))
    found.update("limits" for _ in folder.glob("limits.json"))
    rounds = _rounds_of_sweeps(folder, _entries(folder))
    found.update({f"records of {name}": sum(counts) for name, counts in rounds.items()})
    return found


def name_as_written(entry: archive.Entry) -> str:
    """The name of an entry's cell with the digest of the cell as it was written."""
    readable, _, _ = Cell(entry.record["cell"]).name.rpartition("-")
    return f"{readable}-{naming.digest(entry.written['cell'])}"


def _describe(name: str, folder: Path) -> dict[str, Any]:
    """A set's row in the README of its device's folder; a CPU has no cards."""
    entries = _entries(folder)
    others = microbenchmarks.of_devices(folder)
    records = [*(entry.record for entry in entries), *others.values()]
    if not records:
        raise RecordError(f"{folder}: no records found: publish it again, or remove it")
    where, started = _provenances(records), _started(records)
    rounds = {sweep: _span(counts) for sweep, counts in _rounds_of_sweeps(folder, entries).items()}
    return {
        "name": name,
        "device": _values(one["device"] for one in where),
        "measured": ", ".join([*(f"{sweep} ({count})" for sweep, count in rounds.items()), *others]),
        "commit": _values(_commit(one["git"], digits=_SHORT) for one in where),
        "days": " to ".join(dict.fromkeys([started[0][:10], started[-1][:10]])),
        "cards": len({one["device_uuid"] for one in where} - {None}),
    }


def _provenances(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """Provenances of the records: only the GPU's, if some were made on a GPU and others on its host's CPU."""
    found = [record["provenance"] for record in records]
    return [one for one in found if one["backend"] == "cuda"] or found


def _started(records: Iterable[Record]) -> list[str]:
    """Start times of the records, including the host CPU's, in order."""
    return sorted(record["provenance"]["started"] for record in records)


def _values(values: Iterable[object]) -> str:
    """Distinct values as Markdown that shows them literally."""
    known = sorted({str(value) for value in values} - {"None"})
    return ", ".join(escaped(one_line(value)) for value in known)


def _commit(git: Mapping[str, Any], told: str | None = None, digits: int | None = None) -> str:
    """A commit, cut to ``digits``, with a note if it is dirty, told or missing."""
    if git["commit"] is None:
        return f"{told} (as told, not recorded)" if told else "not recorded"
    return f"{git['commit'][:digits]}{' (dirty working tree)' if git['dirty'] else ''}"


def _entries(folder: Path) -> list[archive.Entry]:
    """The records of a set's cells; a set of microbenchmarks has none."""
    return list(archive.entries(folder).values()) if archive.has_cells(folder) else []


def _rounds_of_sweeps(folder: Path, entries: Iterable[archive.Entry]) -> dict[str, list[int]]:
    """The number of rounds of each cell of a set's sweeps, from its records."""
    sweeps = archive.read_sweeps(folder) or {}
    rounds = Counter(map(name_as_written, entries))
    return {name: [rounds[cell] for cell in sweep["cells"]] for name, sweep in sweeps.items()}


def _span(counts: Iterable[int]) -> str:
    """The smallest and the largest number, as ``2 to 5``, or ``5`` if equal; empty for no numbers."""
    known = sorted(counts)
    return " to ".join(dict.fromkeys(map(str, (known[0], known[-1])))) if known else ""
