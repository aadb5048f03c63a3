"""The published tables, and their rows."""

import pandas as pd

from snn.files.published_sets import PUBLISHED


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
