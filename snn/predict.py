"""``snn predict``: the predictions of a saved network for the rows of a CSV file."""

import csv
import sys

import numpy as np

from snn.datasets import csv_table
from snn.errors import DataError
from snn.files.regular import path_of
from snn.measurement.accuracy import predicted
from snn.models import saved
from snn.models.saved import SavedNetwork


def predict(model: str, table: str) -> None:
    """Print one prediction per row, in the order of the rows, below the target's name."""
    network = saved.read(path_of(model))
    if not network.columns:
        raise DataError(f"{model}: it was not trained on a CSV file, or its columns are not known")
    X = csv_table.features(path_of(table), network.settings.get("dataset", {}), network.columns)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([network.columns[-1]["name"]])
    writer.writerows([one] for one in in_units(network, X))


def in_units(network: SavedNetwork, X: np.ndarray) -> list[str]:
    """The predictions for features X, in the units of the target's column, or the names of the classes."""
    outputs = predicted(network.network, list(network.weights), X)
    target = network.columns[-1]
    if network.network.loss.is_classification:
        classes = target["values"]
        of_classes = outputs[:, : len(classes)]
        numbers = of_classes.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(int)
        return [classes[number] for number in numbers]
    return [f"{value * target['scale'] + target['mean']:.9g}" for value in outputs[:, 0].astype(float)]
