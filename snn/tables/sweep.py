"""The table of any sweep, and those of three with a form of their own: peers, learning rates, precisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.baseline import baselines
from snn.analysis.frame import Losses, joined, mean_loss, outcome
from snn.analysis.grouping import settings, texts, varied
from snn.analysis.intervals import mean_of
from snn.analysis.machine_state import Thresholds, mean_costs
from snn.analysis.roofline import FLOOR
from snn.analysis.speedups import SPEEDUP, joint, over_baselines
from snn.analysis.verdicts import BASELINE, BEST_PEER, CONVERGES, DIFFERS, DIVERGED, INCONCLUSIVE, OK, QUIET
from snn.measurement.protocol import student_quantile
from snn.tables.overview import options_of
from snn.tables.table import (
    DEVICE,
    LEDGER,
    Column,
    Rows,
    Table,
    assemble,
    cells_table,
    copy,
    fraction_of_limit,
    optional,
    ratio,
    scores,
    status,
    step_times,
)

NAMES = ("strategy", "dataset", "network", "kernel")
SHOWN_BY_NETWORK = ("network.hidden", "network.layers")
"""Axes whose values the column ``network`` shows."""


def _sweep(cells: pd.DataFrame, axes: Sequence[str], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell: strategy, dataset, network and kernel, the axes of the sweep, its times and counts.

    The columns of a comparison are left out where no row of the sweep is the baseline of another, and
    ``fraction_of_limit`` where there is no floor.
    """
    shown = [axis for axis in axes if axis in cells and axis not in (*NAMES, *SHOWN_BY_NETWORK)]
    several = ["members", "launch_s"] if (cells["members"] > 1).any() else []
    numbers, names = baselines(cells, axes)
    compared: tuple[Column, ...] = ()
    if any(number >= 0 for number in numbers):
        named = pd.Series(names, cells.index).where(cells["mean_s"].notna(), "")
        cells = cells.assign(**over_baselines(cells, numbers, thresholds), baseline=named)
        compared = (ratio(), "verdict baseline note")
    rows = Rows(cells, {}, thresholds)
    with_floor = [fraction_of_limit] if fraction_of_limit(rows).notna().any() else []
    return assemble(
        rows,
        " ".join([*NAMES, *shown, *several, "mean_s", "std_s"]),
        *with_floor,
        scores,
        *compared,
        "runs stopped_by",
        copy(final_mse="final_loss"),
        "draws",
        status,
        "machine machine_note",
        optional("ledger.", *LEDGER),
        "device backend",
    )


sweep = Table("Sweep {}", _sweep)
"""The title is filled with the name of the sweep."""


# ---- peers: the same training in PyTorch and JAX beside the fastest strategies here


def _point(cells: pd.DataFrame) -> list[str]:
    """The columns in which rows must be equal that are compared: what is trained, and in which precision."""
    return [*settings(cells, ("dataset", "network", "training")), "precision"]


def _best_peers(cells: pd.DataFrame) -> list[int]:
    """The number of the peer with the shortest mean time at each row's point; -1 where there is none."""
    points = texts(cells, _point(cells))
    timed = cells[(cells["runtime"] != "") & cells["mean_s"].notna()]
    best = timed["mean_s"].astype(float).groupby(points[timed.index]).idxmin().to_dict()
    return [int(best.get(point, -1)) for point in points]


def _trained(rows: Rows) -> pd.DataFrame:
    """What a row trained, and its ``options``, if rows of one strategy differ in them."""
    more = varied(rows.frame, _point(rows.frame), ["dataset", "network"])
    table = rows.frame[["network", "dataset", "strategy", *more]]
    options = _options(rows.frame)
    return table.assign(options=options) if any(options) else table


def _options(cells: pd.DataFrame) -> list[str]:
    return [", ".join(options_of(row, cells, "strategy")) for _, row in cells.iterrows()]


def _named_peers(rows: Rows) -> pd.Series:
    cells, options = rows.frame, _options(rows.frame)
    names = [
        f"{name} ({option})" if option else name
        for name, option in zip(cells["strategy"], options, strict=True)
    ]
    best = zip(_best_peers(cells), cells["mean_s"].notna(), strict=True)
    return pd.Series(
        [names[i] if i >= 0 and has_time else "" for i, has_time in best], cells.index, name="best_peer"
    )


peers = cnn_peers = cells_table(
    "The same training in PyTorch and JAX",
    _trained,
    "kernel runtime",
    step_times,
    lambda rows: (1e6 * rows.frame.get(FLOOR, np.nan * rows.frame["mean_s"])).rename("floor_us"),
    fraction_of_limit,
    "runs",
    ratio("speedup_over_best_peer"),
    lambda rows: rows.frame["verdict"].replace(BASELINE, BEST_PEER),
    _named_peers,
    "note",
    copy(final_mse="final_loss"),
    "draws",
    lambda rows: scores(rows).drop(columns="step_us", errors="ignore"),
    status,
    DEVICE,
    over=_best_peers,
)


# ---- learning rates: ensembles that train all rates in one launch


def _learning_rates(cells: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per learning rate and initialiser of each cell, in the order of its members.

    Losses are of those of its ``trainings`` whose loss is ``finite``; where not all are, ``status`` is
    diverged. A cell whose strategy trains one network per run has one row; one that did not train has no
    loss.
    """
    ends = outcome(cells)
    rows = [
        {
            **cell[["dataset", "network", "strategy"]],
            "initialiser": init,
            "learning_rate": rate,
            **losses,
            **cell[["members", "launch_s", "mean_s"]],
            **ends.loc[i],
            # Of a cell without members its own status remains.
            **(
                {"status": OK if losses["finite"] == losses["trainings"] else DIVERGED}
                if "finite" in losses
                else {}
            ),
            **cell[DEVICE.split()],
        }
        for i, cell in cells.iterrows()
        for (init, rate), losses in _rates(cell).items()
    ]
    return pd.DataFrame(rows)


def _rates(cell: pd.Series) -> dict[tuple[str, float], dict[str, Any]]:
    """The losses of each initialiser and learning rate of a cell."""
    if not cell["member_losses"]:
        own = cell["network.init"], cell["training.learning_rate"]
        return {own: {"trainings": cell["runs"], "final_mse": cell["final_loss"]}}
    members = pd.DataFrame(cell["member_losses"]).astype({"final_loss": float})
    groups = members.groupby(["init", "learning_rate"], sort=False)["final_loss"]
    return {
        rate: {
            "trainings": len(losses),
            "finite": losses.count(),
            "final_mse": losses.mean(),
            "final_mse_std": losses.std(),
            "final_mse_min": losses.min(),
            "final_mse_max": losses.max(),
        }
        for rate, losses in groups
    }


learning_rates = Table("Final loss by learning rate", _learning_rates)


# ---- precisions: the time they save, and whether training still ends at fp32's loss

_SEED = "network.seed"


def _settings(cells: pd.DataFrame) -> list[str]:
    """Everything that a cell trains but its seed."""
    sections = ("dataset", "network", "strategy", "kernel", "training")
    return [name for name in settings(cells, sections) if name != _SEED]


def _pool(cells: pd.DataFrame) -> pd.DataFrame:
    """One row per group of cells that differ in the seed only: the rounds of each are its rounds.

    Each seed has as many as the longest cell with it has: so rounds of two rows are of the same seeds.
    """
    groups = texts(cells, [*_settings(cells), "precision"])
    cells = cells.assign(place=texts(cells, [_SEED, *settings(cells, ("protocol",))]))
    longest = cells["rounds"].map(len).groupby(cells["place"], sort=False).max().to_dict()
    return pd.DataFrame([_pool_seeds(cells[groups == group], longest) for group in dict.fromkeys(groups)])


def _pool_seeds(rows: pd.DataFrame, longest: Mapping[str, int]) -> dict[str, Any]:
    cells = {row["place"]: row for row in rows.to_dict("records")}
    nothing: dict[str, list[Any]] = {"rounds": [], "gpus": []}
    rounds, gpus = [], []
    for place, count in longest.items():
        cell = cells.get(place, nothing)
        rounds += [*cell["rounds"], *([] for _ in range(count - len(cell["rounds"])))]
        gpus += [*cell["gpus"], *[None] * (count - len(cell["gpus"]))]
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


def _points(pooled: pd.DataFrame) -> list[str]:
    return [name for name in _settings(pooled) if not name.startswith("kernel.")]


def _fp32(pooled: pd.DataFrame) -> list[int]:
    """The number of each row's fp32 row: with its kernel, or else the first at its point with a time."""
    points, numbers = texts(pooled, _points(pooled)), []
    for i, point in points.items():
        fp32 = pooled[(points == point) & (pooled["precision"] == "fp32") & pooled["mean_s"].notna()]
        own = fp32[fp32["kernel"] == pooled["kernel"][i]]
        chosen = own if len(own) else fp32
        numbers.append(int(chosen.index[0]) if len(chosen) else -1)
    return numbers


def _seeds(rows: Rows) -> pd.DataFrame:
    more = varied(rows.frame, _points(rows.frame), ["dataset", "network", "strategy"])
    names = ["" if i < 0 else f"{rows.frame['kernel'][i]} fp32" for i in _fp32(rows.frame)]
    table = rows.frame[[*NAMES, "precision", *more, "seeds", "mean_s", "std_s", *SPEEDUP, "verdict"]]
    return table.assign(baseline=names)


@dataclass(frozen=True)
class Convergence:
    """The mean over seeds of loss / fp32's loss - 1, its 95% interval (None with one seed), the verdict."""

    seeds: int
    relative_difference: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: str


def convergence(
    fp32: Mapping[int, float | None], other: Mapping[int, float | None], margin: float
) -> Convergence:
    """Compare final losses by seed, None where one is not finite, with fp32's from the same initial weights.

    A seed determines the initial weights, so losses of two seeds differ more than those of two precisions:
    each is compared with that of its own seed. ``converges`` where the whole 95% interval (Student's t) of
    the mean relative difference lies within ``margin`` of 0; ``differs`` where it lies outside, or where a
    loss is not finite though fp32's is; otherwise ``inconclusive``, as with a single seed.
    """
    pairs = [(fp32[seed], other[seed]) for seed in other if fp32.get(seed)]
    ratios = [loss / expected - 1 for expected, loss in pairs if expected is not None and loss is not None]
    mean = fmean(ratios) if ratios else None
    if len(ratios) < len(pairs):
        return Convergence(len(pairs), mean, None, None, DIFFERS)
    if mean is None:
        return Convergence(0, None, None, None, INCONCLUSIVE)
    several = len(ratios) > 1
    reach = student_quantile(len(ratios) - 1) * stdev(ratios) / sqrt(len(ratios)) if several else inf
    low, high = mean - reach, mean + reach
    if -margin <= low and high <= margin:
        verdict = CONVERGES
    else:
        verdict = DIFFERS if low > margin or high < -margin else INCONCLUSIVE
    return Convergence(len(ratios), mean, low if several else None, high if several else None, verdict)


def _losses(rows: Rows) -> pd.DataFrame:
    """Final losses over seeds, fp32's, and their relative difference over the draws that both have."""
    listed = rows.frame.to_dict("records")
    found = []
    for row, number in zip(listed, _fp32(rows.frame), strict=True):
        baseline = listed[number] if number >= 0 and row["runs"] else None
        losses = {"final_mse": row["losses"], "fp32_mse": baseline["losses"] if baseline else {}}
        columns: dict[str, Any] = {}
        for name, by_seed in losses.items():
            finite = [loss for loss in by_seed.values() if loss is not None]
            columns[name] = fmean(finite) if finite else None
            columns[f"{name}_std"] = stdev(finite) if len(finite) > 1 else None
        difference = Convergence(0, None, None, None, "")
        if baseline:
            expected, found_here = _over_common_draws(baseline["losses_by_draw"], row["losses_by_draw"])
            difference = convergence(expected, found_here, rows.thresholds["converges"])
        columns["relative_difference"] = difference.relative_difference
        columns["relative_difference_ci_low"] = difference.ci_low
        columns["relative_difference_ci_high"] = difference.ci_high
        columns["convergence"] = "" if row is baseline else difference.verdict
        found.append(columns)
    return pd.DataFrame(found, rows.frame.index)


def _over_common_draws(a: Mapping[int, Losses], b: Mapping[int, Losses]) -> list[dict[int, float | None]]:
    """The mean losses of two rows by seed, over the draws that both have; None where one is not finite."""
    common = {seed: a[seed].keys() & b[seed].keys() for seed in a.keys() & b.keys()}
    return [{seed: mean_loss(losses[seed], of) for seed, of in common.items() if of} for losses in (a, b)]


_precision = cells_table(
    "Precision: time, and convergence over several seeds",
    _seeds,
    "note",
    _losses,
    status,
    DEVICE,
    rows=_pool,
    over=_fp32,
)
precision = replace(_precision, pairs=None)  # its rows are not the cells
