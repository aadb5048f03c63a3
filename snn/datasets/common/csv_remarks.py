"""What of a CSV file can be trained on, but perhaps is not meant: said once, and never an error."""

import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from snn.datasets.common.csv_assembly import Source
from snn.datasets.common.csv_columns import Sheet, some
from snn.datasets.common.csv_complaints import are_slips, names_of
from snn.datasets.common.csv_lines import Rows

_EXACT = 2**24
"""Up to here float32 has every whole number."""
_FEW = 10
"""Rows of which any numbers may happen to be 1, 2, 3, ..."""
_MOST_CLASSES = 20
"""Whole numbers from 0 or 1 that are so few may be those of classes."""

_WHOLE = re.compile(r"\s*[+-]?\d+(\.0*)?\s*")


def of_target(sheet: Sheet, target: Source, given: str | int, header: bool, task: str | None) -> list[str]:
    """Remarks on a target that is given as a number, or that is predicted as one and may hold classes."""
    said = []
    if header and isinstance(given, int):
        said.append(f"{sheet.file}: the target, given as {given}, is the column {target.name!r}")
    first, last = target.numbers.min(), target.numbers.max()
    count = last - first + 1
    if (
        task is None
        and first in (0, 1)
        and 2 <= count <= min(_MOST_CLASSES, len(target.numbers) // 2)
        and np.array_equal(np.unique(target.numbers), np.arange(first, last + 1))
    ):
        said.append(
            f"{sheet.file}: the target {target.name!r} holds the whole numbers {first:.0f} to {last:.0f}, "
            "and is predicted as a number; classes are told apart with network.loss=cross_entropy "
            "(snn recommend --classify)"
        )
    return said


def of_classes(sheet: Sheet, index: int, target: Source, classes: Sequence[str] | None) -> list[str]:
    """A remark on a target of classes where most rows are one of their own."""
    if classes is None:
        return []
    alone = int((np.unique(target.numbers, return_counts=True)[1] == 1).sum())
    if 2 * alone <= len(target.numbers):
        return []
    said = (
        f"{sheet.file}: {alone:,} of {len(target.numbers):,} rows are a class of their own of the target "
        f"{target.name!r}, from which nothing is learnt of others"
    )
    way = "without network.loss=cross_entropy (snn recommend --classify) it is predicted as a number"
    return [said if sheet.columns[index].texts else f"{said}; {way}"]


def of_left_out(sheet: Sheet, used: int, dropped: Sequence[int]) -> list[str]:
    """One remark on rows that lack a value, of which ``used`` are not, and on columns of text."""
    said = []
    if used < sheet.rows:
        said.append(f"{sheet.rows - used:,} of {sheet.rows:,} rows, which lack a value")
    if dropped:
        said.append(f"column{'s' if len(dropped) > 1 else ''} with text: {names_of(sheet, dropped)}")
    return [f"{sheet.file}: left out: {'; '.join(said)}"] if said else []


def of_slips(sheet: Sheet, encodes: Sequence[int]) -> list[str]:
    """One remark on columns that are encoded as text, though almost all of their cells are numbers."""
    said = [
        f"{sheet.columns[i].name!r}, with text in {sheet.columns[i].texts} of {sheet.rows:,} rows"
        for i in encodes
        if are_slips(sheet, i)
    ]
    way = "if numbers are meant, correct or remove those rows"
    return [f"{sheet.file}: encoded as text: {some(said)}: {way}"] if said else []


def of_features(sheet: Sheet, features: Sequence[Source], target: Source) -> list[str]:
    """One remark on the features that are constant, number the rows, or equal the target; none without."""
    said = [
        f"{feature.name!r} {what}" for feature in features if (what := _doubtful(feature, target.numbers))
    ]
    way = "is that meant to be a feature? To leave a column out, remove it from the file"
    return [f"{sheet.file}: {some(said, ' such columns')}: {way}"] if said else []


def _doubtful(feature: Source, target: np.ndarray) -> str | None:
    numbers = feature.numbers
    if len(numbers) < 2:
        return None
    if np.array_equal(numbers, target):
        return "equals the target"
    if numbers.min() == numbers.max():
        return "is the same in all rows"
    whole = not feature.values and len(numbers) >= _FEW and bool((numbers == np.floor(numbers)).all())
    if whole and numbers.max() - numbers.min() == len(numbers) - 1 == len(np.unique(numbers)) - 1:
        return "numbers the rows"
    return None


def of_rounded(sheet: Sheet, rows: Rows, columns: Sequence[int], numbers: np.ndarray) -> list[str]:
    """One remark on the columns with whole numbers that float32 rounds. Decimals are rounded anyway."""
    if np.abs(numbers).max() <= _EXACT:
        return []
    rounded: dict[int, str] = {}
    for line, row in rows:
        for i in columns:
            text = row[i].strip()
            if i not in rounded and _WHOLE.fullmatch(text) and abs(float(text)) > _EXACT:
                held = int(np.float32(float(text)))
                if Decimal(text) != held:
                    name = sheet.columns[i].name
                    rounded[i] = f"{name!r}, where {text[:40]} (line {line}) becomes {held}"
    if not rounded:
        return []
    return [
        f"{sheet.file}: float32 rounds whole numbers in {len(rounded)} column(s): "
        f"{some(list(rounded.values()))}; if the last digits matter, subtract a constant"
    ]
