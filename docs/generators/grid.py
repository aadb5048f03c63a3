"""Every key of a grid file: its values, ranges and defaults, and the choices with their options."""

import re
import textwrap
from pathlib import Path

import yaml

from generators.markdown import first_comment, paragraphs, table
from snn.config.groups import CONFIG, GROUPS, default_choices, default_training, names, options, read_yaml
from snn.config.settings import KINDS, Range, find_kind
from snn.grid import grid_file
from snn.microbenchmarks.settings import SETTINGS

_LINE = re.compile(r"^(\w+): *(.*?) *(?:# (.*))?$", re.MULTILINE)


def pages() -> dict[str, str]:
    return {"grid.md": page()}


def page() -> str:
    """Keys of the file, settings, choices by group, and microbenchmarks."""
    top = [(f"`{key}`", right) for key, right in grid_file.KEYS.items()]
    return paragraphs(
        "# Grid reference",
        "From the settings of a cell (`snn/config/settings.py`), the keys of a grid "
        "(`snn/grid/grid_file.py`) and the files in `config/`. "
        "[Configuration](configuration.md) explains how a grid is written.",
        "## Keys of the file",
        table(["key", "value"], top),
        "## Settings",
        "A list of values is an axis. Choices with other defaults are listed with them. "
        "A setting whose default is `???` must be given.",
        table(
            ["setting", "default", "meaning", "value", "range, and its reason"],
            [*(_choice(group) for group in GROUPS), *map(_setting, _keys())],
        ),
        "A sweep, or one of its products, may also have:",
        table(["key", "value"], [(f"`{key}`", right) for key, right in grid_file.IN_SWEEPS.items()]),
        "## Choices",
        *(_group(group) for group in GROUPS),
        "## Microbenchmarks",
        *map(_microbenchmark, SETTINGS),
    )


def _keys() -> list[str]:
    """The settings of all groups and of training, in the order of the files."""
    of_groups = (
        f"{group}.{key}" for group in GROUPS for name in names(group) for key in options(group, name)
    )
    found = dict.fromkeys([*of_groups, *(f"training.{key}" for key in default_training())])
    return [key for key in found if not key.startswith("device.")]


def _choice(group: str) -> list[str]:
    return [f"`{group}`", f"`{default_choices()[group]}`", "", f"the name of a file in config/{group}/", ""]


def _setting(key: str) -> list[str]:
    section, _, name = key.partition(".")
    lines = _training() if section == "training" else {of: _lines(section, of) for of in _sorted(section)}
    found = {choice: of[name] for choice, of in lines.items() if name in of}
    defaults: dict[str, list[str]] = {}
    for choice, (value, _) in found.items():
        defaults.setdefault(value, []).append(f"`{choice}`")
    if len(defaults) == 1:
        (default,) = (f"`{value}`" for value in defaults)
    else:
        default = "; ".join(f"`{value}` ({', '.join(choices)})" for value, choices in defaults.items())
    meaning = next((comment for _, comment in found.values() if comment), "")
    kind = KINDS.get(key) or find_kind(key, yaml.safe_load(next(iter(defaults))))
    value = " or ".join(f"`{one}`" for one in getattr(kind, "allowed", ())) or kind.right
    return [f"`{key}`", default, meaning, value, _range(kind.numbers)]


def _sorted(group: str) -> list[str]:
    """The choices of a group, with the default first: its file explains the keys."""
    return sorted(names(group), key=lambda choice: choice != default_choices()[group])


def _training() -> dict[str, dict[str, tuple[str, str]]]:
    block = (CONFIG / "config.yaml").read_text(encoding="utf-8").partition("\ntraining:\n")[2]
    return {"training": _parsed(textwrap.dedent(block.partition("\n\n")[0]))}


def _lines(group: str, choice: str) -> dict[str, tuple[str, str]]:
    return _parsed((CONFIG / group / f"{choice}.yaml").read_text(encoding="utf-8"))


def _parsed(text: str) -> dict[str, tuple[str, str]]:
    """The value and the comment of each key of a YAML file, as they are written."""
    return {key: (value, comment) for key, value, comment in _LINE.findall(text)}


def _range(of: Range | None) -> str:
    if of is None:
        return ""
    words = [f"{of.least:.12g} to {of.most:.12g}"]
    words += [f"`{of.or_word}`"] if of.or_word else []
    words += [f"`null` for {of.or_null}"] if of.or_null else []
    return f"{', or '.join(words)}: {of.reason}"


def _group(group: str) -> str:
    """The choices of a group, each with a description and its keys and values."""
    rows = []
    for name in names(group):
        text = (CONFIG / group / f"{name}.yaml").read_text(encoding="utf-8")
        keys = [
            f"`{key}: {value}`"
            for key, (value, _) in _parsed(text).items()
            if key not in ("name", "_target_")
        ]
        rows.append((f"`{name}`", first_comment(text), "<br>".join(keys)))
    return paragraphs(f"### {group}", table(["choice", "what it is", "its keys"], rows))


def _microbenchmark(name: str) -> str:
    given = read_yaml(Path(CONFIG / "grid.yaml")).get("microbenchmarks", {}).get(name, {})
    rows = [
        (f"`{key}`", kind.right, f"`{given[key]}`" if key in given else "")
        for key, kind in SETTINGS[name].items()
    ]
    return paragraphs(f"### {name}", table(["setting", "value", "in grid.yaml"], rows))
