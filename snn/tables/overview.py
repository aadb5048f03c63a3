"""The fastest strategy for each network and data set, and how significant its lead is."""

import json
from collections.abc import Mapping, Sequence
from math import log
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis import frame
from snn.analysis.grouping import is_empty, settings, varied
from snn.analysis.intervals import Rounds, with_best
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import EVIDENCE, SPEEDUP, joint, over_baselines, speedup
from snn.analysis.verdicts import (
    FASTER,
    NOT_COMPARABLE,
    NOT_SIGNIFICANT,
    QUIET,
    REFERENCE,
    SAME,
    SIGNIFICANT,
    SLOWER,
)
from snn.config.cell import ANY, Cell
from snn.models.gradients import EXACT
from snn.strategies.factory import own_runtime, side_by_side

TITLE = "The fastest strategy"
_ByName = dict[str, frame.Record]
"""Records by name: of one cell, or of cells that differ in nothing but their seed."""

_CROSS_VALIDATED = 3
"""The fewest rounds that say who is the shortest without one of them."""

POINT = ["dataset", "network"]
ON_HOST = "on the CPU"

IS_BASELINE = "is_baseline"
"""An optional column: whether a row is the baseline of its point, instead of the reference."""
_SECTIONS = ("dataset", "network", "training")
_CHOSEN = ("strategy", "kernel")

_LEAD = ("lead", "lead_ci_low", "lead_ci_high", "lead_p_adjusted", "lead_detectable")
_ANSWER = (
    *("fastest", "fastest_status", "strategies", "mean_s", *SPEEDUP, *EVIDENCE),
    *("speedup_cross_validated", "verdict"),
    *("runner_up", *_LEAD, "lead_verdict", "tied_with", "note"),
)
_CELLS = ("not_comparable", "failed", "status", "machine", "device", "backend")


def points_of(records: Mapping[str, frame.Record], thresholds: Thresholds) -> list[pd.DataFrame]:
    """A frame per set of cells that do the same training job on one device in fp32, in the order of the grid.

    The cells of a point differ in strategy and kernel. Of several protocols the one with the most runs is
    kept, and seeds of one protocol are rounds of one cell, in the order of the grid: neither changes how long
    the same work takes. Left out is what other tables show: launches of several networks, other gradients,
    micro-batches, recomputed outputs, cells with a neighbour, and peers unless there is nothing else. Raises
    RecordError as ``frame.tabulate`` does; only the cells of one point must be of one device.
    """

    def count_runs(rounds: _ByName) -> int:
        return sum(len(record["runs"]) for record in rounds.values())

    def is_peer(record: frame.Record) -> bool:
        return own_runtime(record["cell"]["strategy"]) is not None

    points: dict[str, dict[str, dict[str, _ByName]]] = {}
    for path, record in records.items():
        cell = Cell(record["cell"])
        if not _is_plain(cell):
            continue
        point = {key: cell[key] for key in cell if key not in (*_CHOSEN, "precision", "protocol")}
        point["network"] = {key: value for key, value in cell["network"].items() if key != "seed"}
        chosen = points.setdefault(_text(point), {}).setdefault(_text([cell[key] for key in _CHOSEN]), {})
        chosen.setdefault(_text(cell["protocol"]), {})[path] = record
    frames = []
    for choices in points.values():
        most = [max(by_protocol.values(), key=count_runs) for by_protocol in choices.values()]
        best = _by_seed(most)
        own = [rounds for rounds in best if not any(map(is_peer, rounds.values()))]
        together = {path: record for rounds in own or best for path, record in rounds.items()}
        frames.append(frame.tabulate(together, thresholds))
    return frames


def _is_plain(cell: Cell) -> bool:
    """Whether a cell trains one network alone, in fp32, along the exact gradient, a whole batch at a time."""
    training = cell["training"]
    is_other = training["gradient"] != EXACT.name or training["accumulate"] > 1
    is_other |= side_by_side(cell["strategy"]) or bool(cell.recompute) or cell.neighbour != ANY
    return not is_other and cell.get("precision", {}).get("name", "fp32") == "fp32"


def _by_seed(choices: Sequence[_ByName]) -> list[_ByName]:
    """The records of each choice, seed by seed, as rounds of its first record's cell.

    A round of a seed has one number in all choices that have several seeds, also where one has more rounds
    than another; the rounds of a choice of one seed keep theirs.
    """

    def seed(record: frame.Record) -> int:
        return int(record["cell"]["network"]["seed"])

    several = [rounds for rounds in choices if len(set(map(seed, rounds.values()))) > 1]
    seeds = list(dict.fromkeys(seed(record) for rounds in several for record in rounds.values()))
    last = max((record["round"] for rounds in several for record in rounds.values()), default=0)

    def of_first(rounds: _ByName) -> _ByName:
        cell = next(iter(rounds.values()))["cell"]
        return {
            path: {
                **record,
                "cell": cell,
                "round": seeds.index(seed(record)) * last + record["round"],
                "seeds": len(seeds),
            }
            for path, record in rounds.items()
        }

    return [of_first(rounds) if rounds in several else rounds for rounds in choices]


def _text(values: Any) -> str:
    return json.dumps(values, sort_keys=True)


def build(points: Sequence[pd.DataFrame], thresholds: Thresholds) -> pd.DataFrame:
    """One row per frame of ``points_of``: the fastest strategy, its ``speedup`` over the reference, and its
    ``lead`` over the runner-up, with 95% intervals.

    Left out are cells that are ``not comparable`` to the reference or to the fastest, and those that failed,
    if any did not. ``status`` joins those of all supported cells. Columns are empty if a point has no
    reference, or nothing finished.
    """
    firsts = pd.DataFrame([cells.iloc[0] for cells in points])
    keys = [key for key in settings(firsts, _SECTIONS) if key != "network.seed"]
    more = varied(firsts, keys, POINT) if points else []
    rows = [
        {key: cells.iloc[0].get(key) for key in (*POINT, *more)} | _answer(cells, thresholds)
        for cells in points
    ]
    other = ["baseline"] if any("baseline" in row for row in rows) else []
    table = pd.DataFrame(rows, columns=[*POINT, *more, *_ANSWER, *other, *_CELLS])
    numbers = ("mean_s", *SPEEDUP, *EVIDENCE, "speedup_cross_validated", *_LEAD)
    return table.astype(dict.fromkeys(numbers, float))


def ranked(cells: pd.DataFrame, thresholds: Thresholds) -> list[dict[str, Any]]:
    """The rows of a point that compete for the shortest mean time, in its order."""
    timed = cells[cells["mean_s"].notna()].reset_index(drop=True)
    return timed.loc[_order(timed, over_reference(timed, thresholds), thresholds)].to_dict("records")


def _order(timed: pd.DataFrame, ratios: pd.DataFrame, thresholds: Thresholds) -> pd.Index:
    """The numbers of the rows that compete, by mean time; ``ratios`` are those over the reference.

    A row that is faster than the first in the rounds that both have comes before it: the mean of the first
    may lack slow rounds.
    """
    comparable = ratios["verdict"] != NOT_COMPARABLE
    ok = timed["status"] == "ok"
    competing = comparable & (ok if (ok & comparable).any() else True)
    order = timed[competing].sort_values("mean_s", kind="stable").index
    if order.empty:
        return order
    leads = speedup(timed.loc[order[1:]], timed.loc[[order[0]] * (len(order) - 1)], thresholds, with_best)
    leads.index = order[1:]
    faster = leads.loc[leads["verdict"] == SLOWER, "speedup"]
    return order if faster.empty else order.drop(faster.idxmin()).insert(0, faster.idxmin())


def _answer(cells: pd.DataFrame, thresholds: Thresholds) -> dict[str, Any]:
    cells = cells.assign(name=names(cells))
    timed = cells[cells["mean_s"].notna()].reset_index(drop=True)
    ratios = over_reference(timed, thresholds)
    order = _order(timed, ratios, thresholds)
    answer: dict[str, Any] = dict.fromkeys(_ANSWER) | {"strategies": len(cells)}
    apart, baseline = list(timed.loc[ratios["verdict"] == NOT_COMPARABLE, "name"]), reference(cells)
    if baseline is not None and baseline["strategy"] != REFERENCE:
        answer["baseline"] = baseline["name"]
    if len(order):
        best, others = order[0], order[1:]
        leads = speedup(timed.loc[others], timed.loc[[best] * len(others)], thresholds, with_best)
        leads.index = timed.loc[others, "name"]
        alike = leads["verdict"] != NOT_COMPARABLE
        apart, leads = [*apart, *leads.index[~alike]], leads[alike]
        ties = leads[leads["verdict"] != FASTER]
        tied = SAME if (ties["verdict"] == SAME).all() else NOT_SIGNIFICANT
        if len(leads):
            answer |= {
                "runner_up": leads.index[0],
                **dict(zip(_LEAD, leads.iloc[0][[*SPEEDUP, *EVIDENCE]], strict=True)),
                "lead_verdict": SIGNIFICANT if ties.empty else tied,
                "tied_with": ", ".join(ties.index),
            }
        answer |= {
            "fastest": timed.loc[best, "name"],
            "fastest_status": timed.loc[best, "status"],
            "mean_s": timed.loc[best, "mean_s"],
            **ratios.loc[best, [*SPEEDUP, *EVIDENCE, "verdict"]],
            "speedup_cross_validated": _validated(timed.loc[order], baseline),
            "note": "; ".join(dict.fromkeys(filter(None, [ratios.loc[best, "note"], *leads["note"][:1]]))),
        }
    supported = cells[cells["status"] != "unsupported"]
    states = joint("ok", *([word] for word in supported["status"])) if len(supported) else ["unsupported"]
    return answer | {
        "not_comparable": ", ".join(apart),
        "failed": ", ".join(supported.loc[supported["status"] != "ok", "name"]),
        "status": states[0],
        "machine": joint(QUIET, *([word] for word in cells["machine"]))[0],
        **cells.sort_values("backend", ascending=False, kind="stable").iloc[0][["device", "backend"]],
    }


def cross_validated(baseline: Rounds, candidates: Sequence[Rounds]) -> float | None:
    """The speedup of the candidate with the shortest mean, without the luck that made it the shortest.

    It is the geometric mean, over rounds, of the speedup in one round of the candidate that is the shortest
    in all others. None if fewer than three rounds are common to all.
    """
    common = zip(baseline, *candidates, strict=False)
    logs = np.array([[log(fmean(runs)) for runs in of_round] for of_round in common if all(of_round)])
    if len(logs) < _CROSS_VALIDATED:
        return None
    shortest = (logs.sum(axis=0) - logs)[:, 1:].argmin(axis=1)
    return float(np.exp(np.mean(logs[:, 0] - logs[np.arange(len(logs)), 1 + shortest])))


def _validated(competing: pd.DataFrame, baseline: pd.Series | None) -> float | None:
    """``cross_validated`` of the rows that compete; None without a reference, or if it is the shortest."""
    if baseline is None or baseline["cell"] == competing["cell"].iloc[0]:
        return None
    return cross_validated(baseline["rounds"], list(competing["rounds"]))


def over_reference(cells: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """Each row's speedup over the reference, whose own is 1; empty if there is no reference."""
    baseline, columns = reference(cells), [*SPEEDUP, *EVIDENCE, "verdict", "note"]
    if baseline is None:
        return pd.DataFrame(index=cells.index, columns=columns).fillna({"verdict": "", "note": ""})
    return over_baselines(cells, [cells.index.get_loc(baseline.name)] * len(cells), thresholds)[columns]


def reference(cells: pd.DataFrame) -> pd.Series | None:
    """The baseline of a point: the row marked ``IS_BASELINE`` if there is such a column, or else the paper's
    reference, with the paper's kernel where it has several."""
    if IS_BASELINE in cells:
        chosen = cells[cells[IS_BASELINE] & cells["mean_s"].notna()]
        return chosen.iloc[0] if len(chosen) else None
    timed = cells[(cells["strategy"] == "reference") & cells["mean_s"].notna()]
    timed = timed[timed["kernel"] == "naive"] if (timed["kernel"] == "naive").any() else timed
    return timed.iloc[0] if len(timed) == 1 else None


def names(cells: pd.DataFrame) -> list[str]:
    """The strategies' names; of one that occurs twice with its options: ``combined (tile_rows 32)``.

    Of a GPU's rows and its host's, those of the host are ``ON_HOST``.
    """
    has_gpu = (cells["backend"] == "cuda").any()
    kernels = cells.groupby("strategy")["kernel"].transform("nunique") > 1
    found = []
    for (_, row), has_kernels in zip(cells.iterrows(), kernels, strict=True):
        kernel = [f"kernel {row['kernel']}"] if has_kernels else []
        host = [ON_HOST] * bool(has_gpu and row["backend"] == "cpu")
        options = [*host, *options_of(row, cells, "strategy"), *kernel, *options_of(row, cells, "kernel")]
        found.append(f"{row['strategy']} ({', '.join(options)})" if options else row["strategy"])
    return found


def options_of(row: pd.Series, cells: pd.DataFrame, group: str) -> list[str]:
    """The options of a row's strategy or kernel, ``tile_rows 32``, in which others of that name differ."""
    alike = (cells["strategy"] == row["strategy"]) & (cells[f"{group}.name"] == row[f"{group}.name"])
    if alike.sum() < 2:
        return []
    section = f"{group}."
    twins = cells.loc[alike, cells.columns.str.startswith(section)]
    keys = [key for key in twins if twins[key].nunique(dropna=False) > 1]
    return [f"{key.removeprefix(section)} {row[key]}" for key in keys if not is_empty(row[key])]
