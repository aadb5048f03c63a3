"""A cell as it is run: checked, in one form, and with the sizes that its data set leaves to its files."""

from typing import Any

from snn import datasets
from snn.config.validation import check_cell, settle


def complete(cell: dict[str, Any]) -> None:
    """Check a cell, give its values the one form that they have, and fill in what its data say.

    Of files only headers are read. Raises ConfigError for a wrong value, and DataError for a wrong file.
    """
    check_cell(cell)
    settle(cell)
    sized = datasets.completed(cell["dataset"])
    if sized != cell["dataset"]:
        cell["dataset"] = sized
        check_cell(cell)
