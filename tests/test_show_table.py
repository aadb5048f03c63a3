"""scripts/show_table prints a table, whole or by columns, and says what is wrong with its arguments."""

import gzip
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

    main = runpy.run_path(str(ROOT / "scripts/show_table"))["main"]

    def run(*arguments):
        status, printed = main(list(arguments)), capsys.readouterr()
        if status:
            assert status == 2 and printed.err.startswith("snn: ") and printed.err[:-1].isprintable()
            return printed.err
        return [line.split() for line in printed.out.splitlines() if line]

    return run


def test_all_columns_or_those_that_are_named(show):
    header, *rows = show("a.csv")
    assert header == ["strategy", "mean_s", "note"]
    assert rows == [["reference", "0.1235", "-"], ["pinned", "2", "slow"]]
    assert show("a.csv", "note", "strategy") == [["note", "strategy"], ["-", "reference"], ["slow", "pinned"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "FILE [COLUMN]..."),
        (("b.csv",), "b.csv: cannot be read: No such file or directory"),
        (("a.csv", "mean"), "a.csv has no column mean: the columns are strategy, mean_s, note"),
    ],
)
def test_wrong_arguments_are_named(show, arguments, said):
    assert said in show(*arguments)


def test_only_a_regular_file_is_read_and_nothing_is_unpacked(show, tmp_path):
    """A pipe would be waited for, and a small archive may hold a table of any size."""
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    assert "pipe.csv: cannot be read: it is a pipe, not a file" in show("pipe.csv")
    assert "packed.csv.gz: not a table: " in show("packed.csv.gz")


def test_what_a_terminal_would_obey_is_printed_as_text(show, tmp_path, capsys):
    (tmp_path / "b\x1b.csv").write_text('a\x1b[2J,b\n\x1b]0;x\x07,1\n"y\rz\u202e",2.5\n', encoding="utf-8")
    assert show("b\x1b.csv") == [
        ["a\\x1b[2J", "b"],
        ["\\x1b]0;x\\x07", "1"],
        ["y\\rz\\u202e", "2.5"],
    ]
    assert "has no column c" in show("b\x1b.csv", "c\x1b")


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
