"""Reduced-precision matrix products: the time they save, and whether training still ends at fp32's loss."""

from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from snn.analysis.draws import Losses, mean
from snn.analysis.equivalence import convergence
from snn.analysis.frame import joined
from snn.analysis.grouping import settings, texts, varied
from snn.analysis.intervals import mean_of
from snn.analysis.machine_state import Thresholds, mean_costs
from snn.analysis.outcome import outcome
from snn.analysis.speedups import SPEEDUP, joint, over_baselines
from snn.analysis.verdicts import QUIET

TITLE = "Precision: time, and convergence over several seeds"
_SEED = "network.seed"
_SECTIONS = ("dataset", "network", "strategy", "kernel", "training")
_NAMES = ("strategy", "dataset", "network", "kernel", "precision")
_ByDraw = Mapping[int, Losses]
"""The final losses of a row by seed and draw of initial weights."""


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per group of cells that differ in the seed only, whose rounds stand together, against fp32.

    A round is compared with that of fp32 with the same seed and number. The ``baseline`` is fp32 with the
    same kernel, or with the first other kernel that has it. ``final_mse`` is the mean over seeds and
    ``final_mse_std`` its standard deviation, ``fp32_mse`` and ``fp32_mse_std`` are the baseline's.
    ``relative_difference`` is the mean over seeds of the final loss over fp32's, minus 1, each over the draws
    of initial weights that both have, with its 95% interval; ``convergence`` is its verdict by
    ``snn.analysis.equivalence`` and the threshold ``converges`` of ``config/verdicts.yaml``.
    """
    trained = [name for name in settings(frame, _SECTIONS) if name != _SEED]
    groups = texts(frame, [*trained, "precision"])
    frame = frame.assign(place=texts(frame, [_SEED, *settings(frame, ("protocol",))]))
    longest = frame["rounds"].map(len).groupby(frame["place"], sort=False).max().to_dict()
    pooled = pd.DataFrame([_pooled(frame[groups == group], longest) for group in dict.fromkeys(groups)])
    points = [name for name in trained if not name.startswith("kernel.")]
    baselines = _baselines(pooled, texts(pooled, points))
    more = varied(pooled, points, ["dataset", "network", "strategy"])
    table = pooled[[*_NAMES, *more, "seeds", "mean_s", "std_s"]].copy()
    ratios = over_baselines(pooled, baselines, thresholds)
    for name in (*SPEEDUP, "verdict"):
        table[name] = ratios[name]
    table["baseline"] = ["" if i < 0 else f"{pooled['kernel'][i]} fp32" for i in baselines]
    table["note"] = ratios["note"]
    losses = [_losses(pooled, i, base, thresholds["converges"]) for i, base in enumerate(baselines)]
    table = table.join(pd.DataFrame(losses, index=table.index)).join(outcome(pooled))
    return table.assign(machine=ratios["machine"], device=pooled["device"], backend=pooled["backend"])


def _pooled(rows: pd.DataFrame, longest: Mapping[str, int]) -> dict[str, Any]:
    """One row from the cells of several seeds: the rounds of each are its rounds.

    Each cell has as many as the ``longest`` at its place: so rounds of two rows are of the same seeds.
    """
    cells = {row["place"]: row for row in rows.to_dict("records")}
    nothing: dict[str, list[Any]] = {"rounds": [], "gpus": []}
    rounds, gpus = [], []
    for place, count in longest.items():
        of_cell = cells.get(place, nothing)
        rounds += [*of_cell["rounds"], *([] for _ in range(count - len(of_cell["rounds"])))]
        gpus += [*of_cell["gpus"], *[None] * (count - len(of_cell["gpus"]))]
    times = [time for seconds in rounds for time in seconds]
    losses = [None if pd.isna(loss) else loss for loss in rows["final_loss"]]
    return rows.iloc[0].to_dict() | {
        "seeds": len(rows),
        "losses": dict(zip(rows[_SEED], losses, strict=True)),
        "losses_by_draw": {
            seed: draws or {0: loss}
            for seed, draws, loss in zip(rows[_SEED], rows["draw_losses"], losses, strict=True)
        },
        "rounds": rounds,
        "gpus": gpus,
        "runs": len(times),
        "mean_s": mean_of(rounds) if times else None,
        "std_s": stdev(times) if len(times) > 1 else None,
        "status": joint("ok", *([word] for word in rows["status"]))[0],
        "driver": joined(rows["driver"]),
        "reason": "; ".join(dict.fromkeys(filter(None, rows["reason"]))),
        "machine": joint(QUIET, *([word] for word in rows["machine"]))[0],
        "probe": mean_costs(rows["probe"]),
    }


def _baselines(pooled: pd.DataFrame, points: pd.Series) -> list[int]:
    """The number of each row's fp32 row: with its kernel, or else the first at its point with a time."""
    numbers = []
    for i, point in points.items():
        fp32 = pooled[(points == point) & (pooled["precision"] == "fp32") & pooled["mean_s"].notna()]
        own = fp32[fp32["kernel"] == pooled["kernel"][i]]
        chosen = own if len(own) else fp32
        numbers.append(int(chosen.index[0]) if len(chosen) else -1)
    return numbers


def _losses(pooled: pd.DataFrame, i: int, baseline: int, margin: float) -> dict[str, Any]:
    own = pooled["losses"][i]
    fp32 = pooled["losses"][baseline] if baseline >= 0 and pooled["runs"][i] else {}
    equivalence = None
    if fp32:
        expected, found = _over_common_draws(*(pooled["losses_by_draw"][number] for number in (baseline, i)))
        equivalence = convergence(expected, found, margin)
    is_fp32 = pooled["precision"][i] == "fp32" and baseline == i
    return {
        "final_mse": _mean(own),
        "final_mse_std": _std(own),
        "fp32_mse": _mean(fp32),
        "fp32_mse_std": _std(fp32),
        "relative_difference": equivalence and equivalence.relative_difference,
        "relative_difference_ci_low": equivalence and equivalence.ci_low,
        "relative_difference_ci_high": equivalence and equivalence.ci_high,
        "convergence": "" if equivalence is None or is_fp32 else equivalence.verdict,
    }


def _over_common_draws(a: _ByDraw, b: _ByDraw) -> list[dict[int, float | None]]:
    """The mean losses of two rows by seed, over the draws that both have; None where one is not finite."""
    common = {seed: a[seed].keys() & b[seed].keys() for seed in a.keys() & b.keys()}
    return [{seed: mean(losses[seed], of) for seed, of in common.items() if of} for losses in (a, b)]


def _mean(losses: Mapping[int, float | None]) -> float | None:
    known = [loss for loss in losses.values() if loss is not None]
    return fmean(known) if known else None


def _std(losses: Mapping[int, float | None]) -> float | None:
    known = [loss for loss in losses.values() if loss is not None]
    return stdev(known) if len(known) > 1 else None
