"""YAML files as data: a strict part of YAML 1.2, from events, so that no input hangs or runs anything.

Anything that YAML 1.1 and 1.2 read differently is an error: tags, merge keys, ``on`` and ``yes``, dates,
``1:30``, ``017``; so are numbers that are not finite, and keys that are not text.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from snn.errors import ConfigError, shown
from snn.files.regular import read

MOST_BYTES = 1 << 20
MOST_LEVELS = 24
MOST_VALUES = 250_000
"""Most keys and values of a file; an alias counts as the values that it repeats."""

_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_AMBIGUOUS = re.compile(
    r"(?i:yes|no|on|off)"  # truth values in YAML 1.1, text in 1.2
    r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"  # base 60
    r"|[-+]?(0[0-9_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+|[0-9][0-9_]*_[0-9_.]*)"  # octal, hexadecimal, ...
    r"|[-+]?[1-9][0-9]{18,}"  # of more than 18 digits
    r"|[-+]?\.(?i:inf|nan)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?"  # a date
    r"|[=]"
)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file: dicts with text keys, lists, text, numbers, true, false and null.

    Raises ConfigError, naming file, line and key, if it cannot be read or holds anything else.
    """
    content = read(path, ConfigError, MOST_BYTES)
    try:
        return read_text(content.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: not text in UTF-8: save the file as UTF-8") from error


def read_text(text: str, source: Path | str) -> Any:
    """The content of a YAML text, as ``read_yaml`` returns it; errors name its ``source``."""
    try:
        return _Reader(source, yaml.parse(text, Loader=yaml.CSafeLoader)).document()
    except yaml.YAMLError as error:
        line, problem = _explain(error, text)
        place = f", line {line}" if line else ""
        raise ConfigError(f"{source}{place}: {problem}") from error


class _Reader:
    """Builds the document from the events of the parser, and counts and checks what it builds."""

    def __init__(self, source: Path | str, events: Iterator[Any]) -> None:
        self._source, self._events = source, events
        self._anchors: dict[str, Any] = {}
        self._place: list[str] = []
        self._count = 0

    def document(self) -> Any:
        """The only document of the file; None if the file is empty."""
        content = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent) and self._count:
                raise self._error(event, "a second document begins: there must be one")
            if isinstance(event, yaml.NodeEvent):
                content = self._value(event)
        return content

    def _value(self, event: Any) -> Any:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._error(event, f"*{event.anchor} comes before the end of its anchor, or has none")
            self._add(event, self._anchors[event.anchor], len(self._place))
            return self._anchors[event.anchor]
        if event.tag is not None:
            raise self._error(event, f"the tag {event.tag!r} is not read: leave it out")
        self._add(event, None, len(self._place))
        self._anchors.pop(event.anchor, None)  # not to be used inside itself
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = event.value if event.style else self._plain(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
                value.append(self._inside(str(len(value)), inner))
        else:
            value = {}
            while not isinstance(inner := next(self._events), yaml.MappingEndEvent):
                key = self._key(inner)
                if key in value:
                    raise self._error(inner, f"the key {key!r} appears twice")
                value[key] = self._inside(key, next(self._events))
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _inside(self, key: str, event: Any) -> Any:
        self._place.append(key)
        value = self._value(event)
        self._place.pop()
        return value

    def _key(self, event: Any) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error(event, "a key must be text, not a list, a mapping or an alias")
        if event.value == "<<" and not event.style:
            raise self._error(event, "the merge key << is not read: use union, or repeat the keys")
        key = self._value(event)
        if not isinstance(key, str):
            raise self._error(event, f"the key {event.value} is not text: write it in quotes, if it is meant")
        return key

    def _plain(self, event: yaml.ScalarEvent) -> Any:
        """A scalar without quotes: null, true, false, a number, or text."""
        text = event.value
        if text in _WORDS:
            return _WORDS[text]
        if _INT.fullmatch(text):
            return int(text)
        if _AMBIGUOUS.fullmatch(text):
            raise self._error(
                event,
                f"{_short(text)} is not valid: a value is true, false, a number of at most 18 digits, "
                "or text; write text that looks like something else in quotes",
            )
        if _FLOAT.fullmatch(text):
            if abs(float(text)) == float("inf") or (text.startswith("-") and float(text) == 0):
                raise self._error(event, f"{_short(text)} is not finite, or a 0 with a sign")
            return float(text)
        return text

    def _add(self, event: Any, value: Any, level: int) -> None:
        """Count a value and the values inside it, which an alias repeats."""
        self._count += 1
        if self._count > MOST_VALUES:
            what = f"there are more than {MOST_VALUES} keys and values, those that aliases repeat too"
            raise self._error(event, what)
        if level > MOST_LEVELS:
            raise self._error(event, f"there are more than {MOST_LEVELS} levels, one inside the other")
        if isinstance(value, dict | list):
            for inner in [*value, *value.values()] if isinstance(value, dict) else value:
                self._add(event, inner, level + 1)

    def _error(self, event: Any, problem: str) -> ConfigError:
        place = f": {_short('.'.join(self._place))}" if self._place else ""
        return ConfigError(f"{self._source}, line {event.start_mark.line + 1}{place}: {problem}")


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:60]}... ({len(text)} characters)"


_KEY = "a key with its value is KEY: VALUE"
_INDENTATION = (
    "the indentation matches no line above, or a colon or a dash is missing: keys of one level begin in "
    "the same column, as KEY: VALUE"
)
_PLAIN = {
    "did not find expected key": _INDENTATION,
    "did not find expected <document start>": _INDENTATION,
    "did not find expected '-' indicator": "the lines above are a list, of which each element begins with a "
    "dash, in the same column",
    "could not find expected ':'": f"a colon, or a dash, is missing: {_KEY}, an element of a list - VALUE",
    "did not find expected ',' or ']'": "the list is not closed with ], or a comma between values is missing",
    "did not find expected ',' or '}'": "the braces are not closed with }, or a comma is missing",
    "did not find expected node content": "a value or a closing bracket is missing, or "
    "there is a comma or a colon too many",
    "block sequence entries are not allowed in this context": "write a list after its key in brackets, "
    "[a, b]; with dashes, each element needs a separate line",
    "found unexpected end of stream": "a quote is not closed",
    "found unknown escape character": "in double quotes a backslash has a meaning: use single quotes",
}
"""Explanations of libyaml's messages."""

_TWO_COLONS = re.compile(r"[\s-]*[^\s:][^:]*:\s+[^\s#].*:(\s|$)")
_OF_A_CHARACTER = re.compile(r"while (scanning|parsing) an? (anchor|alias|tag|directive|block scalar)")


def _explain(error: yaml.YAMLError, text: str) -> tuple[int | None, str]:
    """The number of the line that is probably wrong, if it is known, and an explanation of the error."""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    mark, began = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if mark is None:
        return None, problem
    context = getattr(error, "context", None) or ""
    of_tab = "tab character" in problem
    if began and not of_tab and not re.search("block (mapping|collection)", context):
        mark = began  # the bracket, quote or key whose end the parser was looking for
    lines = text.splitlines() or [""]
    number = min(mark.line, len(lines) - 1)
    line = lines[number]
    before, after = line[: mark.column], line[mark.column :]
    if of_tab or after.startswith("\t"):
        said = "there is a tab: lines are indented with spaces"
    elif "cannot start any token" in problem or _OF_A_CHARACTER.match(context):
        said = f"write a value that begins with {after[:1]} in quotes"
    elif "mapping values are not allowed" in problem:
        said = _explain_colon(line, lines[:number])
    elif _PLAIN.get(problem) is _INDENTATION and before.strip():
        said = f"{shown(after)} follows the end of a value: quote the whole value if it is part of it"
    else:
        said = _PLAIN.get(problem, f"it cannot be read as YAML: {problem}")
    return number + 1, f"{shown(line)}: {said}"


def _explain_colon(line: str, above: list[str]) -> str:
    """Explanation of a colon in the wrong place."""
    if _TWO_COLONS.match(line):
        return "write a value that has a colon and a space in quotes"
    last = next((one for one in reversed(above) if one.strip()), "")
    is_deeper = len(line) - len(line.lstrip()) > len(last) - len(last.lstrip())
    if is_deeper and _TWO_COLONS.match(f"{last}: "):
        what = "it is indented more than the key above, which has a value"
        return f"{what}: keys of one level begin in one column"
    return f"the line above has no colon followed by a space: {_KEY}"
