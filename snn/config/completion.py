"""A cell as it is run: checked, in one form, and with the sizes that its data set leaves to its files."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from snn import datasets
from snn.config import groups
from snn.config.neighbour import ANY
from snn.config.ranges import RANGES, error
from snn.config.validation import check_cell
from snn.models.losses import LOSSES, MEAN_SQUARED_ERROR


def complete(cell: dict[str, Any], given: Collection[str]) -> None:
    """Check a cell, give its values the one form that they have, and fill in what its data say.

    ``given`` are the keys that were set by hand. Of files only headers are read. Raises ConfigError for a
    wrong value, and DataError for a wrong file.
    """
    check_cell(cell)
    _check_given(cell, given)
    _settle(cell)
    sized = datasets.completed(cell["dataset"])
    if sized != cell["dataset"]:
        cell["dataset"] = sized
        check_cell(cell)


def _check_given(cell: Mapping[str, Any], given: Collection[str]) -> None:
    """Raise ConfigError where one of the keys that were set by hand has no effect.

    A protocol's fewest runs may be more than the runs that are set beside it, which then decide alone.
    """
    protocol = cell["protocol"]
    if "protocol.min_runs" in given and protocol["min_runs"] > protocol["runs"]:
        right = f"at most protocol.runs, which is {protocol['runs']}"
        raise error("protocol.min_runs", protocol["min_runs"], right)


def _settle(cell: Mapping[str, Any]) -> None:
    """Give a checked cell the one form that its values have, however they were written.

    Its rounds are at most its runs, since each round has at least one; what may be 5 or 5.0 is 5.0. A
    neighbour of any kind is not named. Layers to compute again are in the order of the network. The task of a
    data set that leaves it open is that of the network's loss.
    """
    cell["protocol"]["rounds"] = min(cell["protocol"]["rounds"], cell["protocol"]["runs"])
    if cell["protocol"].get("neighbour") == ANY:
        del cell["protocol"]["neighbour"]
    cell["network"]["recompute"] = sorted(cell["network"]["recompute"])
    if cell["dataset"].get("task", "") is None:
        cell["dataset"]["task"] = LOSSES[cell["network"].get("loss", MEAN_SQUARED_ERROR.name)].task
    for section, values in cell.items():
        if not isinstance(values, Mapping):
            continue
        for key in _real_keys(section, values["name"] if section in ("dataset", "strategy") else None):
            if key in values:
                values[key] = _real(values[key])  # type: ignore[index]


@cache
def _real_keys(section: str, choice: str | None) -> tuple[str, ...]:
    """The keys of a section that hold real numbers, or lists of them."""
    usual = groups.load(section, choice) if choice else {}
    ranged = [key for key, its in RANGES.items() if its.real and key.startswith(f"{section}.")]
    real = [key for key, value in usual.items() if isinstance(value, float)]
    return tuple({*(key.partition(".")[2] for key in ranged), *real})


def _real(value: Any) -> Any:
    """A whole number as a real one, also in a list; null is null."""
    if isinstance(value, list):
        return [_real(element) for element in value]
    return value if value is None else float(value)
