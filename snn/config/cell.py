"""One cell of a grid: the settings of one measured training run, by section."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from snn.hardware.devices import Device
from snn.models.losses import LOSSES, MEAN_SQUARED_ERROR
from snn.models.network import network_label

SECTIONS = ("dataset", "device", "kernel", "network", "precision", "protocol", "strategy", "training")

ANY = "any"
"""A neighbour: whatever the workflow runs on another GPU of the host. The default, which cells leave out."""

NONE = "none"
"""No neighbour: the cell is alone on its host."""


class Cell(dict[str, Any]):
    """The settings of a cell by section, as its record holds them; ``settings.complete`` makes and checks it.

    It is a mapping, so that its JSON is the record's key ``cell``. If a cell is older than a setting, the
    property of that setting returns the only value that existed then.
    """

    @property
    def name(self) -> str:
        """The cell's name in paths: readable up to the strategy, then a digest of the whole cell."""
        # The digest takes the strategy's module from its name, so that moving the class renames no cell.
        _, _, type_name = self["strategy"]["_target_"].rpartition(".")
        strategy = self["strategy"] | {"_target_": f"snn.strategies.{self.strategy}.{type_name}"}
        choice = f"{self.strategy}-{self.kernel}-{digest({**self, 'strategy': strategy})}"
        return f"{self.device.slug}/{self.dataset}/{self.network}/{choice}"

    @property
    def device(self) -> Device:
        """The planned device; its ``name`` is None if the cell runs on whatever device it is started on."""
        return Device(self["device"]["backend"], self["device"]["name"])

    @property
    def dataset(self) -> str:
        return self["dataset"]["name"]

    @property
    def network(self) -> str:
        """The network's name in tables and paths: its widths or layers, such as ``256-1024-256``."""
        return network_label(self["network"])

    @property
    def strategy(self) -> str:
        return self["strategy"]["name"]

    @property
    def kernel(self) -> str:
        return self["kernel"]["name"]

    @property
    def precision(self) -> str:
        return self.get("precision", {}).get("name", "fp32")

    @property
    def batch_size(self) -> int:
        return self["training"]["batch_size"]

    @property
    def epochs(self) -> int:
        return self["training"]["epochs"]

    @property
    def accumulate(self) -> int:
        """The number of micro-batches per batch."""
        return self["training"]["accumulate"]

    @property
    def gradient(self) -> str:
        return self["training"]["gradient"]

    @property
    def recompute(self) -> list[int]:
        """The numbers of the layers whose activations are recomputed."""
        return self["network"]["recompute"]

    @property
    def rounds(self) -> range:
        """The numbers of the protocol's rounds, from 1."""
        return range(1, self["protocol"]["rounds"] + 1)

    @property
    def loss(self) -> str:
        return self["network"].get("loss", MEAN_SQUARED_ERROR.name)

    @property
    def task(self) -> str:
        """regression or classification."""
        return LOSSES[self.loss].task

    @property
    def neighbour(self) -> str:
        """The load on another GPU of the host meanwhile: a strategy, ``any``, or ``none``."""
        return self["protocol"].get("neighbour", ANY)

    @property
    def strategy_beside(self) -> str | None:
        """The strategy that trains on another GPU all the time; None if the cell does not ask for one."""
        return None if self.neighbour in (ANY, NONE) else self.neighbour

    def __or__(self, other: Mapping[str, Any]) -> "Cell":  # type: ignore[override]
        return Cell({**self, **other})

    def replace(self, **sections: Mapping[str, Any]) -> "Cell":
        """A copy with some settings changed, by section."""
        return self | {section: self[section] | values for section, values in sections.items()}


def digest(values: Mapping[str, Any]) -> str:
    """The first 16 hexadecimal digits of a SHA-256 of these values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
