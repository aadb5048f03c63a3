"""Device memory: the peak by purpose, and ways to train in less of it, with the time that these take."""

from statistics import median

import numpy as np
import pandas as pd

from snn.analysis.frame import mean_loss
from snn.analysis.grouping import first_at, is_empty, settings, texts
from snn.analysis.speedups import EVIDENCE, SPEEDUP
from snn.analysis.verdicts import BASELINE
from snn.models.storage import FP32
from snn.profiling.memory import PURPOSES
from snn.tables.sweep import with_options
from snn.tables.table import DEVICE, Column, Row, Rows, cells_table, copy, each, optional, status, step_times

_MEMORY = "memory."


def _all_of(prefix: str) -> Column:
    """All columns of the frame with a prefix: see ``snn.analysis.frame``."""
    return lambda rows: rows.frame[[name for name in rows.frame if name.startswith(prefix)]].rename(
        columns=lambda name: name.removeprefix(prefix)
    )


memory = cells_table(
    "Peak memory by purpose", "strategy dataset", _all_of(_MEMORY), "status reason device backend"
)


# ---- what all processes hold of the device, as the driver gives it: also of peers, whose calls nobody counts


def _in_use(rows: Rows) -> pd.DataFrame:
    """Bytes before training, and what it added: the median and the most over the rounds that have samples."""
    found = []
    for rounds in rows.frame["in_use"]:
        added = [most - before for before, most in rounds]
        found.append(
            {
                "before_bytes": int(median(before for before, _ in rounds)),
                "added_bytes": int(median(added)),
                "most_added_bytes": max(added),
            }
            if rounds
            else {}
        )
    names = ["before_bytes", "added_bytes", "most_added_bytes"]
    return pd.DataFrame(found, rows.frame.index, names).astype("Int64")


peers_memory = cnn_peers_memory = cells_table(
    "Device memory that training takes, by the driver",
    "network dataset strategy",
    lambda rows: rows.frame[["options"] if any(rows.frame["options"]) else []],
    "kernel precision runtime",
    _in_use,
    optional(_MEMORY, "peak_bytes"),
    _all_of("allocator."),
    status,
    DEVICE,
    rows=with_options,
)


# ---- memory_remedies

PLAIN = "plain"
_PARTS, _AGAIN = "training.accumulate", "network.recompute"
_STORAGE, _SCALE = "training.storage", "training.loss_scale"


def _plain(cells: pd.DataFrame) -> list[int]:
    """The number of the plain row of each row's network; the row's own number if there is none.

    The plain row is the first in fp32 with whole batches and every output kept in fp32.
    """
    trained = [
        name
        for name in settings(cells, ("dataset", "network", "training"))
        if name not in (_PARTS, _AGAIN, _STORAGE, _SCALE)
    ]
    is_plain = (cells[_PARTS] == 1) & cells[_AGAIN].map(is_empty)
    is_plain &= (cells["precision"] == "fp32") & (cells[_STORAGE] == FP32)
    numbers = first_at(texts(cells, trained), cells.index[is_plain])
    return [number if number >= 0 else i for i, number in enumerate(numbers)]


def _remedy(row: Row, plain: Row) -> str:
    """Differences from the plain row, in words."""
    said = [f"accumulate {row[_PARTS]}"] if row[_PARTS] != plain[_PARTS] else []
    said += [f"recompute {row[_AGAIN]}"] if row[_AGAIN] != plain[_AGAIN] else []
    said += [f"{row[_STORAGE]} activations"] if row[_STORAGE] != plain[_STORAGE] else []
    said += [str(row[key]) for key in ("strategy", "precision") if row[key] != plain[key]]
    return ", ".join(said) or PLAIN


def _saved(rows: Rows) -> pd.DataFrame:
    peaks = pd.to_numeric(rows.frame.get("memory.peak_bytes", pd.Series(index=rows.frame.index)))
    peaks = peaks.astype("float")
    saved = peaks.iloc[rows.over].set_axis(peaks.index) - peaks
    return pd.DataFrame({"saved_bytes": saved, "saved_fraction": saved / (saved + peaks)})


def _time_ratio(rows: Rows) -> pd.DataFrame:
    """A row's time over the plain row's: the inverse of its speedup."""
    faster, low, high = (rows.frame[name].astype("float") for name in SPEEDUP)
    return pd.DataFrame(
        {"time_ratio": 1 / faster, "time_ratio_ci_low": 1 / high, "time_ratio_ci_high": 1 / low}
    ).join(rows.frame[[*EVIDENCE]])


def _loss_difference(row: Row, plain: Row) -> float | None:
    """Relative difference of the final loss from the plain row's, over the draws that both have."""
    draws = row["draw_losses"].keys() & plain["draw_losses"].keys()
    own, other = (mean_loss(one["draw_losses"], draws) for one in (row, plain))
    return own / other - 1 if own is not None and other else None


def _peak_bytes(rows: Rows) -> pd.DataFrame:
    """The peak by purpose; the optimiser's state only if some cell has one."""
    names = [f"{_MEMORY}{kind}_bytes" for kind in PURPOSES]
    known = [f"{_MEMORY}peak_bytes", *(one for one in names if one in rows.frame or "optimizer" not in one)]
    columns = {name.removeprefix(_MEMORY): rows.frame.get(name) for name in known}
    return pd.DataFrame(columns, index=rows.frame.index)


memory_remedies = cells_table(
    "Training in less memory: bytes saved, and time",
    "network",
    each(remedy=_remedy),
    "dataset strategy kernel precision",
    copy(batch_size="training.batch_size"),
    _peak_bytes,
    _saved,
    step_times,
    _time_ratio,
    lambda rows: rows.frame["verdict"].replace(BASELINE, PLAIN),
    "note final_loss draws",
    each(loss_difference=_loss_difference),
    optional("ledger.", "launches"),
    status,
    DEVICE,
    over=_plain,
)


# ---- batch_sizes


def _of_rows(rows: Rows) -> pd.DataFrame:
    """Nanoseconds per row that is trained on, with the interval of ``step_times``, and peak bytes per row."""
    cells = rows.frame
    batch = np.minimum(cells["dataset.rows"].astype(float), cells["training.batch_size"])
    times = step_times(rows).rename(columns=lambda name: name.replace("step", "row").replace("us", "ns"))
    return times.mul(1e3 / batch, axis=0).assign(row_bytes=_peak_bytes(rows)["peak_bytes"] / batch)


batch_sizes = cells_table(
    "Time per row and peak memory by batch size",
    "network dataset strategy kernel precision",
    copy(storage=_STORAGE, batch_size="training.batch_size"),
    _of_rows,
    optional(_MEMORY, "peak_bytes reserved_bytes"),
    "runs",
    status,
    DEVICE,
)
