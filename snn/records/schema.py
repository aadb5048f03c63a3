"""Values against the JSON schemas beside this module, compiled to functions: thousands of records are read.

Of JSON Schema these are the keywords that the schemas use. Any other is an error, so that none is ignored.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from snn.errors import RecordError

Check = Callable[[Any], None]
"""Raises ``_Wrong`` where a value does not fit."""

_NOTES = {"$schema", "$defs", "title", "description"}
_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_LARGEST = sys.float_info.max

LARGEST_INTEGER = (1 << 63) - 1
"""What a column of integers in a table can hold."""


class _Wrong(Exception):
    """A value that does not fit: what is said of it, and the keys on the way to it."""

    def __init__(self, said: str) -> None:
        self.said, self.way = said, ""


def check(name: str, value: Any, place: str) -> None:
    """Raise RecordError, with key, value and what would fit, where a value does not fit this schema."""
    try:
        _of(name)(value)
    except _Wrong as wrong:
        raise RecordError(f"{place}: {wrong.way.lstrip('.') or 'it'} {wrong.said}") from None


def load(name: str) -> dict[str, Any]:
    """The JSON schema of this name."""
    path = Path(__file__).with_name(f"{name}.schema.json")
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


@cache
def _of(name: str) -> Check:
    schema = load(name)
    return _compiled(schema, schema.get("$defs", {}))


def _compiled(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Check:
    """The check of a schema: by the type of the value, what a value of this type must be."""
    if "$ref" in schema:
        return _compiled(defs[schema["$ref"].removeprefix("#/$defs/")], defs)
    rest = {key: value for key, value in schema.items() if key not in _NOTES}
    if "enum" in rest:
        return _one_of(rest.pop("enum"), rest)
    types = rest.pop("type")
    names = types if isinstance(types, list) else [types]
    checks: dict[type, Check | None] = {}
    if "object" in names:
        checks[dict] = _object(rest, defs)
    if "array" in names:
        checks[list] = _array(rest, defs)
    if "string" in names:
        checks[str] = _string(rest)
    if {"integer", "number"} & set(names):
        number = _number(rest)
        checks |= dict.fromkeys((int, float) if "number" in names else (int,), number)
    checks |= dict.fromkeys((kind for name in names for kind in _TYPES[name] if kind not in checks), None)
    if rest:
        raise ValueError(f"a schema has keywords that nothing here checks: {', '.join(rest)}")
    said = ", ".join(dict.fromkeys(_NAMES[_TYPES[name][-1]] for name in names))

    def check(value: Any) -> None:
        try:
            inner = checks[type(value)]
        except KeyError:
            raise _Wrong(f"is {shown(value)}: it must be {said}") from None
        if inner is not None:
            inner(value)

    return check


def _one_of(allowed: list[Any], rest: Mapping[str, Any]) -> Check:
    if rest:
        raise ValueError(f"a schema has keywords beside enum, which nothing here checks: {', '.join(rest)}")
    kinds = {(type(value), value) for value in allowed}  # 1, 1.0 and True are equal
    said = ", ".join("null" if value is None else str(value) for value in allowed)

    def check(value: Any) -> None:
        if isinstance(value, (dict, list)) or (type(value), value) not in kinds:
            raise _Wrong(f"is {shown(value)}: it must be one of {said}")

    return check


def _object(rest: dict[str, Any], defs: Mapping[str, Any]) -> Check:
    known = {key: _compiled(inner, defs) for key, inner in rest.pop("properties", {}).items()}
    required = frozenset(rest.pop("required", ()))
    further: dict[str, list[str]] = rest.pop("dependentRequired", {})
    least = rest.pop("minProperties", 0)
    others = rest.pop("additionalProperties", True)
    other = _compiled(others, defs) if isinstance(others, dict) else None

    def check(value: dict[str, Any]) -> None:
        if not required <= value.keys():
            raise _Wrong(f"lacks {', '.join(sorted(required - value.keys()))}")
        for key, needed in further.items():
            if key in value and not value.keys() >= set(needed):
                raise _Wrong(f"lacks {', '.join(sorted(set(needed) - value.keys()))}")
        if len(value) < least:
            raise _Wrong("is empty")
        for key, one in value.items():
            inner = known.get(key, other)
            if inner is None:
                if others is False:
                    raise _Wrong(f"has the unknown key {shown(key)}")
                continue
            try:
                inner(one)
            except _Wrong as wrong:
                wrong.way = (f".{key}" if key.isidentifier() else f"[{shown(key)}]") + wrong.way
                raise

    return check


def _array(rest: dict[str, Any], defs: Mapping[str, Any]) -> Check:
    item = _compiled(rest.pop("items"), defs) if "items" in rest else None
    least, most = rest.pop("minItems", 0), rest.pop("maxItems", sys.maxsize)

    def check(value: list[Any]) -> None:
        if not least <= len(value) <= most:
            raise _Wrong(f"has {len(value)} values: it must have {least} or more, and {most} at most")
        if item is None:
            return
        for i, one in enumerate(value):
            try:
                item(one)
            except _Wrong as wrong:
                wrong.way = f"[{i}]{wrong.way}"
                raise

    return check


def _string(rest: dict[str, Any]) -> Check | None:
    if "pattern" not in rest and "maxLength" not in rest:
        return None
    pattern = rest.pop("pattern", r"[\s\S]*")
    fits, most = re.compile(pattern).fullmatch, rest.pop("maxLength", sys.maxsize)

    def check(value: str) -> None:
        if len(value) > most:
            raise _Wrong(f"is {shown(value)}: it must have at most {most} characters")
        if not fits(value):
            raise _Wrong(f"is {shown(value)}: it must match {pattern}")

    return check


def _number(rest: dict[str, Any]) -> Check:
    """Finite, and within the bounds of the schema."""
    low, high = rest.pop("minimum", -_LARGEST), rest.pop("maximum", _LARGEST)
    above = rest.pop("exclusiveMinimum", None)
    low = low if above is None else above

    def check(value: float) -> None:
        too_long = type(value) is int and abs(value) > LARGEST_INTEGER
        if not low <= value <= high or value == above or too_long:
            raise _Wrong(f"is {shown(value)}: it must be a finite number{bounds}")

    words = [f"above {above}"] if above is not None else [f"at least {low}"] if low != -_LARGEST else []
    words += [f"at most {high}"] if high != _LARGEST else []
    bounds = ", " + " and ".join(words) if words else ""
    return check


def shown(value: Any) -> str:
    """A value for a message: as Python writes it, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
