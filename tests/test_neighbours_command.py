"""``python -m snn.neighbours``: what is no table of times beside a neighbour, and the published table."""

import os

import pytest
from conftest import ROOT

from snn import neighbours as check


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("", "not a table"),
        ("strategy,mean_s\nx,1\n", "it has no column slowdown: it must be a neighbours.csv"),
        ("strategy,slowdown,verdict,backend\ngraph,1,touched,cpu\n", "no table has a time on a GPU"),
        (
            "strategy,slowdown,verdict,backend\nx,1,touched,cuda\n",
            "row 1: strategy is 'x': it must be one of",
        ),
        ("strategy,slowdown,verdict,backend\ngraph,1,fine,cuda\n", "row 1: verdict is 'fine': it must be"),
        (
            "strategy,slowdown,verdict,backend\ngraph,nan,touched,cuda\n",
            "row 1: slowdown is 'nan': it must be",
        ),
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
