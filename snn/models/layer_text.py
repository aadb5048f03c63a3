"""A layer as it is written in a configuration: its name and its whole numbers."""

import re
from dataclasses import MISSING, Field, fields

from snn.errors import ConfigError, shown
from snn.models.layers import Layer

_WHOLE = re.compile("[0-9]{1,9}")


def parse(text: object) -> Layer:
    """A layer from its text: its name and its whole numbers in turn, as ``conv2d 16 3`` or ``relu``.

    Raises ConfigError with what would be right.
    """
    known = {cls.__name__.lower(): cls for cls in Layer.__subclasses__()}
    name, *words = str(text).split() or [""]
    if name not in known:
        raise ConfigError(
            f"network.layers: {shown(text)} is not a layer: one of {', '.join(map(_usage, known.values()))}"
        )
    numbers = _numbers(known[name])
    required = [field for field in numbers if field.default is MISSING]
    if not len(required) <= len(words) <= len(numbers) or not all(map(_WHOLE.fullmatch, words)):
        raise ConfigError(
            f"network.layers: {shown(text)} is not right: it must be {_usage(known[name])}, in whole numbers"
        )
    values = {field.name: int(word) for field, word in zip(numbers, words, strict=False)}
    if any(values[field.name] < 1 for field in required):
        raise ConfigError(
            f"network.layers: {shown(text)} is not right: {_usage(known[name])} must be at least 1"
        )
    return known[name](**values)


def _usage(layer: type[Layer]) -> str:
    """How a layer is written: ``conv2d FILTERS KERNEL [PADDING]``."""
    words = [layer.__name__.lower()]
    for field in _numbers(layer):
        words.append(field.name.upper() if field.default is MISSING else f"[{field.name.upper()}]")
    return " ".join(words)


def _numbers(layer: type[Layer]) -> list[Field]:
    """The fields of a layer that its text gives."""
    return [field for field in fields(layer) if field.type is int]  # type: ignore[arg-type]
