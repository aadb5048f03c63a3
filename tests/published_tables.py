"""The published tables, and their rows."""

import pandas as pd

from snn.files.published_sets import PUBLISHED


def table(name):
    folder, _, file = name.rpartition("/")
    return pd.read_csv(PUBLISHED / folder / ("tables" if folder else "") / f"{file}.csv")


def one(rows, **wanted):
    for key, value in wanted.items():
        rows = rows[rows[key] == value]
    (row,) = rows.to_dict("records")
    return row


def variation(rows):
    return rows["std_s"] / rows["mean_s"]
