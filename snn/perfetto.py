"""Traces of records as a file for ui.perfetto.dev, in the Trace Event Format."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from snn.config.cell import Cell
from snn.files import outputs
from snn.records import store

_HOST = 1000  # a stream's thread has the stream's number


def convert(paths: Sequence[str], output: str) -> None:
    """Write the traces of the records in these files."""
    write(outputs.checked(output, paths), [store.read(Path(path)) for path in paths])


def write(output: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the traces of these records to one file; a record without a trace adds nothing.

    Raises OutputError if it cannot be written.
    """
    events: list[dict[str, Any]] = []
    for number, record in enumerate(records, 1):
        if record["explanation"]:
            events += of_record(record, number)
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
    with outputs.replaced(output) as file:
        file.write(text.encode())


def of_record(record: Mapping[str, Any], process: int) -> list[dict[str, Any]]:
    """The trace events of one record as the process of this number; times in microseconds."""
    cell, trace = Cell(record["cell"]), record["explanation"]["trace"]
    name = f"{cell.strategy} {cell.dataset} {cell.network}"
    events = [_named("process_name", process, _HOST, name), _named("thread_name", process, _HOST, "host")]
    rows = [dict(zip(trace["columns"], values, strict=True)) for values in trace["events"]]
    for stream in sorted({row["stream"] for row in rows if row["device_start_us"] is not None}):
        lane = "default stream" if stream == 0 else f"stream {stream}"
        events.append(_named("thread_name", process, stream, lane))
    for row in rows:
        size = "x".join(map(str, row["size"]))
        details = {"size": size, "call_site": trace["sites"][row["site"]]}
        common = {"name": row["call"], "ph": "X", "pid": process, "args": details}
        events.append({**common, "tid": _HOST, **_span(row["start_us"], row["end_us"])})
        if row["device_start_us"] is not None:
            span = _span(row["device_start_us"], row["device_end_us"])
            events.append({**common, "tid": row["stream"], **span})
        for counter, column in (("device_bytes", "device_bytes"), ("pinned_bytes", "page_locked_bytes")):
            value = {"bytes": row[column]}
            events.append({"name": counter, "ph": "C", "pid": process, "ts": row["end_us"], "args": value})
    return events


def _span(start: float, end: float) -> dict[str, float]:
    return {"ts": start, "dur": round(end - start, 3)}


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
