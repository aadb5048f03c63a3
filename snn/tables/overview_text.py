"""The overview in words: sentences from its table, from the cells' frames and from their provenance."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.tables.overview import POINT, names

_NEAR_ONE = 0.1
"""Within this of 1 a ratio is said with a third digit."""

_NOT_CLEAR = {"same": "the best are level", "unclear": "the lead is unclear"}


def headline(table: pd.DataFrame) -> str:
    """Which strategy is clearly fastest how often, of the cases that have two to compare."""
    cases = table[table["lead_is"].notna()]
    if cases.empty:
        return "Nothing to compare: no case has two strategies that finished and are comparable."
    clear, found = cases[cases["lead_is"] == "clear"], []
    for i, (name, count) in enumerate(clear["fastest"].value_counts().items()):
        of = f"{name} is clearly fastest in {count} of {len(cases)} cases" if i == 0 else f"{name} in {count}"
        found.append(of + _range(clear[clear["fastest"] == name]))
    if not found:
        found.append(f"No strategy is clearly fastest in any of {len(cases)} cases")
    for word, said in _NOT_CLEAR.items():
        left = cases[cases["lead_is"] == word]
        if len(left):
            found.append(f"in {len(left)} {said} (shortest mean: {_counted(left['fastest'])})")
    return "; ".join(found) + "."


def sentence(row: pd.Series) -> str:
    """A row of the overview in words."""
    if is_empty(row["fastest"]):
        return "No strategy finished."
    aside = f" Not comparable: {row['not_comparable']}." if row["not_comparable"] else ""
    if is_empty(row["runner_up"]):
        return f"{row['fastest']} takes {row['mean_s']:.4g} s, with nothing to compare it to.{aside}"
    said = [] if row["comparison"] == "reference" else _times(row, "speedup", "the reference")
    if row["lead_is"] == "clear":
        said.insert(0, f"{row['fastest']} is fastest")
        if row["runner_up"] != "reference" or len(said) == 1:
            said += _times(row, "lead", f"{row['runner_up']}, the next")
    else:
        level = "level with" if row["lead_is"] == "same" else "not clearly ahead of"
        said = [f"{row['fastest']} has the shortest mean", *said, f"{level} {row['rivals']}"]
    return f"{', '.join(said)}.{aside}"


def with_sentences(table: pd.DataFrame) -> pd.DataFrame:
    """The overview with its ``case`` and ``answer`` in words, and what they are made from after them."""
    words = pd.DataFrame({"case": [case(row, table) for _, row in table.iterrows()]}, table.index)
    return words.assign(answer=[sentence(row) for _, row in table.iterrows()]).join(table)


def case(row: pd.Series, table: pd.DataFrame) -> str:
    """What tells a row apart: its data set and hidden widths, and whatever else it takes in this table."""
    twins = table[(table[POINT] == row[POINT]).all(axis=1) & (table["device"] == row["device"])]
    host = ["on the CPU"] if row["backend"] == "cpu" and (table["backend"] != "cpu").any() else []
    more = [
        f"{key.partition('.')[2].replace('_', ' ')} {_plain(row[key])}"
        for key in table
        if "." in key and twins[key].nunique(dropna=False) > 1
    ]
    return ", ".join([row["dataset"], row["network"], *more, *host])


def asked_for(table: pd.DataFrame) -> pd.DataFrame:
    """The cases to choose in: of the device, not its host beside a GPU, what it supports at all."""
    supported = table[table["status"] != "unsupported"]
    on_gpu = supported[supported["backend"] != "cpu"]
    return on_gpu if len(on_gpu) else supported


def of_devices(provenance: pd.DataFrame) -> list[str]:
    """A sentence for each device, driver and set of versions that the records were made with."""
    columns = ["device", "backend", "driver", "cuda_runtime", "cupy", "numpy"]
    devices = provenance[columns].drop_duplicates()
    found = []
    for _, one in devices.iterrows():
        if one["backend"] == "cpu" and (devices["backend"] != "cpu").any():
            found.append(f"What runs on its host was measured there: {one['device']}, NumPy {one['numpy']}.")
        elif one["backend"] == "cpu":
            found.append(
                f"Measured on the CPU, {one['device']}, NumPy {one['numpy']}: no GPU was used. This says "
                "which program is fastest here, nothing of what page-locked memory or streams gain on a GPU."
            )
        else:
            found.append(
                f"Measured on one {one['device']}, driver {one['driver']}, CUDA runtime "
                f"{one['cuda_runtime']}, CuPy {one['cupy']}."
            )
    return found


def of_machine(points: Sequence[pd.DataFrame]) -> dict[str, int]:
    """How many cells each word holds for, the most frequent first; a cell can be ``shared`` and ``noisy``."""
    words = Counter(word for cells in points for one in cells["machine"] for word in one.split(", ") if word)
    return dict(words.most_common())


def failures(points: Sequence[pd.DataFrame], table: pd.DataFrame) -> list[tuple[str, str, str]]:
    """What did not end well: the case with its strategies, the word, and the reason on record."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for cells, (_, row) in zip(points, table.iterrows(), strict=True):
        for name, (_, cell) in zip(names(cells), cells.iterrows(), strict=True):
            if cell["status"] not in ("ok", "unsupported"):
                key = (case(row, table), cell["status"], cell["reason"] or "")
                found.setdefault(key, []).append(name)
    return [(f"{', '.join(who)} on {where}", word, why) for (where, word, why), who in found.items()]


def unsupported(points: Sequence[pd.DataFrame]) -> list[tuple[str, str]]:
    """What there is not, whatever the case: names of strategies or kernels, and why."""
    found: dict[str, dict[str, None]] = {}
    for cells in points:
        for name, (_, cell) in zip(names(cells), cells.iterrows(), strict=True):
            if cell["status"] == "unsupported":
                found.setdefault(cell["reason"] or "", {})[name] = None
    return [(", ".join(who), why) for why, who in found.items()]


def _counted(values: pd.Series) -> str:
    """``a in 3, b in 1``."""
    return ", ".join(f"{name} in {count}" for name, count in values.value_counts().items())


def _range(wins: pd.DataFrame) -> str:
    """From which to which speedup over the reference; nothing where there is none."""
    speedups = wins.loc[wins["comparison"] != "reference", "speedup"].dropna()
    if speedups.empty:
        return ""
    low, high = f"{speedups.min():.2f}", f"{speedups.max():.2f}"
    return f", {low if low == high else f'{low} to {high}'} times as fast as the reference"


def _times(row: pd.Series, name: str, than: str) -> list[str]:
    """``1.91 [1.88, 1.95] times as fast as the reference``; nothing where there is no such ratio."""
    if is_empty(row[name]):
        return []
    ratio, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    digits = 2 if abs(ratio - 1) > _NEAR_ONE else 3
    interval = "" if is_empty(low) else f" [{low:.{digits}f}, {high:.{digits}f}]"
    return [f"{ratio:.{digits}f}{interval} times as fast as {than}"]


def _plain(value: Any) -> str:
    return "none" if is_empty(value) else f"{value:g}" if isinstance(value, float) else str(value)
