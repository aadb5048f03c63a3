"""A grid file against its JSON schema, and what is wrong with it in the words of the grid."""

import json
from functools import cache
from typing import Any

from snn.config import groups
from snn.errors import ConfigError


def validate(grid: Any) -> None:
    """Raise ConfigError, naming place, value and what would be right, where a grid is not one.

    The choices of ``config/`` are the allowed values.
    """
    import jsonschema

    error = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(_schema()).iter_errors(grid), key=_outermost
    )
    if error is not None:
        error = _branch(error)
        place = ".".join(str(part) for part in error.absolute_path)
        raise ConfigError(f"{place + ': ' if place else ''}{_say(error)}")


@cache
def _schema() -> dict[str, Any]:
    schema = json.loads((groups.ROOT / "workflow/schemas/grid.schema.json").read_text(encoding="utf-8"))
    for group in groups.GROUPS:
        schema["$defs"][group]["enum"] = groups.names(group)
    return schema


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


def _say(error: Any) -> str:
    """A validation error in the words of the grid: the value, and what would be right."""
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        unknown = [key for key in error.instance if key not in known]
        return f"{', '.join(map(repr, unknown))} is not a key here: one of {', '.join(known)}"
    if error.validator == "enum":
        return f"{error.instance!r} is not a choice: one of {', '.join(map(str, error.validator_value))}"
    if error.validator == "uniqueItems":
        return f"{error.instance!r} holds a value twice"
    if "description" in error.schema:
        return f"{error.instance!r} is not right: it must be {error.schema['description']}"
    return error.message
