"""The columns of a CSV file that hold text: how many values, and whether these are numbers with commas."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from snn.datasets.common import csv_notation
from snn.datasets.common.csv_columns import MISSING, is_text
from snn.datasets.common.csv_lines import Rows
from snn.datasets.common.csv_notation import Notation

FEW = 10
"""Fewer texts than these, in a column of numbers, may be slips."""


@dataclass
class Texts:
    """The cells of a column that have a value: how many distinct ones, counted up to ``most``; the notations
    in which all of them are numbers, if there is one; the marks in these; where all of them are numbers with
    or without a sign, as $1, the signs, with an empty one for none; and the lines of the first ``FEW`` that
    are no plain numbers."""

    most: int
    values: set[str] = field(default_factory=set)
    notations: frozenset[Notation] = csv_notation.ALL
    marks: frozenset[str] = frozenset()
    signs: frozenset[str] | None = frozenset()
    lines: list[int] = field(default_factory=list)

    @property
    def has_marks(self) -> bool:
        """Whether all are numbers, but not all with a decimal point at most."""
        return bool(self.notations) and ("," in self.marks or csv_notation.POINT not in self.notations)

    @property
    def has_signs(self) -> bool:
        """Whether all are numbers, and some have a sign."""
        return bool((self.signs or frozenset()) - {""})

    @property
    def in_thousands(self) -> bool:
        """Whether points stand in these numbers, all of which may be points between thousands."""
        return csv_notation.COMMA in self.notations and "." in self.marks

    def add(self, cell: str) -> None:
        """Take note of a cell."""
        if len(self.values) <= self.most:
            self.values.add(cell)
        if self.notations:
            self.notations = csv_notation.reading([cell], self.notations)
            self.marks |= csv_notation.marks_in([cell])
        if self.signs is not None:
            sign = csv_notation.sign_of(cell)
            self.signs = None if sign is None else self.signs | {sign}

    @property
    def count(self) -> str:
        """How many distinct values there are, in words."""
        if len(self.values) > self.most:
            return f"more than {self.most} distinct values"
        return f"{len(self.values)} distinct value{'' if len(self.values) == 1 else 's'}"


def texts_of(rows: Rows, most: Mapping[int, int]) -> dict[int, Texts]:
    """The texts of columns, by their numbers; ``most`` has how many values of each are counted."""
    found = {i: Texts(count) for i, count in most.items()}
    for line, row in rows:
        for i, texts in found.items():
            if (cell := row[i].strip()) not in MISSING:
                texts.add(cell)
                if len(texts.lines) < FEW and is_text(row[i]):
                    texts.lines.append(line)
    return found


def shared(columns: Collection[Texts]) -> frozenset[Notation]:
    """The notations of all numbers in some columns, for a file has one; those of the first where none is."""
    each = [texts.notations for texts in columns]
    return frozenset.intersection(*each) or each[0]
