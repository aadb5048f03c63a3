"""The answer: for each network and data set, which strategy trains fastest, and how sure that is."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from snn.tables import frame
from snn.tables.ratio import joint, speedup
from snn.verdict import Thresholds

TITLE = "Which strategy trains fastest"
POINT = ["dataset", "network", "kernel"]
SECTIONS = ("dataset", "kernel", "network", "protocol", "training")

_ANSWER = (
    *("fastest", "strategies", "mean_s", "speedup", "speedup_low", "speedup_high", "comparison"),
    *("runner_up", "lead", "lead_low", "lead_high", "lead_is", "rivals"),
)


def load(expected: frame.Expected, thresholds: Thresholds) -> list[pd.DataFrame]:
    """A frame for each set of cells that differ in nothing but their strategy, in the order of the grid.

    Raises RecordError as ``frame.load`` does; only the cells of one set must be of one device.
    """
    points: dict[str, dict[str, Mapping[str, Any]]] = {}
    for path, wanted in expected.items():
        point = {section: value for section, value in wanted["cell"].items() if section != "strategy"}
        points.setdefault(json.dumps(point, sort_keys=True), {})[path] = wanted
    return [frame.load(some, thresholds) for some in points.values()]


def build(points: Sequence[pd.DataFrame], verdicts: Thresholds) -> pd.DataFrame:
    """One row a frame of ``load``: its fastest strategy, and two ratios with their 95% intervals.

    ``speedup`` is the reference's mean time over the fastest's, ``lead`` the runner-up's over the fastest's.
    ``lead_is`` says ``clear`` where the fastest is ``faster`` than every other, ``same`` where it is that to
    all that it is not faster than, otherwise ``unclear``; ``rivals`` names these. A strategy that is
    ``not comparable`` to the reference takes no part. ``status`` is that of all strategies. Where a point
    has no reference, or nothing finished, the columns in question stay empty.
    """
    varied = _varied(points)
    rows = []
    for cells in points:
        first = cells.iloc[0]
        rows.append({key: first[key] for key in (*POINT, *varied)} | _answer(cells, verdicts))
    numbers = ("mean_s", "speedup", "speedup_low", "speedup_high", "lead", "lead_low", "lead_high")
    return pd.DataFrame(rows).astype(dict.fromkeys(numbers, float))


def _varied(points: Sequence[pd.DataFrame]) -> list[str]:
    """The keys that tell points apart whose data set, network and kernel are the same."""
    firsts = pd.DataFrame([cells.iloc[0] for cells in points])
    keys = [key for key in firsts if key.partition(".")[0] in SECTIONS and "." in key]
    same = firsts.groupby(POINT)
    return [key for key in keys if (same[key].nunique(dropna=False) > 1).any()]


def _answer(cells: pd.DataFrame, verdicts: Thresholds) -> dict[str, Any]:
    cells = cells.assign(name=names(cells))
    timed = cells[cells["mean_s"].notna()].reset_index(drop=True)
    ratios = _over_reference(timed, verdicts)
    comparable = ratios["comparison"] != "not comparable"
    order = timed[comparable].astype({"mean_s": float}).sort_values("mean_s", kind="stable").index
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
        "failed": ", ".join(cells.loc[cells["status"] != "ok", "name"]),
        "status": joint("ok", *([word] for word in cells["status"]))[0],
        "machine": joint("quiet", *([word] for word in cells["machine"]))[0],
        "device": cells["device"].iloc[0],
        "backend": cells["backend"].iloc[0],
    }


def _over_reference(timed: pd.DataFrame, verdicts: Thresholds) -> pd.DataFrame:
    """Each row's speedup over the reference, which is 1 to itself; empty where there is no reference."""
    base = timed.index[timed["strategy"] == "reference"]
    columns = ["speedup", "speedup_low", "speedup_high", "comparison"]
    if len(base) != 1:
        return pd.DataFrame(index=timed.index, columns=columns)
    ratios = speedup(timed.loc[[base[0]] * len(timed)], timed, verdicts)[columns]
    ratios.loc[base[0]] = [1.0, 1.0, 1.0, "reference"]
    return ratios


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
        twins = cells[cells["strategy"] == row["strategy"]]
        options = [
            f"{key.removeprefix('strategy.')} {row[key]:g}"
            if isinstance(row[key], float)
            else f"{key.removeprefix('strategy.')} {row[key]}"
            for key in cells
            if key.startswith("strategy.") and twins[key].nunique(dropna=False) > 1
        ]
        found.append(f"{row['strategy']} ({', '.join(options)})" if options else row["strategy"])
    return found
