"""The contract of a strategy."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from math import nan
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.files.project import IS_INSTALLED
from snn.models.glibc_random import GlibcRandom
from snn.models.layers import (
    ACTIVATIONS,
    AvgPool2d,
    Conv2d,
    Dropout,
    Flatten,
    Layer,
    LayerNorm,
    Linear,
    MaxPool2d,
)
from snn.models.network import LEAN, Network, draw_weights
from snn.models.optimizers import PLAIN
from snn.models.storage import FP32
from snn.models.validation import BestEpoch

Progress = Callable[[float, int, float], None]
"""Called with the epochs done, the number of epochs, and the seconds since training began."""


class Watched(NamedTuple):
    """The epochs of a run in which one network was trained, each with a value: float64 (epochs,).

    ``losses``: the mean of its batches' losses, each before that batch's update. ``validation_losses``: of
    the rows held out, after the epoch; NaN without any. ``seconds`` and ``further_seconds``: of training and
    of computing these losses, by the device's clock if a launch trains several epochs. ``best``: the weights
    after the epoch with the smallest validation loss, if there was a patience and a loss was finite.
    """

    losses: np.ndarray
    validation_losses: np.ndarray
    seconds: np.ndarray
    further_seconds: np.ndarray
    best: list[np.ndarray] | None


EpochReport = Callable[[int, float, float], None]
"""Called with the number of epochs that have ended, the last one's mean loss, and its validation loss."""


def unwatched(done: float, epochs: int, seconds: float) -> None:
    """Progress callback that does nothing."""


class Strategy(ABC):
    """How memory is held and moved while a network trains.

    Life: ``setup`` once, then for each run ``load`` and ``epoch`` as often as the protocol says,
    ``close`` at the end on every path out. It allocates everything from its backend, unless it has its own
    runtime.
    """

    network: Network
    """The network that it trains; set by ``setup``."""

    on_host: bool = False
    """Whether the processor does all of its work and no device is used: a baseline, for device=cpu only."""

    own_runtime: str | None = None
    """A peer's package, which allocates, copies and launches instead of the backend. Its calls cannot be
    observed, so its records have times and losses, but no ledger, memory or explanation."""

    side_by_side: bool = False
    """Whether a run trains several networks in one launch."""

    several_devices: bool = False
    """Whether it takes several devices. The trace and the time of each call are of one, so it has neither."""

    by_epoch: bool = False
    """Whether the host starts a whole epoch, or more, at a time."""

    at_once: bool = False
    """Whether ``train`` does more than repeat ``epoch``: it is called once."""

    any_network: bool = False
    """Whether it trains every network of layers; else only multilayer perceptrons made by ``mlp``."""

    shuffles: bool = False
    """Whether it can take the rows in another order in each epoch (``Network.order_seed``)."""

    own_step: str | None = None
    """Name of the program whose step is fixed: no launch can be replaced (``snn.models.gradients``)."""

    remedies: bool = False
    """Whether it supports micro-batches and recomputing outputs: its step is launches on its buffers."""

    any_optimizer: bool = False
    """Whether it trains with every optimiser, or by plain gradient descent alone."""

    any_schedule: bool = False
    """Whether it trains with schedules, and clips all gradients together."""

    diagnostic: bool = False
    """Whether it only tests an explanation of other strategies' times, so that it is never proposed."""

    any_fidelity: bool = False
    """Whether it can train by the step of the authors' programs (``training.fidelity``)."""

    any_storage: bool = False
    """Whether it can hold activations in 16 bits (``training.storage``)."""

    plan: str | None = None
    """How it trains and why, in words, if ``setup`` chooses that."""

    launch: Mapping[str, Any] | None = None
    """The kernel of one-launch training, and its configuration (``TrainingLaunch.record``)."""

    keeps_losses: bool = False
    """Whether the loss of every batch of an epoch is kept, for ``epoch_losses``; set before ``setup``."""

    validation: tuple[np.ndarray, np.ndarray] | None = None
    """X and Y of rows that are not trained on, for ``validation_loss``; set before ``setup``."""

    validates: bool = True
    """Whether it can compute a loss on them after each epoch, if it trains a single network."""

    watches: bool = False
    """Whether runs use ``watch`` instead of ``epoch``, because launches compute the losses or several
    networks are trained. Known after ``setup``."""

    progress: Progress = staticmethod(unwatched)
    """Called while ``train`` waits for the device before training has finished."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        """Take the data, X (n, features) and Y (n, outputs), float32, and allocate long-lived memory."""

    def check_validation(self) -> None:
        """Raise Unsupported if this strategy cannot compute a validation loss that is asked for."""
        if self.validation is None:
            return
        if self.side_by_side:
            raise Unsupported(
                "training.validation needs the losses of networks after each epoch, and this strategy does "
                "not compute them for several: choose ensemble or, for one network, graph"
            )
        if not self.validates:
            raise Unsupported("no perceptron in one launch: its kernels compute no training.validation")

    def check_network(self, network: Network) -> None:
        """Raise Unsupported if this strategy cannot train the network, or validate it."""
        self.check_validation()
        if network.widths is None and not self.any_network:
            raise Unsupported(
                "this strategy trains multilayer perceptrons only (network.hidden): linear layers without "
                "biases (network.bias=false), ReLU between them (network.activation=relu), the mean squared "
                "error, trained by its gradient"
            )
        if not self.shuffles and network.order_seed is not None:
            raise Unsupported(
                "training.shuffle=epoch reorders the rows in each epoch, and this strategy takes them in the "
                "order of the file: choose training.shuffle=none or another strategy, such as graph"
            )
        if not self.remedies and (network.accumulate > 1 or network.recompute):
            key = "training.accumulate" if network.accumulate > 1 else "network.recompute"
            raise Unsupported(
                f"{key} changes the launches and buffers of a device-driven step, and this strategy has no "
                "such step: choose resident, graph, pipelined or synchronous"
            )
        if not self.any_optimizer and network.optimizer != PLAIN:
            raise Unsupported(
                f"{network.optimizer.setting} is not supported: this strategy's update is plain gradient "
                "descent: choose resident, graph, pipelined, synchronous or a host-driven strategy"
            )
        if not self.any_schedule and (setting := network.optimizer.further_setting):
            raise Unsupported(
                f"{setting} is not supported: this strategy's rate is constant and its gradients are not "
                "clipped together: choose resident, graph, pipelined, synchronous or a host-driven strategy"
            )
        if not self.any_storage and network.storage != FP32:
            raise Unsupported(
                f"training.storage={network.storage} holds activations and error signals on the device in 16 "
                "bits, and this strategy's are float32: choose resident, graph or a peer of PyTorch"
            )
        fidelity = f"training.fidelity={network.fidelity}"
        if network.fidelity != LEAN and not self.any_fidelity:
            raise Unsupported(
                f"{fidelity} is the step of the paper's programs, whose host matrices are new in each step: "
                "choose reference, pinned, streams or combined"
            )
        is_papers = network.widths and network.update_order == "sequential" and network.optimizer == PLAIN
        if network.fidelity != LEAN and not (is_papers and network.order_seed is None):
            raise Unsupported(
                f"{fidelity} trains what the paper's programs train: multilayer perceptrons without biases, "
                "with ReLU and the mean squared error, by plain gradient descent in file order, with "
                "network.update_order=sequential"
            )
        if self.own_step and network.gradient.name != "exact":
            raise Unsupported(
                f"training.gradient={network.gradient.name} replaces launches of a step, and {self.own_step} "
                "has its own step: choose training.gradient=exact"
            )

    def prepare(self, epochs: int) -> None:  # noqa: B027 - most have nothing left to do
        """Do what needs the number of epochs: after ``setup``, before anything is timed."""

    def starts(self, network: Network, seed: int) -> Iterator[list[np.ndarray]]:
        """Initial weights for ``load``, run after run; each continues the seed's random stream."""
        random = GlibcRandom(seed)
        while True:
            yield draw_weights(network, random)

    @abstractmethod
    def load(self, weights: list[np.ndarray]) -> None:
        """Start a run from these weights, float32; they are copied."""

    @abstractmethod
    def epoch(self) -> None:
        """Train on every batch once; the last one may be smaller than the others.

        The rows are in file order, or in the order of the run's next epoch (``Network.order_seed``).
        """

    def train(self, epochs: int) -> None:
        """Train for ``epochs`` epochs: the timed part of a run."""
        for _ in range(epochs):
            self.epoch()

    def watch(self, epochs: int, patience: int | None, report: EpochReport) -> list[Watched]:
        """Train for ``epochs`` epochs, or until ``patience`` of them in a row had no smaller validation loss.

        Returns the epochs of each network that a run trains. Only right after ``load``, with
        ``keeps_losses``. ``report`` is called after each epoch or, if launches train several, now and then
        and at the end.
        """
        found, smallest, best = list[tuple[float, float, float, float]](), BestEpoch(patience), None
        for number in range(1, epochs + 1):
            began = perf_counter()
            self.epoch()
            loss = float(np.mean(self.epoch_losses()))
            trained = perf_counter()
            held = self.validation_loss() if self.validation else nan
            found.append((loss, held, trained - began, perf_counter() - trained))
            report(number, loss, held)
            if smallest.is_new(held):
                best = self.weights()
            if smallest.is_over:
                break
        losses, held_out, of_training, of_rest = np.array(found).T
        return [Watched(losses, held_out, of_training, of_rest, best)]

    @abstractmethod
    def loss(self) -> float:
        """The loss of the last batch trained on, before that batch's update."""

    def check_trained(self) -> None:  # noqa: B027 - the host itself counts the steps of most strategies
        """Raise MeasurementError unless the device has trained every step asked for since ``setup``."""

    def losses(self) -> list[float]:
        """The loss of each network that a run trains; ``loss`` is their mean."""
        return [self.loss()]

    def members(self, seed: int) -> list[dict[str, Any]]:
        """Keys that distinguish the networks of a run that trains several; after ``setup``."""
        return []

    @abstractmethod
    def epoch_losses(self) -> np.ndarray:
        """The loss of each batch of the last epoch, (batches,), each before that batch's update.

        Only with ``keeps_losses``. Raises Unsupported if a strategy cannot keep them.
        """

    @abstractmethod
    def predict(self, X: np.ndarray) -> np.ndarray:
        """The outputs for rows of data, float32 (n, outputs), with the weights as they are now.

        Rows come from host memory and outputs return to it, by batches of the size that ``setup`` was given.
        Raises Unsupported if a strategy only trains.
        """

    def validation_loss(self) -> float:
        """The mean loss of the rows ``validation`` with the weights as they are now.

        The host computes it from ``predict``, unless a strategy keeps these rows on the device.
        """
        assert self.validation is not None
        X, Y = self.validation
        return self.network.loss.evaluate(self.predict(X), Y)

    @abstractmethod
    def weights(self) -> list[np.ndarray]:
        """A copy of the weights as they are now."""

    def allocator_peaks(self) -> dict[str, int]:
        """The most bytes that a peer's allocator had handed out, and reserved; empty if it counts none."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Free everything; harmless when called twice or before ``setup``."""


_OF_PEERS = Linear, Conv2d, MaxPool2d, AvgPool2d, Flatten, LayerNorm, *ACTIVATIONS.values()
"""Layers that all peers implement."""

PEERS = "pip install torch jax" if IS_INSTALLED else "pip install -r envs/requirements-peers.txt"


def required(package: str, install_command: str = "make env") -> Any:
    """The imported package. Raises Unsupported, with the command that installs it, if the import fails."""
    try:
        return import_module(package)
    except ImportError as error:
        raise Unsupported(
            f"{package} cannot be imported ({error}): `{install_command}` installs it"
        ) from error


class Peer(Strategy):
    """A strategy whose package trains instead of the backend, in float32 or, on a GPU, in tf32."""

    own_runtime: str
    any_network = True

    further_layers: tuple[type[Layer], ...] = ()
    """Layers that it implements and not all peers do."""

    def begin(self, network: Network) -> Any:
        """The package, imported. Raises Unsupported if it is missing or cannot train the network."""
        package, precision = required(self.own_runtime, PEERS), self.backend.precision
        if precision not in ("fp32", "tf32"):
            raise Unsupported(f"this peer trains in float32 or tf32, not {precision}")
        if self.backend.is_processor and precision != "fp32":
            raise Unsupported(f"on the CPU this peer trains in float32, not {precision}")
        for layer in network.layers:
            if type(layer) in (*_OF_PEERS, *self.further_layers):
                continue
            reason = " and would drop other elements" if isinstance(layer, Dropout) else ""
            raise Unsupported(f"this peer does not implement the layer {layer.name}{reason}")
        return package
