"""Several devices side by side: each one's speedups over its own baseline, and which advice holds on all."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from snn.analysis import frame, published, verdicts
from snn.analysis.grouping import OF_KERNEL, baselines, is_empty, varied, work_of
from snn.analysis.intervals import speedup_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import EVIDENCE, FAMILY, SPEEDUP, over_baselines
from snn.analysis.verdicts import FASTER, NOT_COMPARABLE, NOT_SIGNIFICANT, SAME, SLOWER
from snn.config.cell import Cell
from snn.errors import RecordError
from snn.tables.sweep import SHOWN_BY_NETWORK

TITLE = "Speedups on several devices"
ON_ALL = "on_all"
"""The column with the verdict that holds on all devices."""

PER_DEVICE = (*SPEEDUP, *EVIDENCE, "verdict", "mean_s", "runs", "status", "machine", "note")
"""The columns that each device has, named ``speedup NVIDIA H200``."""

_NAMES = ("dataset", "network", "strategy", "kernel", "precision")
_SHOWN_BY_NAMES = {*SHOWN_BY_NETWORK, *(f"{name}.name" for name in _NAMES)}
_WORK = ("dataset", "network", "training")
_EPOCHS = "training.epochs"
_CHOSEN = (*_WORK, "strategy", "kernel")
_WHERE_VARIED = ("kernel", "precision")
_OF_CHOICE = ("strategy.name", "strategy._target_")
_TO_BASELINE = {
    FASTER: "than",
    SAME: "as",
    SLOWER: "than",
    NOT_SIGNIFICANT: "against",
    NOT_COMPARABLE: "with",
}
_TRIVIAL = ("", verdicts.REFERENCE, verdicts.BASELINE)

Records = Mapping[str, Mapping[str, frame.Record]]
Paper = Mapping[str, Mapping[str, Any]]
Row = dict[str, Any]


def build(devices: Records, paper: Paper, paper_device: str, thresholds: Thresholds) -> pd.DataFrame:
    """One row per data set, network, strategy and whatever else varies, from the records of each device.

    A row has one baseline. Devices may have trained different numbers of epochs: then each has a column that
    says how many. If a cell was measured with several protocols, the one with a speedup and the most
    runs is shown or, among equals, the one with the longest time limit. Cells with a busy neighbour are left
    out. Raises RecordError as ``frame.tabulate`` does, and if no record is left.
    """
    measured = without_neighbours(devices)
    if not measured:
        raise RecordError("every cell was measured next to a busy neighbour: none was measured alone")
    rows = by_work(measured, thresholds)
    listed = [Cell(record["cell"]) for records in measured.values() for record in records.values()]
    cells = {cell.name: cell for cell in listed}
    of_paper = [published.speedups(cells[_first(row)["cell"]], paper) for row in rows]
    pairs = zip(rows, of_paper, strict=True)
    words = [_words(row, values, paper_device, thresholds) for row, values in pairs]
    table = what_rows_are_of(rows).assign(baseline=[_first(row)["baseline"] for row in rows])
    table[ON_ALL] = [_on_all(of_row) for of_row in words]
    table["advice"] = [_advice(*row) for row in zip(table["strategy"], table["baseline"], words, strict=True)]
    columns: dict[str, list[Any]] = {
        f"{column} {device}": [row.get(device, {}).get(column) for row in rows]
        for device in measured
        for column in (PER_DEVICE if _same_epochs(rows) else (*PER_DEVICE, _EPOCHS))
    }
    columns[f"published_speedup {paper_device}"] = [next(iter(values), None) for values in of_paper]
    others = [", ".join(f"{value:.2f}" for value in values[1:]) for values in of_paper]
    columns["published_note"] = [f"elsewhere in the paper {said}" if said else "" for said in others]
    filled = {name: values for name, values in columns.items() if not all(map(is_empty, values))}
    return table.join(pd.DataFrame(filled, table.index, dtype=object))


def without_neighbours(devices: Records) -> dict[str, dict[str, frame.Record]]:
    """The devices that have records of cells without a neighbour, with these records."""
    alone = {
        device: {place: one for place, one in records.items() if not Cell(one["cell"]).strategy_beside}
        for device, records in devices.items()
    }
    return {device: records for device, records in alone.items() if records}


def by_work(devices: Records, thresholds: Thresholds) -> list[Row]:
    """The rows of the devices that did the same work, by device, each with its speedup over one baseline."""
    found: dict[str, Row] = {}
    for one in _speedups(devices, thresholds):
        work, device = _text([work_of(one, _CHOSEN), one["precision"], one["baseline"]]), one["measured_on"]
        of_work = found.setdefault(work, {})
        of_work[device] = max(of_work.get(device, one), one, key=_weight)
    return _of_any_epochs(found.values())


def _of_any_epochs(rows: Iterable[Row]) -> list[Row]:
    """The same with rows joined that differ only in epochs, if no device has both: a CPU may train fewer."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        one = _first(row)
        work = work_of(one, _CHOSEN) | {_EPOCHS: None}
        joined = found.setdefault(_text([work, one["precision"], one["baseline"]]), [])
        other = next((of for of in joined if not of.keys() & row.keys()), None)
        if other is None:
            joined.append(dict(row))
        else:
            other.update(row)
    return [row for joined in found.values() for row in joined]


def _speedups(devices: Records, thresholds: Thresholds) -> list[Row]:
    """A row per device and cell, with its speedup. Ratios are only taken within a device, and those of one
    training are a family."""
    frames = [
        frame.tabulate(records, thresholds).assign(measured_on=name) for name, records in devices.items()
    ]
    rows = pd.concat([one.astype(object) for one in frames], ignore_index=True).copy()  # in one piece
    rows = rows.assign(work=[_text(work_of(row, (*_WORK, "protocol"))) for row in rows.to_dict("records")])
    options = [name for name in rows if name.startswith("strategy.") and name not in _OF_CHOICE]
    numbers, names = baselines(rows, ["measured_on", "work", *options, *OF_KERNEL[1:]])
    rows[FAMILY] = rows["measured_on"] + rows["work"]
    of_baselines = [rows["rounds"][number] if number >= 0 else [] for number in numbers]
    both = zip(rows["rounds"], of_baselines, strict=True)
    common = [sum(bool(a and b) for a, b in zip(*one, strict=False)) for one in both]
    compared = over_baselines(rows, numbers, thresholds)
    return rows.assign(**compared, baseline=names, common_rounds=common).to_dict("records")


def _same_epochs(rows: Sequence[Row]) -> bool:
    return all(len({one[_EPOCHS] for one in row.values()}) == 1 for row in rows)


def _first(row: Row) -> Row:
    return next(iter(row.values()))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _weight(row: Row) -> tuple[bool, int, float]:
    return not is_empty(row["speedup"]), row["runs"], float(row["protocol.max_seconds"])


def what_rows_are_of(rows: Sequence[Row]) -> pd.DataFrame:
    """Data set, network and strategy of each row, kernel and precision if they vary, and further settings.

    A further setting is one in which rows differ that have all of these in common.
    """
    firsts = [_first(row) for row in rows]
    kernels = [frame.joined(one["kernel"] for one in row.values()) for row in rows]
    names = pd.DataFrame(firsts)[list(_NAMES)].assign(kernel=kernels)
    texts = [{key: str(value) for key, value in work_of(row, _CHOSEN).items()} for row in firsts]
    settings = pd.DataFrame(texts).fillna("")
    settings = settings[[name for name in settings if name not in _SHOWN_BY_NAMES]]
    differing = varied(names.join(settings), list(settings), list(_NAMES))
    shown = [name for name in _NAMES if name not in _WHERE_VARIED or names[name].nunique() > 1]
    return names[shown].join(settings[differing])


def as_published(device: str) -> str:
    """Name of a device whose value was published, not measured here."""
    return f"{device} as published"


def _words(row: Row, of_paper: Sequence[float], paper_device: str, thresholds: Thresholds) -> dict[str, str]:
    """The verdict on each device, or the status if it has no time; trivial words are left out."""
    words = {
        name: one["verdict"] if not is_empty(one["mean_s"]) else one["status"] for name, one in row.items()
    }
    words = {name: word for name, word in words.items() if word not in _TRIVIAL}
    if words and of_paper:
        words[as_published(paper_device)] = speedup_verdict(of_paper[0], of_paper[0], thresholds["same"])
    return words


def _on_all(words: Mapping[str, str]) -> str:
    found = [word for word in words.values() if word in (FASTER, SAME, SLOWER, NOT_SIGNIFICANT)]
    if len(found) < 2:
        return ""
    if len({*found} - {NOT_SIGNIFICANT}) > 1:
        return verdicts.DIFFERS
    return verdicts.INCONCLUSIVE if NOT_SIGNIFICANT in found else found[0]


def _advice(strategy: str, baseline: str, words: Mapping[str, str]) -> str:
    """``combined faster on NVIDIA H200, slower on CPU AMD EPYC, faster on Tesla T4 as published``.

    Baselines other than the reference are named: ``blas slower than sequential on CPU AMD EPYC``.
    """
    name, parts = baseline.partition(", ")[0], []
    for word in dict.fromkeys([*_TO_BASELINE, *words.values()]):
        devices = " and ".join(device for device in words if words[device] == word)
        than = f" {_TO_BASELINE[word]} {name}" if name not in _TRIVIAL and word in _TO_BASELINE else ""
        parts += [f"{word}{than} on {devices}"] if devices else []
    return f"{strategy} {', '.join(parts)}" if parts else ""
