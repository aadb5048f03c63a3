"""What the columns of tables contain, in words, from columns.yaml beside this file."""

from functools import cache
from pathlib import Path
from typing import Any

from snn.config.groups import read_yaml

PATH = Path(__file__).with_name("columns.yaml")
_known = cache(lambda: read_yaml(PATH))


def describe(table: str, column: str) -> str | None:
    """What a column of a table contains; None if nobody has said so.

    ``speedup NVIDIA H200`` is described by its first word; ``training.batch_size`` is that setting.
    """
    name = column.partition(" ")[0]
    if words := own(table).get(name) or _known()["any"].get(name):
        return str(words)
    for ending, words in _known()["endings"].items():
        stem = name.removesuffix(ending)
        if stem != name and describe(table, stem):
            return str(words).format(stem)
    return f"the setting `{name}`" if "." in name else None


def tables() -> list[str]:
    """The tables with columns that have a description of their own."""
    return list(_known()["tables"])


def own(table: str) -> dict[str, Any]:
    """The columns that have a description for this table alone, with it."""
    return _known()["tables"].get(table, {})
