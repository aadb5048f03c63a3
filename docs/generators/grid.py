"""Every key of a grid file: its values, ranges and defaults, and the choices with their options."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generators.links import ROOT
from generators.markdown import first_comment, paragraphs, table
from snn.config.groups import CONFIG, GROUPS, names, read_yaml
from snn.config.ranges import RANGES, Range

SCHEMA = ROOT / "workflow/schemas/grid.schema.json"
_LINE = re.compile(r"^(\w+): *(.*?) *(?:# (.*))?$", re.MULTILINE)
Schema = Mapping[str, Any]


def pages() -> dict[str, str]:
    return {"grid.md": page()}


def page() -> str:
    """Keys of the file, settings, choices by group, and microbenchmarks."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    properties = schema["$defs"]["settings"]["properties"]
    top = [(f"`{key}`", _described(schema, of)) for key, of in schema["properties"].items()]
    settings = [_setting(schema, key, of) for key, of in properties.items()]
    return paragraphs(
        "# Grid reference",
        "From the schema of the grid (`workflow/schemas/grid.schema.json`), the ranges of numbers "
        "(`snn/config/ranges.py`) and the files in `config/`. "
        "[Configuration](configuration.md) explains how a grid is written.",
        "## Keys of the file",
        table(["key", "value"], top),
        "## Settings",
        "A list of values is an axis. The default of a setting that belongs to a choice is in the table "
        "of that choice, below.",
        table(["setting", "value", "default", "range, and its reason"], settings),
        "Settings of data sets, strategies and kernels are named `dataset.KEY`, `strategy.KEY` and "
        "`kernel.KEY`:",
        *(_group(group) for group in GROUPS),
        "## Microbenchmarks",
        *(
            _microbenchmark(schema, *item)
            for item in schema["properties"]["microbenchmarks"]["properties"].items()
        ),
    )


def _setting(schema: Schema, key: str, of: Schema) -> list[str]:
    section, _, name = key.partition(".")
    return [f"`{key}`", _described(schema, of), _default(section, name), _range(RANGES.get(key))]


def _default(section: str, name: str) -> str:
    """As config.yaml has it: a choice, or a key of the training."""
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


def _described(schema: Schema, of: Schema) -> str:
    """What a value must be, in the words of the schema."""
    if "$ref" in of:
        target = schema["$defs"][of["$ref"].rpartition("/")[2]]
        return str(of.get("description") or _described(schema, target))
    if "description" in of:
        return str(of["description"])
    if "enum" in of:
        return " or ".join(f"`{value}`" for value in of["enum"])
    if "anyOf" in of:
        return _described(schema, of["anyOf"][0])
    if of.get("type") == "array":
        return f"a list, each of {_described(schema, of['items'])}"
    return str(of.get("type", ""))


def _group(group: str) -> str:
    """The choices of a group: what each is, and its keys with their values."""
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
        table(["key", "meaning"], meanings) if meanings else "",
    )


def _meanings(group: str) -> list[tuple[str, str]]:
    """The comments beside the keys of a group's files, each once."""
    found: dict[str, str] = {}
    for name in names(group):
        for key, _, comment in _LINE.findall((CONFIG / group / f"{name}.yaml").read_text(encoding="utf-8")):
            if comment and key not in ("name", "_target_"):
                found.setdefault(f"`{group}.{key}`", comment)
    return sorted(found.items())


def _microbenchmark(schema: Schema, name: str, of: Schema) -> str:
    given = read_yaml(Path(CONFIG / "grid.yaml")).get("microbenchmarks", {}).get(name, {})
    rows = [
        (f"`{key}`", _described(schema, value), f"`{given[key]}`" if key in given else "")
        for key, value in of["properties"].items()
    ]
    return paragraphs(f"### {name}", table(["setting", "value", "in grid.yaml"], rows))
