"""Device memory: the peak by purpose, and ways to train in less of it, with the time that these take."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from snn.analysis.frame import mean_loss
from snn.analysis.grouping import is_empty, settings, texts
from snn.analysis.speedups import SPEEDUP
from snn.analysis.verdicts import BASELINE
from snn.profiling.memory import PURPOSES
from snn.tables.table import DEVICE, Rows, cells_table, copy, optional, status, step_times

_MEMORY = "memory."


def _by_purpose(rows: Rows) -> pd.DataFrame:
    """Bytes at the peak by purpose, and what a record has besides: see ``snn.analysis.frame``."""
    columns = [name for name in rows.frame if name.startswith(_MEMORY)]
    return rows.frame[columns].rename(columns={name: name.removeprefix(_MEMORY) for name in columns})


memory = cells_table(
    "Peak memory by purpose", "strategy dataset", _by_purpose, "status reason device backend"
)


# ---- memory_remedies

PLAIN = "plain"
_PARTS, _AGAIN = "training.accumulate", "network.recompute"


def _plain(cells: pd.DataFrame) -> list[int]:
    """The number of the plain row of each row's network; its own where there is none.

    It is the first that is trained whole, with every output kept, in fp32.
    """
    trained = settings(cells, ("dataset", "network", "training"))
    points = texts(cells, [name for name in trained if name not in (_PARTS, _AGAIN)])
    first: dict[str, int] = {}
    for number, (row, point) in enumerate(zip(cells.to_dict("records"), points, strict=True)):
        if row[_PARTS] == 1 and is_empty(row[_AGAIN]) and row["precision"] == "fp32":
            first.setdefault(point, number)
    return [first.get(point, number) for number, point in enumerate(points)]


def _with_plain(rows: Rows) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    """Each row, and the plain one of its network."""
    listed = rows.frame.to_dict("records")
    return zip(listed, [listed[number] for number in _plain(rows.frame)], strict=True)


def _remedies(rows: Rows) -> pd.Series:
    """What differs from the plain row, in words."""
    remedies = []
    for row, plain in _with_plain(rows):
        said = [f"accumulate {row[_PARTS]}"] if row[_PARTS] != plain[_PARTS] else []
        said += [f"recompute {row[_AGAIN]}"] if row[_AGAIN] != plain[_AGAIN] else []
        said += [str(row[key]) for key in ("strategy", "precision") if row[key] != plain[key]]
        remedies.append(", ".join(said) or PLAIN)
    return pd.Series(remedies, rows.frame.index, name="remedy")


def _saved(rows: Rows) -> pd.DataFrame:
    peaks = pd.to_numeric(rows.frame.get("memory.peak_bytes", pd.Series(index=rows.frame.index)))
    peaks = peaks.astype("float")
    saved = peaks.iloc[_plain(rows.frame)].set_axis(peaks.index) - peaks
    return pd.DataFrame({"saved_bytes": saved, "saved_fraction": saved / (saved + peaks)})


def _time_ratio(rows: Rows) -> pd.DataFrame:
    """How many times as long a row takes as the plain one: the inverse of its speedup."""
    faster, low, high = (rows.frame[name].astype("float") for name in SPEEDUP)
    return pd.DataFrame(
        {"time_ratio": 1 / faster, "time_ratio_ci_low": 1 / high, "time_ratio_ci_high": 1 / low}
    )


def _loss_difference(rows: Rows) -> pd.Series:
    """The final loss minus that of the plain row, over the latter, of the draws that both have."""

    def difference(row: Mapping[str, Any], plain: Mapping[str, Any]) -> float | None:
        draws = [one["draw_losses"] for one in (row, plain)]
        own, other = (mean_loss(losses, draws[0].keys() & draws[1].keys()) for losses in draws)
        return own / other - 1 if own is not None and other else None

    found = [difference(*both) for both in _with_plain(rows)]
    return pd.Series(found, rows.frame.index, name="loss_difference")


memory_remedies = cells_table(
    "Training in less memory: bytes saved, and time",
    "network",
    _remedies,
    "dataset strategy kernel precision",
    copy(batch_size="training.batch_size"),
    optional(_MEMORY, "peak_bytes", *(f"{kind}_bytes" for kind in PURPOSES)),
    _saved,
    step_times,
    _time_ratio,
    lambda rows: rows.frame["verdict"].replace(BASELINE, PLAIN),
    "note final_loss draws",
    _loss_difference,
    optional("ledger.", "launches"),
    status,
    DEVICE,
    over=_plain,
)
