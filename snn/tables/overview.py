"""The answer: for each network and data set, what trains fastest, and how sure that is."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from snn.analysis import frame
from snn.analysis.grouping import is_empty, settings, varied
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import against, joint, speedup
from snn.strategies.common.traits import own_runtime, side_by_side

TITLE = "Which strategy trains fastest"
POINT = ["dataset", "network"]
_SECTIONS = ("dataset", "network", "training")
_CHOSEN = ("strategy", "kernel")

_ANSWER = (
    *("fastest", "strategies", "mean_s", "speedup", "speedup_low", "speedup_high", "comparison"),
    *("runner_up", "lead", "lead_low", "lead_high", "lead_is", "rivals"),
)


def load(expected: frame.Expected, thresholds: Thresholds) -> list[pd.DataFrame]:
    """The points of the records at these paths. Raises RecordError as ``frame.load`` does."""
    return points_of(frame.checked(expected), thresholds)


def points_of(records: Mapping[str, Mapping[str, Any]], thresholds: Thresholds) -> list[pd.DataFrame]:
    """A frame for each set of cells that train the same on one device, in fp32, in the order of the grid.

    They differ in strategy and kernel. What was measured by several protocols, or from several seeds, is
    there once, with the most runs: neither decides how long the same work takes. Peers are left out where
    there is another strategy: they are not what is chosen among, and the table ``peers`` shows them. So are
    ensembles: a share of a launch is not how long one network trains. Raises RecordError as
    ``frame.tabulate`` does; only the cells of one set must be of one device.
    """
    points: dict[str, dict[str, dict[str, dict[str, Mapping[str, Any]]]]] = {}
    for path, record in records.items():
        cell = record["cell"]
        if cell.get("precision", {}).get("name", "fp32") != "fp32":
            continue
        point = {key: cell[key] for key in cell if key not in (*_CHOSEN, "precision", "protocol")}
        point["network"] = {key: value for key, value in cell["network"].items() if key != "seed"}
        one = points.setdefault(_text(point), {}).setdefault(_text([cell[key] for key in _CHOSEN]), {})
        one.setdefault(_text([cell["protocol"], cell["network"]["seed"]]), {})[path] = record
    found = []
    for choices in points.values():
        best = [max(several.values(), key=_runs) for several in choices.values()]
        chosen = [one for one in best if not any(map(_stands_apart, one.values()))] or best
        found.append(frame.tabulate({path: one for some in chosen for path, one in some.items()}, thresholds))
    return found


def _stands_apart(record: Mapping[str, Any]) -> bool:
    """Whether it is of a peer, or of several networks in one launch."""
    choice = record["cell"]["strategy"]
    return own_runtime(choice) is not None or side_by_side(choice)


def _text(values: Any) -> str:
    return json.dumps(values, sort_keys=True)


def _runs(records: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(len(record["runs"]) for record in records.values())


def build(points: Sequence[pd.DataFrame], verdicts: Thresholds) -> pd.DataFrame:
    """One row a frame of ``load``: what is fastest in it, and two ratios with their 95% intervals.

    ``speedup`` is the reference's mean time over the fastest's, ``lead`` the runner-up's over the fastest's.
    ``lead_is`` says ``clear`` where the fastest is ``faster`` than every other, ``same`` where it is that to
    all that it is not faster than, otherwise ``unclear``; ``rivals`` names these. What is
    ``not comparable`` to the reference takes no part, nor what did not end well where something did.
    ``status`` is that of all that is supported. Where a point has no reference, or nothing finished, the
    columns in question stay empty.
    """
    more = _varied(points)
    rows = []
    for cells in points:
        first = cells.iloc[0]
        rows.append({key: first[key] for key in (*POINT, *more)} | _answer(cells, verdicts))
    numbers = ("mean_s", "speedup", "speedup_low", "speedup_high", "lead", "lead_low", "lead_high")
    return pd.DataFrame(rows).astype(dict.fromkeys(numbers, float))


def _varied(points: Sequence[pd.DataFrame]) -> list[str]:
    """The keys that tell points apart whose data set and network are the same."""
    firsts = pd.DataFrame([cells.iloc[0] for cells in points])
    keys = [key for key in settings(firsts, _SECTIONS) if key != "network.seed"]
    return varied(firsts, keys, POINT)


def _answer(cells: pd.DataFrame, verdicts: Thresholds) -> dict[str, Any]:
    cells = cells.assign(name=names(cells))
    timed = cells[cells["mean_s"].notna()].reset_index(drop=True)
    ratios = _over_reference(timed, verdicts)
    comparable = ratios["comparison"] != "not comparable"
    ended_well = timed["status"] == "ok"
    competing = comparable & (ended_well if (ended_well & comparable).any() else True)
    order = timed[competing].sort_values("mean_s", kind="stable").index
    supported = cells[cells["status"] != "unsupported"]
    found: dict[str, Any] = dict.fromkeys(_ANSWER) | {"strategies": len(cells)}
    if len(order):
        best, others = order[0], order[1:]
        leads = speedup(timed.loc[others], timed.loc[[best] * len(others)], verdicts)
        leads.index = timed.loc[others, "name"]
        found |= {
            "fastest": timed.loc[best, "name"],
            "mean_s": timed.loc[best, "mean_s"],
            **ratios.loc[best, ["speedup", "speedup_low", "speedup_high", "comparison"]],
            **_lead(leads),
        }
    return found | {
        "not_comparable": ", ".join(timed.loc[~comparable, "name"]),
        "failed": ", ".join(supported.loc[supported["status"] != "ok", "name"]),
        "status": joint("ok", *([word] for word in supported["status"]))[0]
        if len(supported)
        else "unsupported",
        "machine": joint("quiet", *([word] for word in cells["machine"]))[0],
        "device": cells["device"].iloc[0],
        "backend": cells["backend"].iloc[0],
    }


def _over_reference(timed: pd.DataFrame, verdicts: Thresholds) -> pd.DataFrame:
    """Each row's speedup over the reference, which is 1 to itself; empty where there is no reference."""
    base = reference(timed)
    columns = ["speedup", "speedup_low", "speedup_high", "comparison"]
    if base is None:
        return pd.DataFrame(index=timed.index, columns=columns)
    return against(timed, [timed.index.get_loc(base.name)] * len(timed), verdicts)[columns]


def reference(cells: pd.DataFrame) -> pd.Series | None:
    """The row of a point that all of it is held against: the paper's reference, with the paper's kernel."""
    found = cells[(cells["strategy"] == "reference") & cells["mean_s"].notna()]
    found = found[found["kernel"] == "naive"] if (found["kernel"] == "naive").any() else found
    return found.iloc[0] if len(found) == 1 else None


def _lead(leads: pd.DataFrame) -> dict[str, Any]:
    """The lead over the runner-up, and who is not clearly slower, from the fastest's ratios to all others."""
    if leads.empty:
        return {}
    rivals = leads[leads["comparison"] != "faster"]
    word = "same" if (rivals["comparison"] == "same").all() else "unclear"
    runner_up = leads.iloc[0]
    return {
        "runner_up": runner_up.name,
        "lead": runner_up["speedup"],
        "lead_low": runner_up["speedup_low"],
        "lead_high": runner_up["speedup_high"],
        "lead_is": "clear" if rivals.empty else word,
        "rivals": ", ".join(rivals.index),
    }


def names(cells: pd.DataFrame) -> list[str]:
    """The strategies' names; of one that stands twice with what differs: ``combined (tile_rows 32)``."""
    found = []
    for _, row in cells.iterrows():
        options = options_of(row, cells, "strategy")
        if cells.loc[cells["strategy"] == row["strategy"], "kernel"].nunique() > 1:
            options.append(f"kernel {row['kernel']}")
        options += options_of(row, cells, "kernel")
        found.append(f"{row['strategy']} ({', '.join(options)})" if options else row["strategy"])
    return found


def options_of(row: pd.Series, cells: pd.DataFrame, group: str) -> list[str]:
    """The options of a row's strategy or kernel, ``tile_rows 32``, in which others of that name differ."""
    twins = cells[(cells["strategy"] == row["strategy"]) & (cells[group] == row[group])]
    section = f"{group}."
    keys = [key for key in twins if key.startswith(section) and twins[key].nunique(dropna=False) > 1]
    return [f"{key.removeprefix(section)} {row[key]}" for key in keys if not is_empty(row[key])]
