"""How long the runs of a recommendation train: epochs, and of a data set whose epoch takes too long, rows."""

from collections.abc import Mapping
from math import ceil, floor
from typing import Any, NamedTuple

from snn.errors import ConfigError
from snn.recommending.pilot import FEWEST_BATCHES, Pilot

_BESIDE_RUNS = 2.0
"""A job's untimed epochs, warm-up and passes, as a number of runs."""
_MARGIN = 1.2
"""How much longer the next pilot may take than this one."""


class Length(NamedTuple):
    """The epochs of a run, and its rows and test rows; None where they are all that the settings ask for."""

    epochs: int
    rows: int | None = None
    test_rows: int | None = None

    def settings(self) -> dict[str, int]:
        """What replaces the settings of the user."""
        keys = ("training.epochs", "dataset.rows", "dataset.test_rows")
        return {key: value for key, value in zip(keys, self, strict=True) if value is not None}

    def words(self) -> str:
        """``1 epoch on 2,560 rows``."""
        epochs = f"{self.epochs} epoch{'' if self.epochs == 1 else 's'}"
        return epochs if self.rows is None else f"{epochs} on {self.rows:,} rows"

    def part_of(self, cell: Mapping[str, Any]) -> str:
        """``1 of the 100 epochs, on 2,560 of the 60,000 rows`` of a cell; empty where it is all of them."""
        rows = "" if self.rows is None else f", on {self.rows:,} of the {cell['dataset']['rows']:,} rows"
        epochs = cell["training"]["epochs"]
        return f"{self.epochs} of the {epochs} epochs{rows}" if rows or self.epochs < epochs else ""

    def work(self, cell: Mapping[str, Any]) -> float:
        """How many of a cell's own epochs take as long."""
        return self.epochs if self.rows is None else self.epochs * self.rows / cell["dataset"]["rows"]


def that_fits(
    pilot: Pilot, cell: Mapping[str, Any], candidates: int, first: Mapping[str, Any], budget: float
) -> Length:
    """The length of a run with which a first round of all candidates takes its share of the budget, if they
    are as fast as the reference: the cell's own epochs, or fewer, or one on fewer rows, where the data set
    has a number of rows. Fewer epochs, or batches of rows, are a number of one digit and zeros.

    ``first`` is the first round of ``config/recommend.yaml``. Raises ConfigError, naming a budget that
    just suffices, where even the shortest runs take more than ``most`` of this one.
    """
    training, dataset = cell["training"], cell["dataset"]
    epochs = first["runs"] + _BESIDE_RUNS
    fitting = (first["share"] * budget / candidates - pilot.job) / epochs / pilot.epoch
    if fitting >= training["epochs"]:
        return Length(training["epochs"])
    if fitting >= 1:
        return Length(_rounded(fitting))
    batch, rows, shortest = training["batch_size"], dataset.get("rows") or 0, Length(1)
    if rows > FEWEST_BATCHES * batch:
        fewer = batch * _rounded(max(fitting * rows / batch, FEWEST_BATCHES))
        test_rows = dataset.get("test_rows")
        shortest = Length(1, fewer, test_rows and max(test_rows * fewer // rows, 1))
    seconds = pilot.epoch * shortest.work(cell)
    needed = candidates * (pilot.job + epochs * seconds)
    if needed <= first["most"] * budget:
        return shortest
    raise ConfigError(
        f"a round of {candidates} candidates takes about {ceil(needed)} s, and of the budget "
        f"{floor(first['most'] * budget)} s are for it: {pilot.job:.2g} s for each process beside its "
        f"training, and {seconds:.2g} s per {shortest.words()} of the reference: give --budget "
        f"{ceil(_MARGIN * needed / first['most'])}s, enough on a machine as busy as now"
    )


def _rounded(count: float) -> int:
    """Down to one digit and zeros."""
    digits = 10 ** (len(str(floor(count))) - 1)
    return floor(count) // digits * digits
