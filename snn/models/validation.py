"""Rows that are not trained on, their loss after each epoch, and when it ends a run.

``training.validation`` holds out the last of the rows that a data set has to train on, in the order of
the file or of ``dataset.shuffle_seed``. So every strategy trains the same rows, the first ones. With
``training.patience`` a run ends after so many epochs without a smaller loss.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from snn.errors import ConfigError, DataError
from snn.models.layers import BatchNorm1d, parse


class BestEpoch:
    """The epoch with the smallest validation loss so far, from 1; 0 before there is one.

    Its ``patience`` is the number of epochs in a row without a smaller loss that ends a run; None for never.
    """

    def __init__(self, patience: int | None) -> None:
        self._patience, self._lowest, self._last = patience, inf, 0
        self.epoch = 0

    def is_new(self, loss: float) -> bool:
        """Count an epoch with this loss. Return whether it is the best one: never without a patience."""
        self._last += 1
        if self._patience is None or not loss < self._lowest:
            return False
        self._lowest, self.epoch = loss, self._last
        return True

    @property
    def is_over(self) -> bool:
        """Whether the patience has ended."""
        return self._patience is not None and self._last - self.epoch >= self._patience


_DEFAULTS = {"validation": 0.0, "patience": None}
"""Values of keys that cells do not have, as before there was a choice."""


def settled(training: Mapping[str, Any]) -> dict[str, Any]:
    """The section ``training`` of a cell: without the keys that have their default."""
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


def count_trained(cell: Mapping[str, Any], rows: int) -> int:
    """How many of these rows, without those held out, each network of a cell is trained on.

    Raises DataError if a fold leaves less than a batch, or the last batch is too small for a norm.
    """
    batch, folds = cell["training"]["batch_size"], cell["strategy"].get("folds", 0)
    if cell["training"]["drop_last"]:
        rows = rows // batch * batch
    if folds > rows:
        raise DataError(f"strategy.folds is {folds}: it must be at most {rows}, the number of rows")
    trained = rows - rows // folds if folds else rows
    if folds and batch > trained:
        raise DataError(
            f"strategy.folds is {folds}, which leaves {trained} of {rows} rows to train on, fewer than one "
            f"batch: training.batch_size is {batch}, it must be at most {trained}"
        )
    has_norm = any(isinstance(parse(layer), BatchNorm1d) for layer in cell["network"].get("layers", ()))
    if has_norm and (trained % batch or batch) == 1:
        raise DataError(
            f"training.batch_size is {batch}: the last batch of {trained} rows has a single one, and "
            "batchnorm1d needs the variance of several: choose another training.batch_size"
        )
    return trained


def check_patience(training: Mapping[str, Any]) -> None:
    """Raise ConfigError if a run could end by a loss that is not computed."""
    if training.get("patience") is not None and not training.get("validation"):
        raise ConfigError(
            f"training.patience is {training['patience']}: it needs rows held out, such as "
            "training.validation=0.2"
        )


def best_epoch(losses: Sequence[float | None]) -> int | None:
    """The first epoch, from 1, with the smallest validation loss; None if no loss is finite (or None)."""
    known = [(loss, number) for number, loss in enumerate(losses, 1) if loss is not None and abs(loss) < inf]
    return min(known)[1] if known else None
