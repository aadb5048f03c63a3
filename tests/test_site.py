"""The site's generated pages: what they list is complete, and every link of the site leads somewhere."""

import csv
import os
import re
import sys
from functools import cache, partial
from pathlib import Path

import pytest
from conftest import ROOT

from snn.config import groups
from snn.errors import RecordError
from snn.files import published_sets
from snn.files.published_sets import name_of, sets
from snn.tables import columns

DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

import generators  # noqa: E402
from generators import commands, grid, kernels, links, records, repository, strategies, tables  # noqa: E402

QUICK = (grid, kernels, records, repository, strategies, tables)
"""All but ``commands``, which runs each of them."""


@cache
def generated():
    return {path: text for module in QUICK for path, text in module.pages().items()}


def written():
    """The pages in docs/, by their path there."""
    pages = [page for page in DOCS.rglob("*.md") if not {"_generated", "_build"} & set(page.parts)]
    return {str(page.relative_to(DOCS)): page.read_text(encoding="utf-8") for page in pages}


def test_every_generator_is_used():
    modules = {path.stem for path in (DOCS / "generators").glob("*.py")}
    used = {module.__name__.rpartition(".")[2] for module in generators.MODULES}
    assert modules == used | {"__init__", "links", "markdown"}


def test_every_link_of_the_site_leads_to_a_page_or_a_file():
    pages = written() | {f"_generated/{path}": text for path, text in generated().items()}
    pages["_generated/commands.md"] = ""
    checked = 0
    for path, text in pages.items():
        place = Path("docs") / path
        on_site = text if path.startswith("_generated/") else links.rewritten(text, place, place)
        for link in re.findall(r"\]\(([^)\s]+)\)", on_site):
            target = os.path.normpath(place.parent / link.partition("#")[0])
            if not re.match(r"https?:|#", link):
                assert target.removeprefix("docs/") in pages or (ROOT / target).is_file(), f"{path}: {link}"
                checked += 1
    assert checked > 300


def test_every_page_is_in_a_table_of_contents():
    pages = written() | {f"_generated/{path}": text for path, text in generated().items()}
    listed = {"index"}
    for path, text in pages.items():
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for entry in re.findall(r"^(?:.+ <)?([\w./*-]+)>?$", block, re.MULTILINE):
                listed.add(os.path.normpath(Path(path).parent / entry))
    patterns = [re.compile(re.escape(entry).replace(r"\*", "[^/]+")) for entry in listed]
    for path in pages:
        assert any(pattern.fullmatch(path.removesuffix(".md")) for pattern in patterns), path


def test_a_link_is_rewritten_for_the_page_that_it_is_on():
    text = "[a](../config/README.md#images) ![b](../results/published/devices.svg) [c](https://x.org) [d](#e)"
    assert links.rewritten(text, Path("docs/results.md"), Path("docs/results.md")) == (
        "[a](_generated/configuration.md#images) ![b](../results/published/devices.svg) "
        "[c](https://x.org) [d](#e)"
    )
    with pytest.raises(ValueError, match=r"docs/x\.md: snn is a folder without a page"):
        links.rewritten("[snn](../snn)", Path("docs/x.md"), Path("docs/x.md"))


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        (
            {"a/README.md": "a/other.md"},
            "{0}/device/a holds records.jsonl.gz, but no README.md: publish the set",
        ),
        (
            {"a/records.jsonl.gz": "records.jsonl.gz"},
            "{0}/device is a set itself, for it holds records.jsonl.gz",
        ),
        ({"README.md": "other.md"}, "{0}/device has no README.md: scripts/redraw makes it"),
    ],
)
def test_a_published_set_that_would_have_no_page_is_named(tmp_path, monkeypatch, moved, said):
    folder = tmp_path / "results/published/device/a"
    folder.mkdir(parents=True)
    for path in (folder / "README.md", folder / "records.jsonl.gz", folder.parent / "README.md"):
        path.write_text("# Results\n")
    (folder.parent / ".a.1234/new").mkdir(parents=True)  # of a publication that was killed
    (folder.parent / ".a.1234/new/README.md").touch()
    monkeypatch.setattr(repository, "ROOT", tmp_path)
    monkeypatch.setattr(repository, "ELSEWHERE", {})
    published = partial(published_sets.checked, tmp_path / "results/published")
    monkeypatch.setattr(repository, "checked", published)
    made = [path for path in repository.pages() if path.startswith("published/")]
    assert made == ["published/device/a.md", "published/device/index.md"]
    for old, new in moved.items():
        (folder.parent / old).rename(folder.parent / new)
    with pytest.raises(RecordError, match=re.escape(said.format(tmp_path / "results/published"))):
        repository.pages()


def test_every_choice_setting_kernel_file_and_schema_key_is_listed():
    pages = generated()
    for name in groups.names("strategy"):
        assert f"\n## {name}\n" in pages["strategies.md"]
    for path in (ROOT / "kernels").rglob("*.cu"):
        assert f"### {path.relative_to(ROOT / 'kernels')}\n" in pages["kernels.md"]
    for group in groups.GROUPS:
        for name in groups.names(group):
            assert f"\n| `{name}` |" in pages["grid.md"]
    for key in ("training.accumulate", "protocol.relative_error", "network.recompute"):
        assert f"| `{key}` |" in pages["grid.md"]
    for key in ("runs[].seconds", "provenance.git.commit", "ledger"):
        assert f"| `{key}` |" in pages["record_schema.md"]


def test_every_command_line_is_listed():
    page = commands.page()
    for name in ("", " compare", " more-rounds", " recommend", " measure-limits", " microbenchmark"):
        assert f"\n## snn{name}\n" in page
    assert "--device" in commands.help_of("plan")


def test_counts_of_a_strategy_are_those_of_the_published_table():
    with strategies.source("strategies").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["dataset"] == "large"]
    (reference,) = [row for row in rows if row["strategy"] == "reference"]
    shown = [strategies.shown(key, reference[key]) for key in strategies.COUNTS]
    assert shown[0] == f"{int(reference['mallocs']):,}"
    assert f"| `reference` | `{reference['kernel']}` | {' | '.join(shown)} |" in generated()["strategies.md"]


@pytest.mark.parametrize(("sweep", "dataset"), [("strategies", "large"), ("cnn_strategies", "fashion")])
def test_rows_of_counts_say_which_cell_they_are_of(sweep, dataset):
    head, _, *rows = re.findall(r"^\| (.*) \|$", strategies.counts(sweep, dataset), re.MULTILINE)
    choices = head.split(" | ").index("device allocations")
    cells = [tuple(row.split(" | ")[:choices]) for row in rows]
    assert len(set(cells)) == len(cells) > 10


def test_the_comment_of_a_kernels_file_is_listed_to_its_end():
    (row,) = re.findall(r"^\| `tensor_core` \| (.*?) \|", kernels.page(), re.MULTILINE)
    assert row.startswith("tiled_fused on tensor cores") and row.endswith("multiply them on FP32 units.")


# ---- columns


@pytest.mark.parametrize("folder", sets(), ids=name_of)
def test_every_column_of_the_published_tables_is_described(folder):
    for path in folder.glob("tables/*.csv"):
        with path.open(encoding="utf-8", newline="") as lines:
            for column in next(csv.reader(lines)):
                said = columns.describe(path.stem, column)
                assert said, f"{path.stem}: {column}: add it to {columns.PATH}"


def test_descriptions_are_of_tables_that_there_are():
    assert set(columns.tables()) <= set(tables.names())


def test_a_column_that_nobody_described_is_found():
    assert columns.describe("speedup", "speed") is None
    assert columns.describe("speedup", "speed_ci_low") is None
    assert columns.describe("speedup", "speedup_ci_low") == (
        "lower end of the 95% confidence interval of `speedup`"
    )
    assert columns.describe("devices", "speedup NVIDIA H200").startswith("on the named device")
    assert columns.describe("batches", "training.batch_size") == "the setting `training.batch_size`"
