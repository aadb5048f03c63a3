"""A grid file against its JSON schema, and what is wrong with it in the words of the grid."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from snn.config import groups, keys
from snn.config.suggestions import meant, nearest
from snn.errors import ConfigError, shown
from snn.grid.naming import SECTIONS

_AS_SWEEPS = ": a grid has sweeps, as sweeps: {mine: {strategy: [reference, combined]}}"

_NO_SWEEP = " (a sweep stands under sweeps, which ends before microbenchmarks)"
_MOST_KEYS = 5  # that are named


def validate(grid: Any) -> None:
    """Raise ConfigError, naming place, value and what would be right, where a grid is not one.

    The choices of ``config/`` are the allowed values.
    """
    import jsonschema

    validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"uniqueItems": _unique})
    error = jsonschema.exceptions.best_match(validator(_schema()).iter_errors(grid), key=_outermost)
    if error is not None:
        error = _branch(error)
        place = ".".join(str(part) for part in error.absolute_path)
        raise ConfigError(f"{place + ': ' if place else ''}{_say(error)}")


@cache
def _schema() -> dict[str, Any]:
    schema = json.loads((groups.ROOT / "workflow/schemas/grid.schema.json").read_text(encoding="utf-8"))
    for group in groups.GROUPS:
        choices = groups.names(group)
        schema["$defs"][group] |= {"enum": choices, "description": f"one of {', '.join(choices)}"}
    return schema


def _unique(validator: Any, wanted: bool, values: Any, schema: Any) -> Iterator[Any]:
    """Whether a list holds no value twice, in a time that is linear in its length."""
    import jsonschema

    if isinstance(values, list):
        twice = [value for value, count in Counter(map(_hashable, values)).items() if count > 1]
        if twice:
            yield jsonschema.ValidationError(f"{shown(values)} holds a value twice")


def _hashable(value: Any) -> Any:
    """Equal for equal values, of which 1 and 1.0 are two, but 1 and true are none."""
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((key, _hashable(of_key)) for key, of_key in value.items())
    return isinstance(value, bool), value


def _outermost(error: Any) -> int:
    return -len(error.absolute_path)


def _branch(error: Any) -> Any:
    """Of what may be one value or a list, the error of the form that the user chose."""
    while error.validator == "anyOf" and error.context:
        is_list = isinstance(error.instance, list)
        if is_list and error.path and error.path[-1] in groups.list_valued():
            is_list = bool(error.instance) and isinstance(error.instance[0], list)
        error = max((one for one in error.context if one.schema_path[0] == int(is_list)), key=_outermost)
    return error


def _choices(error: Any) -> str:
    return ", ".join(map(str, error.validator_value))


def _hint(place: list[str], error: Any) -> str:
    """What may have been meant by a value that is no choice, in parentheses; else empty."""
    if not isinstance(error.instance, str):
        return ""
    if "," in error.instance:
        return f" (a list is written in brackets, [{error.instance}])"
    if place and place[-1] in groups.GROUPS:
        return keys.hint(place[-1], error.instance, ": ")
    return meant(error.instance, map(str, error.validator_value))


def _nested(section: str, value: Any) -> str:
    """How keys that stand inside their section are written; empty of what is no section with keys."""
    if section not in SECTIONS or not isinstance(value, dict) or not value:
        return ""
    key, inner = next(iter(value.items()))
    return f"keys of {section} are written with a dot: {section}.{key}: {shown(inner)}"


def _meant(key: str, value: Any, known: Sequence[str], place: Sequence[str]) -> str:
    """What an unknown key may have been meant to be, in brackets; else empty."""
    if nested := _nested(key, value):
        return f" ({nested})"
    return meant(key, known) or (_NO_SWEEP if place == ["microbenchmarks"] else "")


def _has_form(key: str, forms: Iterable[str]) -> bool:
    """Whether a key is one of those that a schema allows by their form."""
    return any(re.search(form, key) for form in forms)


def _say(error: Any) -> str:
    """A validation error in the words of the grid: the value, and what would be right."""
    place = [part for part in error.absolute_path if isinstance(part, str)]
    if error.validator == "additionalProperties":
        known, forms = list(error.schema["properties"]), error.schema.get("patternProperties", {})
        unknown = [key for key in error.instance if key not in known and not _has_form(key, forms)]
        unknown = unknown[:_MOST_KEYS]
        hints = [_meant(key, error.instance[key], known, place) for key in unknown]
        if len(unknown) == 1:
            said = f"{shown(unknown[0])} is not a key here{hints[0]}"
        else:
            each = (f"{shown(key)}{hint}" for key, hint in zip(unknown, hints, strict=True))
            said = f"{', '.join(each)} are not keys here"
        further = "".join(f", or {form['description']}" for form in forms.values())
        return f"{said}: one of {', '.join(known)}{further}"
    if error.validator == "required":
        (missing, *_) = (key for key in error.validator_value if key not in error.instance)
        found = nearest(missing, error.instance)
        hint = f" (is {found} meant to be it?)" if found else ""
        return f"the key {missing} is missing{hint}{_AS_SWEEPS if missing == 'sweeps' else ''}"
    if error.validator == "enum":
        return f"{shown(error.instance)} is not a choice{_hint(place, error)}: one of {_choices(error)}"
    if place and (nested := _nested(place[-1], error.instance)):
        return f"{shown(error.instance)} is not right: {nested}"
    if error.validator != "uniqueItems" and "description" in error.schema:
        hint = keys.hint(place[-1], error.instance, ": ") if place and place[-1] in groups.GROUPS else ""
        return f"{shown(error.instance)} is not right{hint}: it must be {error.schema['description']}"
    return error.message
