"""The configuration of one cell: its keys and types, composed by Hydra and checked before any work."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException, OverrideParseException
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from snn.config import groups
from snn.config.completion import complete
from snn.config.neighbour import ANY
from snn.config.overrides import check
from snn.config.sizes import check_memory
from snn.config.validation import check_profile, check_round
from snn.errors import ConfigError


@dataclass
class TrainingConfig:
    epochs: int = MISSING
    batch_size: int = MISSING
    learning_rate: float = MISSING
    reduction: str = MISSING
    gradient: str = MISSING
    drop_last: Any = MISSING  # not bool, which OmegaConf makes of any number
    accumulate: int = MISSING


@dataclass
class ProtocolConfig:
    runs: int = MISSING
    min_runs: int = MISSING
    rounds: int = MISSING
    relative_error: float | None = MISSING
    max_seconds: float | None = MISSING
    warmup_seconds: float = MISSING
    max_warmup_seconds: float = MISSING
    neighbour: str = ANY


@dataclass
class KernelConfig:
    name: str = MISSING
    source: str | None = MISSING
    block: list[int] = MISSING
    work: list[int] | None = MISSING
    fused: bool = MISSING
    pretransposed: bool = MISSING
    precisions: list[str] = MISSING


@dataclass
class PrecisionConfig:
    name: str = MISSING


@dataclass
class DeviceConfig:
    backend: str = MISSING
    name: str | None = None


@dataclass
class Config:
    """Every key of a cell. ``dataset``, ``network`` and ``strategy`` hold the keys of the chosen file."""

    dataset: Any = MISSING
    network: Any = MISSING
    strategy: Any = MISSING
    kernel: KernelConfig = field(default_factory=KernelConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    device: DeviceConfig = field(default_factory=DeviceConfig)
    round: int | None = None
    data: str | None = None
    output: str | None = None
    profile: str = "none"


def composed(overrides: Sequence[str], checks_memory: bool = True) -> dict[str, Any]:
    """The configuration of ``config/config.yaml`` with Hydra overrides applied, as plain values.

    Raises ConfigError for an unknown key, group or choice, for a value of the wrong type or out of range, and
    for a cell that does not fit into this machine's memory, unless that is not checked; DataError for a data
    set's file of which the header is wrong.
    """
    check(overrides)
    ConfigStore.instance().store(name="schema", node=Config)
    try:
        with initialize_config_dir(config_dir=str(groups.CONFIG), version_base="1.3"):
            config = compose("config", overrides=list(overrides))
        plain = cast(dict[str, Any], OmegaConf.to_container(config, resolve=True))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(_explain(error)) from error
    complete(plain)
    check_round(plain["round"])
    check_profile(plain["profile"])
    if checks_memory:
        check_memory(plain)
    return plain


def _explain(error: Exception) -> str:
    """A short form of Hydra's message."""
    merging = re.search(r"Error merging override (.+)", str(error))
    if merging and error.__cause__ is not None:
        return f"{merging[1].strip()}: {str(error.__cause__).splitlines()[0]}"
    message = " ".join(str(error).split())
    if isinstance(error, OverrideParseException):
        return f"{error.override}: {message}; text with other characters than letters is quoted: KEY='...'"
    return message
