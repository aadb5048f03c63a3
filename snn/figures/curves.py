"""Figures of times, speedups and losses by depth, width, learning rate and epoch, with published values."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.verdicts import DIVERGED, NOT_SIGNIFICANT
from snn.figures.form import Drawing, Values, points, with_rule
from snn.figures.names import texts, varied
from snn.figures.style import BLACK, Look, look, looks, numbered

# ---- the paper's Figures 1 and 2


def _speedups(table: pd.DataFrame) -> pd.DataFrame:
    """Speedups by the width of the hidden layer; the paper's markers surround ours at equal values."""
    columns = {"x": pd.to_numeric(table["neurons"]), "slot": ""}
    line, square = look("combined")._replace(line="-"), Look(BLACK, "s", "--", face="none", size=7)
    ends = ("speedup_ci_low", "speedup_ci_high")
    measured = points(table, "speedup", ends, line, label="measured", **columns)
    columns["label"] = "published: " + table["paper_device"]
    paper = points(table, "paper_speedup", look=square, **columns).assign(has_diverged=False)
    frame = pd.concat([each[each["value"].notna()] for each in (measured, paper)], ignore_index=True)
    return with_rule(frame, 1.0, "as fast as reference", Look(look("reference").colour, "", ":", width=0.8))


def _depths(table: pd.DataFrame) -> pd.DataFrame:
    """Times by the number of hidden layers, and the paper's in a separate panel; networks with the same
    number of layers are side by side."""
    layers = table["network"].astype(str).str.count("-") + 1
    x = layers + layers.groupby(layers).cumcount() / layers.groupby(layers).transform("size")
    tick = x.map("{:g}".format) + "\n" + table["network"].astype(str)
    found = []
    for panel, prefix in (("measured", ""), ("published: " + table["paper_device"], "paper_")):
        for name in ("reference", "combined"):
            columns = {"panel": panel, "x": x, "tick": tick, "label": name, "look": look(name)}
            columns["text"] = table[f"{prefix}{name}_s"].map("{:.3g}".format)
            found.append(points(table, f"{prefix}{name}_s", () if prefix else f"{name}_std_s", **columns))
    frame = pd.concat(found, ignore_index=True)
    return frame[frame["value"].notna()]


def _note_depths(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """The note's sentences about means of a single run, and about verdicts."""
    single = frame["low"].isna() & (frame["panel"] == "measured")
    alike = table.loc[table["verdict"] == NOT_SIGNIFICANT, "network"].astype(str)
    said = ["A mean without a bar is of a single run."] if single.any() else []
    said += [f"Not significant: the difference for {', '.join(alike)}."] if len(alike) else []
    return " ".join(said)


# ---- by learning rate


def _rates(table: pd.DataFrame) -> pd.DataFrame:
    """Final losses by learning rate, from ensembles that train all rates in one launch."""
    table = table[table["learning_rate"].notna()]
    names = varied(table, ("dataset", "network", "strategy", "initialiser", "weight_decay"))
    series = texts(table, names) if names else pd.Series("final loss", table.index)
    spread = table.assign(spread=table.get("final_mse_std", pd.Series(0.0, table.index)).fillna(0.0))
    known = {name: numbered(i) for i, name in enumerate(dict.fromkeys(series))}
    columns = {"x": table["learning_rate"], "label": series, "in_key": len(known) > 1}
    return points(spread, "final_mse", "spread", known, **columns)


def _note_diverged(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """The note's sentence about diverged runs: how many of how many, by learning rate."""
    said = [
        f"{cell.trainings - cell.finite:.0f} of {cell.trainings:.0f} at {cell.learning_rate:g}"
        for cell in table[table["status"] == DIVERGED].itertuples()
    ]
    return f"Training runs that diverged: {', '.join(dict.fromkeys(said))}." if said else ""


def _title_members(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    counts = sorted(set(table["members"].dropna().astype(int)))
    return f"Final loss by learning rate, {' or '.join(map(str, counts)) or 'all'} networks in one launch"


# ---- a GPU and its host, by width or batch size


def crossover(x: str) -> Values:
    """The figure of ``snn.tables.crossover``; ``x`` is the title of the numbers."""
    return Values(
        title=f"GPU and CPU by {x}",
        frame=_crossover,
        axes={"time on the CPU over time on the GPU": True},
        x=x,
        log_x=True,
        about=lambda table, trained: [f"GPU: {table['device'][0]}. CPU: {table['host'][0]}.", trained],
        note=(
            "Dots: mean time of the fastest strategy on the CPU over that of the fastest on the GPU, on log "
            "axes. Bars: 95% confidence interval of the ratio. Above the dashed line the GPU is faster.",
        ),
    )


def _crossover(table: pd.DataFrame) -> pd.DataFrame:
    ends = ("speedup_ci_low", "speedup_ci_high")
    look = numbered(0)._replace(line="-")
    frame = points(
        table, "speedup", ends, look, x=table["number"].astype(float), label="CPU / GPU", in_key=False
    )
    return with_rule(frame, 1.0, "equally fast")


# ---- by batch size

_ROW_TIME, _ROW_PEAK = "time per row (ns)", "device memory at the peak (GiB)"


def _batch_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Time per row and peak bytes by batch size, a series for each way to hold activations."""
    names = varied(table, ("dataset", "network", "strategy", "kernel", "precision", "storage"))
    series = texts(table, names or ["storage"])
    known = {name: numbered(i)._replace(line="-") for i, name in enumerate(dict.fromkeys(series))}
    columns = {"x": table["batch_size"].astype(float), "label": series}
    held = table.assign(peak=table["peak_bytes"].astype(float).where(table["row_ns"].notna()) / 2**30)
    ends = ("row_ci_low_ns", "row_ci_high_ns")
    time = points(table, "row_ns", ends, known, panel="time", axis=_ROW_TIME, **columns)
    return pd.concat([time, points(held, "peak", (), known, panel="memory", axis=_ROW_PEAK, **columns)])


# ---- by the number of networks


def _members(table: pd.DataFrame) -> pd.DataFrame:
    """Time per network and step, a panel for each network."""
    table = table[table["step_us"].notna()]
    strategies = list(dict.fromkeys(table["strategy"]))
    columns = {"panel": table["network"], "x": table["members"].astype(float), "label": table["strategy"]}
    known = dict(zip(strategies, looks(strategies), strict=True))
    return points(table, "step_us", ("step_ci_low_us", "step_ci_high_us"), known, **columns)


# ---- by epoch: the CNN report's Figures 1 to 4


def _by_epoch(table: pd.DataFrame, column: str, spread: str | None) -> pd.DataFrame:
    """A measured and a published curve for each program, learning rate and block size, in a panel for each
    data set and gradient.

    Curves of a data set without a measured row are in the first panel, with the data set in their labels.
    Labels of programs without a time contain their status.
    """
    if not table[column].notna().any():
        return points(table.head(0), column)
    elsewhere = ~table["dataset"].isin(table.loc[table["device"].notna(), "dataset"])
    named = table["program"] + " (data set " + table["dataset"] + ")"
    table = table.assign(
        program=table["program"].mask(elsewhere, named).astype(str),
        dataset=table["dataset"].mask(elsewhere, table["dataset"].iloc[0]),
        spread=table[spread].fillna(0.0) if spread else np.nan,
    )
    panels = [
        (panel, cells, _labels(cells))
        for panel, cells in table.groupby(texts(table, ("dataset", "gradient")), sort=False)
    ]
    has_one = table["program"].nunique() == 1  # which then have a look per curve
    names = [label for *_, labels in panels for label in labels] if has_one else table["program"]
    known = {name: numbered(i) for i, name in enumerate(dict.fromkeys(names))}
    found = []
    for panel, cells, labels in panels:
        curves = dict(list(cells.groupby(labels, sort=False)))
        of = [label if has_one else curve["program"].iloc[0] for label, curve in curves.items()]
        for (label, curve), drawn in zip(curves.items(), looks(of, known.__getitem__), strict=True):
            found += [each.assign(panel=panel) for each in _curve(curve, column, str(label), drawn)]
    return pd.concat(found, ignore_index=True)


def _curve(curve: pd.DataFrame, column: str, label: str, drawn: Look) -> Iterator[pd.DataFrame]:
    """A program's measured and published points; without any, one row that is not drawn."""
    status = curve["status"].iloc[0]
    is_measured, is_published = (curve[name].notna().any() for name in (column, f"published_{column}"))
    if not is_measured and isinstance(status, str) and status != "ok":
        label = f"{label} ({status})"
    measured = points(curve, column, "spread", drawn, label=label, x=curve["epoch"], slot=label)
    if not is_measured and not is_published:
        yield measured.head(1).assign(x=np.nan)
    hollow = drawn._replace(line="--", width=0.9, face="none", size=7)
    known: dict[str, Any] = {"label": f"{label}, published", "in_key": not is_measured}
    paper = points(curve, f"published_{column}", look=hollow, x=curve["epoch"], slot=label, **known)
    yield from (each[each["value"].notna()].assign(has_diverged=False) for each in (measured, paper))


def _labels(cells: pd.DataFrame) -> pd.Series:
    differ = varied(cells, ("reduction", "learning_rate", "threads"))
    threads = cells["threads"].map("{:.0f} threads".format, na_action="ignore")
    rates = cells["learning_rate"].map("learning rate {:g}".format, na_action="ignore")
    return texts(cells.assign(threads=threads, learning_rate=rates), ("program", *differ))


def _title(table: pd.DataFrame, frame: pd.DataFrame, what: str) -> str:
    """A title with the varied settings: ``Cumulative time by epoch and block size``."""
    names = {"program": "program", "threads": "block size"}
    return f"{what} by {' and '.join(['epoch', *(names[name] for name in varied(table, [*names]))])}"


def _note_published(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    devices = ", ".join(table["published_device"].dropna().unique())
    return f"Open markers, dashed: published, {devices}, without an interval." if devices else ""


def _epochs(column: str, spread: str | None, axis: str, title: str, note: str) -> Values:
    """Declare a figure by epoch."""
    return Values(
        title=partial(_title, what=title),
        frame=partial(_by_epoch, column=column, spread=spread),
        axes={axis: True},
        x="epoch",
        log_x=False,
        most=2,
        has_one_scale=True,
        keys=1,
        note=(
            note,
            _note_published,
            "As published: the gradient that the published programs compute; exact: the gradient that they "
            "were meant to compute. Sum, mean: of the losses of a batch.",
        ),
    )


FORMS: dict[str, Drawing] = {
    "speedup_vs_neurons": Values(
        title="Speedup of combined by hidden width",
        frame=_speedups,
        axes={"speedup of combined over reference": False},
        x="neurons in the hidden layer",
        log_x=True,
        note=(
            "Diamonds: mean time of reference over that of combined; bars: 95% confidence interval of the "
            "ratio. Open squares: published, without an interval.",
        ),
    ),
    "time_by_depth": Values(
        title="Training time by depth",
        frame=_depths,
        axes={"training time (s)": False},
        x="hidden layers, and their widths",
        log_x=False,
        note=(
            "Markers: mean time of a training run. Bars: standard deviation of the runs. Published values "
            "have no interval. The two devices have separate axes.",
            _note_depths,
        ),
    ),
    "learning_rates": Values(
        title=_title_members,
        frame=_rates,
        axes={"final loss": None},
        x="learning rate",
        note=(
            "Dots: mean final loss over the draws of initial weights whose training ended with a finite "
            "loss. Bars: their standard deviation, if there are several. Crosses: all training "
            "runs diverged.",
            _note_diverged,
        ),
    ),
    "members": Values(
        title="Many networks side by side",
        frame=_members,
        axes={"time per network and step (µs)": True},
        x="networks in one launch",
        note=(
            "Dots: time of a step of all networks, divided by their number; bars: its 95% confidence "
            "interval.",
        ),
    ),
    "batch_sizes": Values(
        title="Time and memory by batch size",
        frame=_batch_sizes,
        axes={_ROW_TIME: True, _ROW_PEAK: True},
        x="rows of a batch",
        log_x=True,
        note=(
            "Left: time of a step divided by its rows; bars: its 95% confidence interval. Right: "
            "device memory at the peak, counted, without an interval. Both on log axes.",
        ),
    ),
    "time_by_epoch": _epochs(
        "cumulative_s",
        "cumulative_std_s",
        "cumulative time (s)",
        "Cumulative time",
        "Filled markers: mean of the runs; bars: their standard deviation.",
    ),
    "loss_by_epoch": _epochs(
        "loss",
        None,
        "mean loss of an epoch",
        "Mean loss",
        "Filled markers: of the first run, whose initial weights are published, without an interval.",
    ),
}
