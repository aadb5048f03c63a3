"""README and docs/ say what published rows say, in numbers and words; faults planted in a text are found."""

import re

import prose
import published_numbers
import pytest
from conftest import ROOT

from snn.errors import ConfigError


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
