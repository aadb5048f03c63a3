"""How parameters follow their gradients: PyTorch's definitions of SGD, Adam and AdamW.

The fields of a class are its keys of a cell's section ``training``, with PyTorch's defaults.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from snn.errors import ConfigError, shown

if TYPE_CHECKING:
    from snn.models.layers import Parameter
    from snn.models.step import Step

STEPS = "steps"
"""The buffer with the number of Adam's step and its bias corrections, so that a graph can be replayed."""

_STEPS_SIZE = 4


@dataclass(frozen=True)
class Optimizer(ABC):
    """An update of parameters. ``state``: the arrays that it keeps for each, 0 when a run starts."""

    name: ClassVar[str]

    @property
    def state(self) -> tuple[str, ...]:
        return ()

    @property
    def setting(self) -> str:
        """The setting that makes it something else than plain gradient descent."""
        return f"training.optimizer={self.name}"

    @abstractmethod
    def update(self, step: Step, W: str, dW: str, size: int) -> None:
        """Launch the update of a parameter of this size with its gradient."""

    def state_sizes(self, parameters: Iterable[Parameter]) -> dict[str, int]:
        """The elements of each buffer of the optimiser's state."""
        trained = [one for one in parameters if one.trained]
        sizes = {f"{one.name} {kind}": prod(one.shape) for one in trained for kind in self.state}
        return sizes | ({STEPS: _STEPS_SIZE} if isinstance(self, Adam) else {})

    def held(self, step: Step, W: str) -> list[str]:
        """The buffers of a parameter's state."""
        return [step.buffer(f"{W} {kind}", "optimizer") for kind in self.state]


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
        return f"training.{key}={getattr(self, key):g}"

    def update(self, step: Step, W: str, dW: str, size: int) -> None:
        held = self.held(step, W)
        if held:
            op = "nesterov_update" if self.nesterov else "momentum_update"
            step.launch(op, (W, dW, *held), (size, step.rate, self.momentum, self.weight_decay))
        else:
            step.launch("decay_update", (W, dW), (size, step.rate, self.weight_decay))


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

    def update(self, step: Step, W: str, dW: str, size: int) -> None:
        gains = 1 - self.beta1, 1 - self.beta2
        if STEPS not in step.purposes:
            step.launch("count_step", (step.buffer(STEPS, "optimizer"),), gains)
        numbers = size, step.rate, *gains, self.eps, self.weight_decay
        step.launch(f"{self.name}_update", (W, dW, *self.held(step, W), STEPS), numbers)


@dataclass(frozen=True)
class AdamW(Adam):
    """Loshchilov and Hutter (2019): Adam without decay in G; W -= rate weight_decay W first."""

    name = "adamw"
    weight_decay: float = 0.01


OPTIMIZERS: Mapping[str, type[Optimizer]] = {one.name: one for one in (Sgd, Adam, AdamW)}
PLAIN = Sgd()
"""Gradient descent as in the paper."""

KEYS = tuple(dict.fromkeys(one.name for kind in OPTIMIZERS.values() for one in fields(kind)))
"""Keys of ``training`` that at least one optimiser has; null means its default."""


def of(training: Mapping[str, Any]) -> Optimizer:
    """The optimiser of a section ``training``.

    Raises ConfigError for a key that the optimiser does not have, or values that do not go together.
    """
    kind = OPTIMIZERS[training.get("optimizer", PLAIN.name)]
    given = {key: training[key] for key in KEYS if training.get(key) is not None}
    own = [one.name for one in fields(kind)]
    for key, value in given.items():
        if key not in own:
            raise ConfigError(
                f"training.{key} is {shown(value)}: training.optimizer={kind.name} has no such key, but "
                f"{', '.join(own)}: leave it out or set it to null"
            )
    return kind(**given)


def settled(training: Mapping[str, Any]) -> dict[str, Any]:
    """The section with all keys of its optimiser, as a cell has them; with none of plain SGD."""
    rest = {key: value for key, value in training.items() if key not in (*KEYS, "optimizer")}
    optimizer = of(training)
    return rest if optimizer == PLAIN else rest | {"optimizer": optimizer.name} | asdict(optimizer)


def check(optimizer: Optimizer, gradient: str) -> None:
    """Raise ConfigError if a published program's gradient is not followed as that program does."""
    if optimizer != PLAIN and gradient != "exact":
        raise ConfigError(
            f"{optimizer.setting}: training.gradient={gradient} is what a program follows by plain gradient "
            "descent: choose training.gradient=exact, or leave out the keys of the optimizer"
        )
