"""A trained network as a NumPy file (.npz): its parameters by name, and everything that a prediction needs.

The array ``model`` holds JSON text: ``network`` (``inputs``, ``layers``, ``loss``), ``columns`` of the table
that it was trained on (``snn.datasets.Table``), the ``settings``, and the ``versions`` of program and
libraries.
"""

import io
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from snn.errors import ConfigError, DataError
from snn.files import revision
from snn.files.outputs import replaced
from snn.files.regular import read_into_memory
from snn.models.layers import Layer, layer_types
from snn.models.losses import LOSSES
from snn.models.network import Network

_MODEL = "model"


@dataclass(frozen=True)
class SavedNetwork:
    """A trained network. ``weights``: its parameters in their order, float32."""

    network: Network
    weights: Sequence[np.ndarray]
    columns: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def describe_layers(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """Layers as JSON values: the name of each, and its fields."""
    return [{"layer": layer.name, **vars(layer)} for layer in layers]


def build_layers(described: Sequence[Mapping[str, Any]]) -> tuple[Layer, ...]:
    """The layers of ``describe_layers``. Raises KeyError or TypeError for anything else."""
    types = layer_types()
    return tuple(
        types[one["layer"]](**{key: value for key, value in one.items() if key != "layer"})
        for one in described
    )


def write(path: Path, saved: SavedNetwork) -> None:
    """Write the file atomically. Raises OutputError."""
    network = saved.network
    described = {
        "inputs": network.inputs,
        "layers": describe_layers(network.layers),
        "loss": network.loss.name,
    }
    versions = {"snn": revision.version(), "python": platform.python_version(), "numpy": np.__version__}
    model = {"network": described, "columns": saved.columns, "settings": saved.settings, "versions": versions}
    arrays: dict[str, Any] = {_MODEL: np.array(json.dumps(model))}
    names = [parameter.name for parameter in network.parameters]
    arrays |= zip(names, saved.weights, strict=True)
    with replaced(path) as file:
        np.savez(file, **arrays)


def read(path: Path) -> SavedNetwork:
    """A trained network from its file. Raises DataError unless it is complete."""
    import zipfile  # a cell, which only writes, does not wait for it

    content = io.BytesIO(read_into_memory(path, 3))
    try:
        with zipfile.ZipFile(content) as archive:
            if any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist()):
                raise ValueError("its arrays are compressed")
        with np.load(content, allow_pickle=False) as arrays:
            if _MODEL not in arrays:
                raise ValueError(f"it has no array {_MODEL!r}: an earlier version of snn wrote it")
            model = json.loads(str(arrays[_MODEL]))
            described = model["network"]
            layers, loss = build_layers(described["layers"]), LOSSES[described["loss"]]
            network = Network(tuple(described["inputs"]), layers, loss)
            weights = [np.asarray(arrays[one.name], np.float32) for one in network.parameters]
        saved = SavedNetwork(network, weights, model["columns"], model["settings"])
        if not all(isinstance(one["name"], str) for one in saved.columns) or not isinstance(
            saved.settings, dict
        ):
            raise ValueError("its columns have no names, or it has no settings")
        of_values = [len(one["values"]) if "values" in one else 1 for one in saved.columns]
        if saved.columns and sum(of_values[:-1]) != prod(network.inputs):
            raise ValueError("its columns are not its first layer's inputs")
        numbers = [one for one in saved.columns if "values" not in one]
        if not all(math.isfinite(one["mean"]) and one["scale"] >= 0 for one in numbers):
            raise ValueError("its columns have no finite means and scales")
    except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, ConfigError) as error:
        raise DataError(f"{path}: not a network that snn train or weights=FILE.npz wrote: {error}") from error
    for parameter, W in zip(network.parameters, weights, strict=True):
        if W.shape != parameter.shape:
            raise DataError(f"{path}: {parameter.name} has the shape {W.shape}, not {parameter.shape}")
    return saved
