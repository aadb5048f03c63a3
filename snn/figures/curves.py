"""Times, speedups and losses over depth, width, learning rate and epoch, beside published ones."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from snn.analysis.verdicts import DIVERGED, NOT_SIGNIFICANT
from snn.figures import form, style
from snn.figures.form import Drawing, points
from snn.figures.style import Look, look, texts, varied
from snn.figures.values import Values, side_by_side, with_rule

LATER = 0.4
"""The share of black in the later curves of a program: paler ones would hardly be seen on white."""
_STYLES = ("-", ":", "-.")

# ---- the paper's Figures 1 and 2


def _speedups(table: pd.DataFrame) -> pd.DataFrame:
    """The speedup by the width of the hidden layer, and the paper's, around it where both are the same."""
    table = table[table["speedup"].notna() | table["paper_speedup"].notna()]
    table = table.assign(x=pd.to_numeric(table["neurons"]))
    ends = ("speedup_ci_low", "speedup_ci_high")
    diverged = table.get("status", pd.Series("", table.index)).eq(DIVERGED)
    known = {"x": table["x"], "label": "measured", "has_ring": diverged}
    measured = points(table, "speedup", ends, look=look("combined")._replace(line="-"), **known)
    known |= {"label": "published: " + table["paper_device"], "has_ring": False}
    paper = points(table, "paper_speedup", look=Look(style.BLACK, "s", "--", face="none", size=7), **known)
    frame = pd.concat([measured, paper[paper["value"].notna()]], ignore_index=True)
    rule = Look(look("reference").colour, "", ":", width=0.8)
    return with_rule(frame.assign(panel=""), 1.0, "as fast as reference", rule)


def _of_rings(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    return "Open circles: the training diverged." if frame["has_ring"].any() else ""


def _depths(table: pd.DataFrame) -> pd.DataFrame:
    """Times by the number of hidden layers, and the paper's in a panel of their own; networks of one number
    stand beside each other."""
    layers = table["network"].astype(str).str.count("-") + 1
    x = layers + layers.groupby(layers).cumcount() / layers.groupby(layers).transform("size")
    tick = x.map("{:g}".format) + "\n" + table["network"].astype(str)
    found = []
    for panel, prefix in (("measured", ""), ("published: " + table["paper_device"], "paper_")):
        for name in ("reference", "combined"):
            spread = () if prefix else f"{name}_std_s"
            columns = {"panel": panel, "x": x, "tick": tick, "label": name, "look": look(name)}
            found.append(points(table, f"{prefix}{name}_s", spread, **columns))
    frame = pd.concat(found, ignore_index=True)
    return frame[frame["value"].notna()]


def _write_values(axes: Axes, cells: pd.DataFrame) -> None:
    """The times beside their markers."""
    for drawn in axes.containers:
        assert isinstance(drawn, ErrorbarContainer)
        side, align = (-5, "right") if drawn.get_label() == "reference" else (5, "left")
        place: dict[str, Any] = {"xytext": (side, 0), "textcoords": "offset points", "ha": align}
        for at, value in np.asarray(drawn.lines[0].get_xydata()):
            axes.annotate(f"{value:.3g}", (at, value), va="center", fontsize=style.SMALLEST, **place)
    axes.margins(x=0.25)
    axes.grid(visible=False)  # the numbers say the heights, and no line runs through them


def _of_depths(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """What the note says of means of a single run, and of verdicts."""
    single = frame["low"].isna() & (frame["panel"] == "measured")
    alike = table.loc[table["verdict"] == NOT_SIGNIFICANT, "network"].astype(str)
    said = ["A mean without a bar is of a single run."] if single.any() else []
    said += [f"Not significant: the difference for {', '.join(alike)}."] if len(alike) else []
    return " ".join(said)


# ---- by learning rate


def _rates(table: pd.DataFrame) -> pd.DataFrame:
    """Final losses by learning rate, of ensembles that train all rates in one launch."""
    table = table[table["learning_rate"].notna()]
    names = varied(table, ("dataset", "network", "strategy", "initialiser"))
    series = texts(table, names) if names else pd.Series("final loss", table.index)
    spread = table.get("final_mse_std", pd.Series(0.0, table.index)).fillna(0.0)
    counts = table[["trainings", "finite"]] if "finite" in table else table[["trainings"]].assign(finite=0)
    frame = points(table.assign(spread=spread), "final_mse", "spread", x=table["learning_rate"], **counts)
    known = list(dict.fromkeys(series))
    frame["look"] = [style.numbered(known.index(name)) for name in series]
    return frame.assign(label=series, has_diverged=False, in_key=len(known) > 1)


def _cross_diverged(axes: Axes, cells: pd.DataFrame) -> None:
    """A cross above the panel, whose top is 1, at each rate at which trainings diverged."""
    names = list(dict.fromkeys(cells["label"]))
    for cell in cells[cells["status"] == DIVERGED].itertuples():
        at, height = axes.get_xaxis_transform(), 1.04 + 0.09 * names.index(cell.label)
        shade: dict[str, Any] = {"color": cell.look.colour, "clip_on": False, "markersize": 5}
        axes.plot(cell.x, height, "x", transform=at, **shade)
        said = f"{cell.trainings - cell.finite:.0f} of {cell.trainings:.0f} diverged"
        place: dict[str, Any] = {"xytext": (-6, 0), "xycoords": at, "textcoords": "offset points"}
        look_of: dict[str, Any] = {
            "ha": "right",
            "va": "center",
            "fontsize": style.SMALLEST,
            "color": style.GREY,
        }
        axes.annotate(said, (cell.x, height), **place, **look_of)


def _of_members(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    counts = sorted(set(table["members"].dropna().astype(int)))
    members = " or ".join(map(str, counts)) or "all"
    return f"Final loss by learning rate, {members} trainings in one launch"


# ---- by epoch: the CNN report's Figures 1 to 4


def _by_epoch(table: pd.DataFrame, column: str, spread: str | None) -> pd.DataFrame:
    """A curve for each program, learning rate and block size, and the published one, in a panel for each data
    set and gradient.

    Curves of a data set without a measured row are in the first panel; their labels name it. Programs
    without a time are named with their status. Of a program's curves the later are darker.
    """
    if not table[column].notna().any():
        return points(table.head(0), column)
    elsewhere = ~table["dataset"].isin(table.loc[table["device"].notna(), "dataset"])
    named = table["program"] + " (data set " + table["dataset"] + ")"
    table = table.assign(
        program=table["program"].mask(elsewhere, named),
        dataset=table["dataset"].mask(elsewhere, table["dataset"].iloc[0]),
    )
    programs = list(dict.fromkeys(table["program"].astype(str)))
    numbers = {name: i for i, name in enumerate(programs)} if len(programs) > 1 else {}
    found = []
    for panel, cells in table.groupby(texts(table, ("dataset", "gradient")), sort=False):
        seen: list[str] = []
        for label, curve in cells.groupby(_labels(cells), sort=False):
            program = str(curve["program"].iloc[0])
            name = program if program in numbers else str(label)  # curves of a single program have one each
            number, again = numbers.setdefault(name, len(numbers)), seen.count(name)
            seen.append(name)
            shade = style.mixed(style.LINES[number % len(style.LINES)], "black", LATER if again else 0.0)
            drawn = Look(
                shade, style.MARKERS[(number + 3 * again) % len(style.MARKERS)], _STYLES[again % len(_STYLES)]
            )
            found += [each.assign(panel=panel) for each in _curve(curve, column, spread, str(label), drawn)]
    return pd.concat(found, ignore_index=True)


def _curve(
    curve: pd.DataFrame, column: str, spread: str | None, label: str, drawn: Look
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The measured and the published points of a program; of one without any, a row that is not drawn."""
    curve = curve.assign(spread=curve[spread].fillna(0.0) if spread else np.nan)
    status = curve["status"].iloc[0]
    is_measured, is_published = (curve[name].notna().any() for name in (column, f"published_{column}"))
    if not is_measured and isinstance(status, str) and status != "ok":
        label = f"{label} ({status})"
    known = {"x": curve["epoch"], "slot": label}
    hollow = drawn._replace(line="--", width=0.9, face="none", size=7)
    measured = points(curve, column, "spread" if spread else (), label=label, look=drawn, **known)
    paper = points(curve, f"published_{column}", label=f"{label}, published", look=hollow, **known)
    measured, paper = (each[each["value"].notna()] for each in (measured, paper))
    if not is_measured and not is_published:
        measured = points(curve.head(1), column, x=np.nan, label=label, slot=label, look=drawn)
    return measured.assign(in_key=True), paper.assign(in_key=not is_measured)


def _labels(rows: pd.DataFrame) -> pd.Series:
    differ = varied(rows, ("reduction", "learning_rate", "threads"))
    threads = rows["threads"].map("{:.0f} threads".format, na_action="ignore")
    rates = rows["learning_rate"].map("learning rate {:g}".format, na_action="ignore")
    return texts(rows.assign(threads=threads, learning_rate=rates), ("program", *differ))


def _title(table: pd.DataFrame, frame: pd.DataFrame, what: str) -> str:
    """A title with what varies: ``Cumulative time by epoch and block size``."""
    names = {"program": "program", "threads": "block size"}
    return f"{what} by {' and '.join(['epoch', *(names[name] for name in varied(table, [*names]))])}"


def _about(table: pd.DataFrame, trained: str) -> list[str]:
    measured = table[table["device"].notna()]
    images = measured["data"].str.partition(":")[0].drop_duplicates()
    return [form.about(measured)[0], trained or f"Data: {'; '.join(images)}."]


def _of_published(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    devices = ", ".join(table["published_device"].dropna().unique())
    return f"Open markers, dashed: published, {devices}, without an interval." if devices else ""


def _of_gradients(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """What the note says of gradients and reductions, whose names stand above panels and in keys."""
    known = {
        "as published": "the gradient that the published programs compute",
        "exact": "the gradient that they were meant to compute",
    }
    said = "; ".join(f"{name}: {what}" for name, what in known.items() if (table["gradient"] == name).any())
    several = table.groupby(["dataset", "gradient"])["reduction"].nunique().max() > 1  # else a key names none
    both = [f"{said[0].upper()}{said[1:]}."] if said else []
    return " ".join([*both, *["Sum, mean: of the losses of a batch."] * bool(several)])


def _epochs(column: str, spread: str | None, y: str, title: str, note: str) -> Values:
    """The declaration of a figure by epoch."""
    return Values(
        title=partial(_title, what=title),
        frame=partial(_by_epoch, column=column, spread=spread),
        about=_about,
        x="epoch",
        y=y,
        log_x=False,
        log_y=True,
        most=2,
        has_one_scale=True,
        is_dodged=True,
        keys=1,
        note=(note, _of_published, side_by_side, _of_gradients),
        empty=f"{y} by epoch: no cell has a time",
    )


_MEAN_NOTE = "Filled markers: mean of the runs; bars: their standard deviation."
_FIRST_NOTE = "Filled markers: of the first run, whose initial weights are published, without an interval."

FORMS: dict[str, Drawing] = {
    "speedup_vs_neurons": Values(
        title="Speedup of combined by hidden width",
        frame=_speedups,
        x="neurons in the hidden layer",
        y="speedup of combined over reference",
        log_x=True,
        log_y=False,
        note=(
            "Diamonds: mean time of reference over that of combined; bars: 95% confidence interval of the "
            "ratio. Open squares: published, without an interval.",
            _of_rings,
        ),
        empty="speedup_vs_neurons: no network has a speedup",
    ),
    "time_by_depth": Values(
        title="Training time by depth",
        frame=_depths,
        x="hidden layers, and their widths",
        y="training time (s)",
        log_x=False,
        log_y=False,
        is_dodged=True,
        also=_write_values,
        note=(
            "Markers: mean time of a training; bars: standard deviation of the runs. Published values have "
            "no interval. The two devices have axes of their own.",
            _of_depths,
        ),
        empty="time_by_depth: no network has a time",
    ),
    "learning_rates": Values(
        title=_of_members,
        frame=_rates,
        x="learning rate",
        y="final loss",
        has_crosses=False,
        also=_cross_diverged,
        note=(
            "Dots: mean final loss over the draws of initial weights whose training ended with a finite "
            "loss; bars: their standard deviation, where there are several. Crosses above the panel: "
            "trainings that diverged, and how many of how many.",
        ),
        empty="learning_rates: no training ended with a finite loss",
    ),
    "time_by_epoch": _epochs(
        "cumulative_s", "cumulative_std_s", "cumulative time (s)", "Cumulative time", _MEAN_NOTE
    ),
    "loss_by_epoch": _epochs("loss", None, "mean loss of an epoch", "Mean loss", _FIRST_NOTE),
}
