"""JSON that anyone may have written: only regular files, up to a size, strict JSON that fits its schema.

The schemas lie next to this module. They are of draft 4, in which 1.0 is not an integer.
"""

import gzip
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from snn.errors import RecordError, shown
from snn.files.regular import opened, read

MOST_BYTES = 64 << 20  # the largest file or line of JSON that is read; a record has about 30 KB
MOST_ARCHIVE_BYTES = 256 << 20
"""The most that an archive may decompress to: some 20,000 records, a hundred times the largest published."""

LARGEST_INTEGER = (1 << 63) - 1  # what a column of integers in a table can hold
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_LONG_NUMBER = re.compile(r"\d{19}|\d[eE]\+?\d{3}")
"""Matches in every number that is too large. If nothing matches, json parses numbers in C."""


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises RecordError, naming the file, if it is not strict JSON."""
    try:
        text = read(path, RecordError, MOST_BYTES).decode("utf-8")
    except ValueError as error:
        raise RecordError(f"{path}: not a record: {error}") from error
    return parse(text, str(path))


def parse(text: str, place: str) -> Any:
    """The value of a JSON text. Raises RecordError, naming the place, if it is not strict JSON."""
    try:
        return strict(text)
    except ValueError as error:
        raise RecordError(f"{place}: not a record: {error}") from error


def strict(text: str) -> Any:
    """The value of a JSON text. Raises ValueError unless it is strict JSON.

    Errors are also a key that occurs twice in an object, NaN, Infinity, a number that is too large for a
    float or for 64 bits, and text that UTF-8 cannot encode.
    """
    try:
        numbers: Any = {"parse_float": _float, "parse_int": _int} if _LONG_NUMBER.search(text) else {}
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_float, **numbers)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a gzip file of UTF-8 text, each with its place. Raises RecordError, naming the file.

    Lines are decompressed on demand, so a small file that decompresses to a huge one costs nothing.
    """
    total = 0
    try:
        with opened(path, RecordError) as compressed, gzip.open(compressed) as file:
            number = 1
            while line := file.readline(MOST_BYTES + 1):
                total += len(line)
                if len(line) > MOST_BYTES or total > MOST_ARCHIVE_BYTES:
                    raise RecordError(
                        f"{path}, line {number}: decompresses to more than {MOST_BYTES >> 20} MiB in a "
                        f"line, or {MOST_ARCHIVE_BYTES >> 20} MiB in all: it is not an archive of records"
                    )
                yield f"{path}, line {number}", line.decode("utf-8")
                number += 1
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from error


def load_schema(name: str) -> dict[str, Any]:
    path = Path(__file__).with_name(f"{name}.schema.json")
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def check_schema(name: str, value: Any, place: str) -> None:
    """Raise RecordError, with key, value and what would fit, if a value does not fit this schema."""
    from fastjsonschema import JsonSchemaValueException

    try:
        _validator(name, detailed=False)(value)
    except JsonSchemaValueException:
        try:
            _validator(name, detailed=True)(value)
        except JsonSchemaValueException as error:
            raise RecordError(f"{place}: {_complaint(error)}") from None


@cache
def _validator(name: str, detailed: bool) -> Callable[[Any], Any]:
    """The check of a schema. One whose errors have values takes five times as long to compile."""
    import fastjsonschema  # only what reads a record needs it

    schema = load_schema(name)
    check: Callable[[Any], Any] = fastjsonschema.compile(
        _without_references(schema, schema),
        use_default=False,
        use_formats=False,
        detailed_exceptions=detailed,
    )
    return check


def _without_references(part: Any, schema: dict[str, Any]) -> Any:
    """A part of a schema in which no reference is left: each would be a call with ``locals()``."""
    if isinstance(part, list):
        return [_without_references(one, schema) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _without_references(schema["$defs"][part["$ref"].rpartition("/")[2]], schema)
    return {key: _without_references(value, schema) for key, value in part.items()}


def _complaint(error: Any) -> str:
    """``cell.training.epochs is 0: it must be bigger than or equal to 1``, for a JsonSchemaValueException."""
    key = error.name.removeprefix("data").removeprefix(".") or "it"
    key = key if key.isprintable() else repr(key)
    if error.rule in ("required", "dependencies"):
        needed = error.rule_definition
        if error.rule == "dependencies":
            needed = [one for given, others in needed.items() if given in error.value for one in others]
        return f"{key} lacks {', '.join(sorted(set(needed) - error.value.keys()))}"
    if error.rule == "additionalProperties":
        unknown = error.value.keys() - error.definition["properties"].keys()
        return f"{key} has the unknown key {shown(min(unknown))}"
    return f"{key} is {shown(error.value)}: it{error.message.removeprefix(error.name)}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return found


def _float(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word} is not a number of JSON, or too large")
    return number


def _int(word: str) -> int:
    number = int(word)  # a ValueError if it has thousands of digits
    if abs(number) > LARGEST_INTEGER:
        raise ValueError(f"{shown(number)} has more than 64 bits")
    return number
