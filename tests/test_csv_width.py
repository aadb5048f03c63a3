"""CSV files of very many columns: read or refused in one pass over these, and not of more than some."""

import pytest
from csv_tables import refused, written

from snn.datasets import csv_table
from snn.datasets.common.csv_columns import MOST_COLUMNS

WIDTH = 40_000
"""Columns: what looks at each of them for each of them would take minutes."""


def wide(folder, *cells, width=WIDTH, header=True):
    """A table of columns that have one of these cells in each row, and a target of numbers."""
    rows = [[cell] * width + [str(number)] for number, cell in enumerate(cells)]
    names = [[*(f"a{number}" for number in range(width)), "y"]] if header else []
    return written(folder, "".join(",".join(row) + "\n" for row in [*names, *rows]))


@pytest.mark.parametrize(
    ("cells", "keys", "columns"),
    [
        (("1", "2"), {}, WIDTH + 1),
        (("x", "x"), {"text_columns": "one_hot"}, WIDTH + 1),
    ],
    ids=["numbers", "text"],
)
def test_a_wide_table_is_read_in_one_pass_over_its_columns(tmp_path, cells, keys, columns):
    assert csv_table.make(wide(tmp_path, *cells), "y", **keys).values.shape == (2, columns)


@pytest.mark.parametrize(
    ("cells", "keys", "said"),
    [
        (("", ""), {}, "'a4' and 39995 more have no value in any row"),
        (("x", "inf"), {}, "'a5' and 39994 more, too"),
        (("x", "y"), {"text_columns": "drop"}, "no column but the target 'y' is left without text"),
    ],
    ids=["empty", "infinite", "dropped"],
)
def test_a_wide_table_is_refused_in_one_pass_over_its_columns(tmp_path, cells, keys, said):
    assert said in refused(wide(tmp_path, *cells), **keys)


@pytest.mark.parametrize("text_columns", ["one_hot", "drop"])
def test_the_names_of_all_columns_are_not_listed_for_each(tmp_path, monkeypatch, text_columns):
    listed = []
    names = csv_table.Sheet.names.fget
    monkeypatch.setattr(
        csv_table.Sheet, "names", property(lambda sheet: listed.append(sheet) or names(sheet))
    )
    path = written(tmp_path, "a,b,c,d,e,y\n1,2,3,4,x,5\n123456789,2,3,4,x,6\n")
    csv_table.make(path, "y", text_columns=text_columns)
    assert len(listed) == 1


@pytest.mark.parametrize("header", [True, False])
def test_a_table_of_more_columns_than_some_is_refused_at_its_first_line(tmp_path, header):
    path = wide(tmp_path, "1", "x", width=MOST_COLUMNS, header=header)
    said = refused(path, -1, header=header)
    assert said == (
        ", line 1: 100,001 columns, more than the 100,000 that a table may have: remove columns from the "
        "file, or give rows and columns the other way round"
    )
