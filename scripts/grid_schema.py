"""``python scripts/grid_schema.py``: write the JSON schema of grid files, for editors.

It follows from the settings of a cell (``snn/config/settings.py``) and the keys of a grid
(``snn/grid/grid_file.py``); run this after one of them has changed. Choices are not listed: each is a file.
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from snn.config import groups  # noqa: E402
from snn.config.settings import ANYTHING, FLAG, KINDS, Form, Kind, Range  # noqa: E402
from snn.files import outputs  # noqa: E402
from snn.grid import grid_file  # noqa: E402
from snn.microbenchmarks.settings import SETTINGS  # noqa: E402

PATH = ROOT / "workflow/schemas/grid.schema.json"
Schema = dict[str, Any]


def schema() -> Schema:
    """The schema of a grid file."""
    settings = {key: {"$ref": f"#/$defs/{key}"} for key in grid_file.AXES}
    of_choices = {"description": grid_file.OF_CHOICES}
    devices = {
        "description": grid_file.KEYS["devices"],
        "type": ["string", "array"],
        "items": {"type": "string"},
    }
    product: Schema = {"$ref": "#/$defs/product"}
    union = {"description": grid_file.IN_SWEEPS["union"], "type": "array", "minItems": 1, "items": product}
    on_cpu = {"description": grid_file.IN_SWEEPS["on_cpu"], "$ref": "#/$defs/settings"}

    def keys(**others: Schema) -> Schema:
        return {
            "type": "object",
            "properties": settings | others,
            "patternProperties": {f"^{grid_file.OF_CHOICES_FORM}$": of_choices},
            "additionalProperties": False,
        }

    described = {key: {"description": right} for key, right in grid_file.KEYS.items()}
    sweeps = {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/sweep"}}
    benchmarks = {name: microbenchmark(name) for name in SETTINGS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A grid of experiments. Written by scripts/grid_schema.py",
        "type": "object",
        "required": ["sweeps"],
        "additionalProperties": False,
        "properties": {
            "device": described["device"] | {"type": "string"},
            "devices": devices,
            "defaults": described["defaults"] | {"$ref": "#/$defs/settings"},
            "on_cpu": described["on_cpu"] | {"$ref": "#/$defs/settings"},
            "sweeps": described["sweeps"] | sweeps,
            "microbenchmarks": described["microbenchmarks"]
            | {"type": "object", "additionalProperties": False, "properties": benchmarks},
        },
        "$defs": {
            **{key: axis(key) for key in grid_file.AXES},
            "settings": keys(union=union),
            "product": keys(union=union, on_cpu=on_cpu),
            "sweep": keys(union=union, on_cpu=on_cpu, devices=devices),
        },
    }


def axis(key: str) -> Schema:
    """One value of a setting, or a list of them."""
    named = {"type": "string", "description": f"the name of a file in config/{key}/"}
    one = named if key in groups.GROUPS else value(KINDS[key])
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "uniqueItems": True}]}


def value(kind: Kind) -> Schema:
    """A value of this kind; of a form, its words alone."""
    said: Schema = {"description": kind.right}
    if kind is KINDS["protocol.neighbour"]:
        return {"type": "string", "description": "any, none, or the name of a file in config/strategy/"}
    if isinstance(kind, Form) and kind.allowed:
        return said | {"enum": [*kind.allowed]}
    if kind is FLAG:
        return said | {"type": "boolean"}
    if not isinstance(kind, Range):
        return said | ({"type": "array"} if kind is not ANYTHING else {})
    number = "number" if kind.real else "integer"
    return said | {
        "type": [number, "null"] if kind.or_null else number,
        "minimum": kind.least,
        "maximum": kind.most,
    }


def microbenchmark(name: str) -> Schema:
    """The settings of a microbenchmark."""
    described: Schema = {key: {"description": kind.right} for key, kind in SETTINGS[name].items()}
    for key in described.keys() & {"peers"}:
        described[key] = {"description": "a list of names of files in config/strategy/"}
    on_cpu = {"type": "object", "description": "settings that replace the sweep's on the CPU"}
    properties = described | {grid_file.ON_CPU: on_cpu}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def main() -> int:
    with outputs.replaced(PATH) as file:
        file.write((json.dumps(schema(), indent=1) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
