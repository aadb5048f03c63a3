"""scripts/show_table prints a table, whole or by columns, and says what is wrong with its arguments."""

import os
import runpy
import subprocess
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
        try:
            runpy.run_path(str(ROOT / "scripts/show_table"), run_name="__main__")
        except SystemExit as ended:
            if ended.code:
                raise
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


def test_a_reader_that_has_gone_is_no_traceback(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/show_table", tmp_path / "a.csv"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
