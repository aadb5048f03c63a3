"""Figures that compare devices, and sets of results, by their speedups over their own baselines."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from snn.analysis.grouping import is_empty
from snn.analysis.verdicts import NOT_COMPARABLE, NOT_SIGNIFICANT
from snn.config import groups
from snn.figures.form import Rows, fastest_first, points
from snn.figures.names import named, texts, usual, usual_kernel, varied
from snn.figures.style import BLACK, BLUE, LINES, ORANGE, Look
from snn.figures.trained import is_widths
from snn.hardware.devices import Device
from snn.tables.devices import ON_ALL, as_published

_MOST_ROWS = 150
_MOST_NOTES = 3
_IN_COMMON = 1.5  # rows per name from which on data sets are panels
_NAMES = ("dataset", "network", "strategy")
_SPEEDUP, _PUBLISHED = "speedup ", "published_speedup "
_LOOKS = [Look(*look) for look in zip(LINES[:-1], "os^phv", strict=True)]  # black is for published values
_BESIDE = re.compile(r"(?P<name>CPU .+) \((?P<device>[^()/]+)/[^()]+\)")
"""Name of a CPU to which ``snn merge`` has added the folder of an archived set."""


def looks(devices: Sequence[str]) -> dict[str, Look]:
    """The look of each device, by its name in a table of devices, the same in every figure.

    A GPU's look follows from its place in config/gpus.yaml, or from its name if it is not listed; a CPU has
    the last look. If that look is taken, the device gets the next free one; with more devices than looks,
    some look the same.
    """
    known = [Device("cuda", name).slug for name in groups.known_gpus()]
    taken: dict[str, int] = {}
    for device in sorted(devices, key=lambda name: (name.startswith("CPU "), _slug(name) not in known)):
        place, step = hashlib.sha256(device.encode()).digest()[0], 1
        if device.startswith("CPU "):
            place, step = -1, -1
        elif _slug(device) in known:
            place = known.index(_slug(device))
        order = [(place + step * i) % len(_LOOKS) for i in range(len(_LOOKS))]
        taken[device] = next((i for i in order if i not in taken.values()), order[0])
    return {device: _LOOKS[taken[device]] for device in devices}


def _slug(device: str) -> str:
    """The slug of a GPU; its name may end with its UUID in brackets."""
    return Device("cuda", device.partition(" (")[0]).slug


def _name(device: str, devices: Sequence[str]) -> str:
    """A device's name for readers. If it is the CPU of a GPU's host, the name includes that GPU."""
    found = _BESIDE.fullmatch(device)
    gpus = {Device("cuda", other).slug: other for other in devices}
    beside = gpus.get(found["device"]) if found else None
    return f"{found['name']} beside the {beside}" if found and beside else device


# ---- several devices


def draw(table: pd.DataFrame) -> Figure:
    """Draw a table of devices: a row per strategy, with a dot and its 95% interval per device, on a log axis.

    Data sets that share rows are panels side by side, the largest speedups on top. Rows measured on only one
    device appear only if all are. If there are many rows, only the first appear, and the title says so.
    Published values are empty diamonds, without an interval.
    """
    table = table.where(~table.map(is_empty))
    compared = table[table["advice"].notna()]
    several = compared[compared[ON_ALL].notna()]
    wanted = (several if len(several) else compared).reset_index(drop=True)
    shown = wanted.head(_MOST_ROWS)
    names, panel = _named(shown), shown["dataset"].astype(str)
    are_panels = names.nunique() * _IN_COMMON <= len(names)
    if not are_panels:
        names, panel = panel + ", " + names, pd.Series("", shown.index)
    frame = _speedups(shown, names, panel)
    title = f"Speedup by {' and '.join(varied(shown, _NAMES[1:]) or ['strategy'])}, on several devices"
    if len(shown) < len(wanted):
        title += f": the first {len(shown)} of {len(wanted)} rows"
    without = (frame["low"].isna() & ~frame["is_paper"]).any()
    form = Rows(
        title=title,
        frame=lambda table: frame,
        about=lambda table, trained: [
            f"Devices: {'; '.join(dict.fromkeys(frame['label']))}.",
            _rows_are(shown),
        ],
        axes={"speedup (above 1: faster)": True},
        order=_largest_first if are_panels else lambda frame: list(dict.fromkeys(names)),
        has_one_scale=True,
        note=(
            "Markers: speedup over the same device's own baseline, on a log axis, open where it is not "
            "significant; bars: 95% confidence interval of the ratio. Black diamonds: published values, "
            "without an interval.",
            "A marker without a bar has no interval: it is of one run each." if without else "",
            usual_kernel(shown),
            _note_published(shown, names),
        ),
    )
    return form(table)


def _largest_first(frame: pd.DataFrame) -> list[str]:
    """The names of rows, ordered by their speedups on the first device that has one."""
    return fastest_first(frame[~frame["is_paper"]].drop_duplicates(["panel", "row"]), largest=True)


def _speedups(shown: pd.DataFrame, names: pd.Series, panel: pd.Series) -> pd.DataFrame:
    """A dot for each speedup of a row on a device or in a paper; panels are ordered by data size."""
    known: dict[str, Any] = {"panel": panel, "row": names, "rule": 1.0}
    devices = [name.removeprefix(_SPEEDUP) for name in shown if name.startswith(_SPEEDUP)]
    found = []
    for device, look in looks(devices).items():
        ends = [f"speedup_ci_{end} {device}" for end in ("low", "high")]
        cells = shown.assign(**{name: shown.get(name) for name in (*ends, f"verdict {device}")})
        cells["status"] = shown.get(f"status {device}", pd.Series(dtype=object))
        columns = known | {"label": _name(device, devices), "is_paper": False}
        columns["is_open"] = cells[f"verdict {device}"] == NOT_SIGNIFICANT
        frame = points(cells, f"{_SPEEDUP}{device}", ends, look, **columns)
        diverged = cells["status"].astype("string").str.contains("diverged").fillna(False)  # in some runs
        found.append(frame.assign(has_diverged=diverged.astype(bool)))
    for name in shown.columns[[name.startswith(_PUBLISHED) for name in shown]]:
        columns = known | {"label": as_published(name.removeprefix(_PUBLISHED)), "is_paper": True}
        found.append(points(shown, name, look=Look(BLACK, "D", face="none"), **columns))
    frame = pd.concat(found)
    frame = frame[frame["value"].notna()]
    return frame.sort_values("panel", key=lambda panels: panels.map(_size), kind="stable")


def _size(dataset: str) -> float:
    """The number of rows of a data set in config/dataset; infinite, and so sorted last, if unknown."""
    known = dataset in groups.names("dataset")
    return float(groups.load("dataset", dataset).get("rows") or np.inf) if known else np.inf


def _note_published(cells: pd.DataFrame, names: pd.Series) -> str:
    """The table's notes on published values, such as a different value elsewhere."""
    notes = cells.get("published_note", pd.Series(dtype=object)).dropna().head(_MOST_NOTES)
    of = cells["dataset"].astype(str)
    rows = [
        f"{names[i] if names[i].startswith(of[i]) else f'{of[i]}, {names[i]}'}: {notes[i]}"
        for i in notes.index
    ]
    return f"Published, of {'; '.join(rows)}." if rows else ""


def _named(cells: pd.DataFrame) -> pd.Series:
    """Each row's network (if there are several), strategy, and the settings in which rows differ.

    The kernel and the baseline that most rows share are left out.
    """
    usual_one, baselines = usual(cells["baseline"]), cells["baseline"].unique()
    short = {baseline: str(baseline).partition(", ")[0] for baseline in baselines}
    if len(set(short.values())) < len(short):
        short = {baseline: str(baseline) for baseline in baselines}
    over = [None if one == usual_one else f"over {short[one]}" for one in cells["baseline"]]
    settings = cells.columns[len(_NAMES) : cells.columns.get_loc("baseline")]
    strategy = named(cells, [name for name in settings if "." in name])
    return texts(
        cells.assign(strategy=strategy, over=over), [*varied(cells, ["network"]), "strategy", "over"]
    )


def _rows_are(cells: pd.DataFrame) -> str:
    """Sentences on the facts that the names of rows leave out."""
    networks, baseline = cells["network"].astype(str).unique(), usual(cells["baseline"])
    unless = ", unless a row names another" if cells["baseline"].nunique() > 1 else ""
    widths = all(map(is_widths, networks))
    said = [f"{'Hidden layers' if widths else 'Network'}: {networks[0]}."] if len(networks) == 1 else []
    said += ["A row begins with the widths of its hidden layers."] if len(networks) > 1 and widths else []
    said += [f"Baseline: each device's own {baseline}{unless}."] if baseline else []
    return " ".join(said)


# ---- two sets of results


def draw_comparison(table: pd.DataFrame, name_a: str, name_b: str) -> Figure:
    """Draw a comparison: a row per cell, with the ratio of the times and its 95% interval if the sets are
    comparable, and each side's own speedups."""
    table = table.sort_values(["dataset", "network"], kind="stable").reset_index(drop=True)
    ratio, own = "A's time / B's time (above 1: B is faster)", "speedup over its own reference"
    found = []
    for name, axis, label, look in (
        ("ratio", ratio, "", Look(BLACK, "D")),
        ("speedup_a", own, f"A: {name_a}", Look(BLUE, "o")),
        ("speedup_b", own, f"B: {name_b}", Look(ORANGE, "^")),
    ):
        columns = {"panel": axis, "axis": axis, "row": texts(table.astype(str), _NAMES), "rule": 1.0}
        frame = points(table, name, (f"{name}_ci_low", f"{name}_ci_high"), look, label=label, **columns)
        if name != "ratio" or frame["value"].notna().any():
            found.append(frame.assign(status=NOT_COMPARABLE if name == "ratio" else "", has_diverged=False))
    form = Rows(
        title="Two sets of results",
        frame=lambda table: pd.concat(found, ignore_index=True),
        about=lambda table, trained: [f"A: {name_a}.", f"B: {name_b}."],
        axes={ratio: True, own: True},
        note=(
            "Markers: ratio of two mean times, on a log axis; bars: 95% confidence interval of the ratio. "
            "Dashed line: equal times. Rows: data set, network, strategy.",
        ),
    )
    return form(table)
