"""Speedups: ratios of two mean times, whether these may be divided, verdicts, and the rounds they need."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, exp, inf, isnan, log, log2, nan, sqrt
from statistics import NormalDist
from typing import Any

import pandas as pd

from snn.analysis.intervals import (
    LEVEL,
    Ratio,
    Rounds,
    adjust,
    holm,
    pool,
    ratio,
    ratio_verdict,
    speedup_verdict,
    with_best,
)
from snn.analysis.machine_state import Thresholds, drift
from snn.analysis.verdicts import BASELINE, NOT_COMPARABLE, NOT_SIGNIFICANT, QUIET, REFERENCE, SAME
from snn.config.settings import MOST_ROUNDS
from snn.measurement.student import student_quantile
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
    *("mean_s", "machine", "protocol.rounds", "family", "with_host"),
)
"""Columns that comparisons read."""

Pair = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A baseline and another row."""


def reason(a: Mapping[str, Any], b: Mapping[str, Any], thresholds: Thresholds) -> str:
    """Why the times of two rows of ``snn.analysis.frame`` may not be divided; empty where they may.

    They may not where all rounds of both were measured on two GPUs or hosts, where the drivers, the BLAS
    threads or the surroundings of the processes (``snn.records.store``) differ, where the probe's costs
    drifted between the two, or where a side has no run. The probe launches the cell's own kernel, and what an
    allocation costs depends on the memory that a library holds. So of cells with different kernels, or with a
    runtime of their own, only the cost of a copy is compared. Of a GPU and its host (``WITH_HOST``) only the
    hosts are.
    """
    for row in (a, b):
        if not row["runs"]:
            return f"{row['strategy']} has no time: {row['status']}"
    across = bool(a.get(WITH_HOST)) and a["device"] != b["device"]
    for key, what in ({} if across else _EQUAL).items():
        if a[key] != b[key] and not (pd.isna(a[key]) and pd.isna(b[key])):  # a CPU has no UUID
            return f"different {what}: {a[key]} and {b[key]}"
    around, others = (None if across else row.get("surroundings") for row in (a, b))
    if isinstance(around, Mapping) and isinstance(others, Mapping):  # of earlier records nothing is known
        for what in filter(others.__contains__, around):
            if around[what] != others[what]:
                return f"different {what}: {around[what]} and {others[what]}"
    apart = _apart(a, b)
    if apart and set(apart) == {GPUS}:
        return f"different devices: {a['device_uuid']} and {b['device_uuid']}"
    if apart and set(apart) <= {GPUS, HOSTS}:
        return " and ".join(dict.fromkeys(apart))
    if across:
        return ""
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

EVIDENCE = ("p_adjusted", "detectable")
"""Columns behind a verdict: the p-value adjusted for all comparisons of its family and for looks, and the
ratio that its rounds detect with the chance ``POWER`` at the level that the first comparison has."""

WITH_HOST = "with_host"
"""An optional column: whether a GPU's rows may be compared with those of its host's CPU."""

FAMILY = "family"
"""An optional column: rows with one value are one family of comparisons. Without it, all rows are."""

_COLUMNS = [*SPEEDUP, *EVIDENCE, "verdict", "note", "machine"]

Factors = Callable[[int], list[int]]


def speedup(
    baseline: pd.DataFrame, other: pd.DataFrame, thresholds: Thresholds, factors: Factors = holm
) -> pd.DataFrame:
    """Row by row ``speedup`` = baseline mean_s / other mean_s, its 95% interval, a verdict and a note.

    The verdict comes from ``ratio_verdict``, with p-values adjusted by these ``factors``, or is
    ``not comparable``, without a ratio, for the reason in ``note``; otherwise ``note`` is a ``warning``.
    ``machine`` joins the states of both machines.
    """
    pairs = [*zip(_rows(baseline), _rows(other), strict=True)]
    return pd.DataFrame(_compare(pairs, thresholds, factors), other.index, _COLUMNS)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame[[key for key in _COMPARED if key in frame]].to_dict("records")


def _compare(
    pairs: Sequence[Pair], thresholds: Thresholds, factors: Factors, across_devices: bool = False
) -> list[dict[str, Any]]:
    """The columns of each pair of a baseline and another row.

    Comparisons with the best of several rows are a family for each of these.
    """
    families: dict[Any, list[tuple[dict[str, Any], Ratio, float]]] = {}
    columns: list[dict[str, Any]] = []
    for a, b in pairs:
        (machine,) = joint(QUIET, [a["machine"]], [b["machine"]])
        columns.append({"machine": machine})
        if not across_devices and (note := reason(a, b, thresholds)):
            columns[-1] |= {"verdict": NOT_COMPARABLE, "note": note}
            continue
        found = compare(a, b, thresholds)
        note = "; ".join(filter(None, (left_out(a, b), warning(found, thresholds))))
        columns[-1] |= {**dict(zip(SPEEDUP, found, strict=False)), "note": note}
        family = (b.get(FAMILY), id(a) if factors is with_best else None)
        families.setdefault(family, []).append((columns[-1], found, look_share(found, a, b, thresholds)))
    for of_family in families.values():
        level = LEVEL / factors(len(of_family))[0]
        pooled = pool([found for _, found, _ in of_family])
        shares = [share for *_, share in of_family]
        adjusted = adjust([found.p / share for found, share in zip(pooled, shares, strict=True)], factors)
        for (texts, *_), found, share, p in zip(of_family, pooled, shares, adjusted, strict=True):
            texts["verdict"] = ratio_verdict(found, p, thresholds["same"], thresholds["one_round"])
            texts |= dict(zip(EVIDENCE, (p, detectable(found, level * share)), strict=True))
    return columns


def compare(a: Mapping[str, Any], b: Mapping[str, Any], thresholds: Thresholds) -> Ratio:
    """The ratio of the times of two rows over their common rounds.

    After a further look its interval is as wide as that look requires.
    """
    rounds = common_rounds(a, b)
    found = ratio(*rounds)
    share = look_share(found, a, b, thresholds)
    return found if share == thresholds["first_look"] else ratio(*rounds, LEVEL * share)


# ---- looks: more rounds may be added where a verdict is open, so that a verdict has several chances
#
# The level is spent: the share ``first_look`` of it on the verdict after the protocol's rounds, and half of
# what is left on each further look. These shares sum to 1, so looking again does not make wrong verdicts more
# frequent. The rounds about double from look to look (``next_look``), so they tell the number of a look.


def look(rounds: int, first: int) -> int:
    """The number of the look after so many rounds, from 1, if the first is after ``first`` rounds.

    A protocol of fewer than ``LEAST`` rounds has the next look after ``LEAST``.
    """
    if rounds <= first:
        return 1
    return (2 if first < LEAST else 1) + max(0, ceil(log2(rounds / max(first, LEAST))))


def next_look(rounds: int, first: int) -> int:
    """The fewest rounds of a further look."""
    return next(
        more
        for more in range(rounds + 1, 2 * max(rounds, LEAST) + 2)
        if look(more, first) > look(rounds, first)
    )


def first_look(*rows: Mapping[str, Any]) -> int:
    """The rounds of the protocol after which rows are first compared."""
    planned = [int(row.get("protocol.rounds") or 1) for row in rows]
    return min(rounds if rounds > 1 else LEAST for rounds in planned)


def share_of_look(number: int, thresholds: Thresholds) -> float:
    """The share of the level that a look may spend."""
    first = thresholds["first_look"]
    return first if number == 1 else (1 - first) / 2 ** (number - 1)


def look_share(found: Ratio, a: Mapping[str, Any], b: Mapping[str, Any], thresholds: Thresholds) -> float:
    """The share of the level that the look of a ratio of two rows may spend."""
    return share_of_look(look(found.rounds, first_look(a, b)), thresholds)


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


def over_baselines(
    frame: pd.DataFrame,
    baselines: Sequence[int],
    thresholds: Thresholds,
    factors: Factors = holm,
    across_devices: bool = False,
) -> pd.DataFrame:
    """Each row's speedup over the row whose number is in ``baselines``, -1 for none.

    ``factors``: as for ``speedup``. ``across_devices``: a GPU may be compared with its host, and nothing is
    ``not comparable``. A baseline's own speedup is 1, its verdict ``reference`` if it is the reference,
    otherwise ``baseline``. A row without a time has neither.
    """
    rows = _rows(frame)
    found = [{"verdict": "", "note": "", "machine": row["machine"]} for row in rows]
    timed = [i for i, number in enumerate(baselines) if number >= 0 and not pd.isna(rows[i]["mean_s"])]
    others = [i for i in timed if baselines[i] != i]
    pairs = [(rows[baselines[i]], rows[i]) for i in others]
    for i, columns in zip(others, _compare(pairs, thresholds, factors, across_devices), strict=True):
        found[i] = columns
    for i in set(timed) - set(others):
        word = REFERENCE if rows[i]["strategy"] == "reference" else BASELINE
        found[i] |= dict.fromkeys(SPEEDUP, 1.0) | {"verdict": word}
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


_MOST_DETECTABLE = 1000
"""Beyond this, two rounds far apart detect nothing."""


def is_wide(ratio: Ratio, thresholds: Thresholds) -> bool:
    """Whether an interval's ends are more than the factor ``wide`` apart."""
    return ratio.high / ratio.low > thresholds["wide"]


def rounds_needed(ratio: Ratio, thresholds: Thresholds, level: float = LEVEL) -> int:
    """The rounds after which a ratio would be settled, if they go on differing as they do; those that it has,
    if it is.

    A ratio is settled if its interval is not wide and if it is ``same``, is ``faster`` or ``slower`` with a
    p-value below ``level``, or had enough rounds to find a difference of ``tell_apart`` at this level.
    """
    if isnan(ratio.spread):
        return LEAST
    needed = ratio.rounds
    if is_wide(ratio, thresholds):
        needed = max(needed, for_width(ratio.spread, thresholds["wide"]))
    word = speedup_verdict(ratio.low, ratio.high, thresholds["same"])
    if word == NOT_SIGNIFICANT or (word != SAME and ratio.p >= level):
        difference = max(abs(log(ratio.value)), log(1 + thresholds["tell_apart"]))
        needed = max(needed, for_difference(ratio.spread, difference, level, ratio.freedom_per_round))
    return needed


def for_difference(spread: float, difference: float, level: float = LEVEL, freedom_per_round: int = 1) -> int:
    """The rounds that find a difference of logarithms with the chance ``POWER`` at this level, if the log
    ratios of rounds have this standard deviation; at most ``MOST``."""
    return _first(lambda rounds: _reach(rounds, level, freedom_per_round) * spread <= difference)


def detectable(ratio: Ratio, level: float) -> float:
    """The ratio of times that rounds of this spread detect with the chance ``POWER`` at this level."""
    if isnan(ratio.spread):
        return nan
    difference = _reach(ratio.rounds, level, ratio.freedom_per_round) * ratio.spread
    return exp(difference) if difference < log(_MOST_DETECTABLE) else inf


def _reach(rounds: int, level: float, freedom_per_round: int) -> float:
    """The difference that is found, in standard deviations of the logarithms of the rounds' ratios.

    By Johnson and Welch's approximation of the noncentral t distribution.
    """
    freedom = freedom_per_round * (rounds - 1)
    t, z = student_quantile(freedom, level), NormalDist().inv_cdf(POWER)
    return (t * (1 - 1 / (4 * freedom)) + z * sqrt(1 + t * t / (2 * freedom))) / sqrt(rounds)


def for_width(spread: float, factor: float) -> int:
    """The rounds whose interval has ends within this factor of each other; at most ``MOST``."""
    return _first(lambda rounds: 2 * student_quantile(rounds - 1) * spread / sqrt(rounds) <= log(factor))


def _first(is_enough: Callable[[int], bool]) -> int:
    return 2 + bisect_left(range(2, MOST), True, key=is_enough)
