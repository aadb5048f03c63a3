"""The documentation: links, commands, messages and columns exist; what the site generates is complete."""

import ast
import csv
import os
import re
from functools import cache, partial
from pathlib import Path

import generators
import howto_code
import published_numbers
import pytest
import yaml
from conftest import ROOT
from generators import commands, grid, kernels, links, records, repository, strategies, tables

from snn import cli
from snn.config import groups
from snn.errors import RecordError
from snn.files import published_sets
from snn.files.published_sets import name_of, sets
from snn.tables import columns

DOCS = ROOT / "docs"
QUICK = (grid, kernels, records, repository, strategies, tables)
"""The site's generators but ``commands``, which runs each command."""

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "config/README.md",
    *(page for page in DOCS.rglob("*.md") if not {"_generated", "_build"} & set(page.parts)),
]


def test_the_readme_shows_what_the_published_table_prints():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command, printed = re.search(
        r"    \$ (.*show_table results/published/.*)\n((?:    [^$].*\n)+)", text
    ).groups()
    path = Path(command.split()[-1])
    rows = published_numbers.table(f"{path.parts[2]}/{path.parts[3]}/{path.stem}")
    header, *lines = [line.split() for line in printed.splitlines()]
    assert lines
    for line in lines:
        cells = [*line[: len(header) - 1], " ".join(line[len(header) - 1 :])]
        (row,) = [row for row in rows if [row[name] for name in header[:2]] == cells[:2]]
        assert [shown(row[name]) for name in header] == cells


def shown(cell):
    """As ``scripts/show_table`` prints it."""
    try:
        return f"{float(cell):.4g}" if cell else "-"
    except ValueError:
        return cell


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@cache
def anchors(page):
    """The names that GitHub and the site give to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_images_exist(page):
    """As plain Markdown, which has no pages that the site generates."""
    links = re.findall(r"\]\(\s*([^)\s]+)\s*\)", page.read_text(encoding="utf-8"))
    for link in links:
        path, _, anchor = link.partition("#")
        if not re.match(r"https?:", link):
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_targets_and_files_exist(page):
    text = page.read_text(encoding="utf-8")
    for module in re.findall(r"python -m (snn[\w.]*)", text):
        path = ROOT / module.rstrip(".").replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    for name in re.findall(r"(?:^    (?:\$ )?|`)snn ([a-z]+(?:-[a-z]+)*)", text, re.MULTILINE):
        assert name in cli.snn.commands, name
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for target in re.findall(r"(?:`|\$ |^    )make ([a-z]+)", text, re.MULTILINE):
        assert target in known, target
    of_reader = howto_code.files(page.stem) if page.parent.name == "howto" else {}
    folders = "benchmarks|config|docs|envs|kernels|scripts|snn|tests|workflow|results/published"
    for path in re.findall(rf"(?<![\w./-])((?:{folders})/[\w./-]*[\w/])", text):
        is_built = path.startswith(("docs/_build", "docs/_generated"))
        if "NAME" not in path and path not in of_reader and not is_built:
            assert (ROOT / path).exists(), path


def test_tables_and_figures_that_pages_make_exist():
    """``results/tables/NAME.csv`` is a table of the catalogue, or a sweep of a grid or of the page."""
    from snn.grid import catalogue

    grids = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in ROOT.glob("config/*.yaml"))
    sweeps = {name for grid in grids for name in grid.get("sweeps", ())}
    known = sweeps | set(catalogue.TABLES) | set(catalogue.FIGURES) | set(catalogue.RESERVED)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        own = set(re.findall(r'^(?: {6}(?=\w+:$)|"(?=\w+": Table))(\w+)', text, re.MULTILINE))
        for name in re.findall(r"results/(?:tables|figures)/(\w+)\.\w+", text):
            assert name in known | own, f"{page.name}: {name}"


def test_every_guarantee_names_a_test_that_exists():
    """In the tables of what holds; the others explain."""
    text = (ROOT / "docs/reference/guarantees.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:faults/)?\w+\.py)`", text):
        assert (ROOT / "tests" / name).is_file(), name
    rows = [
        row
        for part in re.findall(r"^\| .* \| what holds \| test \|\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
        for row in part.splitlines()
    ]
    assert len(rows) > 15
    for row in rows:
        assert re.search(r"`(faults/)?\w+\.py` \|$", row), row


@cache
def messages():
    """The texts of the code's string literals; what an f-string fills in is a line break."""
    found, sources = [], [*(ROOT / "snn").rglob("*.py"), *filter(Path.is_file, (ROOT / "scripts").glob("*"))]
    for path in sources:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py" or text.startswith("#!/usr/bin/env python3"):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    found.append("".join(getattr(part, "value", "\n") for part in map(filled, node.values)))
    return found


def filled(part):
    return part if isinstance(part, ast.Constant) else ast.Constant("\n")


@pytest.mark.parametrize(
    ("page", "heading", "fewest"),
    [("troubleshooting.md", "", 16), ("reference/guarantees.md", "## Error messages", 11)],
)
def test_messages_to_troubleshoot_are_those_of_the_code(page, heading, fewest):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(heading or "# ")[2]
    first_columns = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    quoted = [message for column in first_columns for message in re.findall("`([^`]+)`", column)]
    quoted = [message for message in quoted if " " in message]  # the others are words of a column
    assert len(quoted) >= fewest
    filled_in = r"\.\.\.|\bN\b|\bPATH\b|^results/\S+:"
    for message in quoted:
        parts = [part.strip(" ,") for part in re.split(filled_in, message)]
        assert any(all(part in literal for part in parts) for literal in messages()), message


# ---- the site


@cache
def generated():
    return {path: text for module in QUICK for path, text in module.pages().items()}


def written():
    """The pages in docs/, by their path there."""
    pages = [page for page in PAGES if DOCS in page.parents]
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
                is_download = (ROOT / target).is_file() and not target.endswith(".md")
                assert target.removeprefix("docs/") in pages or is_download, f"{path}: {link}"
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
            "{0}/device is a set itself, because it holds records.jsonl.gz",
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
