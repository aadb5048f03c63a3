"""scripts/show_table prints a table, whole or by columns, and says what is wrong with its arguments."""

import runpy
import sys

import pytest
from conftest import ROOT


@pytest.fixture
def show(tmp_path, monkeypatch, capsys):
    """What it prints of a table of two rows, for further arguments."""
    (tmp_path / "a.csv").write_text("strategy,mean_s,note\nreference,0.123456,\npinned,2,slow\n")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["show_table", *arguments])
        runpy.run_path(str(ROOT / "scripts/show_table"), run_name="__main__")
        return [line.split() for line in capsys.readouterr().out.splitlines() if line]

    return run


def test_all_columns_or_those_that_are_named(show):
    header, *rows = show("a.csv")
    assert header == ["strategy", "mean_s", "note"]
    assert rows == [["reference", "0.1235", "-"], ["pinned", "2", "slow"]]
    assert show("a.csv", "note", "strategy") == [["note", "strategy"], ["-", "reference"], ["slow", "pinned"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "show_table FILE.csv [COLUMN ...]"),
        (("--help",), "show_table FILE.csv [COLUMN ...]"),
        (("b.csv",), "show_table: b.csv: not a table: No such file or directory"),
        (("a.csv", "mean"), "a.csv: there is no column mean: the columns are strategy, mean_s, note"),
    ],
)
def test_wrong_arguments_are_named(show, arguments, said):
    with pytest.raises(SystemExit, match=said.replace("[", r"\[")):
        show(*arguments)
