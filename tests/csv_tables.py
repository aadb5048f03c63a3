"""CSV files of a user, written and refused, for the tests of what is made of them."""

import pytest

from snn.datasets import csv_table
from snn.errors import DataError

ONCE = ["device=cpu", "protocol.runs=1", "protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0"]
LABELS = ["network=layers", "network.loss=cross_entropy"]


def written(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def of_rows(folder, rows, names):
    return written(folder, "".join(",".join(map(str, row)) + "\n" for row in [names, *rows]))


def refused(path, target="y", **keys):
    with pytest.raises(DataError) as caught:
        csv_table.make(path, target, **keys)
    assert str(caught.value).startswith(path)
    assert str(caught.value).isprintable()
    return str(caught.value).removeprefix(path)


def arguments(path, target, *more):
    return [*ONCE, "dataset=csv", f"dataset.path='{path}'", f"dataset.target={target}", *more]


def read(folder, content, **keys):
    """The table of a file with this text, or these bytes."""
    path = folder / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return csv_table.make(str(path), **keys)
