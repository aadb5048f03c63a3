"""From the columns of a CSV file to a table: its rows in order, text as 0 and 1, numbers standardised."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from snn.datasets.common.standardise import moments, standardised
from snn.datasets.common.table import Table
from snn.errors import DataError


@dataclass(frozen=True)
class Source:
    """A column of a file: float64 ``numbers`` (rows,); of text, those of the cells among its ``values``."""

    name: str
    numbers: np.ndarray
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Order:
    """The rows of a table, by their numbers in the file, and how many of them, the first, are trained on."""

    rows: np.ndarray
    training: int


class Assembly:
    """Makes a table of the features and the target of a file."""

    def __init__(self, file: Path, order: Order, standardise: bool) -> None:
        self._file, self._order, self._standardise = file, order, standardise
        self._moments: list[tuple[float, float]] = []

    def table(self, features: list[Source], target: Source, classes: list[str] | None) -> Table:
        """The table, float32 (rows, columns), and what was done to it.

        A feature of text becomes a column of 0 and 1 for each of its values, in their order. Other features
        and a target without ``classes`` are standardised with the mean and the standard deviation of the
        training rows: z = (x - m) / s (``snn.datasets.common.standardise``), in float64. Labels, the numbers
        of classes, stay as they are. Raises DataError where z is not a float32 number, and where the target
        is the same in all training rows.
        """
        width = sum(len(feature.values) or 1 for feature in features) + 1
        made, at = np.empty((len(self._order.rows), width), np.float32), 0
        for feature in features:
            columns = len(feature.values) or 1
            made[:, at : at + columns] = self._one_hot(feature) if feature.values else self._number(feature)
            at += columns
        if classes is None:
            made[:, at:] = self._number(target)
        else:
            made[:, at] = target.numbers[self._order.rows]
        encoded = [feature.name for feature in features if feature.values]
        of_features = {"one_hot_columns": encoded} if encoded else {}
        return Table(made, {**self._facts(target, classes), **of_features, **self._majority(made, classes)})

    def _one_hot(self, source: Source) -> np.ndarray:
        return source.numbers[self._order.rows, None] == np.arange(len(source.values))

    def _number(self, source: Source) -> np.ndarray:
        column = source.numbers[self._order.rows]
        if self._standardise:
            found = moments(column[: self._order.training])
            self._moments.append(found)
            z = standardised(column, *found)
            with np.errstate(over="ignore"):
                finite = np.isfinite(z.astype(np.float32))
            if not finite.all():
                raise DataError(
                    f"{self._file}, column {source.name!r}: {column[int(finite.argmin())]:g} is too far from "
                    f"the rows that are trained on, with mean {found[0]:g} and standard deviation "
                    f"{found[1]:g}: it is no float32 number of such deviations"
                )
            column = z
        return column[:, None]

    def _majority(self, made: np.ndarray, classes: list[str] | None) -> dict[str, float]:
        """The accuracy on test rows, if there are any, of the class that most training rows are of."""
        if classes is None or self._order.training == len(made):
            return {}
        training, test = np.split(made[:, -1].astype(np.intp), [self._order.training])
        return {"majority_accuracy": float(np.mean(test == np.bincount(training).argmax()))}

    def _facts(self, target: Source, classes: list[str] | None) -> dict[str, Any]:
        facts: dict[str, Any] = {} if classes is None else {"classes": classes}
        if not self._standardise:
            return facts
        facts["standardised_sha256"] = hashlib.sha256(np.array(self._moments, "<f8").tobytes()).hexdigest()
        if classes is None:
            mean, scale = self._moments[-1]
            if not scale:
                raise DataError(
                    f"{self._file}, column {target.name!r}: the target is {mean:g} in each of the "
                    f"{self._order.training} rows that are trained on: there is nothing to predict"
                )
            facts |= {"target_mean": mean, "target_scale": scale}
        return facts
