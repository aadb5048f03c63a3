"""Names of devices, rows and series in figures, from the settings in which they differ."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from snn.figures.style import BLACK, BLUE, Look

HOST = {"on the GPU": Look(BLUE, "o"), "on the CPU of the same host": Look(BLACK, "s")}
"""The looks of rows if some of them are ``on_host``."""

_ROUNDING = 1e-9


def where(table: pd.DataFrame) -> str:
    """The devices of a table's measurements, the GPU before its host; CPUs are marked."""
    devices = table[["device", "backend"]].dropna().drop_duplicates().sort_values("backend", ascending=False)
    return " and ".join(
        device if backend == "cuda" else f"{device} (CPU backend)"
        for device, backend in devices.itertuples(index=False)
    )


def texts(table: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """The values of these columns joined to one text per row; empty values are left out."""
    rows = table[list(names)].to_numpy(dtype=object)  # keeps the rows even without names
    said = [
        ", ".join(
            f"{value:g}" if isinstance(value, float) else str(value) for value in row if pd.notna(value)
        )
        for row in rows
    ]
    return pd.Series(said, table.index, dtype=object)


def varied(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The columns among these in which the rows of a table differ."""
    return [name for name in names if name in table and table[name].nunique() > 1]


def differing(table: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """Each row's values of the columns in which rows differ; empty if all are the same."""
    return texts(table, varied(table, names))


def usual(values: pd.Series) -> object:
    """The value that more than half of the rows with a value share, or None."""
    shares = values.value_counts(normalize=True)
    return shares.index[0] if len(shares) and shares.iloc[0] > 0.5 else None


def usual_kernel(table: pd.DataFrame, frame: pd.DataFrame | None = None) -> str:
    """The note's sentence about the kernel of rows that do not name one; empty if all kernels agree."""
    if "kernel" not in table or table["kernel"].nunique() < 2:
        return ""
    kernel = usual(table.loc[~on_host(table), "kernel"])
    return f"The kernel is {kernel} where none is named." if kernel else ""


def common_rounds(baseline: str) -> Callable[[pd.DataFrame, pd.DataFrame], str]:
    """The note's sentence if speedups cover only the rounds that a row shares with its baseline, and so
    differ from the quotient of the mean times; the frame's ``quotient`` is that quotient over the speedup."""
    said = f"Rows have unequal rounds: a speedup is over {baseline}."
    return lambda table, frame: said if ((frame["quotient"] - 1).abs() > _ROUNDING).any() else ""


def named(table: pd.DataFrame, options: Sequence[str] | None = None) -> pd.Series:
    """The strategies' names, each with the choices in which it differs from most rows: ``graph, cublas``.

    If most rows do not agree, every row shows its choices. A row that ran on the CPU of a GPU's host shows no
    kernel. ``options`` are by default the options of strategies and kernels.
    """
    shown, beside = table.copy(), on_host(table)
    for name in ("kernel", "precision"):
        if name in shown:
            alone = table.groupby([table["strategy"], beside])[name].transform("nunique") < 2
            left_out = (beside & alone) | (shown[name] == usual(table.loc[~beside, name]))
            shown[name] = shown[name].astype(object).where(~left_out & (shown[name].nunique() > 1))
    if options is None:
        options = [name for name in table if name.startswith(("strategy.", "kernel."))]
    for name in options:
        shown[name] = _option(name, shown[name])
    if "options" in shown:
        count = shown["options"].astype("string").str.extract(r"^threads (\d+)$")[0]
        threads = pd.Series(_option("threads", count), shown.index)
        shown["options"] = threads.fillna(shown["options"]).replace("", None)
    kinds = [name for name in ("kernel", "precision", "options") if name in shown]
    return texts(shown, ["strategy", *kinds, *options])


def _option(name: str, values: pd.Series) -> list[str | None]:
    """An option's values with its name: ``8 threads``, ``1 thread``, ``channels last True``."""
    said = name.rpartition(".")[2].replace("_", " ")
    found: list[str | None] = []
    for value in values.astype(object):
        is_number = not isinstance(value, bool | np.bool_) and re.fullmatch(r"\d+(\.\d*)?", str(value))
        text = (
            f"{float(value):g} {said.removesuffix('s') if float(value) == 1 else said}" if is_number else None
        )
        found.append(None if pd.isna(value) else text or f"{said} {value}")
    return found


def on_host(table: pd.DataFrame) -> pd.Series:
    """Which rows ran on the CPU of a GPU's host, if other rows ran on the GPU."""
    backend = table.get("backend", pd.Series("", table.index))
    return (backend == "cpu") & (backend == "cuda").any()


def hosts(table: pd.DataFrame) -> pd.Series:
    """The key's label of each row: one of ``HOST`` if some rows are ``on_host``, else empty."""
    beside = on_host(table)
    on_gpu, on_cpu = HOST
    return beside.map({False: on_gpu if beside.any() else "", True: on_cpu})
