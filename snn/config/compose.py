"""The configuration of one cell from a command line: composed by Hydra, and checked before any work."""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.conf import HydraConf
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from snn.config import groups
from snn.config.cell import SECTIONS, Cell
from snn.config.choices import BESIDE_THE_CELL
from snn.config.overrides import read
from snn.config.settings import KINDS, check_text, complete
from snn.config.sizes import check_memory
from snn.errors import ConfigError, shown
from snn.files.regular import path_of


@cache
def _store_hydra() -> None:
    """Leave out Hydra's own sections (logging, launcher, sweeper, ...), which took half of the time."""
    ConfigStore.instance().store(group="hydra", name="config", node=HydraConf(defaults=[]), provider="hydra")


def _by_hydra(overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration of these choices: most of Hydra's work for a cell."""
    _store_hydra()
    try:
        with initialize_config_dir(config_dir=str(groups.CONFIG), version_base="1.3"):
            composition = OmegaConf.to_container(compose("config", overrides=list(overrides)))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        message = " ".join(str(error).split())
        raise ConfigError(f"{shown(list(overrides))}: these cannot be composed: {message}") from error
    return cast(dict[str, Any], composition)


_sections: dict[tuple[str, str], Any] = {}
"""The sections that Hydra has composed in this process, by group and choice."""

_others: dict[str, Any] = {}
"""The sections of no group."""


@cache
def _compose_choices(given: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """The configuration of these choices of groups. Callers must not change it.

    Hydra composes it, unless it did so with each of them: a section is the same in every combination.
    """
    chosen = groups.chosen(dict(given))
    if _sections.keys() >= chosen.items():
        return _others | {group: _sections[group, name] for group, name in chosen.items()}
    composition = _by_hydra([f"{group}={name}" for group, name in given])
    if all(groups.is_alone(group, name) for group, name in chosen.items()):
        _sections.update({(group, name): composition[group] for group, name in chosen.items()})
        _others.update({key: value for key, value in composition.items() if key not in chosen})
    return composition


def composed(overrides: Sequence[str], checks_memory: bool = True) -> Cell:
    """The cell of ``config/config.yaml`` with Hydra overrides applied, and the values of the other keys.

    Raises ConfigError, also if a cell is larger than this machine's memory, and DataError for a data file.
    """
    given = read(overrides)
    chosen = tuple((key, value) for key, value in given.items() if key in groups.GROUPS)
    plain = deepcopy(_compose_choices(chosen))
    for key, value in given.items():
        section, _, leaf = key.rpartition(".")
        if key not in groups.GROUPS:  # OmegaConf would convert it, or reject it in its own words
            (plain[section] if section else plain)[leaf] = value
    beside = {key: plain[key] for key in BESIDE_THE_CELL}
    for key, value in beside.items():
        check_text(key, value)
    cell = complete({section: plain[section] for section in SECTIONS}, given)
    for key, value in beside.items():
        KINDS[key].check(key, value)
    for key in ("output", "data", "weights"):
        if beside[key] and beside[key].startswith("~"):
            beside[key] = str(path_of(beside[key]))
    if checks_memory:
        check_memory(cell)
    return cell | beside
