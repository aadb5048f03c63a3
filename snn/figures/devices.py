"""Devices and sets of results beside each other: each one's speedups over its own baseline."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from snn.analysis.grouping import is_empty
from snn.analysis.verdicts import NOT_COMPARABLE, NOT_SIGNIFICANT
from snn.config import groups
from snn.figures.form import points
from snn.figures.rows import Rows, option
from snn.figures.style import BLACK, BLUE, LINES, ORANGE, Look, texts, varied
from snn.figures.trained import is_widths
from snn.hardware.devices import Device
from snn.tables.devices import ON_ALL, as_published

_MOST_ROWS = 150
_MOST_NOTES = 3
_IN_COMMON = 1.5  # rows per name: from here on data sets are panels
_NAMES = ("dataset", "network", "strategy")
_SPEEDUP, _PUBLISHED = "speedup ", "published_speedup "

# ---- how devices look


_LOOKS = [Look(*look) for look in zip(LINES[:-1], "os^phv", strict=True)]  # black is of published values
_BESIDE = re.compile(r"(?P<name>CPU .+) \((?P<device>[^()/]+)/[^()]+\)")
"""A CPU that ``snn merge`` names with the folder of a published set."""


def looks(devices: Sequence[str]) -> dict[str, Look]:
    """The look of each device, by its name in a table of devices, the same in every figure.

    A GPU has that of its place in config/gpus.yaml, or from its name where it is not there; a CPU that of the
    last place, and the CPU of a GPU's host that of the place as far from the last as its GPU's from the
    first. Where that is taken already, it is the next that is free; of more devices than looks some look the
    same.
    """
    known = {Device("cuda", name).slug: i for i, name in enumerate(groups.known_gpus())}
    taken: dict[str, int] = {}
    for device in sorted(devices, key=lambda device: (_is_cpu(device), _slug(device) not in known)):
        place, step = _place(device, known), -1 if _is_cpu(device) else 1
        order = [(place + step * i) % len(_LOOKS) for i in range(len(_LOOKS))]
        taken[device] = next((i for i in order if i not in taken.values()), order[0])
    return {device: _LOOKS[taken[device]] for device in devices}


def _place(device: str, known: Mapping[str, int]) -> int:
    beside = _BESIDE.fullmatch(device)
    if _is_cpu(device):
        return -2 - known[beside["device"]] if beside and beside["device"] in known else -1
    return known.get(_slug(device), hashlib.sha256(device.encode()).digest()[0])


def _is_cpu(device: str) -> bool:
    return device.startswith("CPU ")


def _slug(device: str) -> str:
    """Of a GPU, which may have its UUID in brackets."""
    return Device("cuda", device.partition(" (")[0]).slug


def _name(device: str, devices: Sequence[str]) -> str:
    """A device's name for a reader: of the CPU of a GPU's host, which GPU it was measured beside."""
    found = _BESIDE.fullmatch(device)
    gpus = {Device("cuda", other).slug: other for other in devices}
    beside = gpus.get(found["device"]) if found else None
    return f"{found['name']} beside the {beside}" if found and beside else device


# ---- several devices


def draw(table: pd.DataFrame) -> Figure:
    """From a table of devices: a row per strategy, a dot with its 95% interval per device, on a log axis.

    Data sets that have rows in common are panels side by side, the largest speedups on top. Rows are those of
    two devices or more, and those of one only where there are no others; of many the first, which the title
    says. Published values are empty diamonds, without an interval.
    """
    compared = table[[not is_empty(word) for word in table["advice"]]]
    several = compared[[not is_empty(word) for word in compared[ON_ALL]]]
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
            _remarks(frame),
            _of_published(shown, names),
        ),
        empty="no row has a speedup",
    )
    return form(table)


def _speedups(shown: pd.DataFrame, names: pd.Series, panel: pd.Series) -> pd.DataFrame:
    """A dot for each row and device or paper that has a speedup, the panels by the sizes of data sets."""
    found = []
    devices = [name.removeprefix(_SPEEDUP) for name in shown if name.startswith(_SPEEDUP)]
    for device, look in looks(devices).items():
        ends = [f"speedup_ci_{end} {device}" for end in ("low", "high")]
        cells, label = shown.assign(**{end: shown.get(end) for end in ends}), _name(device, devices)
        frame = points(cells, f"{_SPEEDUP}{device}", ends, label=label, look=look, is_paper=False)
        status = shown.get(f"status {device}", pd.Series("", shown.index)).astype(object).fillna("")
        frame["has_ring"] = status.str.contains("diverged") & frame["value"].notna()
        frame["is_open"] = shown.get(f"verdict {device}", frame["value"]) == NOT_SIGNIFICANT
        found.append(frame)
    diamond: dict[str, Any] = {
        "look": Look(BLACK, "D", face="none"),
        "has_ring": False,
        "is_open": False,
        "is_paper": True,
    }
    for name in shown.columns[[name.startswith(_PUBLISHED) for name in shown]]:
        found.append(points(shown, name, label=as_published(name.removeprefix(_PUBLISHED)), **diamond))
    frame = pd.concat([each.assign(row=names, panel=panel, rule=1.0) for each in found])
    frame = frame[frame["value"].notna()]
    return frame.sort_values("panel", key=lambda panels: panels.map(_size), kind="stable")


def _size(dataset: str) -> float:
    """The rows of a data set as its file in config/dataset has them; those of unknown size are last."""
    known = dataset in groups.names("dataset")
    return float(groups.load("dataset", dataset).get("rows") or np.inf) if known else np.inf


def _of_published(cells: pd.DataFrame, names: pd.Series) -> str:
    """What the table says beside published values, such as another value elsewhere."""
    notes = cells.get("published_note", pd.Series(dtype=object))
    of = {i: note for i, note in notes.items() if not is_empty(note)}
    rows_of = [
        f"{names[i] if names[i].startswith(data) else f'{data}, {names[i]}'}: {note}"
        for i, note in list(of.items())[:_MOST_NOTES]
        for data in [str(cells["dataset"][i])]
    ]
    return f"Published, of {'; '.join(rows_of)}." if rows_of else ""


def _remarks(frame: pd.DataFrame) -> str:
    """What a reader has to know of some of these dots."""
    said = ["Circles around markers: the training diverged."] if frame["has_ring"].any() else []
    without = (frame["low"].isna() & ~frame["is_paper"]).any()
    said += ["A marker without a bar has no interval: it is of one run each."] if without else []
    return " ".join(said)


def _named(cells: pd.DataFrame) -> pd.Series:
    """Each row's network, where there are several, its strategy, and the settings in which rows differ.

    What most rows have is left out: their kernel, and what they are over.
    """
    named = cells[["strategy"]].copy()
    if cells["network"].nunique() > 1:
        named.insert(0, "network", cells["network"])
    for name in cells.columns[len(_NAMES) : cells.columns.get_loc("baseline")]:
        values = cells[name].where(~cells[name].map(is_empty))
        if "." in name:
            numbers = pd.to_numeric(values, errors="coerce")
            named[name] = option(name, values.where(numbers.isna(), numbers))
        elif values.nunique() > 1:
            named[name] = values.where(values != _usual(values))
    usual, baselines = _usual(cells["baseline"]), cells["baseline"].unique()
    short = {baseline: str(baseline).partition(", ")[0] for baseline in baselines}
    if len(set(short.values())) < len(short):
        short = {baseline: str(baseline) for baseline in baselines}
    named["baseline"] = [None if one == usual else f"over {short[one]}" for one in cells["baseline"]]
    return texts(named, list(named))


def _usual(values: pd.Series) -> object:
    """The value of more than half of the rows that have one."""
    shares = values.value_counts(normalize=True)
    return shares.index[0] if len(shares) and shares.iloc[0] > 0.5 else None


def _rows_are(cells: pd.DataFrame) -> str:
    """What the names of rows do not say."""
    networks, baseline = cells["network"].unique(), _usual(cells["baseline"])
    unless = ", unless a row names another" if cells["baseline"].nunique() > 1 else ""
    widths = all(is_widths(str(network)) for network in networks)
    said = [f"{'Hidden layers' if widths else 'Network'}: {networks[0]}."] if len(networks) == 1 else []
    said += ["A row begins with the widths of its hidden layers."] if len(networks) > 1 and widths else []
    said += [f"Baseline: each device's own {baseline}{unless}."] if baseline else []
    if "kernel" in cells and cells["kernel"].nunique() > 1 and (kernel := _usual(cells["kernel"])):
        said += [f"Kernel: {kernel} unless a row names another."]
    return " ".join(said)


def _largest_first(frame: pd.DataFrame) -> list[str]:
    """The names of the rows by the geometric mean of their speedups on the first device that has one."""
    first = frame[~frame["is_paper"]].groupby(["panel", "row"], sort=False)["value"].first()
    means = np.log(first).groupby("row", sort=False).mean()
    return means.sort_values(ascending=False, kind="stable").index.tolist()


# ---- two sets of results


def draw_comparison(table: pd.DataFrame, name_a: str, name_b: str) -> Figure:
    """From a comparison: a row per cell, the ratio of the times with its 95% interval where the sets are
    comparable, and each side's own speedups."""
    table = table.sort_values(["dataset", "network"], kind="stable").reset_index(drop=True)
    row, own = texts(table.astype(str), _NAMES), "speedup over its own reference"
    found = []
    ratio = "A's time / B's time (above 1: B is faster)"
    for name, axis, label, look in (
        ("ratio", ratio, "", Look(BLACK, "D")),
        ("speedup_a", own, f"A: {name_a}", Look(BLUE, "o")),
        ("speedup_b", own, f"B: {name_b}", Look(ORANGE, "^")),
    ):
        frame = points(
            table, name, (f"{name}_ci_low", f"{name}_ci_high"), panel=axis, axis=axis, title="", row=row
        )
        frame["status"] = NOT_COMPARABLE if name == "ratio" else ""
        if name != "ratio" or frame["value"].notna().any():
            found.append(frame.assign(label=label, look=[look] * len(table), rule=1.0))
    form = Rows(
        title="Two sets of results",
        frame=lambda table: pd.concat(found, ignore_index=True),
        about=lambda table, trained: [f"A: {name_a}.", f"B: {name_b}."],
        axes={ratio: True, own: True},
        note=(
            "Markers: ratio of two mean times, on a log axis; bars: 95% confidence interval of the ratio. "
            "Dashed line: equal times. Rows: data set, network, strategy.",
        ),
        empty="no cell has a time in both sets",
    )
    return form(table)
