"""How the learning rate changes from step to step: PyTorch's schedulers, which step after each update.

The fields of a class are its keys of a cell's section ``training``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import pi
from typing import Any, ClassVar

import numpy as np

from snn.errors import ConfigError, shown

LINEAR_FORM, STEP_FORM, COSINE_FORM = range(3)
"""Numbers of the forms in a kernel (``kernels/layers/optimizers.cu``)."""

MOST_STEPS = 2**24
"""Most steps of a run with a schedule: their number is a float32."""

Numbers = tuple[int, int, int, float]
"""A form, the warm-up's steps, the length in steps of what follows, and what the form ends in."""


@dataclass(frozen=True)
class Schedule:
    """The rate grows to its full value in ``warmup_steps`` steps, by equal amounts, and stays there.

    That is LinearLR(1 / warmup_steps, 1, warmup_steps - 1) and then, by SequentialLR, the scheduler that the
    other classes name.
    """

    name: ClassVar[str] = "constant"
    warmup_steps: int = 0

    @property
    def setting(self) -> str:
        """The setting that makes the rate other than constant."""
        is_warmed = self.name == CONSTANT.name
        return f"training.warmup_steps={self.warmup_steps}" if is_warmed else f"training.schedule={self.name}"

    def numbers(self, steps: int) -> Numbers:
        """The numbers that ``factor`` takes for a run of this many steps."""
        return LINEAR_FORM, self.warmup_steps, 1, 1.0

    def left(self, steps: int) -> int:
        """The steps of a run after the warm-up."""
        return max(steps - self.warmup_steps, 1)


@dataclass(frozen=True)
class Step(Schedule):
    """StepLR: times ``gamma`` after every ``step_size`` steps."""

    name = "step"
    step_size: int = 0
    gamma: float = 0.1

    def __post_init__(self) -> None:
        if not self.step_size:
            raise ConfigError("training.step_size is null: training.schedule=step needs it, such as 1000")

    def numbers(self, steps: int) -> Numbers:
        return STEP_FORM, self.warmup_steps, self.step_size, self.gamma


@dataclass(frozen=True)
class Cosine(Schedule):
    """CosineAnnealingLR over the rest of the run, with eta_min = ``end_factor`` learning_rate."""

    name = "cosine"
    end_factor: float = 0.0

    def numbers(self, steps: int) -> Numbers:
        return COSINE_FORM, self.warmup_steps, self.left(steps), self.end_factor


@dataclass(frozen=True)
class Linear(Schedule):
    """LinearLR(1, end_factor) over the rest of the run."""

    name = "linear"
    end_factor: float = 0.0

    def numbers(self, steps: int) -> Numbers:
        return LINEAR_FORM, self.warmup_steps, self.left(steps), self.end_factor


CONSTANT = Schedule()
SCHEDULES: Mapping[str, type[Schedule]] = {one.name: one for one in (Schedule, Step, Cosine, Linear)}
KEYS = tuple(dict.fromkeys(one.name for kind in SCHEDULES.values() for one in fields(kind)))
"""Keys of ``training`` that at least one schedule has; null means its default."""


def factor(done: Any, form: int, warmup: int, length: int, end: float, xp: Any = np) -> Any:
    """The rate of the step after so many, divided by ``learning_rate``.

    ``done``: an array or tensor of ``xp``, which is NumPy, ``jax.numpy`` or torch.
    """
    after = xp.clip(done - warmup, 0, None)
    share = xp.clip(after / length, 0, 1)
    if form == STEP_FORM:
        share = end ** (after // length)
    elif form == COSINE_FORM:
        share = end + (1 - end) * (1 + xp.cos(pi * share)) / 2
    else:
        share = 1 + (end - 1) * share
    return xp.where(done < warmup, (done + 1) / max(warmup, 1), share)


def of(training: Mapping[str, Any]) -> Schedule:
    """The schedule of a section ``training``. Raises ConfigError for a key that it does not have."""
    return with_own_keys("schedule", SCHEDULES, CONSTANT.name, KEYS, training)


def with_own_keys(
    key: str, kinds: Mapping[str, Any], usual: str, known: tuple[str, ...], training: Mapping[str, Any]
) -> Any:
    """The choice of a key among ``kinds`` with the values of the section that are not null.

    Raises ConfigError for a key of ``known`` that the choice does not have.
    """
    given = {name: training[name] for name in known if training.get(name) is not None}
    every = {name: [one.name for one in fields(kind) if one.name in known] for name, kind in kinds.items()}
    kind = kinds[training.get(key, usual)]
    for name, value in given.items():
        if name not in every[kind.name]:
            others = " or ".join(f"training.{key}={other}" for other in every if name in every[other])
            raise ConfigError(
                f"training.{name} is {shown(value)}: training.{key}={kind.name} has no such key, but "
                f"{', '.join(every[kind.name])}: choose {others}, or leave it out"
            )
    return kind(**given)


def settled(schedule: Schedule) -> dict[str, Any]:
    """The keys of a schedule as cells have them; none of a constant rate."""
    return {} if schedule == CONSTANT else {"schedule": schedule.name} | asdict(schedule)


def check(schedule: Schedule, steps: int) -> None:
    """Raise ConfigError if a run has more steps than a schedule can count."""
    if schedule != CONSTANT and steps > MOST_STEPS:
        raise ConfigError(
            f"{schedule.setting}: the run has {steps} steps, and a schedule counts to {MOST_STEPS}: choose "
            "fewer training.epochs or a larger training.batch_size"
        )


def remark(schedule: Schedule, steps: int) -> str:
    """Warning about a schedule that does not fit a run of so many steps; empty if it fits."""
    run = f"a run has {steps} steps: the learning rate"
    if schedule.warmup_steps > steps:
        return (
            f"training.warmup_steps is {schedule.warmup_steps}, but {run} stays below training.learning_rate"
        )
    if isinstance(schedule, Step) and schedule.step_size >= schedule.left(steps):
        return f"training.step_size is {schedule.step_size}, but {run} never falls"
    return ""
