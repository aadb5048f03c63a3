"""How parameters follow their gradients: PyTorch's definitions of SGD, Adam and AdamW.

The fields of a class are its keys of a cell's section ``training``, with PyTorch's defaults. Each has a
schedule of its rate (``snn.models.schedules``), and may clip the gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from snn.errors import ConfigError
from snn.models import schedules
from snn.models.schedules import CONSTANT, Schedule, with_own_keys

if TYPE_CHECKING:
    from snn.models.layers import Parameter
    from snn.models.step import Step

STEPS = "steps"
"""The buffer with what changes from step to step, so that a graph can be replayed: the number of steps,
Adam's bias corrections, the factors of rate and gradients, then partial sums of squares of gradients."""

FACTORS = slice(1, 5)
"""The part of it that is 1 when a run starts; the rest is 0."""

PARTIALS_FROM, _PARTIALS = 8, 256


def start(name: str, state: np.ndarray) -> None:
    """Set a buffer of the state to its value when a run starts."""
    state.fill(0)
    if name == STEPS:
        state[FACTORS] = 1


@dataclass(frozen=True)
class Optimizer(ABC):
    """An update of parameters. ``state``: the arrays that it keeps for each, 0 when a run starts.

    ``clip_norm`` bounds the L2 norm of all gradients together, as PyTorch's clip_grad_norm_: they are
    multiplied by min(1, clip_norm / (norm + 1e-6)).
    """

    name: ClassVar[str]
    schedule: Schedule = field(default=CONSTANT, kw_only=True)
    clip_norm: float | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def weight_decay(self) -> float:
        """The weight decay, a key of every optimiser."""

    @property
    def state(self) -> tuple[str, ...]:
        return ()

    @property
    def gains(self) -> tuple[float, float]:
        """1 - beta of Adam's means; 1 without them."""
        return 1.0, 1.0

    @property
    def counts(self) -> bool:
        """Whether a step depends on its number."""
        return self.schedule != CONSTANT

    @property
    def setting(self) -> str:
        """The setting that makes it something else than plain gradient descent."""
        return self.further_setting or f"training.optimizer={self.name}"

    @property
    def further_setting(self) -> str:
        """The setting of its schedule or of its clipping; empty if it has neither."""
        if self.schedule != CONSTANT:
            return self.schedule.setting
        return "" if self.clip_norm is None else f"training.clip_norm={self.clip_norm:g}"

    @property
    def keys(self) -> dict[str, Any]:
        """Its own keys, with values: those that only this optimiser has."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name in KEYS}

    @property
    @abstractmethod
    def op(self) -> str:
        """The operation that updates a parameter."""

    @property
    @abstractmethod
    def numbers(self) -> tuple[float, ...]:
        """The operation's numbers after the rate."""

    def update(self, step: Step, W: str, dW: str, size: int) -> None:
        """Launch the update of a parameter, or of several side by side, of this size with its gradient."""
        step.launch(self.op, (W, dW, *self.held(step, W)), (size, step.rate, *self.numbers))

    def product_numbers(self, rate: float) -> tuple[float, ...] | None:
        """The last numbers of ``matmul_tn_adam``, the product that updates; None if none does."""
        return None

    def begin(self, step: Step) -> None:
        """Launch what comes before a step's first update."""
        if STEPS in step.purposes:
            return
        counted = step.buffer(STEPS, "optimizer")
        if self.counts and not step.places:
            step.launch("count_step", (counted,), self.counting(1, step.run_steps))

    def counting(self, steps: int, run_steps: int) -> tuple[float, ...]:
        """The numbers of ``count_step`` for the next steps of a run of ``run_steps``."""
        return steps, *self.gains, *self.schedule.numbers(run_steps)

    def clip(self, step: Step, gradients: Iterable[tuple[str, int]]) -> None:
        """Launch the computation of the factor that clips all gradients, given with their sizes."""
        if self.clip_norm is None:
            return
        self.begin(step)
        for dW, size in gradients:
            step.launch("add_squares", (dW, STEPS), (size,))
        step.launch("clip_together", (STEPS,), (self.clip_norm,))

    def state_sizes(self, parameters: Iterable[Parameter]) -> dict[str, int]:
        """The elements of each buffer of the optimiser's state."""
        trained = [one for one in parameters if one.trained]
        sizes = {f"{one.name} {kind}": prod(one.shape) for one in trained for kind in self.state}
        steps = PARTIALS_FROM + (0 if self.clip_norm is None else _PARTIALS)
        return sizes if self == PLAIN else sizes | {STEPS: steps}

    def held(self, step: Step, W: str) -> list[str]:
        """The buffers of a parameter's state, and the one of the step, behind the launches before it."""
        self.begin(step)
        return [*(step.buffer(f"{W} {kind}", "optimizer") for kind in self.state), STEPS]


@dataclass(frozen=True)
class Sgd(Optimizer):
    """G += weight_decay W, then W -= rate G. With momentum M = momentum M + G replaces G, or with nesterov
    G + momentum M."""

    name = "sgd"
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.nesterov and not self.momentum:
            raise ConfigError("training.nesterov is true: it needs training.momentum above 0, such as 0.9")

    @property
    def state(self) -> tuple[str, ...]:
        return ("momentum",) if self.momentum else ()

    @property
    def setting(self) -> str:
        key = "momentum" if self.momentum else "weight_decay"
        return f"training.{key}={getattr(self, key):g}" if getattr(self, key) else super().setting

    @property
    def op(self) -> str:
        if self.momentum:
            return "nesterov_update" if self.nesterov else "momentum_update"
        return "update" if self == PLAIN else "decay_update"

    @property
    def numbers(self) -> tuple[float, ...]:
        without_momentum = {"update": (), "decay_update": (self.weight_decay,)}
        return without_momentum.get(self.op, (self.momentum, self.weight_decay))


@dataclass(frozen=True)
class Adam(Optimizer):
    """Kingma and Ba (2015), with G += weight_decay W first.

    In step t: m += (1 - beta1) (G - m), v += (1 - beta2) (G^2 - v),
    W -= rate / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps).
    """

    name = "adam"
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    @property
    def state(self) -> tuple[str, ...]:
        return ("m", "v")

    @property
    def gains(self) -> tuple[float, float]:
        return 1 - self.beta1, 1 - self.beta2

    @property
    def counts(self) -> bool:
        return True

    @property
    def setting(self) -> str:
        return f"training.optimizer={self.name}"

    @property
    def op(self) -> str:
        return f"{self.name}_update"

    @property
    def numbers(self) -> tuple[float, ...]:
        return *self.gains, self.eps, self.weight_decay

    def product_numbers(self, rate: float) -> tuple[float, ...]:
        decays = (0.0, self.weight_decay) if isinstance(self, AdamW) else (self.weight_decay, 0.0)
        return rate, *self.gains, self.eps, *decays


@dataclass(frozen=True)
class AdamW(Adam):
    """Loshchilov and Hutter (2019): Adam without decay in G; W -= rate weight_decay W first."""

    name = "adamw"
    weight_decay: float = 0.01


OPTIMIZERS: Mapping[str, type[Optimizer]] = {one.name: one for one in (Sgd, Adam, AdamW)}
PLAIN = Sgd()
"""Gradient descent as in the paper."""

KEYS = tuple(
    dict.fromkeys(one.name for kind in OPTIMIZERS.values() for one in fields(kind) if not one.kw_only)
)
"""Keys of ``training`` that at least one optimiser alone has; null means its default."""


def of(training: Mapping[str, Any]) -> Optimizer:
    """The optimiser of a section ``training``, with its schedule.

    Raises ConfigError for a key that either does not have, or values that do not go together.
    """
    kind = OPTIMIZERS[training.get("optimizer", PLAIN.name)]
    optimizer = with_own_keys("optimizer", kind, KEYS, training)
    return replace(optimizer, schedule=schedules.of(training), clip_norm=training.get("clip_norm"))


def settled(training: Mapping[str, Any]) -> dict[str, Any]:
    """The section as cells have it: with all keys of its optimiser and schedule, or none for plain SGD."""
    optional = (*KEYS, "optimizer", *schedules.KEYS, "schedule", "clip_norm")
    found = {key: value for key, value in training.items() if key not in optional}
    optimizer = of(training)
    if replace(optimizer, schedule=CONSTANT, clip_norm=None) != PLAIN:
        found |= {"optimizer": optimizer.name} | optimizer.keys
    found |= schedules.settled(optimizer.schedule)
    return found if optimizer.clip_norm is None else found | {"clip_norm": optimizer.clip_norm}


def check(optimizer: Optimizer, gradient: str, update_order: str, clip_norm: float | None) -> None:
    """Raise ConfigError if a network's gradient, update order or clipping does not go with an optimiser."""
    if optimizer != PLAIN and gradient != "exact":
        raise ConfigError(
            f"{optimizer.setting}: training.gradient={gradient} is what a program follows by plain gradient "
            "descent: choose training.gradient=exact, or leave out the keys of the optimizer"
        )
    if optimizer.clip_norm is None:
        return
    if update_order == "sequential":
        raise ConfigError(
            f"training.clip_norm is {optimizer.clip_norm:g}: it bounds all gradients together, but with "
            "network.update_order=sequential a layer is updated before the gradients below it are known: "
            "choose network.update_order=simultaneous"
        )
    if clip_norm is not None:
        raise ConfigError(
            f"training.clip_norm is {optimizer.clip_norm:g} and network.clip_norm is {clip_norm:g}: "
            "gradients are clipped all together or each by itself: set one of them to null"
        )
