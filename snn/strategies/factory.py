"""A strategy from its choice in ``config/strategy``, its traits, and a strategy set up for a job."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.config import groups
from snn.errors import ConfigError
from snn.models.network import Network
from snn.strategies.base import Strategy

TRAITS = ("on_host", "own_runtime", "side_by_side", "several_devices")
"""Attributes of a strategy's class that a record keeps."""


def make(choice: Mapping[str, Any], backend: Backend) -> Strategy:
    """The strategy of a choice: its ``_target_``, given its other keys."""
    parameters = {key: value for key, value in choice.items() if key not in ("_target_", "name")}
    return class_of(choice)(backend, **parameters)


def class_of(choice: Mapping[str, Any]) -> type[Strategy]:
    """The class that a choice names in its ``_target_``.

    A record may name a module that is gone: then it is the class of today's choice of that name.
    """
    module, _, type_name = choice["_target_"].rpartition(".")
    if _is_gone(module):
        name = choice["name"]
        today = groups.load("strategy", name) if name in groups.names("strategy") else choice
        if today["_target_"] != choice["_target_"]:
            return class_of(today)
    return getattr(import_module(module), type_name)


@cache
def _is_gone(module: str) -> bool:
    """Whether there is no such module: Python does not remember that, and looks for it each time."""
    try:
        return module not in sys.modules and find_spec(module) is None
    except ModuleNotFoundError:  # so is its package
        return True


def traits(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Traits of a choice's class that tables and plans use. Raises ConfigError for an unknown class."""
    try:
        strategy = class_of(choice)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"strategy._target_ is {choice['_target_']!r}, which is not a class of this program: {error}"
        ) from error
    found = {name: getattr(strategy, name) for name in TRAITS}
    return found | {"on_host": found["on_host"] or choice.get("on_host") is True}  # a peer's option


def of_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The traits of a record's strategy: from the record or, if an older one lacks some, from the class.

    A trait that neither has is false: the class may be gone, and no strategy that is had it.
    """
    found = record.get("traits") or {}
    if found.keys() >= {*TRAITS}:
        return dict(found)
    try:
        of_class = traits(record["cell"]["strategy"])
    except ConfigError:
        if not found:
            raise
        of_class = dict.fromkeys(TRAITS, False)
    return of_class | found


def uses_kernel(found: Mapping[str, Any]) -> bool:
    """Whether a strategy with these traits uses a ``config/kernel``: all but CPU baselines and peers."""
    return not (found["on_host"] or found["own_runtime"])


def on_host(choice: Mapping[str, Any]) -> bool:
    """Whether the CPU does all of the work: a baseline."""
    return bool(traits(choice)["on_host"])


def own_runtime(choice: Mapping[str, Any]) -> str | None:
    """The package that trains instead of the backend, for a peer such as PyTorch; else None."""
    return traits(choice)["own_runtime"]


def side_by_side(choice: Mapping[str, Any]) -> bool:
    """Whether a run trains several networks in one launch."""
    return bool(traits(choice)["side_by_side"])


def several_devices(choice: Mapping[str, Any]) -> bool:
    """Whether several devices train one network."""
    return bool(traits(choice)["several_devices"])


def device_count(choice: Mapping[str, Any], visible: int) -> int:
    """The number of visible devices that a strategy takes: one, unless it is for several."""
    return min(choice.get("devices") or visible, visible) if several_devices(choice) else 1


class Test(NamedTuple):
    """Rows that are not trained on: X (n, features) float32, and their targets (n,).

    The targets are labels, int64, or numbers, float32; 1 is ``unit`` in the user's units.
    """

    X: np.ndarray
    targets: np.ndarray
    unit: float = 1.0


@dataclass(frozen=True)
class Job:
    """What a strategy trains: plain values of a checked configuration, and the data.

    ``keeps_weights``: whether the weights at the end are of interest.
    """

    strategy: Mapping[str, Any]
    network: Network
    X: np.ndarray
    Y: np.ndarray
    seed: int
    epochs: int
    batch_size: int
    learning_rate: float
    test: Test | None = None
    keeps_weights: bool = False
    validation: tuple[np.ndarray, np.ndarray] | None = None
    """X and Y of the rows that the loss is computed on after each epoch."""
    patience: int | None = None
    """Epochs without a smaller one after which a run ends; it keeps the best weights."""
    keeps_losses: bool = False
    """Whether the losses of each epoch are of interest, of a regression, too."""

    @property
    def watches_epochs(self) -> bool:
        """Whether each epoch of a run is timed, and its losses recorded."""
        return self.keeps_losses or self.is_classification or self.validation is not None

    @property
    def is_classification(self) -> bool:
        return self.network.loss.is_classification

    @property
    def steps(self) -> int:
        """The training steps of a run."""
        return self.epochs * math.ceil(len(self.X) / self.batch_size)

    def left_out(self, numbers: np.ndarray) -> Test:
        """Rows of the data that a member does not train on, as test rows, in units of the loss."""
        Y = self.Y[numbers]
        return Test(self.X[numbers], Y.argmax(axis=1) if Y.shape[1] > 1 else Y[:, 0])


def start(job: Job, backend: Backend) -> Strategy:
    """The job's strategy on this backend, set up; closed again if its setup fails.

    Raises Unsupported if the strategy cannot train the network, or the backend cannot run it.
    """
    strategy = make(job.strategy, backend)
    strategy.keeps_losses, strategy.validation = job.watches_epochs, job.validation
    network = replace(job.network, run_steps=job.steps)
    strategy.check_network(network)
    try:
        strategy.setup(network, job.X, job.Y, job.batch_size, job.learning_rate)
    except BaseException:
        strategy.close()
        raise
    return strategy
