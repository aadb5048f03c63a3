"""The table of any sweep, and five special tables: peers, kernels, members, learning rates, precisions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, repeat
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.frame import Losses, beside_times, joined, outcome
from snn.analysis.grouping import baselines, first_at, settings, texts
from snn.analysis.intervals import mean_of, with_best
from snn.analysis.machine_state import Thresholds, mean_costs
from snn.analysis.roofline import FLOOR, fraction_of_limit, warnings
from snn.analysis.speedups import joint, over_baselines
from snn.analysis.verdicts import BASELINE, BEST_PEER, CONVERGES, DIFFERS, DIVERGED, INCONCLUSIVE, OK, QUIET
from snn.measurement.student import student_quantile
from snn.models.members import LISTS
from snn.records.origin import Origin
from snn.tables import table
from snn.tables.attribution import PASSES, step_calls
from snn.tables.overview import options_of
from snn.tables.table import DEVICE, Column, Row, Rows, Table, cells_table, status

NAMES = ("strategy", "dataset", "network", "kernel")
SHOWN_BY_NETWORK = ("network.hidden", "network.bias", "network.activation", "network.layers")
"""Axes whose values the column ``network`` shows."""


def _sweep(cells: pd.DataFrame, axes: Sequence[str], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell: strategy, dataset, network and kernel, the axes of the sweep, its times and counts.

    The columns of a comparison are left out if no row of the sweep is the baseline of another,
    ``fraction_of_limit`` if no row has a floor, and ``note`` if nothing is compared or warned of.
    """
    shown = [axis for axis in axes if axis in cells and axis not in (*NAMES, *SHOWN_BY_NETWORK)]
    several = ["members", "launch_s"] if (cells["members"] > 1).any() else []
    numbers, names = baselines(cells, axes)
    compared: tuple[Column, ...] = ()
    if any(number >= 0 for number in numbers):
        named = pd.Series(names, cells.index).where(cells["mean_s"].notna(), "")
        cells = cells.assign(**over_baselines(cells, numbers, thresholds), baseline=named)
        compared = (table.ratio(), "verdict baseline", table.note)
    rows = Rows(cells, {}, thresholds)
    with_floor = [table.fraction_of_limit] if fraction_of_limit(cells).notna().any() else []
    if not compared and any(warnings(cells)):
        compared = (table.note,)
    return table.assemble(
        rows,
        " ".join([*NAMES, *shown, *several, "mean_s", "std_s"]),
        *with_floor,
        table.scores,
        *compared,
        "runs stopped_by",
        table.copy(final_mse="final_loss"),
        "draws",
        status,
        "machine machine_note",
        table.optional("ledger.", table.LEDGER),
        "device backend",
    )


sweep = Table("Sweep {}", _sweep)
"""The title is filled with the name of the sweep."""


# ---- peers: the same training job in PyTorch and JAX, and by the fastest strategies here


def _point(cells: pd.DataFrame) -> list[str]:
    """The columns that must be equal in compared rows: what is trained, and in which precision."""
    return [*settings(cells, ("dataset", "network", "training")), "precision"]


def _best_peers(cells: pd.DataFrame, point: Callable[[pd.DataFrame], list[str]] = _point) -> list[int]:
    """The number of the peer with the shortest mean time at each row's point; -1 without a peer."""
    timed = cells[(cells["runtime"] != "") & cells["mean_s"].notna()]
    return first_at(texts(cells, point(cells)), timed.sort_values("mean_s", kind="stable").index)


def with_options(cells: pd.DataFrame) -> pd.DataFrame:
    """The rows with the ``options`` of their strategies, if rows of one strategy differ in them."""
    return cells.assign(
        options=[", ".join(options_of(row, cells, "strategy")) for _, row in cells.iterrows()]
    )


def full_name(row: Row) -> str:
    """The strategy of a row of ``with_options``, with its options."""
    return f"{row['strategy']} ({row['options']})" if row["options"] else row["strategy"]


peers = cnn_peers = cells_table(
    "The same training in PyTorch and JAX",
    "network dataset strategy",
    table.further(_point, "dataset", "network"),
    lambda rows: rows.frame[["options"] if any(rows.frame["options"]) else []],
    "kernel runtime",
    table.step_times,
    lambda rows: (1e6 * rows.frame.get(FLOOR, np.nan * rows.frame["mean_s"])).rename("floor_us"),
    table.fraction_of_limit,
    "runs",
    table.ratio("speedup_over_best_peer"),
    lambda rows: rows.frame["verdict"].replace(BASELINE, BEST_PEER),
    table.each(best_peer=lambda row, peer: full_name(peer) if peer and not pd.isna(row["mean_s"]) else ""),
    table.note,
    table.copy(final_mse="final_loss"),
    "draws",
    table.from_frame(lambda cells: beside_times(cells).drop(columns="step_us", errors="ignore")),
    status,
    DEVICE,
    rows=with_options,
    over=_best_peers,
    factors=with_best,
)


# ---- kernels: what each technique gains over `naive`, with the strategy unchanged


def _with_naive(cells: pd.DataFrame) -> pd.DataFrame:
    """The rows of strategies and networks that were measured with ``naive``."""
    return cells[np.array(_naive(cells)) >= 0].reset_index(drop=True)


def _naive(cells: pd.DataFrame) -> list[int]:
    """The number of the row with ``naive`` that trains the same by the same strategy; -1 without one."""
    points = texts(cells, settings(cells, ("dataset", "network", "strategy", "training")))
    return first_at(points, np.flatnonzero((cells["kernel.name"] == "naive") & ~cells["on_host"]))


def _of_the_study(rows: Rows) -> pd.DataFrame:
    """The kernel study's speedup of its full combination, next to the kernel that has all of it."""
    published, has_all = rows.published, rows.frame["kernel"] == "tiled_fused"
    if not published:
        return rows.frame[[]]
    columns = {"published_speedup": published["full_over_baseline"], "published_device": published["device"]}
    return pd.DataFrame({name: has_all.map({True: value}) for name, value in columns.items()})


def _passes(rows: Rows) -> pd.DataFrame:
    """µs of a step's calls by their pass; empty unless ``step_calls`` knows them."""
    found: list[dict[str, float]] = []
    for row in rows.frame.to_dict("records"):
        calls = step_calls(row)
        found.append({f"{one}_us": sum(us for of, *_, us in calls if of == one) for one in PASSES if calls})
    return pd.DataFrame(found, rows.frame.index, [f"{one}_us" for one in PASSES])


kernel_gains = cnn_kernel_gains = cells_table(
    "Kernels over naive, with the same strategy",
    "strategy dataset network kernel mean_s std_s runs",
    table.ratio(),
    "verdict note",
    _of_the_study,
    _passes,
    status,
    DEVICE,
    rows=_with_naive,
    over=_naive,
)


# ---- members: many networks side by side, by ensemble and by peers


def _members(cells: pd.DataFrame) -> list[str]:
    """The columns that must be equal in compared rows: what is trained, and which members."""
    listed = [f"strategy.{key}" for key in ("starts", *LISTS)]
    return [*_point(cells), *(name for name in listed if name in cells)]


members = cells_table(
    "Many networks side by side",
    "network dataset strategy members",
    table.further(_members, "dataset", "network"),
    "launch_s",
    table.step_times,
    "runs",
    table.ratio("speedup_over_best_peer"),
    lambda rows: rows.frame["verdict"].replace(BASELINE, BEST_PEER),
    table.each(best_peer=lambda row, peer: peer["strategy"] if peer and not pd.isna(row["mean_s"]) else ""),
    table.note,
    table.copy(final_mse="final_loss"),
    status,
    DEVICE,
    over=partial(_best_peers, point=_members),
    factors=with_best,
)


# ---- learning rates: ensembles that train all rates in one launch


def _learning_rates(cells: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per learning rate, initialiser and weight decay of each cell, in the order of its members.

    A cell whose strategy trains one network per run has one row; one that did not train has no loss.
    """
    ends, rows = outcome(cells), []
    for i, cell in cells.iterrows():
        for combination, losses in _rates(cell):
            row = {
                **cell[["dataset", "network", "strategy"]],
                **combination,
                **losses,
                **cell[["members", "launch_s", "mean_s"]],
                **ends.loc[i],
            }
            if "finite" in losses:  # a cell without members keeps its status
                row["status"] = OK if losses["finite"] == losses["trainings"] else DIVERGED
            rows.append({**row, **cell[DEVICE.split()]})
    return pd.DataFrame(rows)


def _rates(cell: pd.Series) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each combination of settings that members of a cell share, and their losses and mean score."""
    if not cell["member_losses"]:
        own = {"initialiser": cell["network.init"], "learning_rate": cell["training.learning_rate"]}
        yield own, {"trainings": cell["runs"], "final_mse": cell["final_loss"]}
        return
    members = pd.DataFrame(cell["member_losses"]).astype({"final_loss": float})
    members = members.rename(columns={"init": "initialiser"})
    names = [name for name in ("initialiser", "learning_rate", "weight_decay") if name in members]
    for values, group in members.groupby(names, sort=False):
        losses = group["final_loss"]
        found = {
            "trainings": len(losses),
            "finite": losses.count(),
            "final_mse": losses.mean(),
            "final_mse_std": losses.std(),
            "final_mse_min": losses.min(),
            "final_mse_max": losses.max(),
        }
        scores = {"score": group["score"].mean(skipna=False)} if "score" in group else {}
        yield dict(zip(names, values, strict=True)), found | scores


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
    rounds: list[Sequence[float]] = []
    origins: list[Origin] = []
    for place, count in longest.items():
        cell = cells.get(place, {"rounds": [], "origins": []})
        rounds += islice(chain(cell["rounds"], repeat([])), count)
        origins += islice(chain(cell["origins"], repeat(Origin())), count)
    times = [time for seconds in rounds for time in seconds]
    losses = {
        cell[_SEED]: None if pd.isna(cell["final_loss"]) else cell["final_loss"] for cell in cells.values()
    }
    return rows.iloc[0].to_dict() | {
        "seeds": len(rows),
        "losses": losses,
        "losses_by_draw": {
            cell[_SEED]: cell["draw_losses"] or {0: losses[cell[_SEED]]} for cell in cells.values()
        },
        "rounds": rounds,
        "origins": origins,
        "protocol.rounds": sum(row["protocol.rounds"] for row in cells.values()),
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
    fp32 = pooled.index[(pooled["precision"] == "fp32") & pooled["mean_s"].notna()]
    columns = _points(pooled)
    own, first = (first_at(texts(pooled, names), fp32) for names in ([*columns, "kernel"], columns))
    return [a if a >= 0 else b for a, b in zip(own, first, strict=True)]


_CONVERGENCE = (
    "relative_difference",
    "relative_difference_ci_low",
    "relative_difference_ci_high",
    "convergence",
)


def convergence(
    fp32: Mapping[Any, float | None], other: Mapping[Any, float | None], margin: float
) -> dict[str, Any]:
    """Compare final losses by draw (None if not finite) with fp32's from the same initial weights.

    Losses differ more between draws of the weights than between precisions: each loss is compared with
    fp32's of the same draw. ``relative_difference`` is the mean over draws of loss / fp32's loss - 1; one
    draw has no interval. ``converges`` if the whole 95% interval (Student's t) lies within ``margin`` of 0;
    ``differs`` if it lies outside, or a loss is not finite though fp32's is; otherwise ``inconclusive``, as
    with a single draw.
    """
    pairs = [(fp32[draw], other[draw]) for draw in other if fp32.get(draw)]
    ratios = [loss / expected - 1 for expected, loss in pairs if expected is not None and loss is not None]
    mean, several = fmean(ratios) if ratios else None, len(ratios) > 1
    low = high = None
    if len(ratios) < len(pairs):
        verdict = DIFFERS
    elif mean is None:
        verdict = INCONCLUSIVE
    else:
        reach = student_quantile(len(ratios) - 1) * stdev(ratios) / sqrt(len(ratios)) if several else inf
        low, high = mean - reach, mean + reach
        apart = DIFFERS if low > margin or high < -margin else INCONCLUSIVE
        verdict = CONVERGES if -margin <= low and high <= margin else apart
    interval = (low, high) if several else (None, None)
    return dict(zip(_CONVERGENCE, (mean, *interval, verdict), strict=True))


def _losses(rows: Rows) -> pd.DataFrame:
    """Final losses over seeds, fp32's, and their relative difference over the draws that both have."""
    found = []
    for row, fp32 in rows.with_baselines():
        compared = fp32 if fp32 and row["runs"] else None
        columns: dict[str, Any] = {}
        for name, losses in (
            ("final_mse", row["losses"]),
            ("fp32_mse", compared["losses"] if compared else {}),
        ):
            finite = [loss for loss in losses.values() if loss is not None]
            columns[name] = fmean(finite) if finite else None
            columns[f"{name}_std"] = stdev(finite) if len(finite) > 1 else None
        columns |= dict.fromkeys(_CONVERGENCE) | {"convergence": ""}
        if compared:
            expected, own = _of_common_draws(compared["losses_by_draw"], row["losses_by_draw"])
            columns |= convergence(expected, own, rows.thresholds["converges"])
        found.append(columns | ({"convergence": ""} if row is fp32 else {}))
    return pd.DataFrame(found, rows.frame.index)


def _of_common_draws(
    a: Mapping[int, Losses], b: Mapping[int, Losses]
) -> list[dict[tuple[int, int], float | None]]:
    """The losses of two rows by seed and draw, of the draws that both have; None if one is not finite."""
    common = sorted((seed, draw) for seed in a.keys() & b.keys() for draw in a[seed].keys() & b[seed].keys())
    return [{(seed, draw): losses[seed][draw] for seed, draw in common} for losses in (a, b)]


_precision = cells_table(
    "Precision: time, and convergence over several seeds",
    " ".join([*NAMES, "precision"]),
    table.further(_points, "dataset", "network", "strategy"),
    "seeds mean_s std_s",
    table.ratio(),
    "verdict",
    table.each(baseline=lambda row, fp32: f"{fp32['kernel']} fp32" if fp32 else ""),
    "note",
    _losses,
    status,
    DEVICE,
    rows=_pool,
    over=_fp32,
)
precision = Table(_precision.title, _precision.build)  # its rows are not the cells
