"""Every key of a grid file: its values, ranges and defaults, and the choices with their options."""

import re
from pathlib import Path

from generators.markdown import first_comment, paragraphs, table
from snn.config.groups import CONFIG, GROUPS, names, read_yaml
from snn.config.settings import KINDS, Range
from snn.grid import grid_file
from snn.microbenchmarks.settings import SETTINGS

_LINE = re.compile(r"^(\w+): *(.*?) *(?:# (.*))?$", re.MULTILINE)


def pages() -> dict[str, str]:
    return {"grid.md": page()}


def page() -> str:
    """Keys of the file, settings, choices by group, and microbenchmarks."""
    top = [(f"`{key}`", right) for key, right in grid_file.KEYS.items()]
    others = [[f"`{key}`", right, "", ""] for key, right in grid_file.IN_SWEEPS.items()]
    return paragraphs(
        "# Grid reference",
        "From the settings of a cell (`snn/config/settings.py`), the keys of a grid "
        "(`snn/grid/grid_file.py`) and the files in `config/`. "
        "[Configuration](configuration.md) explains how a grid is written.",
        "## Keys of the file",
        table(["key", "value"], top),
        "## Settings",
        "A list of values is an axis. The default of a setting that belongs to a choice is in the table "
        "of that choice, below.",
        table(
            ["setting", "value", "default", "range, and its reason"],
            [*map(_setting, grid_file.AXES), *others],
        ),
        "Settings of data sets, strategies and kernels have the keys `dataset.KEY`, `strategy.KEY` and "
        "`kernel.KEY`:",
        *(_group(group) for group in GROUPS),
        "## Microbenchmarks",
        *map(_microbenchmark, SETTINGS),
    )


def _setting(key: str) -> list[str]:
    section, _, name = key.partition(".")
    if not name:
        return [f"`{key}`", f"the name of a file in config/{key}/", _default(key, ""), ""]
    return [f"`{key}`", _value(key), _default(section, name), _range(KINDS[key].numbers)]


def _value(key: str) -> str:
    """Allowed values of a key."""
    kind = KINDS[key]
    return " or ".join(f"`{one}`" for one in getattr(kind, "allowed", ())) or kind.right


def _default(section: str, name: str) -> str:
    """The default in config.yaml: of a choice, or of a key in a section."""
    text = (CONFIG / "config.yaml").read_text(encoding="utf-8")
    if name:
        block = re.search(rf"^{section}:\n((?: .*\n)+)", text, re.MULTILINE)
        found = re.search(rf"^ +{name}: *(\S+)", block[1], re.MULTILINE) if block else None
    else:
        found = re.search(rf"^ +- {section}: *(\w+)", text, re.MULTILINE)
    return f"`{found[1]}`" if found else ""


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
            f"`{key}: {value}`" for key, value, _ in _LINE.findall(text) if key not in ("name", "_target_")
        ]
        rows.append((f"`{name}`", first_comment(text), "<br>".join(keys)))
    meanings = _meanings(group)
    return paragraphs(
        f"### {group}",
        table(["choice", "what it is", "its keys"], rows),
        table(["key", "meaning", "range, and its reason"], meanings) if meanings else "",
    )


def _meanings(group: str) -> list[tuple[str, str, str]]:
    """Return each comment on a key of a group's files once, with the key's range."""
    found: dict[str, str] = {}
    for name in names(group):
        for key, _, comment in _LINE.findall((CONFIG / group / f"{name}.yaml").read_text(encoding="utf-8")):
            if comment and key not in ("name", "_target_"):
                found.setdefault(f"{group}.{key}", comment)
    of = {key: KINDS[key].numbers for key in found if key in KINDS}
    return [(f"`{key}`", comment, _range(of.get(key))) for key, comment in sorted(found.items())]


def _microbenchmark(name: str) -> str:
    given = read_yaml(Path(CONFIG / "grid.yaml")).get("microbenchmarks", {}).get(name, {})
    rows = [
        (f"`{key}`", kind.right, f"`{given[key]}`" if key in given else "")
        for key, kind in SETTINGS[name].items()
    ]
    return paragraphs(f"### {name}", table(["setting", "value", "in grid.yaml"], rows))
