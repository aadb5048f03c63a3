"""Whether the parts of a record agree with each other: what no measurement can have left is refused."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from snn.errors import RecordError
from snn.records.schema import LARGEST_INTEGER, shown

Record = Mapping[str, Any]
_RAN = ("ok", "diverged")
_TEST_ERRORS = ("test_mse", "test_rmse", "test_r2")
_LARGEST = sys.float_info.max
_ROUNDING = 1e-9
"""The relative difference of two sums of the same numbers in another order."""


def check(record: Record, place: str) -> None:
    """Raise RecordError, naming the place, for the first disagreement in a record that fits the schema."""
    for rule in (
        _cell,
        _device,
        _status,
        _runs,
        _members,
        _losses,
        _epochs,
        _summary,
        _seconds,
        _passes,
        _trace,
        _samples,
        _neighbour,
    ):
        said = rule(record)
        if said:
            raise RecordError(f"{place}: {said}")


def _cell(record: Record) -> str:
    network = record["cell"]["network"]
    if ("hidden" in network) == ("layers" in network) or ("layers" in network and "loss" not in network):
        return "cell.network must have hidden, or layers and a loss"
    return ""


def _device(record: Record) -> str:
    cell, provenance = record["cell"]["device"], record["provenance"]
    if (cell["backend"], cell["name"]) != (provenance["backend"], provenance["device"]):
        return (
            f"cell.device is {cell['backend']} {cell['name']!r}, but provenance says that it was measured on "
            f"{provenance['backend']} {provenance['device']!r}"
        )
    return ""


def _status(record: Record) -> str:
    status, reason = record["status"], record["reason"]
    if (reason is None) != (status == "ok"):
        return f"status is {status}, but reason is {shown(reason)}: every status but ok has a reason"
    if status in _RAN and not record["runs"]:
        return f"status is {status}, but runs is empty"
    lost = any(None in losses for losses in _all_losses(record))
    if status in _RAN and lost != (status == "diverged"):
        return f"status is {status}, but {'a' if lost else 'no'} loss is null, which means not finite"
    return ""


def _all_losses(record: Record) -> Iterable[Sequence[float | None]]:
    """The losses of each run, of all networks that it trains."""
    return ([run["final_loss"], *run.get("member_mse", ())] for run in record["runs"])


def _runs(record: Record) -> str:
    """The number of runs and what ended them. A protocol's runs are divided among its rounds."""
    protocol, count, stopped = record["cell"]["protocol"], len(record["runs"]), record["stopped"]
    least, most = protocol["runs"] // protocol["rounds"], -(-protocol["runs"] // protocol["rounds"])
    if (stopped is None) == (record["status"] in _RAN):
        return f"status is {record['status']}, but stopped is {stopped}"
    if count > most:
        return f"there are {count} runs: the protocol has {most} in a round"
    if stopped == "runs" and count < least:
        return f"stopped is runs after {count} runs: the protocol has {least} in a round"
    if stopped in ("relative_error", "max_seconds") and protocol[stopped] is None:
        return f"stopped is {stopped}, but protocol.{stopped} is null"
    return ""


def _members(record: Record) -> str:
    members, runs = record.get("members", []), record["runs"]
    if any(len(run.get("member_mse", ())) != len(members) for run in runs):
        return f"there are {len(members)} members, but a run has another number of losses in member_mse"
    traits = record.get("traits")
    if traits and runs and traits["side_by_side"] != bool(members):
        return f"traits.side_by_side is {traits['side_by_side']}, but there are {len(members)} members"
    return ""


def _losses(record: Record) -> str:
    for i, run in enumerate(record["runs"]):
        loss, members = run["final_loss"], run.get("member_mse")
        if run.get("final_mse", loss) != loss:
            return f"runs[{i}].final_mse is {run['final_mse']}, but final_loss is {loss}"
        if members and not _is_mean(loss, members):
            return f"runs[{i}].final_loss is {loss}: it is not the mean of member_mse"
    return ""


def _epochs(record: Record) -> str:
    """Every run has all of its epochs, or none has any; as with accuracy and its seconds, and test errors."""
    wanted = record["cell"]["training"]["epochs"]
    for key in ("epochs", "test_accuracy", "test_seconds", *_TEST_ERRORS):
        if len({key in run for run in record["runs"]}) > 1:
            return f"some runs have {key}, and others have not"
    for i, run in enumerate(record["runs"]):
        if ("test_accuracy" in run) != ("test_seconds" in run):
            return f"runs[{i}] has only one of test_accuracy and test_seconds"
        if 0 < len(run.keys() & set(_TEST_ERRORS)) < len(_TEST_ERRORS):
            return f"runs[{i}] has only some of {', '.join(_TEST_ERRORS)}"
        seconds = [epoch["seconds"] for epoch in run.get("epochs", ())]
        if seconds and len(seconds) != wanted:
            return f"runs[{i}] has {len(seconds)} epochs, but training.epochs is {wanted}"
        if seconds and not _is_close(math.fsum(seconds), run["seconds"], run["seconds"]):
            return f"runs[{i}].seconds is {run['seconds']}: its epochs take {math.fsum(seconds)}"
    return ""


def _summary(record: Record) -> str:
    """The summary follows from the runs."""
    summary, runs = record["summary"], record["runs"]
    seconds = [run["seconds"] for run in runs]
    if summary["runs"] != len(runs):
        return f"summary.runs is {summary['runs']}, but there are {len(runs)} runs"
    for key, value in _expected(seconds, len(record.get("members", []))).items():
        if not _is_close(summary.get(key), value, max(seconds, default=0.0)):
            return f"summary.{key} is {summary.get(key)}: of these runs it is {value}"
    losses = [run["final_loss"] for run in runs]
    for key in ("mean_final_loss", "mean_final_mse"):
        if key in summary and not _is_mean(summary[key], losses):
            return f"summary.{key} is {summary[key]}: it is not the mean of the runs' losses"
    accuracies = [run["test_accuracy"] for run in runs if "test_accuracy" in run]
    if not _is_mean(summary.get("mean_test_accuracy"), accuracies):
        return f"summary.mean_test_accuracy is {summary.get('mean_test_accuracy')}: it is not the runs' mean"
    for key in _TEST_ERRORS:
        values = [run[key] for run in runs if key in run]
        if not _is_mean(summary.get(f"mean_{key}"), values):
            return f"summary.mean_{key} is {summary.get(f'mean_{key}')}: it is not the mean of the runs"
    return ""


def _expected(seconds: Sequence[float], members: int) -> dict[str, float | None]:
    if not seconds:
        return {"mean_seconds": None, "std_seconds": None}
    n, ordered = len(seconds), sorted(seconds)
    mean = math.fsum(seconds) / n
    squares = math.fsum((one - mean) ** 2 for one in seconds)
    of_launches = {"members": members, "mean_seconds_per_member": mean / members} if members else {}
    return {
        "mean_seconds": mean,
        "std_seconds": math.sqrt(squares / (n - 1)) if n > 1 else None,
        "median_seconds": (ordered[(n - 1) // 2] + ordered[n // 2]) / 2,
        "min_seconds": ordered[0],
        "max_seconds": ordered[-1],
        **of_launches,
    }


def _seconds(record: Record) -> str:
    """Setup, warm-up and runs lie within the time of the whole round."""
    summary, warmup, elapsed = record["summary"], record["warmup"], record["provenance"]["elapsed_seconds"]
    if record["runs"] and (warmup is None or summary.get("setup_seconds") is None):
        return "there are runs, but no warm-up or no setup before them"
    parts = [summary.get("setup_seconds"), warmup and warmup["seconds"]]
    total = math.fsum([*filter(None, parts), *(run["seconds"] for run in record["runs"])])
    if total > elapsed * (1 + _ROUNDING):
        return f"setup, warm-up and runs take {total:.6g} s, but provenance.elapsed_seconds is {elapsed:.6g}"
    return ""


def _passes(record: Record) -> str:
    """The ledger, the memory and the explanation, which only a strategy without a runtime of its own has."""
    ledger, memory, explained = bool(record["ledger"]), bool(record["memory"]), bool(record["explanation"])
    if ledger != memory:
        return f"{'memory' if ledger else 'ledger'} is empty: one pass makes both the ledger and the memory"
    if memory and record["memory"]["least_free_bytes"] > record["memory"]["total_bytes"]:
        return "memory.least_free_bytes is more than memory.total_bytes"
    if explained and not (ledger and record["status"] in _RAN):
        return f"status is {record['status']} and ledger {record['ledger']}, but there is an explanation"
    traits = record.get("traits")
    if traits and ledger and traits["own_runtime"]:
        return (
            f"there is a ledger, but {traits['own_runtime']} has a runtime of its own, whose calls are unseen"
        )
    if traits and not ledger and not traits["own_runtime"] and record["status"] in _RAN:
        return "ledger is empty, but the strategy ran and has no runtime of its own"
    return ""


_ONLY: dict[str, tuple[type, ...]] = {
    "call": (str,),
    "size": (list,),
    "stream": (int, type(None)),
    "start_us": (int, float),
    "end_us": (int, float),
    "device_start_us": (int, float, type(None)),
    "device_end_us": (int, float, type(None)),
    "device_bytes": (int,),
    "page_locked_bytes": (int,),
    "site": (int,),
}
"""The types that each column of a trace may have; checked by column, which is quicker than by value."""


def _trace(record: Record) -> str:
    trace = record["explanation"] and record["explanation"]["trace"]
    if not trace or not trace["events"]:
        return ""
    columns, events = trace["columns"], trace["events"]
    if set(map(type, events)) != {list} or set(map(len, events)) != {len(columns)}:
        return "explanation.trace.events: not every event has a value for every column"
    if set(columns) != set(_ONLY) or len(columns) != len(_ONLY):
        return f"explanation.trace.columns is {shown(columns)}: it must be {', '.join(_ONLY)}"
    values = dict(zip(columns, zip(*events, strict=True), strict=True))
    for name, column in values.items():
        if not set(map(type, column)) <= set(_ONLY[name]):
            return f"explanation.trace.events: a value of {name} is not of the right type"
    sizes = list(chain.from_iterable(values["size"]))
    times = [column for name, column in values.items() if name.endswith("_us")]
    numbers = [number for number in chain(sizes, *times) if number is not None]
    if not set(map(type, numbers)) <= {int, float} or max(map(abs, numbers), default=0) > _LARGEST:
        return "explanation.trace.events: a size or a time is not a finite number"
    if any(start > end for start, end in zip(values["start_us"], values["end_us"], strict=True)):
        return "explanation.trace.events: a call ends before it starts"
    held = (*values["device_bytes"], *values["page_locked_bytes"])
    if not 0 <= min(held) <= max(held) <= LARGEST_INTEGER:
        return f"explanation.trace.events: from {min(held)} to {max(held)} bytes are held"
    if not 0 <= min(values["site"]) <= max(values["site"]) < len(trace["sites"]):
        return "explanation.trace.events: a site is not one of explanation.trace.sites"
    if any((a is None) != (b is None) for a, b in _device_times(values)):
        return "explanation.trace.events: the device's work has only one of its two times"
    return ""


def _samples(record: Record) -> str:
    samples = record.get("machine", {}).get("samples")
    if samples is None:
        return ""
    columns = samples["columns"]
    times = columns["t_s"]
    for name, values in columns.items():
        if len(values) != len(times):
            return f"machine.samples.columns.{name} has {len(values)} values, and t_s has {len(times)}"
    if any(later < earlier for earlier, later in pairwise(times)):
        return "machine.samples.columns.t_s: a time is before the one that precedes it"
    if not len(times) <= samples["taken"] <= len(times) * samples["samples_per_row"]:
        return f"machine.samples.taken is {samples['taken']}, but there are {len(times)} rows"
    return ""


def _neighbour(record: Record) -> str:
    wanted, found = record["cell"]["protocol"].get("neighbour"), record.get("machine", {}).get("neighbour")
    if found is None:
        missing = wanted not in (None, "none") and record["status"] in _RAN
        return f"cell.protocol.neighbour is {wanted}, but machine.neighbour is not there" * missing
    if found["strategy"] != wanted:
        return f"machine.neighbour.strategy is {found['strategy']}, but cell.protocol.neighbour is {wanted}"
    own = record["provenance"]["device_uuid"]
    if (found["device_uuid"] is None) != (own is None) or (own and own == found["device_uuid"]):
        return f"machine.neighbour.device_uuid is {found['device_uuid']}, and the cell's is {own}"
    return ""


def _device_times(values: Mapping[str, Sequence[Any]]) -> Iterable[tuple[Any, Any]]:
    return zip(values["device_start_us"], values["device_end_us"], strict=True)


def _is_mean(mean: float | None, values: Sequence[float | None]) -> bool:
    """Whether it is their mean, which is null of none, of infinite values, and where one of them is null."""
    given = [value for value in values if value is not None]
    if not given or len(given) < len(values):
        return mean is None
    try:
        of_these = math.fsum(given) / len(given)
    except OverflowError:
        return mean is None
    return _is_close(mean, of_these, max(map(abs, given)))


def _is_close(found: float | None, value: float | None, scale: float) -> bool:
    """Whether two numbers are equal but for rounding in sums of numbers of this scale; or both None."""
    if found is None or value is None:
        return found is value
    return abs(found - value) <= _ROUNDING * scale
