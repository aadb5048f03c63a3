"""Numbers of published tables in texts: written anew in the form that they had, rounded, with the verdict."""

import os
import re
import sys

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from snn.errors import SnnError

sys.path.insert(0, str(ROOT / "scripts"))

import published_numbers

ROW = {
    "speedup": "2.0649", "speedup_ci_low": "1.8349", "speedup_ci_high": "2.2949", "verdict": "faster",
    "lead": "0.9981", "lead_ci_low": "0.9962", "lead_ci_high": "1.0012",
    "slowdown": "1.0051", "slowdown_ci_low": "0.9899", "slowdown_ci_high": "1.0204",
    "mean_s": "0.024721", "std_s": "0.0000213", "kernels_s": "0.605", "saved_fraction": "0.534",
    "step_us": "2.331", "step_ci_low_us": "2.2951", "step_ci_high_us": "2.361",
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "column", "changes", "new"),
    [
        ("9 (1 to 2)", "speedup", {}, "2.06 (1.83 to 2.29)"),
        ("9 times (95% CI 1 to 2)", "speedup", {}, "2.06 times (95% CI 1.83 to 2.29)"),
        ("9 (not significant, 1 to 2)", "speedup", {}, "2.06 (1.83 to 2.29)"),
        ("9 (1 to 2)", "speedup", {"verdict": "not significant"}, "2.06 (not significant, 1.83 to 2.29)"),
        ("9 (1\n   to 2)", "speedup", {"speedup_ci_high": "228.4"}, "2.06 (1.83\n   to 228)"),
        ("9 (1 to 2)", "lead", {}, "0.998 (not significant, 0.996 to 1.001)"),
        ("9 (1 to 2)", "slowdown", {"verdict": "untouched"}, "1.01 (untouched, 0.99 to 1.02)"),
        ("9 (untouched, 1 to 2)", "slowdown", {"verdict": "touched"}, "1.01 (not significant, 0.99 to 1.02)"),
        (
            "9 (1 to 2)",
            "lead",
            {"lead_ci_low": "0.9979", "lead_ci_high": "0.9983"},
            "0.9981 (0.9979 to 0.9983)",
        ),
        ("9 µs (1 to 2)", "step_us", {}, "2.33 µs (2.30 to 2.36)"),
        ("9 ± 1 s", "mean_s", {}, "24.72 ± 0.02 ms"),
        ("9 ± 1 ms", "mean_s", {"mean_s": "8.4931", "std_s": "0.13"}, "8.49 ± 0.13 s"),
        ("9 ± 1 ms", "mean_s", {"mean_s": "0.000123", "std_s": "0"}, "123 ± 0 µs"),
        ("about 9 s", "kernels_s/50000", {}, "about 12.1 µs"),
        ("about 9%", "saved_fraction", {}, "about 53%"),
    ],
)
def test_a_number_is_written_in_the_form_that_it_had(monkeypatch, old, column, changes, new):
    monkeypatch.setattr(published_numbers, "table", lambda name: [ROW | changes, {"verdict": "of others"}])
    key = f"verdict={changes.get('verdict', 'faster').replace(' ', '~')}"
    page = "It is {}, 7 (no number).\n<!-- from a/b: {} {} -->\n\n    9 (1 to 2)\n"
    assert published_numbers.filled(page.format(old, key, column)) == page.format(new, key, column)
    (first, *_) = published_numbers.blocks(page.format(new, key, column))
    assert first[0].startswith(f"It is {' '.join(new.split())}, 7") and first[1] == [(ROW | changes, column)]


@given(
    value=st.floats(1e-3, 1e4),
    below=st.floats(0, 0.9),
    above=st.floats(0, 9),
    significant=st.sampled_from([True, False]),
)
def test_a_written_number_is_its_rounded_value(value, below, above, significant):
    low, high = value * (1 - below), value * (1 + above)
    row = {"speedup": value, "speedup_ci_low": low, "speedup_ci_high": high}
    row["verdict"] = "faster" if significant else "not significant"
    text = published_numbers.written(published_numbers.VALUE.match("1 (1 to 1)"), row, "speedup")
    said = published_numbers.VALUE.fullmatch(text)
    assert bool(said["word"]) != significant
    for name, exact in (("mean", value), ("low", low), ("high", high)):
        digits = len(said[name].partition(".")[2])
        assert abs(float(said[name]) - exact) <= 0.5000001 * 10**-digits
        assert digits >= 2 or abs(float(said[name]) / exact - 1) < 0.006
    assert low > high - 1e-8 or said["low"] != said["high"]


@pytest.mark.parametrize(
    ("comment", "wrong"),
    [
        ("a/b: verdict=slower speedup", "a/b has 0 rows with {'verdict': 'slower'}"),
        ("a/b: verdict=faster", "names no column in 'a/b: verdict=faster'"),
        ("a/b: verdict=faster speedup lead", "1 numbers, and 2 in the comment"),
        ("nothing/b: verdict=faster speedup", "nothing/tables/b.csv: cannot be read: No such file"),
        ("a/b: verdict=faster other", "'9 (1 to 2)' cannot be written from 'other': its table has no column"),
        ("a/b: verdict=faster verdict", "cannot be written from 'verdict': could not convert string"),
    ],
)
def test_what_a_comment_gets_wrong_is_named(monkeypatch, comment, wrong):
    if not comment.startswith("nothing"):
        monkeypatch.setattr(published_numbers, "table", lambda name: [ROW])
    with pytest.raises(SnnError, match=re.escape(wrong)):
        published_numbers.filled(f"It is 9 (1 to 2).\n<!-- from {comment} -->\n")


@pytest.fixture
def page(tmp_path, monkeypatch):
    (tmp_path / "a/b/tables").mkdir(parents=True)
    (tmp_path / "a/b/tables/c.csv").write_text("x,y_s\n1,0.5\n")
    page = tmp_path / "page.md"
    page.write_text("It takes about 9 s.\n<!-- from a/b/c: x=1 y_s -->\n")
    monkeypatch.setattr(published_numbers, "PAGES", [page])
    monkeypatch.setattr(published_numbers, "PUBLISHED", tmp_path)
    monkeypatch.setattr(published_numbers, "ROOT", tmp_path)
    published_numbers.table.cache_clear()
    yield page
    published_numbers.table.cache_clear()


def test_pages_are_written_only_if_that_is_asked_for(page, capsys):
    before = page.read_text()
    assert published_numbers.main(["some"]) == 2
    assert page.read_text() == before
    assert published_numbers.main([]) == 0
    assert page.read_text() == before.replace("about 9 s", "about 500 ms")
    assert capsys.readouterr().out == "page.md: written anew\n"


def test_no_page_is_written_where_one_is_wrong(page, capsys):
    wrong, before = page.with_name("wrong.md"), page.read_text()
    wrong.write_text(before.replace("y_s", "z_s"))
    published_numbers.PAGES.append(wrong)
    assert published_numbers.main([]) == 2
    assert page.read_text() == before
    said = capsys.readouterr().err
    assert f"{wrong}: 'about 9 s' cannot be written from 'z_s': its table has no column 'z_s'" in said


def test_a_pipe_in_place_of_a_table_is_not_waited_for(page, capsys):
    table = page.parent / "a/b/tables/c.csv"
    table.unlink()
    os.mkfifo(table)
    assert published_numbers.main([]) == 2
    assert f"{table}: cannot be read: it is a pipe, not a file" in capsys.readouterr().err
