"""The answer in words, for the overview, the recommendation, the report and the terminal; and the table of
recommended strategies with the reasons read from the ledgers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import pandas as pd

from snn.analysis.frame import ENERGY
from snn.analysis.grouping import is_empty
from snn.analysis.verdicts import BASELINE, NOT_SIGNIFICANT, OK, REFERENCE, SAME, SIGNIFICANT
from snn.tables import overview
from snn.tables.attribution import reason

TITLE = "Recommended strategy for each network, and why"

_NEAR_ONE = 0.1
"""A ratio within this of 1 is given with three decimals instead of two."""

_LEAST, _MOST = 0.01, 10_000
"""Of ratios beyond these, only the bound is given: two rounds far apart leave everything open."""

_MARGINS = (
    *("speedup", "speedup_ci_low", "speedup_ci_high", "speedup_cross_validated", "verdict"),
    *("runner_up", "lead", "lead_ci_low", "lead_ci_high", "lead_p_adjusted", "lead_detectable"),
    *("lead_verdict", "tied_with", "note"),
)
_WINNER = ("strategy", "strategy_status", "kernel", "plan", "mean_s", "reason")
_OF_ROW = ("status", "machine", "device", "backend")


class Ratio(NamedTuple):
    """How many times as fast one strategy is as another, the ends of the 95% interval, and the verdict."""

    value: float
    low: float | None
    high: float | None
    verdict: str = ""

    @classmethod
    def read(cls, row: Mapping[Any, Any], name: str, verdict: str = "") -> Self | None:
        """The ratio in these columns of a row; None if there is none."""
        value, low, high = row[name], row[f"{name}_ci_low"], row[f"{name}_ci_high"]
        return None if is_empty(value) else cls(value, low, high, verdict)

    def __str__(self) -> str:
        """``3.73 (2.55 to 5.46)``."""
        return (
            f"{self._written(self.value)} ({self.interval})" if self.interval else self._written(self.value)
        )

    @property
    def interval(self) -> str:
        """``2.55 to 5.46``; empty without an interval."""
        if is_empty(self.low) or self.low == self.high:
            return ""
        return f"{self._written(self.low)} to {self._written(self.high)}"

    def over(self, other: str, cross_validated: float | None = None) -> str:
        """``1.91 times as fast as the reference (not significant, 95% CI 1.88 to 1.95)``."""
        word = NOT_SIGNIFICANT if self.verdict == NOT_SIGNIFICANT else ""
        interval = self.interval and f"95% CI {self.interval}"
        validated = "" if is_empty(cross_validated) else f"{self._written(cross_validated)} cross-validated"
        aside = ", ".join(filter(None, (word, interval, validated)))
        return f"{self._written(self.value)} times as fast as {other}{aside and f' ({aside})'}"

    def _written(self, end: float | None) -> str:
        """An end with as many decimals as suit the ratio."""
        assert end is not None
        if not _LEAST <= end <= _MOST:
            return f"below {_LEAST}" if end < _LEAST else f"above {_MOST:,}"
        size = self.value
        if size >= 10 or size == 1:
            return f"{end:.{1 if 10 <= size < 100 else 0}f}"
        return f"{end:.{2 if abs(size - 1) > _NEAR_ONE else 3}f}"


def over_reference(row: Mapping[Any, Any]) -> Ratio | None:
    """The speedup in a row; None if the fastest is the baseline, or there is none."""
    return None if row["verdict"] in (REFERENCE, BASELINE) else Ratio.read(row, "speedup", row["verdict"])


def reservation(row: Mapping[Any, Any]) -> str:
    """Why the first of a row may not be the only fastest; empty if it is faster than every other."""
    if is_empty(row["runner_up"]):
        return "there is nothing to compare it with"
    if row["lead_verdict"] == SIGNIFICANT:
        return ""
    return (
        f"{'equally fast' if row['lead_verdict'] == SAME else 'not significantly slower'}: {row['tied_with']}"
    )


def sentence(row: Mapping[Any, Any]) -> str:
    """What a reader should know of a row of the overview: who has the shortest mean time, over whom, by how
    much, and how sure that is."""
    if is_empty(row["fastest"]):
        return "No strategy finished."
    fastest, is_ok, reference = row["fastest"], row["fastest_status"] == OK, over_reference(row)
    is_apart = not is_empty(row["not_comparable"])
    compared = " of what can be compared" if is_apart else ""
    aside = f" Not comparable: {row['not_comparable']}." if is_apart else ""
    if not is_ok:
        status = row["fastest_status"].replace("_", " ")
        aside = f" But its status is {status}, and no other that is comparable is ok.{aside}"
    shortest = f"{fastest} has the shortest mean time{compared}"
    is_lead = row["lead_verdict"] == SIGNIFICANT
    validated = None if is_lead else row["speedup_cross_validated"]
    baseline = "" if is_empty(row.get("baseline")) else str(row["baseline"])
    over = reference.over(baseline or "the reference", validated) if reference else ""
    if is_empty(row["runner_up"]):
        said = f"{fastest} takes {row['mean_s']:.4g} s; {reservation(row)}"
    elif is_lead:
        lead = Ratio.read(row, "lead")
        is_named = row["runner_up"] == (baseline or REFERENCE) and over
        over_next = lead.over(f"{row['runner_up']}, the runner-up") if lead and not is_named else ""
        best = f"{fastest} is {'the fastest' if row['strategies'] > 2 else 'the faster of two'}{compared}"
        said = f"{best if is_ok else shortest}: {' and '.join(filter(None, (over, over_next)))}"
    else:
        said = f"{shortest}{over and f', {over}'}; {reservation(row)}"
    return f"{said}.{aside}"


def with_sentences(table: pd.DataFrame) -> pd.DataFrame:
    """The overview with two columns in front: its ``case`` and ``answer`` in words."""
    words = pd.DataFrame({"case": [case(row, table) for _, row in table.iterrows()]}, table.index)
    return words.assign(answer=[sentence(row) for _, row in table.iterrows()]).join(table)


def case(row: pd.Series, table: pd.DataFrame) -> str:
    """A row's data set and hidden layers, and the settings in which rows with the same two differ."""
    twins = table[
        (table[overview.POINT] == row[overview.POINT]).all(axis=1) & (table["device"] == row["device"])
    ]
    host = ["on the CPU"] if row["backend"] == "cpu" and (table["backend"] != "cpu").any() else []
    more = [
        f"{key.partition('.')[2].replace('_', ' ')} {_value(row[key])}"
        for key in table
        if "." in key and twins[key].nunique(dropna=False) > 1
    ]
    return ", ".join([row["dataset"], row["network"], *more, *host])


def _value(value: Any) -> str:
    return "none" if is_empty(value) else f"{value:g}" if isinstance(value, float) else str(value)


def asked_for(table: pd.DataFrame) -> pd.DataFrame:
    """The cases to choose a strategy for: supported ones, and the GPU's if there is a GPU."""
    supported = table[table["status"] != "unsupported"]
    on_gpu = supported[supported["backend"] != "cpu"]
    return on_gpu if len(on_gpu) else supported


def build(points: Sequence[pd.DataFrame], table: pd.DataFrame) -> pd.DataFrame:
    """One row per point, from its cells and its row of the overview: the fastest strategy, how it trains, and
    why it is faster than the reference, or than the runner-up if there is no reference.

    Points on the host of a GPU are left out: the table ``cpu`` compares the two. There may be no row, if
    nothing is supported.
    """
    asked = asked_for(table).index
    settings = ["dataset", "network", *(key for key in table if "." in key)]
    kept = [*_MARGINS, *settings, *_OF_ROW]
    rows = [
        {"case": case(row, table), "answer": sentence(row), **_winner(cells, row), **row[kept]}
        for cells, (i, row) in zip(points, table.iterrows(), strict=True)
        if i in asked
    ]
    energy = ENERGY if any(cells["joules"].notna().any() for cells in points) else ()
    return pd.DataFrame(rows, columns=["case", "answer", *_WINNER, *energy, *kept])


def _winner(cells: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
    if is_empty(row["fastest"]):
        nothing = dict.fromkeys(("strategy", "strategy_status", "kernel", "plan"), "")
        return nothing | {"mean_s": None, "reason": "No time was measured."}
    by_name = dict(zip(overview.names(cells), (cell for _, cell in cells.iterrows()), strict=True))
    winner, reference = by_name[row["fastest"]], overview.reference(cells)
    if reference is not None and winner["runtime"]:
        why = "The calls of PyTorch and JAX cannot be observed, so what makes it fast is not explained."
    elif reference is not None and reference["runtime"]:
        others = cells[(cells["strategy"] == REFERENCE) & cells["mean_s"].notna()]
        why = f"Compared with reference: {reason(winner, others.iloc[0] if len(others) else None)}"
    elif reference is not None or is_empty(row["runner_up"]):
        why = reason(winner, reference)
    else:
        than = row["runner_up"]
        why = f"Compared with {than}, as there is no reference: {reason(winner, by_name[than])}"
    chosen = {"strategy_status": winner["status"], "plan": winner["plan"], **winner[[*ENERGY]]}
    for group, name in (("strategy", winner["strategy"]), ("kernel", winner["kernel"])):
        options = overview.options_of(winner, cells, group)
        chosen[group] = name + (f" ({', '.join(options)})" if name and options else "")
    return chosen | {"mean_s": row["mean_s"], "reason": why}
