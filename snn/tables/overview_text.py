"""The overview in sentences, from its table, the frames of its points and the provenance of the records."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.analysis.verdicts import NOT_SIGNIFICANT, REFERENCE, SAME, SIGNIFICANT
from snn.tables.overview import POINT, names

_NEAR_ONE = 0.1
"""A ratio within this of 1 is given with three decimals instead of two."""

_LEAST, _MOST = 0.01, 10_000
"""Ratios beyond these are only said to be so."""

_TIED = {SAME: "the fastest are equally fast", NOT_SIGNIFICANT: "the lead is not significant"}


def headline(table: pd.DataFrame) -> str:
    """Which strategy is significantly fastest in how many cases, of those with two strategies to compare."""
    compared = table[table["lead_verdict"].notna()]
    failed = compared[compared["fastest_status"] != "ok"]
    cases = compared.drop(failed.index)
    if compared.empty:
        return "Nothing to compare: no case has two strategies that finished and are comparable."
    won = cases[cases["lead_verdict"] == SIGNIFICANT]
    of = f"of {_cases(len(cases))}"
    winners = [
        f"{name} is significantly fastest in {count} {of}{_range(won[won['fastest'] == name])}"
        for name, count in won["fastest"].value_counts().items()
    ]
    if not winners and len(cases):
        winners = [f"No strategy is significantly fastest in any {of}"]
    sentences = [f"{'; '.join(winners)}."] if winners else []
    for verdict, meaning in _TIED.items():
        tied = cases[cases["lead_verdict"] == verdict]
        if len(tied):
            fastest = ", ".join(f"{name} {count}" for name, count in tied["fastest"].value_counts().items())
            sentences.append(f"In {_cases(len(tied))} {meaning}; shortest mean times: {fastest}.")
    if len(failed):
        names = ", ".join(f"{name} {count}" for name, count in failed["fastest"].value_counts().items())
        sentences.append(f"In {_cases(len(failed))} no training ended well; shortest mean times: {names}.")
    return " ".join(sentences)


def sentence(row: pd.Series) -> str:
    """A row of the overview in words."""
    if is_empty(row["fastest"]):
        return "No strategy finished."
    aside = f" Not comparable: {row['not_comparable']}." if row["not_comparable"] else ""
    if row["fastest_status"] != "ok":
        failed = row["fastest_status"].replace("_", " ")
        aside = f" But its status is {failed}, and no other that is comparable is ok.{aside}"
    return f"{_answer(row)}.{aside}"


def _answer(row: pd.Series) -> str:
    if is_empty(row["runner_up"]):
        return f"{row['fastest']} takes {row['mean_s']:.4g} s; there is nothing to compare it with"
    of = " of what can be compared" if row["not_comparable"] else ""
    over_reference = "" if row["verdict"] == REFERENCE else _times(row, "speedup", "the reference")
    if row["lead_verdict"] == SIGNIFICANT:
        over_next = _times(row, "lead", f"{row['runner_up']}, the runner-up")
        is_next = row["runner_up"] == "reference" and over_reference
        ratios = [over_reference, "" if is_next else over_next]
        best = "the fastest" if row["strategies"] > 2 else "the faster of two"
        has = f"is {best}" if row["fastest_status"] == "ok" else "has the shortest mean time"
        return f"{row['fastest']} {has}{of}: {' and '.join(filter(None, ratios))}"
    shortest = f"{row['fastest']} has the shortest mean time{of}{over_reference and f', {over_reference}'}"
    if row["lead_verdict"] == SAME:
        return f"{shortest}; equally fast: {row['tied_with']}"
    return f"{shortest}; not significantly slower: {row['tied_with']}"


def with_sentences(table: pd.DataFrame) -> pd.DataFrame:
    """The overview with two columns in front: its ``case`` and ``answer`` in words."""
    words = pd.DataFrame({"case": [case(row, table) for _, row in table.iterrows()]}, table.index)
    return words.assign(answer=[sentence(row) for _, row in table.iterrows()]).join(table)


def case(row: pd.Series, table: pd.DataFrame) -> str:
    """A row's data set and hidden layers, and the settings in which rows with the same two differ."""
    twins = table[(table[POINT] == row[POINT]).all(axis=1) & (table["device"] == row["device"])]
    host = ["on the CPU"] if row["backend"] == "cpu" and (table["backend"] != "cpu").any() else []
    more = [
        f"{key.partition('.')[2].replace('_', ' ')} {_value(row[key])}"
        for key in table
        if "." in key and twins[key].nunique(dropna=False) > 1
    ]
    return ", ".join([row["dataset"], row["network"], *more, *host])


def asked_for(table: pd.DataFrame) -> pd.DataFrame:
    """The cases to choose a strategy for: supported ones, and where there is a GPU, the GPU's."""
    supported = table[table["status"] != "unsupported"]
    on_gpu = supported[supported["backend"] != "cpu"]
    return on_gpu if len(on_gpu) else supported


def of_devices(provenance: pd.DataFrame) -> list[str]:
    """A sentence for each device, driver and set of versions in the provenance of the records."""
    columns = ["device", "backend", "driver", "cuda_runtime", "cupy", "numpy"]
    devices = provenance[columns].drop_duplicates()
    sentences = []
    for _, row in devices.iterrows():
        if row["backend"] == "cpu" and (devices["backend"] != "cpu").any():
            sentences.append(
                f"CPU baselines were measured on its host: {row['device']}, NumPy {row['numpy']}."
            )
        elif row["backend"] == "cpu":
            sentences.append(
                f"Measured on the CPU, {row['device']}, NumPy {row['numpy']}: no GPU was used. This shows "
                "which program is fastest here, not what pinned memory or streams gain on a GPU."
            )
        else:
            sentences.append(
                f"Measured on one {row['device']}, driver {row['driver']}, CUDA runtime "
                f"{row['cuda_runtime']}, CuPy {row['cupy']}."
            )
    return sentences


def of_machine(points: Sequence[pd.DataFrame]) -> dict[str, int]:
    """The number of cells that each machine state applies to, the most frequent first."""
    words = Counter(
        word for cells in points for states in cells["machine"] for word in states.split(", ") if word
    )
    return dict(words.most_common())


def failures(points: Sequence[pd.DataFrame], table: pd.DataFrame) -> list[tuple[str, str, str]]:
    """The cells that failed: strategies and case, the status, and the recorded reason."""
    failed: dict[tuple[str, str, str], list[str]] = {}
    for cells, (_, row) in zip(points, table.iterrows(), strict=True):
        for name, (_, cell) in zip(names(cells), cells.iterrows(), strict=True):
            if cell["status"] not in ("ok", "unsupported"):
                key = (case(row, table), cell["status"], cell["reason"] or "")
                failed.setdefault(key, []).append(name)
    return [
        (f"{', '.join(strategies)} on {where}", status, reason)
        for (where, status, reason), strategies in failed.items()
    ]


def unsupported(points: Sequence[pd.DataFrame]) -> list[tuple[str, str]]:
    """The strategies or kernels that are unsupported, in whichever case, and why."""
    by_reason: dict[str, dict[str, None]] = {}
    for cells in points:
        for name, (_, cell) in zip(names(cells), cells.iterrows(), strict=True):
            if cell["status"] == "unsupported":
                by_reason.setdefault(cell["reason"] or "", {})[name] = None
    return [(", ".join(strategies), reason) for reason, strategies in by_reason.items()]


def _cases(count: int) -> str:
    return f"{count} case{'' if count == 1 else 's'}"


def _range(wins: pd.DataFrame) -> str:
    """The range of speedups over the reference, in brackets; empty where there are none."""
    speedups = wins.loc[wins["verdict"] != REFERENCE, "speedup"].dropna()
    if speedups.empty:
        return ""
    low, high = f"{speedups.min():.2f}", f"{speedups.max():.2f}"
    return f" ({low if low == high else f'{low} to {high}'} times as fast as the reference)"


def _times(row: pd.Series, name: str, than: str) -> str:
    """``1.91 times as fast as the reference (95% CI 1.88 to 1.95)``; empty where there is no such ratio."""
    if is_empty(row[name]):
        return ""
    ratio, interval = ratio_and_interval(row, name)
    word = "not significant" if name == "speedup" and row["verdict"] == NOT_SIGNIFICANT else ""
    aside = ", ".join(filter(None, (word, interval and f"95% CI {interval}")))
    return f"{ratio} times as fast as {than}{aside and f' ({aside})'}"


def ratio_and_interval(row: Mapping[Any, Any], name: str) -> tuple[str, str]:
    """``1.91`` and ``1.88 to 1.95``, the ends of its 95% interval; the second is empty where there is none.

    What two rounds far apart leave undecided is not written out: ``below 0.01 to above 10,000``.
    """
    ratio, low, high = row[name], row[f"{name}_ci_low"], row[f"{name}_ci_high"]
    digits = 0 if ratio >= 100 else 1 if ratio >= 10 else 2 if abs(ratio - 1) > _NEAR_ONE else 3
    if is_empty(low):
        return _bounded(ratio, digits), ""
    return _bounded(ratio, digits), f"{_bounded(low, digits)} to {_bounded(high, digits)}"


def _bounded(ratio: float, digits: int) -> str:
    if ratio < _LEAST:
        return f"below {_LEAST}"
    return f"above {_MOST:,}" if ratio > _MOST else f"{ratio:.{digits}f}"


def _value(value: Any) -> str:
    return "none" if is_empty(value) else f"{value:g}" if isinstance(value, float) else str(value)
