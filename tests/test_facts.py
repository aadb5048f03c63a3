"""What a page says that follows from several rows stands there, and no other measured number beside it.

Such a block has the comment ``checked by tests/test_facts.py``, and no measured number but those of facts.
"""

import re
from itertools import pairwise

import pandas as pd
import prose
import pytest
from conftest import ROOT
from facts import FACTS, facts_of
from published_tables import one, table

from snn.config.yaml_file import read_yaml


def checked_here():
    """The blocks of every page that name this file."""
    for page in prose.PAGES:
        for block in prose.parsed(page.read_text(encoding="utf-8")):
            if any(mark["test"] == "tests/test_facts.py" for mark in block.marks):
                yield str(page.relative_to(ROOT / "docs")), block.prose


@pytest.mark.parametrize("page", FACTS)
def test_the_page_says_what_follows(page):
    said = [text for name, text in checked_here() if name == page]
    for fact in facts_of(page):
        assert any(fact in text for text in said), fact


def test_every_number_of_a_checked_block_is_of_a_fact():
    for page, text in checked_here():
        rest = text
        for fact in facts_of(page):
            rest = rest.replace(fact, "")
        assert not prose.MEASURED.search(rest), text


def test_each_row_of_the_steps_is_over_the_row_above_it():
    """The last column of reference_to_persistent.md: a ratio of means, and a lead in the last row."""
    rows = table("nvidia-h200/strategies/strategies")
    text = (ROOT / "docs/explanation/reference_to_persistent.md").read_text(encoding="utf-8")
    steps = ["reference", "preallocated", "resident", "graph"]
    times = [one(rows, strategy=name, dataset="large", kernel="naive")["mean_s"] for name in steps]
    times.append(one(rows, strategy="graph", dataset="large", kernel="tiled_fused")["mean_s"])
    lines = re.findall(r"^\| `(?:preallocated|resident|graph)`.*?\| ([\d.]+) \| <!--", text, re.MULTILINE)
    assert lines == [f"{above / time:.1f}" for above, time in pairwise(times)]
    two = [
        one(rows, strategy=name, dataset="large", kernel="tiled_fused")["mean_s"]
        for name in ("graph", "resident")
    ]
    assert two[0] < two[1] / 2 and "`graph` takes less than half the time of `resident`" in text


@pytest.mark.parametrize("name", ["speedup", "neurons", "depth", "training_time", "correctness"])
def test_published_tables_show_the_papers_values(name):
    """Square brackets in the documentation are columns ``paper_...`` of these tables."""
    paper = read_yaml(ROOT / f"config/paper/{name}.yaml")
    rows = table(f"nvidia-h200/paper/{name}")
    compared = 0
    for row in rows.to_dict("records"):
        of_row = paper.get(str(row.get("neurons") or row.get("network") or row["strategy"]), {})
        expected = {
            "speedup": {"paper_speedup": of_row.get(row.get("dataset"))},
            "training_time": {"paper_s": of_row.get(row.get("dataset"))},
            "correctness": {"paper_s": of_row.get("seconds")},
        }.get(
            name, {f"paper_{key}{'' if key == 'speedup' else '_s'}": value for key, value in of_row.items()}
        )
        for column, value in expected.items():
            if name != "correctness" or pd.notna(row[column]):
                assert row[column] == value if value is not None else pd.isna(row[column])
                compared += value is not None
    assert compared >= (4 if name == "correctness" else 9)
