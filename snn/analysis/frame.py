"""Checks records against the requested cells and puts them into a data frame, one row per cell."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import pandas as pd

from snn.analysis.cell_line import kernel_used
from snn.analysis.grouping import setting
from snn.analysis.intervals import Rounds, mean_interval, mean_of
from snn.analysis.machine_state import Thresholds, mean_costs, verdict
from snn.analysis.roofline import step_us
from snn.analysis.verdicts import ended
from snn.config.cell import Cell
from snn.config.settings import OMITTED
from snn.errors import RecordError
from snn.grid.naming import record_path
from snn.measurement.protocol import first_run
from snn.models.network import LEAN
from snn.models.optimizers import PLAIN
from snn.models.row_order import IN_FILE
from snn.models.schedules import CONSTANT
from snn.models.storage import FP32
from snn.profiling.memory import PURPOSES
from snn.records import store
from snn.records.origin import Origin, origin
from snn.records.store import again, check_sources, read
from snn.strategies.factory import of_record

Record = Mapping[str, Any]
Expected = Mapping[str, str]
"""The required source hash by the record's path, which names its cell and round."""

_REAL = (
    *("mean_s", "std_s", "final_loss"),
    *("trained_epochs", "validation_loss", "validation_loss_std"),
    *("test_accuracy", "test_accuracy_std", "first_accuracy", "test_s", "test_std_s"),
    *("test_r2", "test_r2_std", "test_rmse", "test_rmse_std", "majority_accuracy", "test_rows"),
    *("joules", "joules_ci_low", "joules_ci_high"),
)
"""Columns that have a float dtype even if all rows are empty."""


def checked(expected: Expected) -> dict[str, Record]:
    """Read and check the records at these paths.

    Raises RecordError if one belongs to another cell, round, source code or version of the program, or if
    ``snn.records.store.read`` or ``snn.records.store.check_rounds`` raises it.
    """
    records: dict[str, Record] = {path: read(Path(path)) for path in expected}
    for path, record in records.items():
        name = record_path(Cell(record["cell"]).name, record["round"])
        if not path.endswith(name):
            raise RecordError(f"{path}: the record of another cell or round, {name}{again(path)}")
        check_sources(record, path, expected[path])
        if store.DIGEST not in record:
            raise RecordError(
                f"{path}: written by an earlier version of the program, without a digest{again(path)}"
            )
    store.check_rounds(records)
    return records


def tabulate(records: Mapping[str, Record], thresholds: Thresholds) -> pd.DataFrame:
    """A frame with one row per cell, which ``pool`` makes from records by name.

    The records may come from a GPU and its host. Raises RecordError, naming the records, if they come from
    two other devices, or if a data set had two contents.
    """
    _check_one_device(records)
    _check_same_data(records)
    cells: dict[str, dict[str, Record]] = {}
    for name, record in records.items():
        key = json.dumps(record["cell"], sort_keys=True)
        cells.setdefault(key, {})[name] = record
    frame = frame_of([pool(of_cell, thresholds) for of_cell in cells.values()])
    for key in _REAL:
        frame[key] = frame[key].astype("float")
    return frame.copy()  # defragmented


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A frame of these rows; a column of integers with gaps keeps an integer dtype (Int64)."""
    frame = pd.DataFrame(rows)
    for key in frame:
        given = {type(row.get(key)) for row in rows}
        if given == {int, type(None)}:
            frame[key] = frame[key].astype("Int64")
    return frame


def _check_one_device(records: Mapping[str, Record]) -> None:
    """Raise RecordError unless all records come from one device, or from one GPU and its host.

    Equal GPUs of equal hosts may share a table, because ``snn.analysis.speedups`` does not divide the times
    of two of them.
    """
    on_host = {path: of_record(record)["on_host"] for path, record in records.items()}
    first: dict[bool, str] = {}
    pairs = [[path, first.setdefault(where, path)] for path, where in on_host.items()]
    for path, other in [*pairs, *([[*first.values()]] if len(first) == 2 else [])]:
        a, b = (records[one]["provenance"] for one in (path, other))
        with_host = on_host[path] != on_host[other]
        equal_gpus = a["device"] == b["device"] and a["device_uuid"] and b["device_uuid"]
        may_differ = (with_host or equal_gpus) and store.host(a) == store.host(b)
        if _device(a) != _device(b) and not may_differ:
            raise RecordError(
                f"{path} was measured on {_device(a)}, but {other} on {_device(b)}"
                f"{' of another host' if with_host else ''}: times of two devices do not go into one table; "
                "run the older cells again with --force"
            )


def _device(provenance: Mapping[str, Any]) -> str:
    return " ".join(str(provenance[key]) for key in ("device", "device_uuid") if provenance[key])


def _check_same_data(records: Mapping[str, Record]) -> None:
    """Raise RecordError if a data set had two contents. Old records without a digest are skipped."""
    known: dict[str, str] = {}
    for path, record in records.items():
        if "data" in record:
            dataset, sha256 = record["cell"]["dataset"], record["data"]["sha256"]
            other = known.setdefault(json.dumps(dataset, sort_keys=True), path)
            if sha256 != (first := records[other]["data"]["sha256"]):
                raise RecordError(
                    f"{path} was trained on other data than {other}, though dataset={dataset['name']} has "
                    f"the same keys in both: SHA-256 {sha256} and {first}; run the older cell again with "
                    "--force"
                )


def pool(of_cell: Mapping[str, Record], thresholds: Thresholds) -> dict[str, Any]:
    """The row of one cell from the records of its rounds by name.

    The runs of all rounds are pooled, texts are joined, and costs are medians over rounds. ``mean_s`` and
    ``std_s`` are seconds per training run of all epochs (``store.run_seconds``); every round has the same
    weight in the mean. ``rounds`` lists the runs' seconds for each round from the first to the last; the list
    of a missing round is empty, as are all lists of a cell without a time. ``origins`` lists the origin of
    each of these rounds. The key ``seeds`` of records from several seeds, each with the protocol's rounds, is
    their number (``snn.tables.overview``). If one launch trains several ``members``, the seconds of a run are
    its share of the launch, which takes ``launch_s``, and ``member_losses`` holds each member with its mean
    ``final_loss``. ``draw_losses`` holds the final loss by draw of initial weights, and ``draws`` lists the
    draws as text. ``hidden`` holds the hidden widths of an MLP, and None for any other network. ``kernel`` is
    the kernel that did the arithmetic (``snn.analysis.cell_line``), ``kernel.name`` the chosen one. Scores
    are over the test rows; a classification also has a ``curve``.
    """
    records = sorted(of_cell.values(), key=itemgetter("round"))
    first = next((record for record in records if record["runs"]), records[0])  # one without runs holds less
    cell, provenance, traits = Cell(first["cell"]), first["provenance"], of_record(first)
    package = traits["own_runtime"]  # a peer has none
    row = {f"{section}.{key}": setting(value) for section in cell for key, value in cell[section].items()}
    row.setdefault("training.shuffle", IN_FILE)
    row.setdefault("training.validation", 0.0)
    row.setdefault("training.fidelity", LEAN)
    row.setdefault("training.storage", FP32)
    row.setdefault("kernel.work", "1-1")  # the only value before the choice existed
    for key, value in OMITTED.get(cell.strategy, {}).items():
        row.setdefault(f"strategy.{key}", setting(value))
    row.setdefault("training.optimizer", PLAIN.name)  # cells of plain SGD do not have it
    row.setdefault("training.schedule", CONSTANT.name)
    members = max(len(first.get("members", [])), 1)
    by_number = {record["round"]: record for record in records}
    in_turn = [by_number.get(number) for number in range(1, max(by_number) + 1)]
    seconds = [[time / members for time in store.run_seconds(one)] if one else [] for one in in_turn]
    times = [time for of_round in seconds for time in of_round]
    mean = mean_of(seconds) if times else None
    member_losses = _member_losses(first.get("members", []), records)
    draw_losses = _by_draw(member_losses, records)
    machine, machine_note = verdict(records, thresholds)
    statuses, reasons = zip(*(ended(record, thresholds) for record in records), strict=True)
    return row | {
        "cell": cell.name,
        **{name: getattr(cell, name) for name in ("strategy", "dataset", "network", "precision")},
        "on_host": traits["on_host"],
        "several_devices": traits["several_devices"],
        "runtime": " ".join(filter(None, (package, provenance.get("versions", {}).get(package)))),
        "kernel": joined(map(kernel_used, records)),
        "hidden": cell["network"].get("hidden"),
        "protocol.rounds": cell["protocol"]["rounds"] * first.get("seeds", 1),
        "mean_s": mean,
        "std_s": _spread(times)[1],
        "runs": len(times),
        "members": members,
        "launch_s": None if mean is None else members * mean,
        "member_losses": member_losses,
        "draws": name_draws(draw_losses),
        "draw_losses": draw_losses,
        "rounds": seconds,
        "origins": [origin(one["provenance"]) if one else Origin() for one in in_turn],
        **_energy([[j / members for j in one.get("joules", ())] if one else [] for one in in_turn]),
        "stopped_by": joined(record["stopped"] for record in records),
        "final_loss": _spread([run["final_loss"] for record in records for run in record["runs"]])[0],
        **_learned(records),
        **{key: first.get("data", {}).get(key) for key in ("majority_accuracy", "test_rows")},
        "status": joined(statuses, "ok"),
        "reason": joined(reasons),
        "plan": joined(record.get("plan") for record in records),
        "machine": machine,
        "machine_note": machine_note,
        **{key: provenance[key] for key in ("device", "backend", "started")},
        "device_uuid": joined(record["provenance"]["device_uuid"] for record in records) or None,
        "driver": joined(record["provenance"]["driver"] for record in records),
        "blas_threads": provenance.get("blas_threads"),
        "surroundings": store.surroundings(first),
        "commit": provenance["git"]["commit"],
        "probe": mean_costs(probe for one in records for probe in one["machine"]["probe"].values()),
        **_explanation(records, members),
        "trace": first["explanation"] and first["explanation"]["trace"],
        "calls": [call for record in records for call in (record["explanation"] or {"calls": []})["calls"]],
        **{f"ledger.{key}": value for key, value in first["ledger"].items()},
        **_memory(first),
        **{f"allocator.{key}": value for key, value in first.get("allocator", {}).items()},
        "in_use": [held for record in records if (held := _in_use(record))],
    }


def _energy(rounds: Rounds) -> dict[str, float | None]:
    """The mean joules of a run and their 95% interval, from each round's mean; None without any."""
    if not any(rounds):
        return dict.fromkeys(ENERGY)
    return dict(zip(ENERGY, (mean_of(rounds), *mean_interval(rounds)), strict=True))


def _member_losses(members: Sequence[Mapping[str, Any]], records: Sequence[Record]) -> list[dict[str, Any]]:
    """Each network of a launch with its mean final loss over all runs; None if a loss is not finite."""
    runs = [run["member_mse"] for record in records for run in record["runs"] if "member_mse" in run]
    means = [_spread(losses)[0] for losses in zip(*runs, strict=True)]
    return [{**member, "final_loss": mean} for member, mean in zip(members[: len(means)], means, strict=True)]


def _explanation(records: Sequence[Record], members: int) -> dict[str, Any]:
    """The parts of the training time and the predicted seconds of the calls, as medians over rounds.

    The median, because the CPU may have been slow during one round. With several members, it is the share of
    one member.
    """
    explained = [record for record in records if record["explanation"]]
    if not explained:
        return {}
    parts = [record["explanation"]["attribution"]["seconds"] for record in explained]
    predicted = [record["explanation"]["predicted_calls_seconds"] for record in explained]
    return {
        **{f"part.{key}": median(seconds[key] for seconds in parts) / members for key in parts[0]},
        "predicted_calls_s": median(predicted) / members,
        "explained_on": joined(record["provenance"]["device_uuid"] for record in explained),
    }


def _memory(record: Record) -> dict[str, Any]:
    """The memory columns of one round; the others did the same work."""
    if not (memory := record["memory"]):
        return {}
    device, of_chunks = memory["device"], ("reserved_bytes", "largest_free_bytes", "fragmentation")
    purposes = [one for one in PURPOSES if one != "optimizer" or one in device["peak_by_kind"]]
    return {
        "memory.peak_bytes": device["peak_bytes"],
        **{f"memory.{purpose}_bytes": device["peak_by_kind"].get(purpose, 0) for purpose in purposes},
        **{f"memory.{key}": device[key] for key in of_chunks},
        "memory.pinned_bytes": memory["page_locked"]["peak_bytes"],
        "memory.max_used_fraction": 1 - memory["least_free_bytes"] / memory["total_bytes"],
        "memory.warnings": "; ".join(memory["warnings"]),
    }


def _in_use(record: Record) -> tuple[int, int] | None:
    """Bytes of the device that all processes held, by the driver: at the start of a round, and the most.

    The driver is asked once a second, and between runs. None without its answers.
    """
    machine = record["machine"]
    sampled = (machine.get("samples") or {"columns": {}})["columns"].get("memory_used_bytes", [])
    known = [one for one in sampled if one is not None]
    read = [one.get("memory_used_bytes") or 0 for one in machine["readings"]]
    return (known[0], max(*known, *read)) if known else None


def joined(words: Iterable[str | None], default: str = "") -> str:
    """The distinct words, joined with commas; ``default`` only if it is the only one."""
    others = dict.fromkeys(word for word in words if word and word != default)
    return ", ".join(others) or default


# ---- learning: scores on test rows, and a classification's curve by epoch

TESTED = {
    "validation_loss": ("validation_loss", "validation_loss_std"),
    "test_accuracy": ("test_accuracy", "test_accuracy_std"),
    "test_s": ("test_seconds", "test_std_s"),
    "test_r2": ("test_r2", "test_r2_std"),
    "test_rmse": ("test_rmse", "test_rmse_std"),
}
"""Test columns (means over all runs): the key in a run, and the column of the standard deviation."""

ENERGY = ("joules", "joules_ci_low", "joules_ci_high")
"""The joules of a GPU per training run, and their 95% interval."""

SCORES = ("test_accuracy", "test_r2", "test_rmse")
"""The test columns that measure the quality of the predictions."""


def beside_times(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of energy and tests and, for classifications, ``step_us``, the mean microseconds of a step.

    Columns without any value are left out.
    """
    tested = [name for name in ("trained_epochs", *TESTED) if frame[name].notna().any()]
    tested = [*(ENERGY if frame["joules"].notna().any() else ()), *tested]
    if not frame["curve"].map(bool).any():
        return frame[tested]
    return frame[tested].assign(step_us=step_us(frame))[["step_us", *tested]]


def _learned(records: Sequence[Record]) -> dict[str, Any]:
    """Scores and the curve of one cell; None and an empty curve if its runs lack them.

    ``first_accuracy`` belongs to the seed's first draw, which the published program trained.
    """
    runs = [run for record in records for run in record["runs"]]
    first: Record = next((run for one in records if one["round"] == 1 for run in one["runs"]), {})
    found: dict[str, Any] = {"first_accuracy": first.get("test_accuracy"), "curve": _curve(runs, first)}
    ends_early = any("patience" in record["cell"]["training"] for record in records)
    found["trained_epochs"] = fmean(len(run["epochs"]) for run in runs) if ends_early and runs else None
    for column, (key, deviation) in TESTED.items():
        found[column], found[deviation] = _spread([run[key] for run in runs if key in run])
    return found


def _curve(runs: Sequence[Record], first: Record) -> list[dict[str, float | int | None]]:
    """One entry per epoch, from 1, with means and standard deviations over the runs; None if not finite.

    ``mean_loss`` is the mean over an epoch's batches, each before its update.
    """
    epochs = [run["epochs"] for run in runs if "epochs" in run]
    cumulative = [list(accumulate(epoch["seconds"] for epoch in one)) for one in epochs]
    entries = []
    for i in range(min(map(len, epochs), default=0)):
        loss, loss_std = _spread([one[i]["mean_loss"] for one in epochs])
        until, until_std = _spread([one[i] for one in cumulative])
        entries.append(
            {
                "epoch": i + 1,
                "seconds": fmean(one[i]["seconds"] for one in epochs),
                "cumulative_s": until,
                "cumulative_std_s": until_std,
                "mean_loss": loss,
                "mean_loss_std": loss_std,
                "first_mean_loss": first["epochs"][i]["mean_loss"] if "epochs" in first else None,
            }
        )
    return entries


def _spread(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and standard deviation; None if a value is None or there are fewer than one or two values."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None, None
    return fmean(known), stdev(known) if len(known) > 1 else None


# ---- draws of initial weights: a final loss is the mean over them
#
# The n-th run of a cell trains from the n-th draw of the seed's stream. Two cells can agree in their mean
# loss only if it is over the same draws; a round that was stopped early skips the rest of its draws.

Losses = Mapping[int, float | None]
"""The final loss by the number of the draw, from 1; None if it is not finite."""


def _by_draw(members: Sequence[Mapping[str, Any]], records: Iterable[Record]) -> Losses:
    """The losses of a launch's networks if they differ only in the draw ({} if not), else of the runs."""
    losses: dict[int, float | None] = {member["start"]: member["final_loss"] for member in members}
    if members:
        return losses if len(losses) == len(members) else {}
    for record in records:
        first = first_run(record["cell"]["protocol"], record["round"])
        losses |= {first + i: run["final_loss"] for i, run in enumerate(record["runs"], 1)}
    return losses


def mean_loss(losses: Losses, draws: Collection[int]) -> float | None:
    """The mean loss over some draws; None without draws, or if a loss is missing or not finite."""
    return _spread([losses.get(draw) for draw in draws])[0]


def name_draws(draws: Iterable[int]) -> str:
    """The draws as text: ``1 to 6``, or ``1 to 3, 7``; empty without draws."""
    spans: list[list[int]] = []
    for draw in sorted(draws):
        if spans and draw == spans[-1][-1] + 1:
            spans[-1][1:] = [draw]
        else:
            spans.append([draw])
    return ", ".join(" to ".join(map(str, span)) for span in spans)


# ---- how rows ended


def outcome(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns ``status``, ``plan`` (if any row has one) and ``reason`` (for rows without a time)."""
    columns = frame[["status"]]
    if (frame["plan"] != "").any():
        columns = columns.join(frame["plan"])
    untimed = frame["mean_s"].isna()
    return columns.assign(reason=frame["reason"].where(untimed, "")) if untimed.any() else columns
