"""This machine's records of a small grid as one file for others, and the checks of such a file."""

import getpass
import json
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from snn.config.cell import Cell
from snn.config.groups import CONFIG
from snn.errors import ConfigError, OutputError, RecordError, shown
from snn.files import revision
from snn.files.outputs import reported
from snn.files.project import IS_INSTALLED, ROOT
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.records import archive, store

GRID = CONFIG / "contribute.yaml"
_NAMED = GRID if IS_INSTALLED else GRID.relative_to(ROOT)
MEASURE = f"snakemake --cores 1 results/tables/contribute.csv --config grid={_NAMED}"
PLACE = Path("results/contributed")

Record = dict[str, Any]
_Round = tuple[str, int]

_ON_HOST = ("system", "cpu", "cpus")
_PATH = re.compile(r"(?<![\w.:/])~?/[\w.+-]+/|[A-Za-z]:\\")
_SHORTEST = 3  # letters of a name that is searched for
_APART = 0.01  # largest relative difference of the losses of two strategies from the same weights
_MOST_FLOPS = 1e16  # per second: no device computes faster
_CLOCK = timedelta(seconds=2)  # by which a second measurement may seem to begin before the end of a first


def pack(results: Path, output: Path | None = None) -> Path:
    """Write the records of the grid in a folder of results as one file, and return its path.

    Raises RecordError if the folder lacks some of them, ConfigError if it has them of several devices, and
    OutputError if the file would hold a path, or a name of the host or the user.
    """
    of_grid: dict[Device, dict[_Round, Record]] = {}
    for entry in archive.unchecked(results).values() if results.exists() else ():
        record, device = entry.record, Cell(entry.record["cell"]).device
        if (found := _round(record)) in _rounds(device):
            of_grid.setdefault(device, {})[found] = record
    whole = [device for device, records in of_grid.items() if len(records) == len(_rounds(device))]
    if not whole:
        most = max(map(len, of_grid.values()), default=0)
        raise RecordError(
            f"{results}: it has {most} records of {GRID.name}, and not all of one device: measure the others "
            f"with `{MEASURE}`"
        )
    if len(whole) > 1:
        names = " and ".join(sorted(device.name for device in whole))
        raise ConfigError(f"{results} has the records of {names}: give a folder with one device's records")
    records = [store.sealed(_without_names(record)) for _, record in sorted(of_grid[whole[0]].items())]
    places = {f"record {number}": record for number, record in enumerate(records, 1)}
    check(results, places)
    for place, record in places.items():
        if leak := next(_find_leaks(record, ""), None):
            raise OutputError(f"{results}, {place}: {leak}: nothing was written")
    path = output or PLACE / f"{whole[0].slug}-{records[0][store.DIGEST][:8]}.jsonl.gz"
    with reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        archive.write_contribution(records, path)
    return path


def summary(path: Path) -> str:
    """Text that describes a contribution, and how to propose it."""
    records = [entry.record for entry in archive.unchecked(path).values()]
    device, commit = (records[0]["provenance"][key] for key in ("device", "git"))
    where = path if path.is_relative_to(PLACE) else PLACE / path.name
    clone = "a clone of the repository" if IS_INSTALLED else "this clone"
    return "\n".join(
        [
            f"{len(records)} records of {device} at commit {commit['commit'][:12]}: {path}",
            "It holds no name of the host or of a user and no path; a GPU's UUID stays, to tell cards apart.",
            f"See it next to other devices: snn merge {path} results/published/*/* output=devices",
            f"To propose it: commit {where} in {clone} on a new branch, push that to your fork, and open a "
            "pull request.",
        ]
    )


def check(path: Path, records: Mapping[str, Record]) -> None:
    """Raise RecordError unless one device can have measured these records: the whole grid, at one commit."""

    def fail(problem: str) -> None:
        raise RecordError(f"{path}: {problem}")

    of_all = {
        (Cell(one["cell"]).device, _text(one["provenance"]["git"]), one["provenance"]["device_uuid"])
        for one in records.values()
    }
    if len(of_all) > 1:
        fail("its records are of several devices or commits: pack one device's records of one commit")
    first = next(iter(records.values()))
    git = first["provenance"]["git"]
    if not git["commit"] or git["dirty"] is not False:
        commit = git["commit"] or "unknown"
        fail(f"its sources are of commit {commit} and may have been edited: measure a clean clone")
    if revision.has_commit(git["commit"]) is False:
        fail(f"commit {git['commit'][:12]} is not in this clone's history: fetch it, or measure one that is")
    wanted, found = _rounds(Cell(first["cell"]).device), Counter(map(_round, records.values()))
    if other := next((place for place, one in records.items() if _round(one) not in wanted), None):
        fail(f"{other} is not of {GRID.name} as it is here: measure the current one with `{MEASURE}`")
    if set(found) != set(wanted) or max(found.values()) > 1:
        fail(f"it has {len(found)} of the {len(wanted)} rounds of {GRID.name}, in {len(records)} records")
    store.check_rounds({f"{path}, {place}": one for place, one in records.items()})
    if problem := next(_find_implausible(list(records.values())), None):
        fail(problem)


def _find_implausible(records: list[Record]) -> Iterator[str]:
    """Complaints about times and losses that no measurement can have given."""
    losses: dict[tuple[int, int], list[float]] = {}
    for record in records:
        seconds = [run["seconds"] for run in record["runs"]]
        cell, elapsed = Cell(record["cell"]), record["provenance"]["elapsed_seconds"]
        if sum(seconds) > elapsed:
            yield f"the runs of {cell.strategy} took {sum(seconds):g} s, in a job of {elapsed:g} s"
        if seconds and min(seconds) * _MOST_FLOPS < _operations(cell):
            yield f"a run of {cell.strategy} took {min(seconds):g} s, for {_operations(cell):.3g} operations"
        for number, run in enumerate(record["runs"]):
            if run["final_loss"] is not None:
                losses.setdefault((record["round"], number), []).append(run["final_loss"])
    for (number, _), of_run in losses.items():
        if max(of_run) > (1 + _APART) * min(of_run):
            ends = f"from {min(of_run):g} to {max(of_run):g}"
            yield f"losses of round {number} differ, {ends}, though the weights are the same"
    for (_, end), (start, _) in pairwise(sorted(map(_times, records))):
        if start + _CLOCK < end:
            yield f"a job began at {start}, while another one was measured until {end}"


def _times(record: Record) -> tuple[datetime, datetime]:
    start = datetime.fromisoformat(record["provenance"]["started"])
    return start, start + timedelta(seconds=record["provenance"]["elapsed_seconds"])


def _operations(cell: Cell) -> float:
    """A lower bound of a run's floating-point operations: its forward passes."""
    widths = [cell["dataset"]["features"], *cell["network"]["hidden"], 1]
    return 2.0 * cell.epochs * cell["dataset"]["rows"] * sum(map(prod, pairwise(widths)))


def _round(record: Record) -> _Round:
    return _text({key: value for key, value in record["cell"].items() if key != "device"}), record["round"]


@cache
def _rounds(device: Device) -> frozenset[_Round]:
    """The rounds of the grid's cells on a device, each as ``_round`` gives it."""
    cells = sweeps.all_cells(sweeps.read(GRID, device)).values()
    return frozenset(
        _round({"cell": store.lift({"cell": dict(cell)})["cell"], "round": number})
        for cell in cells
        for number in range(1, cell["protocol"]["rounds"] + 1)
    )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


# ---- nothing of the host and its user


def _without_names(record: Record) -> Record:
    """The record without what identifies the host, the run of the workflow, and paths in variables."""
    provenance = {key: value for key, value in record["provenance"].items() if key != "workflow"}
    provenance["host"] = {key: provenance["host"][key] for key in _ON_HOST if key in provenance["host"]}
    if around := provenance.get("surroundings"):
        variables = {
            name: None if value and _PATH.search(value) else value
            for name, value in around["environment"].items()
        }
        provenance["surroundings"] = around | {"environment": variables}
    rest = {key: value for key, value in record.items() if key != store.DIGEST}
    return rest | {"provenance": provenance}


def _find_leaks(value: Any, key: str) -> Iterator[str]:
    """Complaints about text in a record that names a path, the host or the user."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from _find_leaks(one, f"{key}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from _find_leaks(one, key)
    elif isinstance(value, str) and (_PATH.search(value) or _names().search(value)):
        yield f"{key.removeprefix('.')} is {shown(value)}, which may name a path, the host or the user"


@cache
def _names() -> re.Pattern[str]:
    """A pattern that matches the name of this host or user as a whole word."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    node = platform.node()
    known = {name for name in (user, node, node.partition(".")[0]) if len(name) >= _SHORTEST} - _WORDS
    return re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in known) or r"(?!)")


_WORDS = {"snn", "cpu", "gpu", "cuda", "Linux", "root"}
"""Names of hosts and users that identify nobody."""
