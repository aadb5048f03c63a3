"""The configuration of one cell: its keys and types, composed by Hydra and checked before any work."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from snn.config import groups
from snn.config.validation import check_cell, check_profile, check_round, settle
from snn.errors import ConfigError


@dataclass
class TrainingConfig:
    epochs: int = MISSING
    batch_size: int = MISSING
    learning_rate: float = MISSING


@dataclass
class ProtocolConfig:
    runs: int = MISSING
    min_runs: int = MISSING
    rounds: int = MISSING
    relative_error: float | None = MISSING
    max_seconds: float | None = MISSING
    warmup_seconds: float = MISSING
    max_warmup_seconds: float = MISSING


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


def composed(overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration of ``config/config.yaml`` with Hydra overrides applied, as plain values.

    Raises ConfigError for an unknown key, group or choice, and for a value of the wrong type or out of range.
    """
    ConfigStore.instance().store(name="schema", node=Config)
    try:
        with initialize_config_dir(config_dir=str(groups.CONFIG), version_base="1.3"):
            config = compose("config", overrides=list(overrides))
        plain = cast(dict[str, Any], OmegaConf.to_container(config, resolve=True))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_explain(error, overrides)) from error
    check_cell(plain)
    settle(plain)
    check_round(plain["round"], plain["protocol"])
    check_profile(plain["profile"])
    return plain


def _explain(error: Exception, overrides: Sequence[str]) -> str:
    """A short form of Hydra's message, with the keys or choices that would be right."""
    chosen = groups.default_choices()
    for override in overrides:
        key, _, value = override.partition("=")
        if key in groups.GROUPS:
            if value not in groups.names(key):
                return f"{override}: not a choice; {key} must be one of {', '.join(groups.names(key))}"
            chosen[key] = value
    unknown = re.search(r"Could not override '([^']+)'", str(error))
    if unknown:
        return f"{unknown[1]}: there is no such key; {_known_keys(unknown[1].partition('.')[0], chosen)}"
    merging = re.search(r"Error merging override (.+)", str(error))
    if merging and error.__cause__ is not None:
        return f"{merging[1].strip()}: {str(error.__cause__).splitlines()[0]}"
    return " ".join(str(error).split())


def _known_keys(group: str, chosen: Mapping[str, str]) -> str:
    if group == "training":
        known = list(groups.default_training())
    elif group in groups.GROUPS:
        known = [key for key in groups.load(group, chosen[group]) if key not in ("_target_", "name")]
    else:
        return f"the keys are {', '.join([*groups.GROUPS, 'training', 'round', 'data', 'output', 'profile'])}"
    return f"{group} has {', '.join(known) or 'no keys to set'}"
