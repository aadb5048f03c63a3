"""Descriptions of the tables' columns, from columns.yaml."""

from functools import cache
from pathlib import Path
from typing import Any

from snn.config.groups import read_yaml

PATH = Path(__file__).with_name("columns.yaml")
_known = cache(lambda: read_yaml(PATH))


def describe(table: str, column: str) -> str | None:
    """Description of a table's column; None if it has none.

    ``speedup NVIDIA H200`` is looked up by its first word; ``training.batch_size`` is that setting.
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
    """The tables with descriptions that hold for them alone."""
    return list(_known()["tables"])


def own(table: str) -> dict[str, Any]:
    """The descriptions of columns that hold for this table alone."""
    return _known()["tables"].get(table, {})
