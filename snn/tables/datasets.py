"""Table II: the data sets of the grid, and the matrix products of one training on each."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

TITLE = "Data sets (Table II)"
_PRODUCTS = 5
"""Matrix products of a step of a network with one hidden layer, as the paper counts them."""


def build(
    trained: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]],
    paper: Mapping[str, Any],
    device: str,
    backend: str,
) -> pd.DataFrame:
    """One row per cell (``snn.grid.sweeps.trainings``), each given with its record's key ``data``.

    ``operations`` counts the products of one training run with one hidden layer, as the paper does. If the
    cell has another network, it is empty, and so are the paper's numbers.
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
                "device": device,
                "backend": backend,
            }
        )
    return pd.DataFrame(rows).convert_dtypes()
