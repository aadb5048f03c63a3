"""Records: a JSON file holds the measurement of one cell in one round.

Records are checked here, and nowhere else: every table reads them through ``read`` or ``checked``. A record
that passes is unchanged since it was written (its digest), fits its schema, and has the shape that tables
rely on. Tests show that its writer computes the right values; readers do not check that again.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from snn.errors import ConfigError, RecordError, shown
from snn.files.outputs import replaced
from snn.records import untrusted

SCHEMA_VERSION = 5
_READ = (2, 3, 4, SCHEMA_VERSION)
_SEALED = (4, SCHEMA_VERSION)
_TRAINED = {"reduction": "mean", "gradient": "exact", "drop_last": False, "accumulate": 1}
_NETWORK: dict[str, Any] = {"recompute": []}  # how every cell trained before there was a choice
_VALIDATION = ("validation_loss", "validation_seconds", "best_epoch")
_ALL_OR_NONE = (
    *("epochs", "member_mse", *_VALIDATION),
    *("test_accuracy", "test_seconds", "test_mse", "test_rmse", "test_r2"),
)
"""Keys that every run of a record has, or none has."""

_EVENT: dict[str, set[type]] = {
    **{"call": {str}, "size": {list}, "stream": {int, type(None)}},
    **{name: {int, float} for name in ("start_us", "end_us")},
    **{name: {int, float, type(None)} for name in ("device_start_us", "device_end_us")},
    **{name: {int} for name in ("device_bytes", "page_locked_bytes", "site")},
}
"""The columns of a trace with their types; checked by column, which is quicker than by value."""

_known: dict[tuple[str, int, int, int], dict[str, Any]] = {}
"""The records that this process has read, by path, inode, size and time of the last change."""


# ---- the digest in a record, which reveals edits

DIGEST = "digest"


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its digest. Raises ValueError if it holds NaN or infinity."""
    return {**record, DIGEST: digest(record)}


def digest(record: Mapping[str, Any]) -> str:
    """SHA-256, in hexadecimal, of the record's canonical JSON without its digest. Canonical: keys sorted, no
    spaces, ASCII. Writing and reading JSON keeps it, in whatever layout."""
    rest = {key: value for key, value in record.items() if key != DIGEST}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def check_digest(record: Mapping[str, Any], place: str) -> None:
    """Raise RecordError, naming the place, if a record does not match its digest."""
    if DIGEST not in record:
        raise RecordError(f"{place}: it has no digest: it was changed after it was written")
    try:
        found = digest(record)
    except ValueError as error:  # a number that is too large for a float is read as infinity
        raise RecordError(f"{place}: not a record: {error}") from error
    if record[DIGEST] != found:
        raise RecordError(
            f"{place}: it was changed after it was written: its digest is {str(record[DIGEST])[:16]}..., "
            f"that of its content {found[:16]}..."
        )


# ---- files


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record atomically: the file is complete or absent, even if the process is killed.

    Raises OutputError, naming the file, if it cannot be written.
    """
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    with replaced(path) as file:
        file.write(text.encode())


def check_replaced(path: Path, key: str) -> None:
    """Raise ConfigError, naming ``key``, if the file that a record would replace is neither one nor empty."""
    if not path.exists() or not path.stat().st_size:
        return
    with suppress(RecordError):
        found = untrusted.read_json(path)
        if isinstance(found, dict) and "schema_version" in found:
            return
    raise ConfigError(
        f"{key} is {shown(str(path))}: this file is not a record, and would be lost: name another"
    )


def read(path: Path) -> dict[str, Any]:
    """A record in today's form, which callers do not change. Raises RecordError, naming the file.

    A process reads, hashes and checks a file once, until it changes. For a record under ``results/cells``
    the message says how to measure it again.
    """
    try:
        now = path.stat()
    except OSError:
        return read_both(path)[1]
    key = (str(path), now.st_ino, now.st_size, now.st_mtime_ns)
    return _known.get(key) or _known.setdefault(key, read_both(path)[1])


def read_both(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A record with its original key names, and in today's form, as from ``read``."""
    with explain_rerun(path):
        written = untrusted.read_json(path)
        return written, checked(written, str(path))


@contextmanager
def explain_rerun(path: Path) -> Iterator[None]:
    """Add to a RecordError how to measure a workflow's record again."""
    try:
        yield
    except RecordError as error:
        raise RecordError(f"{error}{again(path)}") from error


def again(path: Path | str) -> str:
    """End of a message: the command that measures a workflow's record again; empty for any other file."""
    is_of_workflow = re.search(r"results/(cells|limits|microbenchmarks)/", Path(path).as_posix())
    return f": measure it again: snakemake --cores 1 --force {path}" if is_of_workflow else ""


def check_sources(record: Mapping[str, Any], path: Path | str, wanted: str) -> None:
    """Raise RecordError if a record was measured with other sources than those of this hash."""
    found = record["provenance"]["source_hash"]
    if found != wanted:
        raise RecordError(
            f"{path}: measured with other sources ({found}) than the current ones ({wanted}){again(path)}"
        )


def checked(record: Any, place: str) -> dict[str, Any]:
    """The record in today's form. Raises RecordError, naming the place.

    It does if the record was changed after it was written (versions 2 and 3 have no digest), has an unknown
    schema version, does not fit the schema, or has parts of different lengths.
    """
    version = record.get("schema_version") if isinstance(record, dict) else None
    if type(version) is not int or version not in _READ:
        raise RecordError(
            f"{place}: the schema version is {shown(version)}, but this program reads 2 to {SCHEMA_VERSION}"
        )
    if version in _SEALED:
        check_digest(record, place)
    try:
        lifted = lift(record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{place}: not a record of schema version {version}: {error!r}") from error
    untrusted.check_schema("record", lifted, place)
    if problem := next(_misshapen(lifted), None):
        raise RecordError(f"{place}: {problem}")
    return lifted


def lift(record: dict[str, Any]) -> dict[str, Any]:
    """A record under today's key names, whichever version of the program wrote it; the input is unchanged."""
    record = dict(record)
    if record.get("stopped") == "precision":  # renamed to relative_error
        record["stopped"] = "relative_error"
    if "cell" in record:
        cell = record["cell"] = dict(record["cell"])
        if "precision" in cell.get("protocol", {}):
            protocol = cell["protocol"] = dict(cell["protocol"])
            protocol["relative_error"] = protocol.pop("precision")
        if "training" in cell:
            cell["training"] = {**_TRAINED, **cell["training"]}
        if isinstance(cell.get("network"), dict):
            cell["network"] = {**_NETWORK, **cell["network"]}
    provenance = record.get("provenance", {})
    if "blas_threads" in provenance.get("versions", {}):  # the text of an environment variable
        versions = dict(provenance["versions"])
        threads = versions.pop("blas_threads")
        number = threads and int(threads)
        record["provenance"] = {**provenance, "versions": versions, "blas_threads": number}
    if record.get("schema_version") == 2:  # every loss was the mean squared error
        record["runs"] = [{**run, "final_loss": run["final_mse"]} for run in record.get("runs", ())]
        mean = record["summary"]["mean_final_mse"]
        record |= {"schema_version": 3, "summary": {**record["summary"], "mean_final_loss": mean}}
    plan = record.get("plan")
    if "launch" not in record and isinstance(plan, str) and not plan.startswith(("graph:", "NumPy")):
        record["launch"] = {"kernel": _kernel_of_plan(plan, record["cell"])}
    return record


def _misshapen(record: Mapping[str, Any]) -> Iterator[str]:
    """Complaints about a record's shape that tables rely on and JSON Schema cannot express."""
    cell, runs, status = record["cell"], record["runs"], record["status"]
    network, epochs = cell["network"], cell["training"]["epochs"]
    if ("hidden" in network) == ("layers" in network) or ("layers" in network and "loss" not in network):
        yield "cell.network must have hidden, or layers and a loss"
    ran = status in ("ok", "diverged")
    if ran and not runs:
        yield f"status is {status}, but runs is empty"
    if ran != (record["stopped"] is not None):
        yield f"status is {status}, but stopped is {record['stopped']}"
    if (status == "ok") != (record["reason"] is None):
        yield f"status is {status}, but reason is {shown(record['reason'])}"
    for key in _ALL_OR_NONE:
        if len({key in run for run in runs}) > 1:
            yield f"some runs have {key}, and others do not"
    members = len(record.get("members", ()))
    for i, run in enumerate(runs):
        if len(run.get("member_mse", ())) != members:
            yield f"runs[{i}].member_mse has another number of losses than the {members} members"
        trained, patience = len(run.get("epochs", ())) or epochs, cell["training"].get("patience")
        ends = [(one["epochs"], one["best_epoch"]) for one in record.get("members", ()) if "epochs" in one]
        each = ends or [(trained, run.get("best_epoch"))]
        has_ended = any(number == trained and number - (best or 0) == patience for number, best in each)
        if trained != epochs and not (trained < epochs and has_ended):
            yield f"runs[{i}] has {trained} epochs, but training.epochs is {epochs}"
        of_epochs = {"validation_loss" in epoch for epoch in run.get("epochs", [{}])}
        if {key in run for key in _VALIDATION} | of_epochs != {bool(cell["training"].get("validation"))}:
            yield f"runs[{i}] must have {', '.join(_VALIDATION)} exactly if training.validation is above 0"
        if ("test_accuracy" in run) != ("test_seconds" in run):
            yield f"runs[{i}] has only one of test_accuracy and test_seconds"
        if None in (run["final_loss"], *run.get("member_mse", ())) and status == "ok":
            yield f"status is ok, but a loss of runs[{i}] is null, which means not finite"
    columns = record.get("machine", {}).get("samples", {}).get("columns", {})
    for name, values in columns.items():
        if len(values) != len(columns["t_s"]):
            yield f"machine.samples.columns.{name} has {len(values)} values, and t_s {len(columns['t_s'])}"
    if record["explanation"] and record["explanation"]["trace"]["events"]:
        for problem in _misshapen_trace(record["explanation"]["trace"]):
            yield f"explanation.trace.events: {problem}"


def _misshapen_trace(trace: Mapping[str, Any]) -> Iterator[str]:
    columns, events = trace["columns"], trace["events"]
    if sorted(columns) != sorted(_EVENT):
        yield f"the columns are {shown(columns)}: they must be {', '.join(_EVENT)}"
    elif set(map(type, events)) != {list} or set(map(len, events)) != {len(columns)}:
        yield "not every event has a value for every column"
    else:
        values = dict(zip(columns, zip(*events, strict=True), strict=True))
        for name, column in values.items():
            if not set(map(type, column)) <= _EVENT[name]:
                yield f"a value of {name} is not of the right type"
        if not set(map(type, chain.from_iterable(values["size"]))) <= {int, float}:
            yield "a size is not a number"
        if not 0 <= min(values["site"]) <= max(values["site"]) < len(trace["sites"]):
            yield "a site is not one of explanation.trace.sites"
        of_device = zip(values["device_start_us"], values["device_end_us"], strict=True)
        if any((start is None) != (end is None) for start, end in of_device):
            yield "the device's work has only one of its two times"


def _kernel_of_plan(plan: str, cell: Mapping[str, Any]) -> str:
    """The kernel of a one-launch training run whose record has only the plan in words.

    The plan's first clause says how it trains, the others why not in another way.
    """
    words, _, reasons = plan.partition(";")
    if "cluster" in words:
        return "one_layer"
    if "groups of" in words:
        return {2: "two_layers", 3: "three_layers"}[len(cell["network"]["hidden"])]
    if "image" in words:
        return "convolution"
    training = cell["training"]
    is_usual = training["reduction"] == "mean" and training["gradient"] == "exact"
    has_grid = "hidden" in cell["network"] and is_usual and "no grid:" not in reasons
    return "grid" if has_grid else "layers"


# ---- records that belong together: one per round of a cell, all measured in the same way

Record = Mapping[str, Any]
_OPTIONAL = ("numba", "torch", "jax")  # packages that only some strategies train with
NUMA = "NUMA node of the process"


def check_rounds(records: Mapping[str, Record]) -> None:
    """Raise RecordError, naming both places, if two records of a cell do not fit together.

    They may not have the same round, nor differ in sources, versions of the packages that took part, threads,
    surroundings or ledgers.
    """
    cells: dict[str, dict[str, Record]] = {}
    for place, record in records.items():
        cells.setdefault(json.dumps(record["cell"], sort_keys=True), {})[place] = record
    for rounds in cells.values():
        _check_cell(rounds)


def run_seconds(record: Record) -> list[float]:
    """The seconds of each run for all epochs of the cell, at the speed of those that it trained."""
    runs, training = record["runs"], record["cell"]["training"]
    if "patience" not in training:
        return [run["seconds"] for run in runs]
    return [run["seconds"] * training["epochs"] / len(run["epochs"]) for run in runs]


def host(provenance: Mapping[str, Any]) -> list[Any]:
    """Key that identifies the host; records of equal GPUs on equal hosts belong together."""
    return [provenance.get("host", {}).get(key) for key in ("system", "cpu", "cpus")]


def surroundings(record: Record) -> dict[str, str]:
    """Outside influences on a record's times (``snn.measurement.provenance``), by name.

    Only those that affect its strategy, device and kernel; empty for older records, which lack them.
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


def _check_cell(rounds: Mapping[str, Record]) -> None:
    """Compare the records of one cell, each value with the first of its kind."""
    numbers: dict[int, str] = {}
    first: dict[str, tuple[str, Any]] = {}
    older = min(rounds, key=lambda place: rounds[place]["provenance"]["started"])
    for place, record in rounds.items():
        number = record["round"]
        if (same := numbers.setdefault(number, place)) != place:
            raise RecordError(f"{same} and {place} are both round {number} of one cell: remove one of them")
        for what, value in _measured_with(record).items():
            other, known = first.setdefault(what, (place, value))
            if value != known:
                raise RecordError(
                    f"{other} and {place}: the rounds of one cell have different {what}"
                    f"{_shown(known)}{_shown(value)}: {older} is the oldest{again(older)}"
                )


def _measured_with(record: Record) -> dict[str, Any]:
    """Everything that all rounds of a cell must share; a ledger is compared if present."""
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
