"""Rows that are not trained on, whose loss is computed after each epoch: ``training.validation``.

They are the last of the rows that a data set has to train on, in its order: that of the file, or of
``dataset.shuffle_seed``. So every strategy trains the same rows, the first ones.
"""

from collections.abc import Mapping
from typing import Any

from snn.errors import DataError

_DEFAULTS = {"validation": 0.0}
"""Values of keys that cells do not have, as before there was a choice."""


def settled(training: Mapping[str, Any]) -> dict[str, Any]:
    """The section ``training`` of a cell: without these keys if no row is held out."""
    return {key: value for key, value in training.items() if (key, value) not in _DEFAULTS.items()}


def count_rows(training: Mapping[str, Any], rows: int) -> int:
    """How many of these rows are held out of training. Raises DataError if that leaves too few of a kind."""
    share, batch = training.get("validation", 0.0), training["batch_size"]
    held = round(share * rows)
    if share and not 1 <= held < rows:
        raise DataError(
            f"training.validation is {share:g}, which is {held} of {rows} rows: one or more must be held "
            "out, and one or more trained on"
        )
    if share and batch > rows - held:
        raise DataError(
            f"training.validation is {share:g}, which leaves {rows - held} rows to train on, fewer than one "
            f"batch: training.batch_size is {batch}, it must be at most {rows - held}"
        )
    return held
