"""Table II: the data sets of the grid, and the matrix products of one training on each."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from snn.datasets import load, parts
from snn.hardware.devices import Device


def build(
    cells: Sequence[Mapping[str, Any]], tables: Sequence[str], paper: Mapping[str, Any], device: Device
) -> pd.DataFrame:
    """One row per data set; ``operations`` counts the products of one training with one hidden layer.

    A step of that network has 5 products, as the paper counts them; epochs and batch size are the cells'.
    """
    rows = []
    for cell, path in zip(cells, tables, strict=True):
        training, test = parts(load(Path(path), cell["dataset"]).values, cell["dataset"])
        batches = math.ceil(len(training) / cell["training"]["batch_size"])
        published = paper.get(cell["dataset"]["name"], {})
        rows.append(
            {
                "dataset": cell["dataset"]["name"],
                "samples": len(training),
                "test_samples": None if test is None else len(test),
                "features": training.shape[1] - 1,
                "batches": batches,
                "operations": 5 * batches * cell["training"]["epochs"],
                **{f"paper_{key}": published.get(key) for key in ("samples", "batches", "operations")},
                "device": device.name,
                "backend": device.backend,
            }
        )
    return pd.DataFrame(rows).convert_dtypes()
