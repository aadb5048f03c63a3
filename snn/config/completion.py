"""A cell as it is run: checked, in one form, and with the sizes that its data set leaves to its files."""

from collections.abc import Collection
from typing import Any

from snn import datasets
from snn.config.validation import check_cell, check_given, settle


def complete(cell: dict[str, Any], given: Collection[str]) -> None:
    """Check a cell, give its values the one form that they have, and fill in what its data say.

    ``given`` are the keys that were set by hand. Of files only headers are read. Raises ConfigError for a
    wrong value, and DataError for a wrong file.
    """
    check_cell(cell)
    check_given(cell, given)
    settle(cell)
    sized = datasets.completed(cell["dataset"])
    if sized != cell["dataset"]:
        cell["dataset"] = sized
        check_cell(cell)
