"""Ways to train in less device memory: the bytes that each saves, and the time that it takes for them."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.draws import means_over_common
from snn.analysis.floors import steps
from snn.analysis.grouping import is_empty, settings, texts
from snn.analysis.intervals import mean_interval
from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import SPEEDUP, over_baselines
from snn.analysis.verdicts import BASELINE
from snn.profiling.memory import PURPOSES

TITLE = "Training in less memory: bytes saved, and time"

PLAIN = "plain"
_PARTS, _AGAIN = "training.accumulate", "network.recompute"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell: what the device holds at the peak by kind, in bytes, and the time of a step.

    ``plain`` is the first row of a network that is trained whole, with every output kept, in fp32. Over it
    ``saved_bytes`` and ``saved_fraction`` are what a row holds less, ``time_ratio`` is how many times as long
    it takes, with its 95% interval and verdict, and ``loss_difference`` its final loss minus that of
    ``plain``, over the latter, both over the draws of initial weights that they have in common. ``launches``
    are those of a whole training.
    """
    plain = _plain(frame)
    table = frame[["network", "dataset", "strategy", "kernel", "precision"]].copy()
    table.insert(1, "remedy", [_remedy(row, frame.iloc[n]) for (_, row), n in _with(frame, plain)])
    table["batch_size"] = frame["training.batch_size"]
    table["peak_bytes"] = frame.get("memory.peak_bytes")
    for kind in PURPOSES:
        table[f"{kind}_bytes"] = frame.get(f"memory.{kind}_bytes")
    peaks = pd.to_numeric(table["peak_bytes"]).astype("float")
    saved = pd.Series([peaks.iloc[n] - peaks[i] for (i, _), n in _with(frame, plain)], frame.index)
    table["saved_bytes"] = saved
    table["saved_fraction"] = saved / (saved + peaks)
    per_step = 1e6 / steps(frame)
    table["step_us"] = frame["mean_s"] * per_step
    ends = pd.DataFrame([mean_interval(rounds) for rounds in frame["rounds"]], frame.index, ["low", "high"])
    for end in ends:
        table[f"step_ci_{end}_us"] = per_step * ends[end]
    ratios = over_baselines(frame, plain, thresholds)
    faster, low, high = (ratios[name].astype("float") for name in SPEEDUP)
    table["time_ratio"], table["time_ratio_ci_low"], table["time_ratio_ci_high"] = (
        1 / faster,
        1 / high,
        1 / low,
    )
    table["verdict"] = ratios["verdict"].replace(BASELINE, PLAIN)
    table["note"] = ratios["note"]
    table["final_loss"] = frame["final_loss"]
    table["draws"] = frame["draws"]
    table["loss_difference"] = [_difference(row, frame.iloc[n]) for (_, row), n in _with(frame, plain)]
    table["launches"] = frame.get("ledger.launches")
    table = table.join(outcome(frame))
    return table.assign(machine=ratios["machine"], device=frame["device"], backend=frame["backend"])


def pairs(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """The numbers of the rows that are compared: the plain one, and a row over it."""
    return [(plain, i) for i, plain in enumerate(_plain(frame))]


def _with(frame: pd.DataFrame, numbers: list[int]) -> list[tuple[tuple[Any, pd.Series], int]]:
    return list(zip(frame.iterrows(), numbers, strict=True))


def _plain(frame: pd.DataFrame) -> list[int]:
    """The number of the plain row of each row's network; its own where there is none."""
    trained = settings(frame, ("dataset", "network", "training"))
    points = texts(frame, [name for name in trained if name not in (_PARTS, _AGAIN)])
    first: dict[str, int] = {}
    for number, ((_, row), point) in enumerate(zip(frame.iterrows(), points, strict=True)):
        if row[_PARTS] == 1 and is_empty(row[_AGAIN]) and row["precision"] == "fp32":
            first.setdefault(point, number)
    return [first.get(point, number) for number, point in enumerate(points)]


def _difference(row: pd.Series, plain: pd.Series) -> float | None:
    """The final loss minus that of the plain row, over the latter, of the draws that both have."""
    own, of_plain = means_over_common(row["draw_losses"], plain["draw_losses"])
    return own / of_plain - 1 if own is not None and of_plain else None


def _remedy(row: pd.Series, plain: pd.Series) -> str:
    """What differs from the plain row, in words."""
    said = []
    if row[_PARTS] != plain[_PARTS]:
        said.append(f"accumulate {row[_PARTS]}")
    if row[_AGAIN] != plain[_AGAIN]:
        said.append(f"recompute {row[_AGAIN]}")
    said += [str(row[key]) for key in ("strategy", "precision") if row[key] != plain[key]]
    return ", ".join(said) or PLAIN
