"""Figures of strategies in rows: ranked, over one CPU core, with peers, next to neighbours, and more."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from snn.analysis.verdicts import BASELINE, REFERENCE, TOUCHED, UNTOUCHED
from snn.config.groups import CONFIG, read_yaml
from snn.figures.form import Drawing, Rows, fastest_first, points
from snn.figures.names import (
    HOST,
    common_rounds,
    differing,
    hosts,
    named,
    on_host,
    texts,
    usual_kernel,
    varied,
)
from snn.figures.style import BLACK, BLUE, GREY, ORANGE, Look, times

_MIB = 1 << 20
_DEVICES = dict(zip(("on the device", "on the host"), HOST.values(), strict=True))
_PEERS = {"PyTorch or JAX": Look(ORANGE, "s"), "this project": Look(BLUE, "o")}
_VERDICTS = {UNTOUCHED: Look(BLUE, "o"), TOUCHED: Look(BLUE, "D"), "neither": Look(BLUE, "o", face="white")}
_PRECISIONS = {"fp32": Look(GREY, "o"), "tf32": Look(BLUE, "s"), "bf16": Look(ORANGE, "D")}
_TIME, _LOSS = "training time (s)", "final loss relative to fp32 (%)"
_PEAK, _RATIO = "device memory at the peak (MiB)", "time of a step over that of plain"
_WHOLE_FROM = 100  # microseconds from which on decimals are left out


def _interval(column: str) -> tuple[str, str]:
    return f"{column}_ci_low", f"{column}_ci_high"


def _times(ratios: pd.Series, verdicts: pd.Series) -> list[str]:
    return ["" if pd.isna(x) else times(x, verdict) for x, verdict in zip(ratios, verdicts, strict=True)]


def _ranking(table: pd.DataFrame, paper_device: str = "", trained: str = "") -> Figure:
    """Strategies by time; any may be the baseline of a recommendation, whose table has a ``rank``."""
    baseline = table["baseline"].dropna().iloc[0] if "rank" in table and "baseline" in table else REFERENCE
    form = Rows(
        title="Strategies ranked by training time",
        frame=partial(_ranked, baseline=baseline),
        axes={_TIME: True},
        order=fastest_first,
        rule=baseline,
        note=(
            f"Dots: mean time of a training run, on a log axis. Bars: standard deviation of the runs. On the "
            f"right: speedup over {baseline}, where this is the baseline; ? marks what is not significant "
            "at 95%.",
            common_rounds(f"{_the(baseline)} in the same rounds, not over the dashed line"),
            usual_kernel,
        ),
    )
    return form(table, paper_device, trained)


def _the(baseline: str) -> str:
    return "the reference" if baseline == REFERENCE else baseline


def _ranked(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Mean times, each with a line to the baseline's, and the speedup over it."""
    own = REFERENCE if baseline == REFERENCE else BASELINE
    chosen = ("strategy.", "kernel.", "ledger.")
    settings = [name for name in table if "." in name and not name.startswith(chosen)]
    panel = texts(table, ["dataset", *varied(table, ["network"]), *settings])
    known = table.assign(**{name: table.get(name) for name in ("speedup", "baseline", "verdict")})
    is_over = known["baseline"].map(lambda said: str(said).split(", ")[0] == baseline)
    ratios = known["speedup"].astype(float).where(is_over & (known["verdict"] != own))
    start = panel.map(table[table["strategy"] == baseline].groupby(panel)["mean_s"].first())
    over = panel.map(known[known["verdict"] == own].groupby(panel)["mean_s"].first())
    columns = {"panel": panel, "row": named(table), "rule": start, "start": start.where(~on_host(table))}
    columns |= {"text": _times(ratios, known["verdict"]), "quotient": ratios / (over / table["mean_s"])}
    return points(table, "mean_s", "std_s", HOST, label=hosts(table), **columns)


def _over_one_core(table: pd.DataFrame) -> pd.DataFrame:
    """Speedups over one CPU core; the dashed line marks the fastest CPU baseline."""
    name = "speedup_over_sequential"
    panel, ratio = differing(table, ("dataset", "network")), table[name]
    fastest = panel.map(ratio[table["ran_on"] == "host"].groupby(panel).max())
    cores = table[table["strategy"] == "sequential"].groupby(panel)["mean_s"].first()
    columns = {"panel": panel, "row": named(table), "rule": fastest}
    columns |= {"text": _times(ratio, table["verdict_over_sequential"])}
    columns |= {"quotient": ratio / (panel.map(cores) / table["mean_s"])}
    columns |= {"label": hosts(table) if on_host(table).any() else "on the " + table["ran_on"].astype(str)}
    return points(table, name, _interval(name), HOST | _DEVICES, **columns)


# ---- with PyTorch and JAX


def _is_peer(table: pd.DataFrame) -> pd.Series:
    return table["runtime"].astype(object).fillna("") != ""


def _steps(table: pd.DataFrame) -> pd.DataFrame:
    """Times per step; the dashed line marks the best peer. If a panel has a strategy twice, the names include
    kernel and options."""
    held = table.get("training.storage", pd.Series("", table.index)) + " activations"
    apart = table.assign(storage=held)
    panel, is_peer = differing(apart, ("dataset", "network", "precision", "storage")), _is_peer(table)
    twice = table["strategy"].isin(
        table.loc[table.assign(panel=panel).duplicated(["panel", "strategy"]), "strategy"]
    )
    beside = varied(table, ("kernel", "options")) if twice.any() else []
    shown = {name: table[name].astype(object).where(twice & (table[name] != "")) for name in beside}
    columns = {"panel": panel, "row": texts(table.assign(**shown), ["strategy", *beside])}
    columns |= {"rule": panel.map(table["step_us"][is_peer].groupby(panel).min())}
    columns |= {"label": is_peer.map({True: "PyTorch or JAX", False: "this project"})}
    said = [f"{one:#.3g}".rstrip(".") if one < _WHOLE_FROM else f"{one:.0f}" for one in table["step_us"]]
    ratios = _times(table["speedup_over_best_peer"], table["verdict"])
    columns["text"] = [f"{time} µs{ratio and f', {ratio}'}" for time, ratio in zip(said, ratios, strict=True)]
    return points(table, "step_us", ("step_ci_low_us", "step_ci_high_us"), _PEERS, **columns)


def _note_kernels(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """The note's sentence about this project's kernels that the names of rows leave out."""
    is_unnamed = ~_is_peer(table) & (frame["row"] == table["strategy"])
    ours = table[is_unnamed & table["kernel"].astype(object).fillna("").ne("")]
    if ours.empty:
        return ""
    kernels = ours.groupby("strategy", sort=False)["kernel"].agg(lambda names: ", ".join(names.unique()))
    return f"Kernels: {'; '.join(kernels.index + ' ' + kernels)}."


def _note_precision(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    return "" if varied(table, ["precision"]) else "The precision is fp32 where none is named."


# ---- next to a busy neighbour


def _slowdowns(table: pd.DataFrame) -> pd.DataFrame:
    """Times next to the neighbour over times alone; the dashed line marks an unchanged time."""
    row = texts(table.assign(strategy=named(table)), ["strategy", *varied(table, ("dataset", "network"))])
    columns = {"panel": "beside " + table["neighbour"].astype(str), "row": row, "rule": 1.0}
    columns |= {"text": _times(table["slowdown"], table["verdict"])}
    columns |= {"label": table["verdict"].where(table["verdict"].isin(_VERDICTS), "neither").astype(object)}
    return points(table, "slowdown", _interval("slowdown"), _VERDICTS, **columns)


def _note_slowdowns(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    margin = read_yaml(CONFIG / "verdicts.yaml")[UNTOUCHED]
    return (
        "Dots: time while another device of the same host trains, over time alone, on a log axis, "
        "and as a number on the right; bars: 95% confidence interval of the ratio; dashed line: an unchanged "
        f"time. Untouched: the whole interval lies within {margin:.0%} around 1, by which the times are "
        "shown to be equivalent. Touched: it does not, nor does it contain 1. Neither: the interval leaves "
        "both open, at the level of 95%; ? marks these."
    )


# ---- in reduced precision, and in less memory


def _precisions(table: pd.DataFrame) -> pd.DataFrame:
    """Times, and final losses relative to fp32 if they were compared."""
    if not table["mean_s"].notna().any():
        return points(table.head(0), "mean_s")
    panel, name = differing(table, ("dataset", "network")), "relative_difference"
    between = panel.where(panel == "", panel + ": ")
    columns = {"row": texts(table, ("kernel", "precision"))}
    columns["label"] = table["precision"].where(table["precision"].isin(_PRECISIONS), "")
    looks = _PRECISIONS | {"": Look(BLACK, "^")}
    time = points(table, "mean_s", "std_s", looks, panel=between + "time", axis=_TIME, **columns)
    is_compared = table["convergence"].map(lambda said: isinstance(said, str))
    percent = 100 * table[[name, *_interval(name)]].astype(float).where(is_compared)
    columns |= {"panel": between + "loss", "axis": _LOSS, "rule": 0.0}
    columns |= {"text": table["convergence"].where(is_compared, "")}
    loss = points(table.assign(**percent), name, _interval(name), looks, **columns).assign(status="")
    return pd.concat([time, loss]).sort_index(kind="stable")


def _remedies(table: pd.DataFrame) -> pd.DataFrame:
    """Peak bytes, and times relative to plain training with the same batch size; a pair of panels for each
    network, titled with its data if data sets differ."""
    known = table[table["peak_bytes"].notna() & table["time_ratio"].notna()]
    if known.empty:
        return points(known, "time_ratio")
    networks = known.groupby("network", sort=False)
    usual = networks["batch_size"].transform(lambda sizes: sizes.mode()[0]).astype(int)
    data = networks["dataset"].agg(lambda names: ", ".join(names.unique()))
    panel = (known["network"].map(data) if data.is_unique else known["network"]) + ", batch of "
    panel += usual.astype(str)
    others = ", batch of " + known["batch_size"].astype(str)
    row = known["remedy"] + others.where(known["batch_size"] != usual, "")
    peak = known.assign(peak=known["peak_bytes"].astype(float) / _MIB)
    memory = points(peak, "peak", panel=panel + ": memory", axis=_PEAK, row=row)
    columns = {"panel": panel + ": time", "axis": _RATIO, "row": row, "rule": 1.0}
    columns |= {"text": known["time_ratio"].map(times)}
    time = points(known, "time_ratio", _interval("time_ratio"), **columns)
    return pd.concat([memory, time]).sort_index(kind="stable")


def _note_batches(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    several = frame["row"].str.contains(", batch of ").any()
    return "The batch is that of the panel's title, unless a row names another." if several else ""


FORMS: dict[str, Drawing] = {
    "ranking": _ranking,
    "cpu": Rows(
        title="Speedup over one CPU core",
        frame=_over_one_core,
        axes={"speedup over one core": True},
        order=partial(fastest_first, largest=True),
        rule="fastest CPU baseline",
        note=(
            "Dots: time of one CPU core (sequential) over the strategy's, on a log axis, and as a number on "
            "the right; bars: 95% confidence interval of the ratio; ? marks what is not significant at 95%.",
            common_rounds("sequential in the same rounds, not the quotient of the mean times"),
        ),
    ),
    "peers": Rows(
        title="Time per training step",
        frame=_steps,
        axes={"time per step (µs)": True},
        order=fastest_first,
        rule="best peer",
        note=(
            "Dots: mean time per step, on a log axis; bars: its 95% confidence interval. On the right: this "
            "time in µs, and the speedup over the best peer; ? marks what is not significant at 95%.",
            _note_kernels,
            _note_precision,
        ),
    ),
    "neighbours": Rows(
        title="Time beside a busy neighbour over time alone",
        frame=_slowdowns,
        axes={"time beside the neighbour / time alone": True},
        most=2,
        has_one_scale=True,
        note=(_note_slowdowns, usual_kernel),
    ),
    "precision": Rows(
        title="Reduced precision",
        frame=_precisions,
        axes={_TIME: False, _LOSS: False},
        most=2,
        note=(
            "Left: mean time of a training run. Bars: standard deviation of the runs. Right: final loss over "
            "that of fp32, less one; bars: 95% confidence interval over draws of the weights, and whether "
            "the training converges as that in fp32.",
        ),
    ),
    "memory_remedies": Rows(
        title="Training in less memory",
        frame=_remedies,
        axes={_PEAK: False, _RATIO: True},
        most=2,
        has_own_rows=True,
        note=(
            "Left: device memory at the peak, counted, without an interval. Right: time of a step over that "
            "of plain with the same batch size, the dashed line, on a log axis; bars: 95% confidence "
            "interval of the ratio.",
            _note_batches,
        ),
    ),
}
