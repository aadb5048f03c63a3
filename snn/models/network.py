"""A fully connected network without biases: its shapes, its products, its initial weights."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snn.models.glibc_random import GlibcRandom

INITIALISERS = ("uniform01", "he_uniform")
UPDATE_ORDERS = ("sequential", "simultaneous")


@dataclass(frozen=True)
class Network:
    """ReLU hidden layers and one linear output.

    ``layers`` holds the widths from the features to the output, so weight i has the shape
    (layers[i], layers[i + 1]), float32. ``update_order`` says whether the error is propagated
    through the updated weights (``sequential``, as in the paper's programs) or through the old ones
    (``simultaneous``, the textbook). ``clip_norm`` bounds the L2 norm of each weight's gradient.
    """

    layers: tuple[int, ...]
    init: str = "uniform01"
    update_order: str = "sequential"
    clip_norm: float | None = None

    @property
    def shapes(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.layers))


def label(hidden: Sequence[int]) -> str:
    """The name of a network in tables and paths: its hidden widths, ``256-1024-256``."""
    return "-".join(str(width) for width in hidden)


def network_label(network: Mapping[str, Any]) -> str:
    """The name of a cell's ``network`` in tables and paths.

    ``256-1024-256`` of the widths in ``hidden``; of the texts in ``layers``, ``conv16x3-relu-linear10``.
    """
    if layers := network.get("layers"):
        return "-".join(_layer_label(layer) for layer in layers)
    return label(network["hidden"])


def _layer_label(layer: str) -> str:
    """``conv16x3`` of ``conv2d 16 3``."""
    kind, *sizes = layer.split()
    return kind.removesuffix("2d") + "x".join(sizes)


def draw_weights(network: Network, random: GlibcRandom) -> list[np.ndarray]:
    """Fresh float32 weights, drawn row by row, W1 first; each call continues the generator's stream.

    With u = rand() / RAND_MAX: ``uniform01`` is w = u (the published MSE comes from it),
    ``he_uniform`` is w = (2 u - 1) sqrt(2 / fan_in).
    """
    weights = []
    for fan_in, fan_out in network.shapes:
        u = random.uniform(fan_in * fan_out).reshape(fan_in, fan_out)
        if network.init == "he_uniform":
            u = (np.float32(2) * u - np.float32(1)) * np.sqrt(np.float32(2) / np.float32(fan_in))
        weights.append(u)
    return weights
