"""``python -m snn.neighbours TABLE...``: is config/neighbours.yaml what these tables measured?

A TABLE is a neighbours.csv, such as results/tables/neighbours.csv. A strategy is untouched if it is in every
row of every table; those that no table has are left to run one at a time. The status is 1 where the file says
something else, and what it should say is printed.
"""

import sys
from pathlib import Path

import pandas as pd

from snn import command
from snn.errors import RecordError, SnnError
from snn.grid import neighbours
from snn.tables.neighbours import measured_untouched

_COLUMNS = ("strategy", "slowdown", "verdict", "backend")


def main(arguments: list[str]) -> int:
    """Print what the tables decide and how the file differs; 0, 1 where it does, or 2 on a user's error."""
    if {"-h", "--help"} & set(arguments) or not arguments:
        print(__doc__, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    try:
        measured = measured_untouched([_read(Path(argument)) for argument in arguments])
        differing = differences(measured, neighbours.untouched())
    except SnnError as error:
        print(f"snn: {error}", file=sys.stderr)
        return 2
    if not measured:
        print("snn: no table has a time on a GPU beside a neighbour", file=sys.stderr)
        return 2
    print(f"untouched: [{', '.join(sorted(name for name, untouched in measured.items() if untouched))}]")
    for line in differing:
        print(f"{neighbours.FILE}: {line}")
    return 1 if differing else 0


def differences(measured: dict[str, bool], named: frozenset[str]) -> list[str]:
    """How a file that names these strategies as untouched differs from what was measured of each."""
    return [
        *(f"{name} is named, and was not measured" for name in sorted(named - measured.keys())),
        *(
            f"{name} is {'named, and not shown to be' if name in named else 'not named, and'} untouched"
            for name, untouched in sorted(measured.items())
            if untouched != (name in named)
        ),
    ]


def _read(path: Path) -> pd.DataFrame:
    """A table. Raises RecordError where a file is not one of times beside a neighbour."""
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: not a table: {getattr(error, 'strerror', None) or error}") from error
    missing = [name for name in _COLUMNS if name not in table]
    if missing:
        raise RecordError(f"{path}: it has no column {missing[0]}: it must be a neighbours.csv")
    return table


if __name__ == "__main__":
    sys.exit(command.run(main))
