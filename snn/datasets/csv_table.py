"""A user's own table, from a CSV file. Errors name file, line and column, and the setting that would help."""

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from snn.datasets.common import files
from snn.datasets.common.csv_columns import (
    CONTROL,
    MISSING,
    Column,
    Sheet,
    decoded,
    detected,
    loose_rows,
    setting,
    shortened,
)
from snn.datasets.common.table import Table, counts
from snn.errors import DataError
from snn.files.regular import opened, path_of

LARGEST_FILE = 2 << 30
"""Bytes. The table is as large again, and every cell of the grid loads it."""
MOST_VALUES, MOST_CLASSES = 100, 1000
"""Columns that one_hot makes of one, and classes of a target."""
_COPIES = 8
"""Of a file in memory while it is read: its bytes, its lines, the numbers in float64, and the table."""
LONGEST_VALUE = 200
"""Characters of a value of text; those of classes stand in records."""
_SLIPS = 0.1
"""Share of other texts among numbers up to which a column is not left out as one of text."""
_FEW_ROWS, _FEW_CLASSES = 10, 20
"""Rows of which any numbers may happen to be 1, 2, 3, ...; whole numbers so few that they may be classes."""
_NUMBERS = "numbers are predicted with mean_squared_error"
_LABELS = (
    "to tell these apart, say network=layers network.loss=cross_entropy, and end network.layers in as many "
    "outputs; or name another dataset.target"
)
_CLASSES = "classes are told apart with network.loss=cross_entropy (snn recommend --classify)"
_NO_FEATURE = "is that meant to be a feature? To leave a column out, remove it from the file"
_FEWER = "remove the columns that lack most from the file"


class _Source(NamedTuple):
    """A column in the rows that are used: float64 numbers, or those of its cells among its ``values``."""

    name: str
    numbers: np.ndarray
    values: Sequence[str] = ()


def make(
    path: str,
    target: str | int,
    standardise: bool = False,
    held_out: float = 0.0,
    shuffle_seed: int | None = None,
    text_columns: str = "error",
    missing: str = "error",
    task: str | None = None,
    sha256: str | None = None,
    encoding: str | None = None,
    **written: Any,
) -> Table:
    """Read a CSV file into a float32 table (rows, features + 1), with the target column moved to the end.

    config/dataset/csv.yaml describes the keys; ``written`` are those of ``csv_columns.Sheet``. For the
    ``task`` ``classification`` the target's distinct values, in order, are the classes 0, 1, ... Rows are
    permuted with ``numpy.random.RandomState(shuffle_seed)``; the last, a share ``held_out``, are held out.

    Facts: ``classes``, ``majority_accuracy`` (on the rows held out), ``one_hot_columns``, ``left_out_rows``,
    ``left_out_columns``, ``standardised_sha256`` (of all m and s), ``target_mean`` and ``target_scale``.
    Raises DataError for whatever is not allowed.
    """
    file = path_of(path)
    if isinstance(target, bool) or not isinstance(target, (int, str)) or target == "":
        raise DataError(f"{file}: dataset.target is {target!r}: it must be a column's name or its number")
    content = files.read(file, _COPIES, LARGEST_FILE)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(f"{file}: the file has changed since the workflow was planned; run it again")
    lines, found = decoded(file, content, encoding)
    del content  # of a large file one copy less
    sheet = Sheet(file, lines, found, target, **written)
    del lines
    index, columns = _target_index(sheet, target), sheet.columns
    goal, has_classes = columns[index], task == "classification"
    if has_classes and len(goal.cells) and (goal.numbers is None or not np.isfinite(goal.numbers).any()):
        none = {"", *map(str, written.get("na_values") or ())}  # others, such as None and NA, are classes
        goal.numbers, goal.missing = None, np.array([cell in none for cell in goal.cells])
    texts = {i for i, one in enumerate(columns) if one.share_of_strays() > _SLIPS}
    dropped = sorted(texts - {index}) if text_columns == "drop" else []
    used = sorted({*range(len(columns))}.difference(dropped))
    encodes = {i for i in used if (has_classes if i == index else text_columns == "one_hot")}
    _check(sheet, used, index, encodes, drops_rows=missing == "drop_rows")
    kept = np.flatnonzero(~np.any([columns[i].missing for i in used], axis=0))
    if not len(kept):
        raise DataError(f"{file}: each row lacks a value; {_lacking([columns[i] for i in used])}; {_FEWER}")
    features = [_source(sheet, columns[i], kept, MOST_VALUES) for i in used if i != index]
    if not features:
        raise DataError(f"{file}: no column but the target {goal.name!r} is left without text")
    learned = _source(sheet, goal, kept, MOST_CLASSES, has_classes)
    order = np.arange(len(kept))
    if shuffle_seed is not None:
        order = np.random.RandomState(shuffle_seed).permutation(len(kept))
    training = counts(len(kept), {"name": f"csv, {file}", "held_out": held_out})[0]
    values, facts = _assembled(file, features, learned, order, training, standardise)
    if gone := len(sheet.lines) - len(kept):
        facts["left_out_rows"] = gone
    if dropped:
        facts["left_out_columns"] = [columns[i].name for i in dropped]
    said = _remarks(sheet, target, learned, features, facts, task)
    said += [] if standardise else _rounded(sheet, [*features, learned], kept)
    return Table(values, facts, tuple(f"{file}: {one}" for one in said))


def digest(choice: Mapping[str, Any]) -> str:
    """SHA-256 of the file's content, read again only if the file changed. Raises DataError."""
    file = path_of(choice["path"])
    return _digest(file, files.identity(file))


def inputs(choice: Mapping[str, Any]) -> list[Path]:
    """The file that is read."""
    return [path_of(choice["path"])]


def at_most(choice: Mapping[str, Any]) -> tuple[int, int]:
    """More rows than the file has, by its size, and as many columns as its table can have; little is read.

    A value and what follows it take a byte or more. Raises DataError if there is no such file.
    """
    with opened(path_of(choice["path"]), DataError) as content:
        lines = content.read(1 << 20).decode(errors="replace").splitlines()[:100]
        columns = max(map(len, loose_rows(lines, choice["delimiter"] or detected(lines))), default=1)
        made = columns * (MOST_VALUES if choice["text_columns"] == "one_hot" else 1)
        return content.seek(0, io.SEEK_END) // columns + 1, made


@cache
def _digest(file: Path, identity: tuple[int, ...]) -> str:
    return hashlib.sha256(files.read(file, _COPIES, LARGEST_FILE)).hexdigest()


def _target_index(sheet: Sheet, target: str | int) -> int:
    """The column with a name, such as also 2020, or with a number."""
    names, place = sheet.names, f"{sheet.file}: dataset.target is {target!r}"
    listed = f"{', '.join(names[:12])}{', ...' * (len(names) > 12)} ({len(names)} columns)"
    if sheet.header and names.count(str(target)) > 1:
        number = setting("target", names.index(str(target)) - len(names))
        raise DataError(f"{place}, which is more than once in the header: rename one, or say {number}")
    if sheet.header and str(target) in names:
        return names.index(str(target))
    if isinstance(target, int) and -len(names) <= target < len(names):
        return target % len(names)
    if isinstance(target, int):
        named = f", or a name in the header: {listed}" if sheet.header else ""
        raise DataError(f"{place}: it must be between {-len(names)} and {len(names) - 1}{named}")
    if not sheet.header:
        way = f"give its number, 0 to {len(names) - 1}, or say {setting('header', True)}"
        raise DataError(f"{place}, a name, but line {sheet.lines[0]} is read as data, not a header: {way}")
    close = get_close_matches(target.lower(), [name.lower() for name in names], 1, 0.7)
    like = [name for name in names if name.lower() in close]
    hint = f"; did you mean {like[0]!r}?" if like else ""
    raise DataError(f"{place}, which is not in the header: {listed}{hint}{sheet.hint(sheet.header)}")


def _check(sheet: Sheet, used: Sequence[int], index: int, encodes: set[int], drops_rows: bool) -> None:
    """Raise DataError, with every complaint, for columns that cannot be used."""
    columns = {i: sheet.columns[i] for i in used}
    strays = {i: one.strays for i, one in columns.items() if one.strays.any()}
    empty = {i: one.missing for i, one in columns.items() if one.missing.all()}
    lacking = {i: one.missing for i, one in columns.items() if one.missing.any() and i not in empty}
    texts = {i: ~one.missing for i, one in columns.items() if one.numbers is None}
    texts = {i: mask for i, mask in texts.items() if i not in empty and i not in encodes}
    goal = {index: texts.pop(index)} if index in texts else {}
    units = "".join(f", with {unit}" for unit in sorted({columns[i].unit for i in strays} - {""}))
    no_number = "is not a number, as -1.5 or 2e-3, that float32 holds"
    one_hot = f"{setting('text_columns', 'one_hot')} replaces each by a column of 0 and 1 for each value"
    drop = f"{setting('text_columns', 'drop')} leaves such columns out"
    drop_rows = f"{setting('missing', 'drop_rows')} leaves out the rows that lack one"
    complaints = (
        (strays, f"{no_number}, as others of this column are{units}", _of_strays(sheet, strays)),
        (goal, f"{no_number}, but the target", _LABELS),
        (texts, f"{no_number}, but a text", f"{one_hot}; {drop}"),
        (empty, "is missing, as all values are", "remove the column from the file, or name another target"),
        ({} if drops_rows else lacking, f"is missing; {_lacking([*columns.values()])}", drop_rows),
    )
    said = [_complaint(sheet, *each) for each in complaints if each[0]]
    if said:
        raise DataError("; and ".join(said))


def _complaint(sheet: Sheet, masks: Mapping[int, np.ndarray], what: str, way: str) -> str:
    """What is wrong with the first cell of those in some columns."""
    row, i = min((int(mask.argmax()), i) for i, mask in masks.items())
    others = _named([sheet.columns[other] for other in masks if other != i])
    too = f" (so it is in {others})" if others else ""
    place = f"{sheet.file}, line {sheet.lines[row]}, column {sheet.columns[i].name!r}"
    return f"{place}: {shortened(sheet.columns[i].cells[row])} {what}{too}: {way}"


def _of_strays(sheet: Sheet, strays: Mapping[int, np.ndarray]) -> str:
    """What to do about cells that are no numbers among numbers."""
    if not strays:
        return ""
    rows = np.flatnonzero(np.any([*strays.values()], axis=0)).tolist()
    cells = [sheet.columns[i].cells[row] for row in rows for i in strays if strays[i][row]]
    way = f"correct line {_some([sheet.lines[row] for row in rows])}"
    if shown := [cell for cell in dict.fromkeys(cells) if cell.isprintable()][:5]:
        missing = f"{setting('na_values', shown)} {setting('missing', 'drop_rows')}"
        way += f", or take it for missing: {missing}"
    if not sheet.header and not rows[0]:
        return f"if this is the header, say {setting('header', True)}; else {way}"
    if comment := re.match(r"[-+.0-9]\S*\s*([#%!;])\s*\w", cells[0]):
        return f"if a comment begins in it, say {setting('comment', comment[1])}; else {way}"
    return way


def _some(words: Sequence[object]) -> str:
    return ", ".join(map(str, words[:5])) + (f" and {len(words) - 5:,} more" if len(words) > 5 else "")


def _named(columns: Sequence[Column]) -> str:
    return _some([*dict.fromkeys(repr(one.name) if one.name else "one without a name" for one in columns)])


def _lacking(columns: Sequence[Column]) -> str:
    lacking = sorted((one for one in columns if one.missing.any()), key=lambda one: -one.missing.sum())
    return f"values are missing: {_some([f'{one.missing.sum()} in {one.name!r}' for one in lacking])}"


def _source(sheet: Sheet, column: Column, kept: np.ndarray, most: int, has_classes: bool = False) -> _Source:
    """A column in the rows that are kept: its numbers, or of texts and classes those of their values."""
    if column.numbers is not None and not has_classes:
        return _Source(column.name, column.numbers[kept])
    from pandas import factorize  # which takes 0.3 s

    is_text = column.numbers is None
    cells = (column.cells if is_text else column.numbers)[kept]  # type: ignore[index]
    numbers, found = factorize(cells, sort=True)
    values = list(found) if is_text else [f"{one + 0.0:.17g}" for one in found]
    for one, value in zip(found, values, strict=True):
        if (CONTROL.search(one) or len(one) > LONGEST_VALUE) if is_text else (one % 1 or abs(one) >= 2**53):
            line = sheet.lines[kept[np.argmax(cells == one)]]
            what = (
                f"must be a whole number below 2^53, or a printable text of {LONGEST_VALUE} letters at most"
            )
            shown = shortened(value) if is_text else value
            raise sheet.error(line, f"{shown} {what}; {_NUMBERS}", column.name)
    if len(values) > most:
        way = f"with cross_entropy; {_NUMBERS}" if has_classes else "group them, or remove the column"
        what = f"{len(values)} different values, and at most {most} are encoded: {way}"
        raise DataError(f"{sheet.file}, column {column.name!r}: {what}")
    return _Source(column.name, numbers.astype(float), values)


def _assembled(
    file: Path, features: list[_Source], target: _Source, order: np.ndarray, training: int, standardise: bool
) -> tuple[np.ndarray, dict[str, Any]]:
    """The table, and its facts. Raises DataError for a z beyond float32, and for a constant target."""
    blocks, moments, facts = list[np.ndarray](), list[tuple[float, float]](), dict[str, Any]()
    for source in (*features, target):
        column = source.numbers[order]
        place = f"{file}, column {source.name!r}"
        if source.values and source is not target:
            column = column[:, None] == np.arange(len(source.values))
        elif standardise and not source.values:
            mean, scale = _moments(column[:training])
            moments.append((mean, scale))
            z = (column - mean) / scale if scale else np.zeros_like(column)
            if (far := np.abs(z) > np.finfo(np.float32).max).any():
                what = f"{column[far.argmax()]:g} is too far from the rows that are trained on"
                raise DataError(f"{place}: {what}, with mean {mean:g} and standard deviation {scale:g}")
            column = z
        blocks.append(column.astype(np.float32))
    if standardise:
        facts["standardised_sha256"] = hashlib.sha256(np.array(moments, "<f8").tobytes()).hexdigest()
    if standardise and not target.values:
        facts |= {"target_mean": mean, "target_scale": scale}
        if not scale:
            what = f"the target is {mean:g} in each of the {training} rows that are trained on"
            raise DataError(f"{place}: {what}: there is nothing to predict")
    if encoded := [one.name for one in features if one.values]:
        facts["one_hot_columns"] = encoded
    if target.values:
        facts["classes"] = list(target.values)
    if target.values and training < len(order):
        commonest = np.bincount(column[:training].astype(np.intp)).argmax()
        facts["majority_accuracy"] = float(np.mean(column[training:] == commonest))
    return np.column_stack(blocks), facts


def _moments(column: np.ndarray) -> tuple[float, float]:
    """The mean and the standard deviation sqrt(sum((x - m)^2) / n), 0 for a constant column and no other.

    Deviations are divided by the largest before they are squared, so that no square is infinite or 0.
    """
    if column.min() == column.max():
        return float(column[0]), 0.0
    mean = float(np.mean(column))
    largest = float(np.abs(column - mean).max())
    return mean, largest * float(np.sqrt(np.mean(np.square((column - mean) / largest))))


def _remarks(
    sheet: Sheet, given: str | int, target: _Source, features: list[_Source], facts: Any, task: str | None
) -> list[str]:
    """What can be trained on, but perhaps is not meant."""
    (found, count), rows = np.unique(target.numbers, return_counts=True), len(target.numbers)
    may_be_classes = task is None and 2 <= len(found) <= min(_FEW_CLASSES, rows // 2) and found[0] in (0, 1)
    may_be_classes = may_be_classes and np.array_equal(found, np.arange(len(found)) + found[0])
    alone = int((count == 1).sum()) if target.values else 0
    words = sorted(MISSING.intersection(target.values))
    numbers = [one.numbers for one in (*features, target) if not one.values]
    has_totals = numbers and all(one[-1] and np.isclose(one[:-1].sum(), one[-1]) for one in numbers)
    gone, names = facts.get("left_out_rows", 0), facts.get("left_out_columns", [])
    lacking = _lacking([one for one in sheet.columns if one.name not in names])
    units = [f"{one.unit} in {one.name!r}" for one in sheet.columns if one.unit]
    encoded = [f"{one.name!r} ({len(one.values)} values)" for one in features if one.values]
    doubtful = [f"{one.name!r} {what}" for one in features if (what := _doubtful(one, target.numbers))]
    goal = repr(target.name)
    whole = f"the target {goal} holds the whole numbers {found[0]:.0f} to {found[-1]:.0f}, and is predicted"
    said = {
        f"read as: {sheet.found}": sheet.found,
        f"the target, given as {given}, is the column {goal}": sheet.header and isinstance(given, int),
        f"{whole} as a number; {_CLASSES}": may_be_classes,
        f"{alone:,} of {rows:,} rows are the only one of their class of {goal}": 2 * alone > rows,
        f"{_some(words)} are classes of {goal}; {setting('na_values', words)} makes them missing": words,
        f"numbers are read without their signs: {_some(units)}": units,
        f"texts are replaced by columns of 0 and 1: {_some(encoded)}": encoded,
        "the last row is the sum of the others: remove it if it is a row of totals": rows > 3 and has_totals,
        f"left out: {gone:,} of {len(sheet.lines):,} rows, which lack a value; {lacking}": gone,
        f"left out: column{'s' * (len(names) > 1)} with text: {_some(list(map(repr, names)))}": names,
        f"{_some(doubtful)}: {_NO_FEATURE}": doubtful,
    }
    return [what for what, is_so in said.items() if is_so]


def _doubtful(feature: _Source, target: np.ndarray) -> str | None:
    """What is odd about a feature."""
    numbers, rows = feature.numbers, len(feature.numbers)
    if rows > 1 and np.array_equal(numbers, target):
        return "equals the target"
    if rows > 1 and numbers.min() == numbers.max():
        return "is the same in all rows"
    is_whole = not feature.values and rows >= _FEW_ROWS and not (numbers % 1).any()
    counts_rows = is_whole and numbers.max() - numbers.min() == rows - 1 == len(np.unique(numbers)) - 1
    return "numbers the rows" if counts_rows else None


def _rounded(sheet: Sheet, sources: Sequence[_Source], kept: np.ndarray) -> list[str]:
    """A remark on whole numbers that float32 rounds; decimals are rounded anyway."""
    said = []
    for one in sources:
        x = one.numbers
        wrong = (np.abs(x) > 2**24) & (np.abs(x) < 1e21) & (x % 1 == 0) & (x != x.astype(np.float32))
        if not one.values and wrong.any():
            value, line = x[wrong.argmax()], sheet.lines[kept[wrong.argmax()]]
            said.append(f"{one.name!r}, where {value:.0f} (line {line}) becomes {np.float32(value):.0f}")
    way = "if the last digits matter, subtract a constant"
    return [f"float32 rounds whole numbers in {len(said)} column(s): {_some(said)}; {way}"] if said else []
