"""What fewer digits in the products gain in time, and whether the training still ends where fp32 does."""

from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from snn.analysis.equivalence import convergence
from snn.analysis.grouping import settings, texts, varied
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import against, joint
from snn.analysis.status import outcome

TITLE = "Precision: time, and convergence over several seeds"
_SEED = "network.seed"
_SECTIONS = ("dataset", "network", "strategy", "kernel", "training")
_NAMES = ("strategy", "dataset", "network", "kernel", "precision")


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row all that differ in the seed only: their runs pooled, against fp32 of the same kernel.

    A kernel that has no fp32 is held against the first other one that has; ``over`` names it. ``final_mse``
    is the mean over seeds and ``final_mse_std`` its standard deviation, ``fp32_mse`` and ``fp32_mse_std``
    are fp32's. ``difference`` is the mean over seeds of the final loss over fp32's, less 1, from the same
    weights each, with its 95% interval; ``convergence`` judges it as ``snn.analysis.equivalence`` says, by
    the threshold ``converges`` of ``config/verdicts.yaml``.
    """
    trained = [name for name in settings(frame, _SECTIONS) if name != _SEED]
    same = texts(frame, [*trained, "precision"])
    pooled = pd.DataFrame([_pooled(frame[same == one]) for one in dict.fromkeys(same)])
    points = [name for name in trained if not name.startswith("kernel.")]
    bases = _bases(pooled, texts(pooled, points))
    more = varied(pooled, points, ["dataset", "network", "strategy"])
    table = pooled[[*_NAMES, *more, "seeds", "mean_s", "std_s"]].copy()
    ratios = against(pooled, bases, verdicts)
    for name in ("speedup", "speedup_low", "speedup_high", "comparison", "why"):
        table[name] = ratios[name]
    table.insert(
        table.columns.get_loc("why"),
        "over",
        ["" if base < 0 else f"{pooled['kernel'][base]} fp32" for base in bases],
    )
    losses = [_losses(pooled, i, base, verdicts["converges"]) for i, base in enumerate(bases)]
    table = table.join(pd.DataFrame(losses, index=table.index)).join(outcome(pooled))
    return table.assign(machine=ratios["machine"], device=pooled["device"], backend=pooled["backend"])


def _pooled(rows: pd.DataFrame) -> dict[str, Any]:
    """The cells of several seeds as one: each of their rounds is a round of it."""
    rounds = [seconds for one in rows["rounds"] for seconds in one]
    times = [one for seconds in rounds for one in seconds]
    probes = [probe for probe in rows["probe"] if probe]
    losses = [None if pd.isna(loss) else loss for loss in rows["final_mse"]]
    return rows.iloc[0].to_dict() | {
        "seeds": len(rows),
        "losses": dict(zip(rows[_SEED], losses, strict=True)),
        "rounds": rounds,
        "runs": len(times),
        "mean_s": fmean(times) if times else None,
        "std_s": stdev(times) if len(times) > 1 else None,
        "status": joint("ok", *([word] for word in rows["status"]))[0],
        "reason": "; ".join(dict.fromkeys(filter(None, rows["reason"]))),
        "machine": joint("quiet", *([word] for word in rows["machine"]))[0],
        "probe": {key: fmean(one[key] for one in probes) for key in probes[0]} if probes else {},
    }


def _bases(pooled: pd.DataFrame, points: pd.Series) -> list[int]:
    """For each row the number of the fp32 row at its point: of its kernel, or else the first with a time."""
    found = []
    for i, point in points.items():
        fp32 = pooled[(points == point) & (pooled["precision"] == "fp32") & pooled["mean_s"].notna()]
        own = fp32[fp32["kernel"] == pooled["kernel"][i]]
        chosen = own if len(own) else fp32
        found.append(int(chosen.index[0]) if len(chosen) else -1)
    return found


def _losses(pooled: pd.DataFrame, i: int, base: int, margin: float) -> dict[str, Any]:
    own = pooled["losses"][i]
    found = {"final_mse": _mean(own), "final_mse_std": _spread(own)}
    if base < 0 or not pooled["runs"][i]:
        empty = ("fp32_mse", "fp32_mse_std", "difference", "difference_low", "difference_high")
        return found | dict.fromkeys(empty) | {"convergence": ""}
    fp32 = pooled["losses"][base]
    judged = convergence(fp32, own, margin)
    return found | {
        "fp32_mse": _mean(fp32),
        "fp32_mse_std": _spread(fp32),
        "difference": judged.difference,
        "difference_low": judged.low,
        "difference_high": judged.high,
        "convergence": "" if pooled["precision"][i] == "fp32" and base == i else judged.word,
    }


def _mean(losses: Mapping[int, float | None]) -> float | None:
    known = [loss for loss in losses.values() if loss is not None]
    return fmean(known) if known else None


def _spread(losses: Mapping[int, float | None]) -> float | None:
    known = [loss for loss in losses.values() if loss is not None]
    return stdev(known) if len(known) > 1 else None
