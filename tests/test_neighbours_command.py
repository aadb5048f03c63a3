"""``python -m snn.neighbours``: what is no table of times beside a neighbour, and the published tables."""

import os

import pytest
from conftest import ROOT

from snn import neighbours as check

PUBLISHED = sorted((ROOT / "results/published").glob("*/*/tables/neighbours.csv"))


def of(row, rounds=5):
    return f"strategy,slowdown,slowdown_ci_low,slowdown_ci_high,verdict,backend,rounds\n{row},{rounds}\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("", "not a table"),
        ("strategy,mean_s\nx,1\n", "it has no column slowdown: it must be the table neighbours"),
        (of("graph,1.1,1.05,1.2,touched,cpu"), "no table has a time on a GPU"),
        (of("x,1,1,1,touched,cuda"), "row 1: strategy is 'x': it must be one of"),
        (of("graph,1,1,1,fine,cuda"), "row 1: verdict is 'fine': it must be"),
        (of("graph,nan,1,1,touched,cuda"), "row 1: slowdown is 'nan': it must be"),
        (of("graph,1,-1,1,touched,cuda"), "row 1: slowdown_ci_low is '-1': it must be a number above 0"),
        (of("graph,1.1,1.05,1.2,untouched,cuda"), "it must be touched with an interval from 1.05 to 1.2"),
        (of("graph,1,0.99,1.01,touched,cuda"), "it must be untouched with an interval from 0.99 to 1.01"),
        (of("graph,1,,,touched,cuda"), "row 1: verdict is 'touched': it must be not significant"),
        (
            of("graph,1,0.99,1.01,untouched,cuda", rounds=1),
            "it must be not significant with an interval from",
        ),
        (of("graph,1,0.99,1.01,untouched,cuda", rounds="x"), "row 1: rounds is 'x': it must be"),
        (of("graph,,,,,cuda", rounds=0), "no table has a time on a GPU"),
    ],
)
def test_what_is_no_such_table_is_refused(tmp_path, capsys, content, said):
    path = tmp_path / "some.csv"
    if content is not None:
        path.write_text(content)
    assert check.main([str(path)]) == 2
    assert said in capsys.readouterr().err


def test_a_pipe_and_a_folder_are_not_waited_for(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert check.main([str(tmp_path / "pipe")]) == 2
    assert "it is a pipe, not a file" in capsys.readouterr().err
    assert check.main([str(tmp_path)]) == 2
    assert "it is a folder, not a file" in capsys.readouterr().err


def test_the_file_says_what_the_published_table_measured(capsys):
    table = ROOT / "results/published/nvidia-h200/neighbours/tables/neighbours.csv"
    assert check.main([str(table)]) == 0
    assert capsys.readouterr().out == "untouched: [graph]\n"


@pytest.mark.skipif(not PUBLISHED, reason="no published table has times beside a neighbour")
def test_the_file_says_what_the_published_tables_measured():
    assert check.main([str(path) for path in PUBLISHED]) == 0
