"""The files of ``config/``: the choices of each Hydra group, and the facts about GPUs and neighbours."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from snn.config.yaml_file import read_yaml
from snn.errors import ConfigError, shown
from snn.files.project import ROOT, locate

CONFIG = ROOT / "config"
NEIGHBOURS = CONFIG / "neighbours.yaml"
MIB = 1 << 20
GROUPS = ("dataset", "network", "strategy", "kernel", "precision", "protocol", "device")

_DEFINING = {
    "dataset": ("shape",),
    "kernel": ("source", "fused", "pretransposed", "precisions"),
    "device": ("backend",),
}
"""Keys that define a choice, in addition to ``_target_`` and ``name``: they are not options."""


@cache
def module_file(module: str) -> str | None:
    """A module's file, relative to the checkout; None if it is not in the checkout. Does not import it."""
    path = module.replace(".", "/")
    return next((file for file in (f"{path}.py", f"{path}/__init__.py") if locate(file).is_file()), None)


@cache
def names(group: str) -> list[str]:
    """The choices of a group: the names of the files in ``config/GROUP``."""
    return sorted(file.stem for file in (CONFIG / group).glob("*.yaml"))


@cache
def _file(group: str, name: str) -> Mapping[str, Any]:
    """The content of a choice's file. Raises ConfigError if it holds no keys."""
    content = read_yaml(CONFIG / group / f"{name}.yaml")
    if not isinstance(content, dict):
        given = "empty" if content is None else shown(content)
        raise ConfigError(
            f"config/{group}/{name}.yaml is {given}: it must be keys with values, as KEY: VALUE"
        )
    return content


@cache
def _choices_beside(group: str, name: str) -> dict[str, str]:
    """The choices of other groups in the ``defaults`` of a choice's file, as Hydra reads them."""
    entries = (entry for entry in _file(group, name).get("defaults", ()) if isinstance(entry, dict))
    return {key.rpartition(".")[2]: choice for entry in entries for key, choice in entry.items()}


@cache
def is_alone(group: str, name: str) -> bool:
    """Whether a choice's file gives Hydra its own section and nothing else."""
    text = (CONFIG / group / f"{name}.yaml").read_text(encoding="utf-8")
    return "defaults" not in _file(group, name) and "@package" not in text


def load(group: str, name: str) -> dict[str, Any]:
    """The content of a choice's file. Raises ConfigError, with the choices, if it does not exist."""
    if name not in names(group):
        raise ConfigError(f"{group}: {name!r} is not a choice; it must be one of {', '.join(names(group))}")
    return {key: value for key, value in _file(group, name).items() if key != "defaults"}


@cache
def list_valued() -> frozenset[str]:
    """Keys such as ``network.hidden`` whose value is a list in some choice's file."""
    return frozenset(
        f"{group}.{key}"
        for group in GROUPS
        for name in names(group)
        for key, value in load(group, name).items()
        if isinstance(value, list)
    )


@cache
def _base() -> Mapping[str, Any]:
    return read_yaml(CONFIG / "config.yaml")


def default_choices() -> dict[str, str]:
    """The choice of each group that ``config/config.yaml`` names."""
    entries = (entry for entry in _base()["defaults"] if entry != "_self_")
    return {group: name for entry in entries for group, name in entry.items()}


def chosen(given: Mapping[str, Any]) -> dict[str, Any]:
    """The choice of each group: the given one, else the one in the data set's file, else the default."""
    choices = default_choices()
    dataset = given.get("dataset", choices["dataset"])
    beside = _choices_beside("dataset", dataset) if dataset in names("dataset") else {}
    return choices | beside | {group: given[group] for group in GROUPS if group in given}


def default_training() -> dict[str, Any]:
    """The training section of ``config/config.yaml``."""
    return dict(_base()["training"])


@cache
def options(section: str, choice: str | None) -> tuple[str, ...]:
    """The keys of a section that may be set; for a group, the keys of this choice."""
    if section == "training":
        return tuple(default_training())
    values = load(section, choice or default_choices()[section])
    return tuple(key for key, value in values.items() if not defines(section, key, value))


def defines(section: str, key: str, value: object = "") -> bool:
    """Whether a key, with this value in the choice's file, defines the choice and so cannot be set."""
    if section == "device" and key == "name":  # the device that a cell was planned for
        return False
    if section == "dataset" and value is None:  # read from the data
        return False
    return key in ("_target_", "name", *_DEFINING.get(section, ()))


def known_gpus() -> Mapping[str, Mapping[str, Any]]:
    """The entries of config/gpus.yaml, by the GPU's name."""
    return cast(Mapping[str, Mapping[str, Any]], read_yaml(CONFIG / "gpus.yaml"))


def gpu_memory_bytes(name: str) -> int | None:
    """The bytes of a GPU's memory; None if config/gpus.yaml does not list the GPU."""
    its = known_gpus().get(name)
    return None if its is None else MIB * int(its["memory_mib"])


def default_grid() -> Path:
    """The grid file of a command without one: the current folder's, else the project's."""
    own = Path.cwd() / "config/grid.yaml"
    return own if own.is_file() else CONFIG / "grid.yaml"


def touches(strategy: Mapping[str, Any]) -> bool:
    """Whether a cell on another GPU of the host may change a strategy's times."""
    return strategy["name"] not in untouched()


@cache
def untouched(file: Path = NEIGHBOURS) -> frozenset[str]:
    """The strategies that keep their times while another GPU is busy. Raises ConfigError for a bad file."""
    content = read_yaml(file)
    listed = content["untouched"] if isinstance(content, dict) and content.keys() == {"untouched"} else None
    known = names("strategy")
    if not isinstance(listed, list) or any(name not in known or listed.count(name) > 1 for name in listed):
        right = f"untouched: [...], strategies that are each named once, of {', '.join(known)}"
        raise ConfigError(f"{file}: it holds {shown(content)}: it must be {right}")
    return frozenset(listed)
