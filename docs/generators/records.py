"""Every key of a record, from its JSON schema."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from generators.links import ROOT
from generators.markdown import paragraphs, table

SCHEMAS = {
    "Cells": "record",
    "Limits of a device": "limits",
    "Microbenchmarks": "microbenchmark",
}
Schema = Mapping[str, Any]


def pages() -> dict[str, str]:
    return {"record_schema.md": page()}


def page() -> str:
    """A table of keys for each kind of record."""
    parts = []
    for title, name in SCHEMAS.items():
        schema = json.loads((ROOT / f"snn/records/{name}.schema.json").read_text(encoding="utf-8"))
        rows = [(f"`{key}`", value, said) for key, value, said in keys(schema, schema, "")]
        parts.append(f"## {title}\n\n`snn/records/{name}.schema.json`: {schema['title']}.")
        parts.append(table(["key", "value", "meaning"], rows))
    return paragraphs("# Record schemas", "[Records](../reference/records.md) explains them.", *parts)


def keys(schema: Schema, of: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    """The keys below one of a schema, with their allowed values; keys in lists have []."""
    of = _resolved(schema, of)
    if "items" in of:
        yield from keys(schema, of["items"], f"{path}[]")
    required = set(of.get("required", ()))
    for key, value in of.get("properties", {}).items():
        whole = f"{path}.{key}".lstrip(".")
        target = _resolved(schema, value)
        said = str(value.get("description") or target.get("description", ""))
        yield whole, _kind(schema, value) + ("" if key in required else ", optional"), said
        yield from keys(schema, value, whole)


def _resolved(schema: Schema, of: Schema) -> Schema:
    return schema["$defs"][of["$ref"].rpartition("/")[2]] if "$ref" in of else of


def _kind(schema: Schema, of: Schema) -> str:
    of = _resolved(schema, of)
    if "enum" in of:
        return " or ".join(f"`{json.dumps(value)}`" for value in of["enum"])
    types = of.get("type", "any")
    return " or ".join([types] if isinstance(types, str) else types)
