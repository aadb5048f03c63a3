"""What is probably wrong in a YAML file, in place of its parser's words: the line, and what is right."""

import re

import yaml

from snn.errors import shown

_KEY = "a key with its value is KEY: VALUE"
_INDENTATION = (
    "the indentation is that of no line above, or a colon or a dash is missing: keys of one level begin in "
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
    "block sequence entries are not allowed in this context": "a list behind its key is written in brackets, "
    "[a, b]; with dashes, each element has a line of its own",
    "found unexpected end of stream": "a quote is opened and not closed",
    "found unknown escape character": "in double quotes a backslash has a meaning: use single quotes",
}
"""By what libyaml says."""

_TWO_COLONS = re.compile(r"[\s-]*[^\s:][^:]*:\s+[^\s#].*:(\s|$)")
_OF_A_CHARACTER = re.compile(r"while (scanning|parsing) an? (anchor|alias|tag|directive|block scalar)")


def explained(error: yaml.YAMLError, text: str) -> tuple[int | None, str]:
    """The number of the line that is probably wrong, if it is known, and what is wrong with it, in words."""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    mark, began = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if mark is None:
        return None, problem
    context = getattr(error, "context", None) or ""
    of_tab = "tab character" in problem
    if began and not of_tab and "block mapping" not in context and "block collection" not in context:
        mark = began  # of a bracket, a quote or a key, whose end the parser was looking for
    lines = text.splitlines() or [""]
    number = min(mark.line, len(lines) - 1)
    line = lines[number]
    before, after = line[: mark.column], line[mark.column :]
    if of_tab or after.startswith("\t"):
        said = "there is a tab: lines are indented with spaces"
    elif "cannot start any token" in problem or _OF_A_CHARACTER.match(context):
        said = f"a value that begins with {after[:1]} is written in quotes"
    elif "mapping values are not allowed" in problem:
        said = _of_colon(line, lines[:number])
    elif _PLAIN.get(problem) is _INDENTATION and before.strip():
        said = f"{shown(after)} stands behind the end of a value: quote the whole value if it is part of it"
    else:
        said = _PLAIN.get(problem, f"it cannot be read as YAML: {problem}")
    return number + 1, f"{shown(line)}: {said}"


def _of_colon(line: str, above: list[str]) -> str:
    """What is wrong where a colon cannot be."""
    if _TWO_COLONS.match(line):
        return "a value that has a colon and a space is written in quotes"
    last = next((one for one in reversed(above) if one.strip()), "")
    if _width(line) > _width(last) and _TWO_COLONS.match(f"{last}: "):
        return (
            "it is indented more than the key above, which has a value: keys of one level begin in one column"
        )
    return f"the line above has no colon with a space behind it: {_KEY}"


def _width(line: str) -> int:
    return len(line) - len(line.lstrip())
