"""What the columns of tables contain, in words, from columns.yaml beside this file."""

from functools import cache
from pathlib import Path
from typing import Any

from snn.config.groups import read_yaml

PATH = Path(__file__).with_name("columns.yaml")


def describe(table: str, column: str) -> str | None:
    """What a column of a table contains; None where nobody has said so.

    A column of one device, as ``speedup NVIDIA H200``, is described by its first word; a column of a setting,
    as ``training.batch_size``, is that setting.
    """
    name = column.partition(" ")[0]
    known = _known()
    own = known["tables"].get(table, {}).get(name) or known["any"].get(name)
    if own:
        return str(own)
    for ending, words in known["endings"].items():
        stem = name.removesuffix(ending)
        if stem != name and describe(table, stem):
            return str(words).format(stem)
    return f"the setting `{name}`" if "." in name else None


def tables() -> list[str]:
    """The tables with columns that have a description of their own."""
    return list(_known()["tables"])


def own(table: str) -> list[str]:
    """The columns that have a description for this table alone."""
    return list(_known()["tables"].get(table, {}))


@cache
def _known() -> dict[str, Any]:
    content = read_yaml(PATH)
    return {key: content[key] for key in ("endings", "any", "tables")}
