"""Speedups: ratios of two mean times, whether these may be divided, verdicts, and the rounds they need."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan, log, sqrt
from statistics import NormalDist
from typing import Any

import pandas as pd

from snn.analysis.intervals import Ratio, Rounds, ratio, ratio_verdict, speedup_verdict
from snn.analysis.machine_state import Thresholds, drift
from snn.analysis.verdicts import BASELINE, NOT_COMPARABLE, NOT_SIGNIFICANT, QUIET, REFERENCE
from snn.config.settings import MOST_ROUNDS
from snn.measurement.protocol import student_quantile
from snn.profiling.memory import count
from snn.records.origin import GPUS, HOSTS, Origin

# ---- whether the times of two rows may be divided by each other

_EQUAL = {
    "device": "devices",
    "driver": "drivers",
    "blas_threads": "numbers of BLAS threads",
}
"""Columns that must be equal, and what they count."""

_OF_KERNEL = ("kernel.name", "kernel.block", "kernel.work", "precision")

_COMPARED = (
    *(*_EQUAL, *_OF_KERNEL),
    *("strategy", "status", "runs", "rounds", "origins", "device_uuid", "runtime", "probe", "surroundings"),
    *("mean_s", "machine"),
)
"""Columns that comparisons read."""


def reason(a: Mapping[str, Any], b: Mapping[str, Any], thresholds: Thresholds) -> str:
    """Why the times of two rows of ``snn.analysis.frame`` may not be divided; empty where they may.

    They may not where all rounds of both were measured on two GPUs or hosts, where the drivers, the BLAS
    threads or the surroundings of the processes (``snn.records.store``) differ, where the probe's costs
    drifted between the two, or where a side has no run. The probe launches the cell's own kernel, and what an
    allocation costs depends on the memory that a library holds. So of cells with different kernels, or with a
    runtime of their own, only the cost of a copy is compared.
    """
    for row in (a, b):
        if not row["runs"]:
            return f"{row['strategy']} has no time: {row['status']}"
    for key, what in _EQUAL.items():
        if a[key] != b[key] and not (pd.isna(a[key]) and pd.isna(b[key])):  # a CPU has no UUID
            return f"different {what}: {a[key]} and {b[key]}"
    around, others = (row.get("surroundings") for row in (a, b))
    if isinstance(around, Mapping) and isinstance(others, Mapping):  # of earlier records nothing is known
        for what in filter(others.__contains__, around):
            if around[what] != others[what]:
                return f"different {what}: {around[what]} and {others[what]}"
    apart = _apart(a, b)
    if apart and set(apart) == {GPUS}:
        return f"different devices: {a['device_uuid']} and {b['device_uuid']}"
    if apart and set(apart) <= {GPUS, HOSTS}:
        return " and ".join(dict.fromkeys(apart))
    alike = all(a.get(key) == b.get(key) for key in _OF_KERNEL) and not (a.get("runtime") or b.get("runtime"))
    before, after = (
        {key: cost for key, cost in row["probe"].items() if key == "copy_us" or alike} for row in (a, b)
    )
    drifted = drift(before, after, thresholds)
    return f"the probe's costs drifted between the two: {drifted}" if drifted else ""


def common_rounds(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Rounds, Rounds]:
    """The seconds of two rows by round, without those of rounds that are not of one GPU, host and pass
    (``snn.records.origin``)."""
    kept = [not x.apart(y) for x, y in zip(_origins(a), _origins(b), strict=False)]
    first, second = (
        [seconds if keep else [] for seconds, keep in zip(row["rounds"], kept, strict=False)]
        for row in (a, b)
    )
    return first, second


def left_out(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """How many rounds of both ``common_rounds`` leaves out, and why; empty if none."""
    counts = Counter(filter(None, _apart(a, b)))
    said = ", ".join(f"{count(n, 'round')} of {why}" for why, n in counts.items())
    return said and f"left out: {said}"


def _apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Why each round in which both rows have a time may not be paired; empty if it may."""
    rounds = zip(_origins(a), _origins(b), a["rounds"], b["rounds"], strict=False)
    return [x.apart(y) for x, y, *seconds in rounds if all(seconds)]


def _origins(row: Mapping[str, Any]) -> list[Origin]:
    uuid = row["device_uuid"]
    alone = Origin(None if pd.isna(uuid) else uuid)
    return row.get("origins") or [alone] * len(row["rounds"])


# ---- ratios

SPEEDUP = ("speedup", "speedup_ci_low", "speedup_ci_high")
"""The columns of a ratio and its 95% interval."""

_COLUMNS = [*SPEEDUP, "verdict", "note", "machine"]


def speedup(baseline: pd.DataFrame, other: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """Row by row ``speedup`` = baseline mean_s / other mean_s, its 95% interval, a verdict and a note.

    The verdict comes from ``ratio_verdict``, or is ``not comparable``, without a ratio, for the reason in
    ``note``; elsewhere ``note`` is a ``warning``. ``machine`` joins the states of both machines.
    """
    both = zip(_rows(baseline), _rows(other), strict=True)
    return pd.DataFrame([_compare(a, b, thresholds) for a, b in both], other.index, _COLUMNS)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame[[key for key in _COMPARED if key in frame]].to_dict("records")


def _compare(baseline: Mapping[str, Any], other: Mapping[str, Any], thresholds: Thresholds) -> dict[str, Any]:
    (machine,) = joint(QUIET, [baseline["machine"]], [other["machine"]])
    if note := reason(baseline, other, thresholds):
        return {"verdict": NOT_COMPARABLE, "note": note, "machine": machine}
    found = ratio(*common_rounds(baseline, other))
    word = ratio_verdict(found, thresholds["same"], thresholds["one_round"])
    note = "; ".join(filter(None, (left_out(baseline, other), warning(found, thresholds))))
    texts = {"verdict": word, "note": note, "machine": machine}
    return dict(zip(SPEEDUP, found[:3], strict=True)) | texts


MORE_ROUNDS = "snn more-rounds adds rounds"


def warning(found: Ratio, thresholds: Thresholds) -> str:
    """What makes an interval less useful than it looks, and the command that helps; empty where nothing."""
    if not found.rounds:
        return f"there is no common round; {MORE_ROUNDS}"
    if found.rounds < 2:
        beyond = f"only a factor beyond {thresholds['one_round']:g} is significant"
        what = f"one round: how much rounds differ is unknown, so {beyond}"
    elif is_wide(found, thresholds):
        what = f"wide interval, above a factor of {thresholds['wide']:g}"
    else:
        return ""
    return f"{what}; {MORE_ROUNDS}"


def over_baselines(frame: pd.DataFrame, baselines: Sequence[int], thresholds: Thresholds) -> pd.DataFrame:
    """Each row's speedup over the row whose number is in ``baselines``, -1 for none.

    A baseline's own speedup is 1, its verdict ``reference`` where it is that, otherwise ``baseline``. A row
    without a time has neither.
    """
    rows, found = _rows(frame), []
    for i, (row, number) in enumerate(zip(rows, baselines, strict=True)):
        alone = {"verdict": "", "note": "", "machine": row["machine"]}
        if number < 0 or pd.isna(row["mean_s"]):
            found.append(alone)
        elif number == i:
            word = REFERENCE if row["strategy"] == "reference" else BASELINE
            found.append(alone | dict.fromkeys(SPEEDUP, 1.0) | {"verdict": word})
        else:
            found.append(_compare(rows[number], row, thresholds))
    return pd.DataFrame(found, frame.index, _COLUMNS)


def joint(best: str, *columns: Iterable[str]) -> list[str]:
    """Row by row ``best`` (``ok``, ``quiet``) where no column holds another word, otherwise the others."""
    rows = zip(*columns, strict=True)
    return [
        ", ".join(dict.fromkeys(word for cell in row for word in cell.split(", ") if word not in ("", best)))
        or best
        for row in rows
    ]


# ---- how many rounds a comparison needs, from the spread of those it has

POWER = 0.90
"""The chance with which a difference is to be found."""

LEAST, MOST = 5, MOST_ROUNDS
"""Rounds below which an interval is of little use, and the most that a cell may have."""


def is_wide(ratio: Ratio, thresholds: Thresholds) -> bool:
    """Whether an interval's ends are more than the factor ``wide`` apart."""
    return ratio.high / ratio.low > thresholds["wide"]


def rounds_needed(ratio: Ratio, thresholds: Thresholds) -> int:
    """The rounds after which a ratio would be settled, if they go on differing as they do; those that it has,
    where it is.

    A ratio is settled if its interval is not wide and if it is ``faster``, ``slower`` or ``same``, or had
    enough rounds to find a difference of the share ``tell_apart``.
    """
    if isnan(ratio.spread):
        return LEAST
    needed = ratio.rounds
    if is_wide(ratio, thresholds):
        needed = max(needed, for_width(ratio.spread, thresholds["wide"]))
    if speedup_verdict(ratio.low, ratio.high, thresholds["same"]) == NOT_SIGNIFICANT:
        difference = max(abs(log(ratio.value)), log(1 + thresholds["tell_apart"]))
        needed = max(needed, for_difference(ratio.spread, difference))
    return needed


def for_difference(spread: float, difference: float) -> int:
    """The rounds that find a difference of logarithms with the chance ``POWER``, where the log ratios of
    rounds have this standard deviation; at most ``MOST``."""
    power = NormalDist().inv_cdf(POWER)
    return _first(lambda rounds: (student_quantile(rounds - 1) + power) * spread / sqrt(rounds) <= difference)


def for_width(spread: float, factor: float) -> int:
    """The rounds whose interval has ends within this factor of each other; at most ``MOST``."""
    return _first(lambda rounds: 2 * student_quantile(rounds - 1) * spread / sqrt(rounds) <= log(factor))


def _first(is_enough: Callable[[int], bool]) -> int:
    return next((rounds for rounds in range(2, MOST) if is_enough(rounds)), MOST)
