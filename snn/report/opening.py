"""The report's first page as HTML: who is fastest, how sure that is, on which device, and what failed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from snn.analysis.grouping import is_empty
from snn.analysis.machine_state import Thresholds
from snn.analysis.verdicts import NOT_SIGNIFICANT, OK, REFERENCE, SAME, SIGNIFICANT
from snn.profiling.memory import count
from snn.report.write import template
from snn.tables import overview, recommend
from snn.tables.recommendation import Ratio, asked_for, case, over_reference, reservation

_MOST_CASES = 24
_UNITS = (("s", 1, 1), ("ms", 1e3, 1e-3), ("µs", 1e6, 0))
_TIED = {SAME: "the fastest are equally fast", NOT_SIGNIFICANT: "the lead is not significant"}


def fragment(
    recommended: pd.DataFrame,
    table: pd.DataFrame,
    points: Sequence[pd.DataFrame],
    provenance: pd.DataFrame,
    thresholds: Thresholds,
    trained: str = "",
    figure: str = "",
) -> str:
    """HTML of the report's first page: the answer and, if there are many cases, the first ones.

    ``recommended`` and ``table`` are the recommendation and the overview of these points; ``trained`` says
    what the cells train, and ``figure`` is an SVG picture of the ranking. If there is one case and it ended
    well, its answer is the headline.
    """
    asked = asked_for(table)
    rankings = [recommend.build(points[i], {}, thresholds) for i in asked.index[:_MOST_CASES]]
    said = headline(asked)
    if len(recommended) == 1 and recommended["strategy_status"].iloc[0] == OK:
        said = " ".join(
            filter(None, [*recommended["answer"], recommend.preliminary(rankings[0], thresholds)])
        )
    rows = recommended.head(len(rankings)).to_dict("records")
    cases = [
        (row, ranking.to_dict("records"), _why(row, ranking))
        for row, ranking in zip(rows, rankings, strict=True)
    ]
    paragraphs = _paragraphs(table, said, trained, provenance)
    left, caveats = len(table) - len(rankings), _caveats(table, points)
    baseline = next(iter(table.get("baseline", pd.Series()).dropna()), "the reference")
    return _macro("opening")(cases, left, paragraphs, caveats, Markup(figure), baseline)


def summary(table: pd.DataFrame, points: Sequence[pd.DataFrame], provenance: pd.DataFrame) -> str:
    """Paragraphs: which strategy is fastest how often, on which device, the machine's state, and failures."""
    paragraphs = _paragraphs(table, headline(asked_for(table)), "", provenance)
    return _macro("summary")(paragraphs, _caveats(table, points))


def _macro(name: str) -> Any:
    known = {"duration": duration, "kernel": _kernel, "over_reference": over_reference}
    page = template("opening.html", **known, ratio_of=Ratio.read, reservation=reservation)
    return getattr(page.module, name)


def _why(row: Mapping[Any, Any], ranking: pd.DataFrame) -> list[str]:
    """The reason of an answer, the scores, and the note."""
    note = "" if is_empty(row["note"]) else f"{row['note'][0].upper()}{row['note'][1:]}."
    return [text for text in (row["reason"], recommend.scores_in_words(ranking), note) if text]


def _kernel(row: Mapping[str, Any]) -> str:
    """The kernel that did the arithmetic, the plan of a strategy that has one, and options."""
    kernel = "" if is_empty(row["kernel"]) else f"kernel {row['kernel']}"
    return ", ".join(
        str(text) for text in (kernel, row.get("plan"), row.get("options")) if not is_empty(text)
    )


def duration(seconds: Any, digits: int = 4) -> str:
    """Seconds in the unit that suits them: ``24.72 ms``; a dash if there are none."""
    if is_empty(seconds):
        return "–"
    unit, factor = next((unit, factor) for unit, factor, least in _UNITS if abs(seconds) >= least)
    return f"{seconds * factor:.{digits}g} {unit}"


def headline(table: pd.DataFrame) -> str:
    """Sentence with the number of comparable cases in which each strategy is significantly fastest."""
    compared = table[table["lead_verdict"].notna()]
    cases = compared[compared["fastest_status"] == OK]
    if compared.empty:
        return "Nothing to compare: no case has two strategies that finished and are comparable."
    won = cases[cases["lead_verdict"] == SIGNIFICANT]
    of = f"of {count(len(cases), 'case')}"
    winners = [
        f"{name} is significantly fastest in {wins} {of}{_range(won[won['fastest'] == name])}"
        for name, wins in won["fastest"].value_counts().items()
    ]
    if not winners and len(cases):
        winners = [f"No strategy is significantly fastest in any {of}"]
    groups = [(cases[cases["lead_verdict"] == verdict], meaning) for verdict, meaning in _TIED.items()]
    sentences = [f"{'; '.join(winners)}."] if winners else []
    for rows, meaning in [*groups, (compared.drop(cases.index), "no training run ended well")]:
        if len(rows):
            fastest = ", ".join(f"{name} {times}" for name, times in rows["fastest"].value_counts().items())
            sentences.append(f"In {count(len(rows), 'case')} {meaning}; shortest mean times: {fastest}.")
    return " ".join(sentences)


def _range(wins: pd.DataFrame) -> str:
    """The range of speedups over the reference, in brackets; empty if there are none."""
    speedups = wins.loc[wins["verdict"] != REFERENCE, "speedup"].dropna()
    if speedups.empty:
        return ""
    low, high = f"{speedups.min():.2f}", f"{speedups.max():.2f}"
    return f" ({low if low == high else f'{low} to {high}'} times as fast as the reference)"


def _paragraphs(table: pd.DataFrame, said: str, trained: str, provenance: pd.DataFrame) -> list[str]:
    if (table["backend"] == "cpu").all() and len(table):
        said = f"These are times of a CPU; no GPU was used. {said}"
    return [said, *filter(None, (trained, *devices(provenance)))]


def devices(provenance: pd.DataFrame) -> list[str]:
    """A sentence for each device, driver and set of versions in the provenance of the records."""
    columns = ["device", "backend", "driver", "cuda_runtime", "cupy", "numpy"]
    found = provenance[columns].drop_duplicates()
    on_gpu, on_cpu, on_host = (
        "Measured on one {device}, driver {driver}, CUDA runtime {cuda_runtime}, CuPy {cupy}.",
        "Measured on the CPU, {device}, NumPy {numpy}: no GPU was used. This shows which program is fastest "
        "here, not what pinned memory or streams gain on a GPU.",
        "CPU baselines were measured on its host: {device}, NumPy {numpy}.",
    )
    host = on_host if (found["backend"] != "cpu").any() else on_cpu
    return [(host if row["backend"] == "cpu" else on_gpu).format(**row) for row in found.to_dict("records")]


def _caveats(table: pd.DataFrame, points: Sequence[pd.DataFrame]) -> dict[str, Any]:
    failed = failures(points, table)
    return {
        "cells": sum((cells["status"] != "unsupported").sum() for cells in points),
        "machine": machine_states(points),
        "failed": [one for one in failed if one[1] != "unsupported"],
        "unsupported": [one for one in failed if one[1] == "unsupported"],
    }


def machine_states(points: Sequence[pd.DataFrame]) -> dict[str, int]:
    """The number of cells that each machine state applies to, the most frequent first."""
    states = Counter(
        word for cells in points for states in cells["machine"] for word in states.split(", ") if word
    )
    return dict(states.most_common())


def failures(points: Sequence[pd.DataFrame], table: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Failed cells, grouped by case and reason: strategies and case, status, and reason.

    Unsupported cells are grouped by reason alone.
    """
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for cells, (_, row) in zip(points, table.iterrows(), strict=True):
        for name, status, reason in zip(overview.names(cells), cells["status"], cells["reason"], strict=True):
            where = "" if status == "unsupported" else f" on {case(row, table)}"
            if status != OK:
                found.setdefault((where, status, reason or ""), {})[name] = None
    return [(", ".join(names) + where, status, reason) for (where, status, reason), names in found.items()]
