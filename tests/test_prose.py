"""README and docs/ say what published rows say, in numbers and words; faults planted in a text are found."""

import os
import re

import prose
import published_numbers
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from snn.errors import ConfigError, SnnError


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", prose.PAGES, ids=name_of)
def test_every_number_is_that_of_the_row_it_names(page):
    """To the digit and the word: the page is what the script would write."""
    text = page.read_text(encoding="utf-8")
    assert published_numbers.filled(text) == text


@pytest.mark.parametrize("page", prose.PAGES, ids=name_of)
def test_every_word_is_that_of_the_rows_and_every_number_has_a_source(page):
    assert not [*prose.faults(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", prose.PAGES, ids=name_of)
def test_no_comment_is_in_the_head_of_a_table(page):
    """It would be a column more than the line below has, and the table would not be one."""
    assert not re.search(r"-->\n *\| *:?-", page.read_text(encoding="utf-8"))


def test_the_pages_of_results_name_many_rows():
    for name, fewest in (("README.md", 10), ("results.md", 150), ("reference_to_persistent.md", 30)):
        (page,) = [page for page in prose.PAGES if page.name == name and "tutorials" not in page.parts]
        named = [pair for block in prose.parsed(page.read_text(encoding="utf-8")) for pair in block.pairs]
        assert len(named) >= fewest


# ---- faults planted in a text


def row(strategy, verdict, speedup, dataset="large", kernel="naive", **more):
    """A row of a table; ``speedup``: the ratio and the ends of its interval."""
    of_speedup = dict(zip(("speedup", "speedup_ci_low", "speedup_ci_high"), speedup.split(), strict=True))
    chosen = {"strategy": strategy, "dataset": dataset, "kernel": kernel, "status": "ok", "verdict": verdict}
    return {**chosen, **of_speedup, "baseline": "reference, kernel naive", **more}


def lead(runner_up, mean, low, high, verdict):
    of_lead = {"lead": mean, "lead_ci_low": low, "lead_ci_high": high, "lead_verdict": verdict}
    return {"network": "256", "runner_up": runner_up, **of_lead}


TABLES = {
    "h/s/strategies": [
        row("combined", "faster", "1.83 1.59 2.10", paper_speedup="1.65"),
        row("streams", "slower", "0.79 0.67 0.92", mean_s="0.5"),
        row("pinned", "not significant", "1.12 0.88 1.43"),
    ],
    "h/s/recommendation": [
        row("persistent", "faster", "559 509 613")
        | lead("graph (kernel tiled_fused)", "5.69", "5.67", "5.70", "significant"),
        row("graph", "faster", "9.00 8.00 10.0", "medium", "tiled_fused")
        | lead("resident", "1.05", "0.90", "1.20", "not significant"),
    ],
    "h/s/neighbours": [
        {"strategy": "pinned", "neighbour": "reference", "slowdown": "1.31", "slowdown_ci_low": "1.02"}
        | {"slowdown_ci_high": "1.67", "verdict": "touched"},
    ],
    "h/s/device_limits": [{"limit": "launch", "median": "5.194", "unit": "us"}],
}
SPEEDUP = "<!-- from h/s/strategies: strategy={}: speedup -->"
LEAD = "<!-- from h/s/recommendation: dataset=large: {} -->"
TRUE = {
    "verdict": f"`combined` is faster than `reference`: 1.83 (1.59 to 2.10).\n{SPEEDUP.format('combined')}",
    "two": "`combined` is 1.83 times (1.59 to 2.10) as fast as `reference`, "
    "while `streams` is slower, 0.79 (0.67 to 0.92).\n" + SPEEDUP.format("combined,streams"),
    "open": "`pinned` is not significantly different from `reference`: "
    "1.12 (not significant, 0.88 to 1.43).\n" + SPEEDUP.format("pinned"),
    "paper": "`combined`: 1.83 (1.59 to 2.10) [1.65].\n"
    "<!-- from h/s/strategies: strategy=combined: speedup paper_speedup -->",
    "claim": "`streams` is slower.\n<!-- from h/s/strategies: strategy=streams: slower -->",
    "fastest": "`persistent` is the fastest on `large`: 559 (509 to 613) times as fast as `reference` "
    "and 5.69 (5.67 to 5.70)\n"
    f"times as fast as the runner-up, `graph`.\n{LEAD.format('speedup lead')}",
    "row": "| `streams` | `naive` | 0.79 (0.67 to 0.92) | " + SPEEDUP.format("streams"),
    "slowdown": "`pinned` takes longer than alone, 1.31 (1.02 to 1.67) times as long.\n"
    "<!-- from h/s/neighbours: strategy=pinned: slowdown -->",
    "limit": "A launch costs 5.2 µs.\n<!-- from h/s/device_limits: limit=launch: median -->",
    "marked": "A step took 2.5 µs.\n<!-- not from a table: development run -->",
    "section": "## Tries\n\n<!-- not from a table: development runs -->\n\n"
    "A step took 2.5 µs.\n\n| 2.31 |\n\n## Others\n",
    "checked": "It took 12% longer.\n<!-- checked by tests/test_prose.py -->",
}


def found(text):
    """What is wrong with a text: its words, its marks, its numbers."""
    faults = [*prose.faults(text)]
    try:
        written = published_numbers.filled(text)
    except ConfigError as error:
        return [*faults, str(error)]
    return faults + [f"it should be: {written}"] * (written != text)


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setattr(published_numbers, "table", TABLES.get)


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("text", TRUE.values(), ids=TRUE)
def test_a_true_text_is_not_faulted(text):
    assert found(text) == []


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("name", "true", "planted", "fault"),
    [
        ("verdict", "faster", "slower", "is faster, not slower"),
        ("verdict", "`combined`", "`streams`", "'1.83 (1.59 to 2.10)' is of combined"),
        ("verdict", "`reference`", "`pool`", "is over reference, not pool"),
        ("verdict", "1.83", "1.93", "it should be: `combined` is faster than `reference`: 1.83"),
        ("two", "slower", "faster", "is slower, not faster"),
        ("two", "as fast as", "as long as", "is of speedup, not how many times as long"),
        ("two", "`combined` is", "`reference` is", "is of combined"),
        ("two", "as `reference`", "as `pinned`", "is over reference, not pinned"),
        ("two", "`streams`", "`combined`", "'0.79 (0.67 to 0.92)' is of streams"),
        ("open", "is not significantly different", "is slower", "is not significant, not slower"),
        ("open", "not significant, ", "", "it should be"),
        ("paper", "[1.65]", "[1.56]", "[1.65]"),
        ("claim", "slower.", "faster.", "no row of ['streams'] is faster"),
        ("claim", ": slower -->", ": faster -->", "streams is slower, not faster"),
        ("claim", "<!-- from h/s/strategies: strategy=streams: slower -->", "", "no comment names the rows"),
        ("fastest", "`persistent` is", "`graph` is", "the fastest is persistent with naive"),
        ("fastest", "`persistent` is", "`persistent` with `tiled` is", "the fastest is persistent with"),
        ("fastest", "on `large`", "on `small`", "the rows are of other data sets"),
        ("fastest", "on `large`", "on `large` for 256-256", "the rows are of other networks"),
        ("fastest", "runner-up, `graph`", "runner-up, `resident`", "is over graph, not resident"),
        ("fastest", LEAD.format("speedup lead"), LEAD.format("speedup speedup"), "needs a significant lead"),
        ("fastest", "dataset=large", "dataset=medium", "needs a significant lead"),
        ("row", "`streams`", "`pinned`", "no row is of pinned"),
        ("slowdown", "longer than", "shorter than", "is slower, not faster"),
        ("slowdown", "as long", "as fast", "is of slowdown, not how many times as fast"),
        ("limit", "5.2 µs", "5.3 µs", "it should be: A launch costs 5.2 µs"),
        ("limit", "5.2 µs", "5.2 ms", "it should be"),
        ("marked", "<!-- not from a table: development run -->", "", "'2.5 µs' has no comment"),
        ("marked", "development run", "trust me", "'trust me' is none of"),
        ("section", "## Others\n", "## Others\n\nA step took 2.5 µs.\n", "'2.5 µs' has no comment"),
        ("section", "<!-- not from a table: development runs -->", "", "'2.31' has no comment"),
        ("checked", "test_prose.py", "test_nothing.py", "there is no tests/test_nothing.py"),
        ("checked", "<!-- checked by tests/test_prose.py -->", "", "'12%' has no comment"),
    ],
)
def test_a_planted_fault_is_found(name, true, planted, fault):
    text = TRUE[name]
    assert text.count(true) == 1
    assert any(fault in one for one in found(text.replace(true, planted)))


@pytest.mark.parametrize(
    "sentence",
    [
        "`streams` is the fastest.",
        "`graph` with `tiled_fused` is fastest for 256-256.",
        "The fastest strategy on `large` is `streams`.",
        "`streams` is slower than `reference`.",
        "`streams` is 1.5 times as fast.",
        "`streams` is 1.50 (1.40 to 1.60).",
        "It takes 12.1 µs.",
        "It takes 8.49 ± 0.13 s.",
        "It saves about 53%.",
        "It reads 3,052 GB/s.",
        "It does 65 TFLOP/s.",
        "It is 3× the old one.",
        "| `streams` | 1.69 |",
    ],
)
def test_a_claim_without_a_comment_is_found(sentence):
    assert found(sentence)


@pytest.mark.parametrize(
    "text",
    [
        "It asks which strategy is fastest.",
        "An interval has 95% coverage, as every 95% CI.",
        "Version 2.11 and 25,600 rows.",
        "`make bench TIME=10 s` does it.",
        "    $ it printed 12.1 µs\n",
        "```text\nit printed 12.1 µs\n```\n",
        "<!-- made: part -->\n\nIt takes 12.1 µs.\n\n<!-- end -->",
        "See [these](https://example.org/page%20of%201%25) pages.",
    ],
)
def test_what_is_no_claim_needs_no_comment(text):
    assert found(text) == []


OPPOSITE = {"faster": "slower", "slower": "faster"}


def test_no_direction_of_the_results_can_be_turned_round():
    """Every faster and slower of a text with rows, one at a time."""
    turned, missed = 0, []
    for page in (ROOT / "README.md", ROOT / "docs/results.md"):
        for rows in published_numbers.BETWEEN.split(page.read_text(encoding="utf-8"))[::2]:
            hidden = published_numbers.COMMENT.sub(lambda found: " " * len(found[0]), rows)
            for word in re.finditer(r"(?<!not significantly )(?<!than )\b(?:faster|slower)\b", hidden):
                if hidden != rows:
                    turned += 1
                    text = f"{rows[: word.start()]}{OPPOSITE[word[0]]}{rows[word.end() :]}"
                    missed += [] if [*prose.faults(text)] else [text]
    assert turned >= 15 and missed == []


# ---- numbers are written in the form that they had, rounded, with the verdict

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
def own_page(tmp_path, monkeypatch):
    (tmp_path / "a/b/tables").mkdir(parents=True)
    (tmp_path / "a/b/tables/c.csv").write_text("x,y_s\n1,0.5\n")
    own_page = tmp_path / "page.md"
    own_page.write_text("It takes about 9 s.\n<!-- from a/b/c: x=1 y_s -->\n")
    monkeypatch.setattr(published_numbers, "PAGES", [own_page])
    monkeypatch.setattr(published_numbers, "PUBLISHED", tmp_path)
    monkeypatch.setattr(published_numbers, "ROOT", tmp_path)
    published_numbers.table.cache_clear()
    yield own_page
    published_numbers.table.cache_clear()


def test_pages_are_written_only_if_that_is_asked_for(own_page, capsys):
    before = own_page.read_text()
    assert published_numbers.main(["some"]) == 2
    assert own_page.read_text() == before
    assert published_numbers.main([]) == 0
    assert own_page.read_text() == before.replace("about 9 s", "about 500 ms")
    assert capsys.readouterr().out == "page.md: rewritten\n"


def test_no_page_is_written_where_one_is_wrong(own_page, capsys):
    wrong, before = own_page.with_name("wrong.md"), own_page.read_text()
    wrong.write_text(before.replace("y_s", "z_s"))
    published_numbers.PAGES.append(wrong)
    assert published_numbers.main([]) == 2
    assert own_page.read_text() == before
    said = capsys.readouterr().err
    assert f"{wrong}: 'about 9 s' cannot be written from 'z_s': its table has no column 'z_s'" in said


def test_a_pipe_in_place_of_a_table_is_not_waited_for(own_page, capsys):
    table = own_page.parent / "a/b/tables/c.csv"
    table.unlink()
    os.mkfifo(table)
    assert published_numbers.main([]) == 2
    assert f"{table}: cannot be read: it is a pipe, not a file" in capsys.readouterr().err
