"""Parts of Markdown pages."""

import re
from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table; a bar or a line break in a cell is written so that it stays in it."""
    lines = [list(head)]
    lines += [["---"] * len(lines[0]), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", r"\|").replace("\n", " ")


def from_rst(text: str) -> str:
    """A docstring's text: literals in single backquotes, indented examples as they are."""
    return re.sub(r"``(.+?)``", r"`\1`", text, flags=re.DOTALL).strip()


def first_comment(yaml: str) -> str:
    """The comment that a YAML file begins with, in one line."""
    lines = re.match(r"((?:#.*\n)*)", yaml)
    return re.sub(r"\n?# ?", " ", lines[1]).strip() if lines else ""


def code(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def paragraphs(*parts: str) -> str:
    """A page of these parts; empty ones are left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
