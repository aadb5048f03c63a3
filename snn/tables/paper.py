"""The paper's tables, but the first: II data sets, III correctness, IV and V times, VI and VII networks."""

import math
from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis import speedups
from snn.analysis.frame import mean_loss, name_draws
from snn.analysis.grouping import settings, texts
from snn.analysis.verdicts import AGREES, DIFFERS
from snn.config import groups
from snn.tables import table
from snn.tables.table import DEVICE, Rows, Table, cells_table, epochs, published_value, reference, status


def _paper_seconds(rows: Rows) -> pd.Series:
    """The paper's time for the row's strategy and data set, if a training run has as many epochs."""
    seconds = published_value("paper_s", "strategy", "dataset")(rows)
    return seconds.where(rows.frame["training.epochs"] == groups.default_training()["epochs"])


training_time = cells_table(
    "Training time by strategy and data set (Table IV)",
    "strategy dataset mean_s std_s runs",
    epochs,
    _paper_seconds,
    "stopped_by",
    status,
    "machine machine_note device backend",
)

speedup = cells_table(
    "Speedup over the reference (Table V)",
    "strategy dataset speedup",
    published_value("paper_speedup", "strategy", "dataset"),
    "speedup_ci_low speedup_ci_high p_adjusted detectable verdict note runs",
    epochs,
    status,
    DEVICE,
    over=reference("dataset"),
)


# ---- Tables VI and VII: reference and combined side by side


def _by_network(key: str, title: str) -> Table:
    """One row per network, named in the column ``key``: both times with their spread, and their ratio."""

    def build(cells: pd.DataFrame, paper: Mapping[str, Any], thresholds: Mapping[str, float]) -> pd.DataFrame:
        by_network = {name: of.set_index("network") for name, of in cells.groupby("strategy")}
        first = by_network["reference"]
        sides = {"reference": first, "combined": by_network["combined"].loc[first.index]}
        second, named = sides["combined"], [side.add_prefix(f"{name}_") for name, side in sides.items()]
        untimed = [side["reason"].where(side["mean_s"].isna(), "") for side in sides.values()]
        rows = pd.concat([*named, speedups.speedup(first, second, thresholds)], axis=1).assign(
            mean_s=first["mean_s"] + second["mean_s"],
            status=speedups.joint("ok", first["status"], second["status"]),
            plan="",
            reason=["; ".join(dict.fromkeys(filter(None, both))) for both in zip(*untimed, strict=True)],
            device=first["device"],
            backend=first["backend"],
        )
        return table.assemble(
            Rows(rows.rename_axis(key).reset_index(), paper, thresholds),
            key,
            table.copy(reference_s="reference_mean_s"),
            "reference_std_s",
            table.copy(combined_s="combined_mean_s"),
            "combined_std_s speedup speedup_ci_low speedup_ci_high p_adjusted detectable verdict note",
            *(published_value(f"paper_{one}_s", key, field=one) for one in sides),
            published_value("paper_speedup", key, field="speedup"),
            "reference_runs combined_runs",
            status,
            DEVICE,
        )

    return Table(title, build)


neurons = _by_network("neurons", "Width of the hidden layer (Table VI)")
depth = _by_network("network", "Number of hidden layers (Table VII)")


# ---- Table III: the final error of every strategy and kernel

_DRAWS = range(1, 11)
"""The draws of initial weights that the paper's errors are the mean over."""


def _same_training(cells: pd.DataFrame) -> pd.DataFrame:
    """The rows with the data, network and training settings of the first reference."""
    trained = texts(cells, settings(cells, ("dataset", "network", "training")))
    reference = trained[cells["strategy"] == "reference"].iloc[0]
    return cells[trained == reference].reset_index(drop=True)


_COMPARED = ("paper_mse", "reference_mse", "relative_difference", "largest_draw_difference", "note")


def _errors(rows: Rows) -> pd.DataFrame:
    """The errors that each row's are compared with, and whether they agree.

    Each draw's error is compared with that of the reference here from the same draw, and the mean over the
    paper's ten draws also with the paper's, that of the paper's reference for a strategy that the paper does
    not have. All of them must be within the tolerance. The reference is the one with the most runs, with the
    paper's kernel if there are several.
    """
    cells = rows.frame
    references = cells[cells["strategy"] == "reference"]
    with_paper_kernel = references[references["kernel"] == "naive"]
    references = with_paper_kernel if len(with_paper_kernel) else references
    own = references.loc[references["runs"].idxmax()]
    compared = [_compare(row, rows.published, own) for _, row in cells.iterrows()]
    found = pd.DataFrame(compared, cells.index, _COMPARED).astype(dict.fromkeys(_COMPARED[:-1], float))
    difference = found[["relative_difference", "largest_draw_difference"]].max(axis=1)
    is_reordered = cells["on_host"] | (cells["kernel"] != "naive")
    tolerance = is_reordered.map(
        {True: rows.thresholds["agrees_reordered"], False: rows.thresholds["agrees"]}
    )
    words = np.where(difference <= tolerance, AGREES, DIFFERS)
    agreement = np.where(difference.notna(), words, "")
    return found[[*_COMPARED[:-1]]].assign(tolerance=tolerance, agreement=agreement, note=found["note"])


def _compare(row: pd.Series, paper: Mapping[str, Any], reference: pd.Series) -> tuple[Any, ...]:
    """What ``_COMPARED`` names: of the paper or else of the reference over the draws that both have, the
    differences from it of the mean and of the draw that is farthest off, and a note on other draws."""
    own, known = row["draw_losses"], reference["draw_losses"]
    is_reference, is_papers = row.name == reference.name, own.keys() == set(_DRAWS)
    common = set() if is_reference else own.keys() & known.keys()
    apart = [inf if own[draw] is None else abs(own[draw] / known[draw] - 1) for draw in common if known[draw]]
    published = paper.get(row["strategy"], {}).get("mse", paper["reference"]["mse"]) if is_papers else None
    measured = None if is_papers else mean_loss(known, common)
    mean, expected = mean_loss(own, own if is_papers else common), published or measured
    difference = abs(mean - expected) / expected if mean is not None and expected else None
    return published, measured, difference, max(apart, default=None), _draws_note(row, common, is_reference)


def _draws_note(row: pd.Series, common: Collection[int], is_reference: bool) -> str:
    draws = row["draw_losses"].keys()
    if not draws or draws == set(_DRAWS):
        return ""
    if is_reference:
        said = "the reference that others are compared with"
    elif not common:
        said = "the reference was trained from none of these"
    else:
        over = "the same draws" if common == draws else f"draws {name_draws(common)}"
        said = f"compared with the reference over {over}"
    papers = name_draws(_DRAWS)
    return f"the mean over draws {row['draws']} of initial weights, not the paper's {papers}; {said}"


correctness = cells_table(
    "All strategies reach the same error (Table III)",
    "strategy kernel",
    table.copy(final_mse="final_loss"),
    "draws",
    _errors,
    "mean_s std_s",
    published_value("paper_s", "strategy", field="seconds"),
    "runs",
    status,
    DEVICE,
    rows=_same_training,
)


# ---- Table II: the data sets of the grid, and the matrix products of one training run on each

_PRODUCTS = 5
"""Matrix products of a step of a network with one hidden layer, as the paper counts them."""


def _datasets(
    trained: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]],
    paper: Mapping[str, Any],
    device: str,
    backend: str,
) -> pd.DataFrame:
    """One row per cell (``snn.grid.sweeps.trainings``), each given with its record's key ``data``.

    A cell without exactly one hidden layer has no ``operations``, and none of the paper's numbers.
    """
    rows = []
    for cell, data in trained:
        training, name = cell["training"], cell["dataset"]["name"]
        whole = math.floor if training.get("drop_last") else math.ceil
        batches = whole(data["rows"] / training["batch_size"])
        has_one_layer = len(cell["network"].get("hidden", ())) == 1
        published = paper.get(name, {}) if has_one_layer else {}
        rows.append(
            {
                "dataset": name,
                "samples": data["rows"],
                "test_samples": data.get("test_rows"),
                "features": data["features"],
                "batch_size": training["batch_size"],
                "epochs": training["epochs"],
                "batches": batches,
                "operations": _PRODUCTS * batches * training["epochs"] if has_one_layer else None,
                **{f"paper_{key}": published.get(key) for key in ("samples", "batches", "operations")},
            }
        )
    return pd.DataFrame(rows).assign(device=device, backend=backend).convert_dtypes()


datasets = Table("Data sets (Table II)", _datasets)
