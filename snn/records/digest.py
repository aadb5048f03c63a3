"""The digest that a record carries of itself, so that an edit of it is noticed."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from snn.errors import RecordError

KEY = "digest"


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its digest. Raises ValueError where it holds NaN or infinity."""
    return {**record, KEY: of(record)}


def of(record: Mapping[str, Any]) -> str:
    """SHA-256, in hexadecimal, of the record's canonical JSON without its digest.

    Canonical: keys sorted, no spaces, ASCII. Writing and reading JSON keeps it, in whatever layout.
    """
    rest = {key: value for key, value in record.items() if key != KEY}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def check(record: Mapping[str, Any], place: str) -> None:
    """Raise RecordError, naming the place, where a record is not what its digest is of."""
    if KEY not in record:
        raise RecordError(f"{place}: it has no digest: it was changed after it was written")
    try:
        found = of(record)
    except ValueError as error:  # a number that is too large for a float is read as infinity
        raise RecordError(f"{place}: not a record: {error}") from error
    if record[KEY] != found:
        raise RecordError(
            f"{place}: it was changed after it was written: its digest is {str(record[KEY])[:16]}..., "
            f"that of its content {found[:16]}..."
        )
