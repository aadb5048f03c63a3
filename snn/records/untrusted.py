"""JSON that anyone may have written: only regular files are read, up to a size, and only strict JSON."""

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from snn.errors import RecordError
from snn.files.regular import opened, read

MOST_BYTES = 64 << 20
"""The largest file or line of JSON that is read; a record has about 30 KB."""

MOST_ARCHIVE_BYTES = 256 << 20
"""The most that an archive may decompress to: some 20,000 records, a hundred times the largest published."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises RecordError, naming the file, if it is not strict JSON."""
    try:
        text = read(path, RecordError, MOST_BYTES).decode("utf-8")
    except ValueError as error:
        raise RecordError(f"{path}: not a record: {error}") from error
    return parse(text, str(path))


def parse(text: str, place: str) -> Any:
    """The value of a JSON text. Raises RecordError, naming the place, if it is not strict JSON."""
    try:
        return strict(text)
    except ValueError as error:
        raise RecordError(f"{place}: not a record: {error}") from error


def strict(text: str) -> Any:
    """The value of a JSON text. Raises ValueError for what is not strict JSON.

    A key that occurs twice in an object, NaN, Infinity, and text that UTF-8 cannot encode are refused.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a gzip file of UTF-8 text, each with its place. Raises RecordError, naming the file.

    No more is decompressed than is asked for, so a small file that decompresses to a huge one costs nothing.
    """
    total = 0
    try:
        with opened(path, RecordError) as compressed, gzip.open(compressed) as file:
            number = 1
            while line := file.readline(MOST_BYTES + 1):
                total += len(line)
                if len(line) > MOST_BYTES or total > MOST_ARCHIVE_BYTES:
                    raise RecordError(
                        f"{path}, line {number}: decompresses to more than {MOST_BYTES >> 20} MiB in a "
                        f"line, or {MOST_ARCHIVE_BYTES >> 20} MiB in all: this is no archive of records"
                    )
                yield f"{path}, line {number}", line.decode("utf-8")
                number += 1
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return found


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not a number of JSON")
