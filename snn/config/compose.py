"""The configuration of one cell: its keys and types, composed by Hydra and checked before any work."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import filterfalse
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.conf import HydraConf
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from snn.config import groups
from snn.config.completion import complete
from snn.config.grammar import parsed
from snn.config.neighbour import ANY
from snn.config.overrides import check
from snn.config.sizes import check_memory
from snn.config.validation import check_path, check_profile, check_round
from snn.errors import ConfigError, shown
from snn.files.regular import path_of


@dataclass
class TrainingConfig:
    epochs: Any = MISSING
    batch_size: Any = MISSING
    learning_rate: Any = MISSING
    reduction: Any = MISSING
    gradient: Any = MISSING
    drop_last: Any = MISSING
    accumulate: Any = MISSING


@dataclass
class ProtocolConfig:
    runs: Any = MISSING
    min_runs: Any = MISSING
    rounds: Any = MISSING
    relative_error: Any = MISSING
    max_seconds: Any = MISSING
    warmup_seconds: Any = MISSING
    max_warmup_seconds: Any = MISSING
    neighbour: Any = ANY


@dataclass
class KernelConfig:
    name: str = MISSING
    source: str | None = MISSING
    block: Any = MISSING
    work: Any = MISSING
    fused: bool = MISSING
    pretransposed: bool = MISSING
    precisions: list[str] = MISSING


@dataclass
class PrecisionConfig:
    name: str = MISSING


@dataclass
class DeviceConfig:
    backend: Any = MISSING
    name: Any = None


@dataclass
class Config:
    """Every key of a cell. ``dataset``, ``network`` and ``strategy`` hold the keys of the chosen file.

    Values that can be set have no type here: OmegaConf would convert them, and refuse in its own words what
    ``snn.config.validation`` refuses in those of the key.
    """

    dataset: Any = MISSING
    network: Any = MISSING
    strategy: Any = MISSING
    kernel: KernelConfig = field(default_factory=KernelConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    device: DeviceConfig = field(default_factory=DeviceConfig)
    round: Any = None
    data: Any = None
    output: Any = None
    profile: Any = "none"


@cache
def _store_schema() -> None:
    """Give Hydra our keys, and in place of its own groups (logging, launcher, sweeper, ...) nothing.

    Nothing reads those groups, and composing them took half of the time of a composition.
    """
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    store.store(group="hydra", name="config", node=HydraConf(defaults=[]), provider="hydra")


@lru_cache
def _of_choices(overrides: tuple[str, ...]) -> DictConfig:
    """The configuration of these choices, which is most of what Hydra does for a cell. Not to be changed."""
    _store_schema()
    with initialize_config_dir(config_dir=str(groups.CONFIG), version_base="1.3"):
        return compose("config", overrides=list(overrides))


def _is_choice(override: str) -> bool:
    return override.partition("=")[0] in groups.GROUPS


def _set(plain: dict[str, Any], override: str) -> None:
    """Replace a value, of whatever type: the checks that follow know each key, OmegaConf does not."""
    setting = parsed(override)
    section, dot, key = setting.key_or_group.rpartition(".")
    (plain[section] if dot else plain)[key] = setting.value()


def composed(overrides: Sequence[str], checks_memory: bool = True) -> dict[str, Any]:
    """The configuration of ``config/config.yaml`` with Hydra overrides applied, as plain values.

    Raises ConfigError for an unknown key, group or choice, for a value of the wrong type or out of range, and
    for a cell that does not fit into this machine's memory, unless that is not checked; DataError for a data
    set's file of which the header is wrong.
    """
    check(overrides)
    choices = tuple(filter(_is_choice, overrides))
    try:
        plain = cast(dict[str, Any], OmegaConf.to_container(_of_choices(choices)))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        message = " ".join(str(error).split())
        raise ConfigError(f"{shown(list(choices))}: these cannot be composed: {message}") from error
    for override in filterfalse(_is_choice, overrides):
        _set(plain, override)
    complete(plain, {override.partition("=")[0] for override in overrides})
    check_round(plain["round"])
    check_profile(plain["profile"])
    for key in ("output", "data"):
        check_path(key, plain[key])
        if plain[key] and plain[key].startswith("~"):
            plain[key] = str(path_of(plain[key]))
    if checks_memory:
        check_memory(plain)
    return plain
