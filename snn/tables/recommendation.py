"""The answer in words, and the table of recommended strategies with the reasons read from the ledgers.

An ``Answer`` composes the sentence about the winner of one case, for the overview, the recommendation, the
report and the terminal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.analysis.verdicts import AS_FAST, NOT_SIGNIFICANT, OK, REFERENCE, SAME, SIGNIFICANT, SLOWER
from snn.tables import overview
from snn.tables.attribution import reason

TITLE = "Recommended strategy for each network, and why"

NOTHING, FAILED, ALONE = "nothing", "failed", "alone"
"""Kinds of answers without a lead: no time, no training that ended well, nothing to compare it with."""

_NEAR_ONE = 0.1
"""A ratio within this of 1 is given with three decimals instead of two."""

_LEAST, _MOST = 0.01, 10_000
"""Of ratios beyond these, only the bound is given: two rounds far apart leave everything open."""

_MARGINS = (
    *("speedup", "speedup_ci_low", "speedup_ci_high", "verdict"),
    *("runner_up", "lead", "lead_ci_low", "lead_ci_high", "lead_verdict", "tied_with", "note"),
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

    def over(self, other: str) -> str:
        """``1.91 times as fast as the reference (not significant, 95% CI 1.88 to 1.95)``."""
        word = NOT_SIGNIFICANT if self.verdict == NOT_SIGNIFICANT else ""
        aside = ", ".join(filter(None, (word, self.interval and f"95% CI {self.interval}")))
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


@dataclass(frozen=True)
class Answer:
    """Who has the shortest mean time of one case, over whom, by how much, and how sure that is.

    ``over_reference`` is None if the fastest is the reference, or there is none. ``verdict`` is of the lead
    over all others, ``tied`` names those that are not slower, and ``candidates`` counts all measured.
    """

    fastest: str
    status: str
    seconds: float
    over_reference: Ratio | None
    runner_up: str
    lead: Ratio | None
    verdict: str
    tied: str
    candidates: int = 0
    not_comparable: str = ""

    @classmethod
    def read(cls, row: Mapping[Any, Any]) -> Self:
        """The answer in a row of the overview, or of the recommendation."""
        is_reference = row["verdict"] == REFERENCE
        known: dict[Any, Any] = {key: "" if is_empty(value) else value for key, value in row.items()}
        return cls(
            known["fastest" if "fastest" in known else "strategy"],
            known["fastest_status" if "fastest" in known else "strategy_status"],
            row["mean_s"],
            None if is_reference else Ratio.read(row, "speedup", row["verdict"]),
            known["runner_up"],
            Ratio.read(row, "lead"),
            known["lead_verdict"],
            known["tied_with"],
            known.get("strategies", 0),
            known.get("not_comparable", ""),
        )

    @classmethod
    def read_ranking(cls, ranking: pd.DataFrame, names: pd.Series) -> Self:
        """The answer in a table of ``snn.tables.recommend`` in which a row has a rank, by the rows' names."""
        ranked = ranking[ranking["rank"].notna()].sort_values("rank")
        first, others = ranked.iloc[0], ranked.iloc[1:]
        ties = others[others["against_fastest"] != SLOWER]
        tied = SAME if (ties["against_fastest"] == AS_FAST).all() else NOT_SIGNIFICANT
        return cls(
            names[first.name],
            OK,
            first["mean_s"],
            None if first["verdict"] == REFERENCE else Ratio.read(first, "speedup", first["verdict"]),
            names[others.index[0]] if len(others) else "",
            Ratio.read(others.iloc[0], "behind") if len(others) else None,
            SIGNIFICANT if ties.empty else tied,
            ", ".join(names[ties.index]),
            len(ranking),
        )

    @property
    def kind(self) -> str:
        """NOTHING, FAILED or ALONE; else the verdict on the lead."""
        if not self.fastest:
            return NOTHING
        return FAILED if self.status != OK else ALONE if not self.runner_up else self.verdict

    def sentence(self) -> str:
        """What a reader should know of this case."""
        if not self.fastest:
            return "No strategy finished."
        aside = f" Not comparable: {self.not_comparable}." if self.not_comparable else ""
        if self.kind == FAILED:
            failed = self.status.replace("_", " ")
            aside = f" But its status is {failed}, and no other that is comparable is ok.{aside}"
        return f"{self._winner()}.{aside}"

    def _winner(self) -> str:
        if not self.runner_up:
            return f"{self.fastest} takes {self.seconds:.4g} s; there is nothing to compare it with"
        compared = " of what can be compared" if self.not_comparable else ""
        over_reference = self.over_reference.over("the reference") if self.over_reference else ""
        shortest = f"{self.fastest} has the shortest mean time{compared}"
        if self.verdict == SIGNIFICANT:
            is_named = self.runner_up == "reference" and over_reference
            over_next = self.lead.over(f"{self.runner_up}, the runner-up") if self.lead else ""
            ratios = " and ".join(filter(None, (over_reference, "" if is_named else over_next)))
            best = "the fastest" if self.candidates > 2 else "the faster of two"
            return f"{f'{self.fastest} is {best}{compared}' if self.status == OK else shortest}: {ratios}"
        tied = "equally fast" if self.verdict == SAME else "not significantly slower"
        return f"{shortest}{over_reference and f', {over_reference}'}; {tied}: {self.tied}"


def with_sentences(table: pd.DataFrame) -> pd.DataFrame:
    """The overview with two columns in front: its ``case`` and ``answer`` in words."""
    words = pd.DataFrame({"case": [case(row, table) for _, row in table.iterrows()]}, table.index)
    return words.assign(answer=[Answer.read(row).sentence() for _, row in table.iterrows()]).join(table)


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
    """One row per point, from its cells and its row of the overview: the fastest strategy and kernel.

    ``answer`` says in words whether it is that, or only has the shortest mean time, or did not end well, as
    ``strategy_status`` does. ``plan`` says how a strategy with a kernel of its own trains. ``speedup`` is
    over the reference and ``lead`` over the ``runner_up``, both with their 95% intervals and verdicts.
    ``reason`` says what its ledger and time breakdown have less of than the reference's, and more; than the
    runner-up's, if there is no reference. Points on the host of a GPU are left out: the table ``cpu``
    compares the two. There may be no row, if nothing is supported.
    """
    asked = asked_for(table).index
    settings = ["dataset", "network", *(key for key in table if "." in key)]
    kept = [*_MARGINS, *settings, *_OF_ROW]
    rows = [
        {"case": case(row, table), "answer": Answer.read(row).sentence(), **_winner(cells, row), **row[kept]}
        for cells, (i, row) in zip(points, table.iterrows(), strict=True)
        if i in asked
    ]
    return pd.DataFrame(rows, columns=["case", "answer", *_WINNER, *kept])


def _winner(cells: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
    if is_empty(row["fastest"]):
        nothing = dict.fromkeys(("strategy", "strategy_status", "kernel", "plan"), "")
        return nothing | {"mean_s": None, "reason": "No time was measured."}
    by_name = dict(zip(overview.names(cells), (cell for _, cell in cells.iterrows()), strict=True))
    winner, reference = by_name[row["fastest"]], overview.reference(cells)
    if reference is not None or is_empty(row["runner_up"]):
        why = reason(winner, reference)
    else:
        than = row["runner_up"]
        why = f"Compared with {than}, as there is no reference: {reason(winner, by_name[than])}"
    chosen = {"strategy_status": winner["status"], "plan": winner["plan"]}
    for group, name in (("strategy", winner["strategy"]), ("kernel", winner["kernel"])):
        options = overview.options_of(winner, cells, group)
        chosen[group] = name + (f" ({', '.join(options)})" if name and options else "")
    return chosen | {"mean_s": row["mean_s"], "reason": why}
