"""``python -m snn.neighbours TABLE...``: is config/neighbours.yaml what these tables measured?

A TABLE is a neighbours.csv, such as results/tables/neighbours.csv. A strategy is untouched if it is in every
row of every table; those that no table has are left to run one at a time. The status is 1 where the file says
something else, and what it should say is printed.
"""

import sys
from pathlib import Path
from typing import NoReturn

import pandas as pd

from snn import command
from snn.analysis.verdicts import NOT_COMPARABLE, NOT_SIGNIFICANT, TOUCHED, UNTOUCHED
from snn.config import groups
from snn.errors import RecordError, shown
from snn.hardware.devices import BACKENDS
from snn.report.write import read
from snn.tables.neighbours import measured_untouched, verdict

_VERDICTS = (UNTOUCHED, TOUCHED, NOT_SIGNIFICANT, NOT_COMPARABLE)
_RATIOS = ("slowdown", "slowdown_ci_low", "slowdown_ci_high")
_COLUMNS = ("strategy", *_RATIOS, "rounds", "verdict", "backend")


@command.entry(__doc__, least=1, codes={1: "the file says something else"})
def main(arguments: list[str]) -> int:
    measured = measured_untouched([_read(Path(argument)) for argument in arguments])
    differing = differences(measured, groups.untouched())
    if not measured:
        raise RecordError("no table has a time on a GPU beside a neighbour")
    print(f"untouched: [{', '.join(sorted(name for name, untouched in measured.items() if untouched))}]")
    for line in differing:
        print(f"{groups.NEIGHBOURS}: {line}")
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
    """A table. Raises RecordError where a file is none of times beside a neighbour, or contradicts itself."""
    table = read(path, "neighbours", _COLUMNS, keep_default_na=False, dtype=str)
    choices = {"strategy": groups.names("strategy"), "verdict": (*_VERDICTS, ""), "backend": BACKENDS}
    for name, known in choices.items():
        unknown = table.index[~table[name].isin(known)]
        if len(unknown):
            _refuse(path, table, unknown[0], name, f"one of {', '.join(filter(None, known))}")
    for name in (*_RATIOS, "rounds"):
        numbers = pd.to_numeric(table[name], errors="coerce")
        right = numbers >= 0 if name == "rounds" else numbers > 0  # none of two that may not be compared
        wrong = table.index[(table[name] != "") & ~right]
        if len(wrong):
            _refuse(path, table, wrong[0], name, "a number above 0, or empty")
        table[name] = numbers
    thresholds = groups.read_yaml(groups.CONFIG / "verdicts.yaml")
    compared = table[table["slowdown"].notna() & (table["verdict"] != NOT_COMPARABLE)]
    for number, row in compared.iterrows():
        if row["verdict"] != (right := verdict(row, thresholds)):
            low, high = (f"{row[f'slowdown_ci_{end}']:g}" for end in ("low", "high"))
            of = f"{row['rounds']:g} round{'' if row['rounds'] == 1 else 's'}"
            _refuse(path, table, number, "verdict", f"{right} with an interval from {low} to {high} of {of}")
    return table


def _refuse(path: Path, table: pd.DataFrame, row: int, column: str, right: str) -> NoReturn:
    value = shown(table[column][row])
    raise RecordError(f"{path}, row {row + 1}: {column} is {value}: it must be {right}")


if __name__ == "__main__":
    sys.exit(command.run(main))
