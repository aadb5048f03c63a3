"""The published tables and their rows, and the published records."""

import gzip
import json

import pandas as pd

from snn.files.published_sets import PUBLISHED
from snn.records import archive, store


def table(name, **wanted):
    """The rows of a published table, DEVICE/SET/TABLE, with these values."""
    folder, _, file = name.rpartition("/")
    return some(pd.read_csv(PUBLISHED / folder / ("tables" if folder else "") / f"{file}.csv"), **wanted)


def some(rows, **wanted):
    for key, value in wanted.items():
        rows = rows[rows[key] == value]
    return rows


def one(rows, **wanted):
    (row,) = some(rows, **wanted).to_dict("records")
    return row


def variation(rows):
    return rows["std_s"] / rows["mean_s"]


def entries_of(name):
    """The records of a set, and as they are written; tests/test_published_figures.py checks them."""
    with gzip.open(PUBLISHED / name / archive.RECORDS, "rt", encoding="utf-8") as text:
        for written in map(json.loads, text):
            yield archive.Entry(store.lift(written), written)


def records_in(name):
    return (entry.record for entry in entries_of(name))
