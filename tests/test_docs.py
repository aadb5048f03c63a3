"""The documentation: its links, commands and messages exist, and it shows what programs print."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import howto_code
import pytest
import yaml
from conftest import ROOT

from snn import cli

sys.path.insert(0, str(ROOT / "scripts"))

import published_numbers

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "config/README.md",
    *(page for page in (ROOT / "docs").rglob("*.md") if not {"_generated", "_build"} & set(page.parts)),
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
    """Pages that the site generates are checked in test_site.py, and by ``make docs``."""
    links = re.findall(r"\]\(\s*([^)\s]+)\s*\)", page.read_text(encoding="utf-8"))
    for link in links:
        path, _, anchor = link.partition("#")
        if not re.match(r"https?:", link) and "_generated/" not in path:
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
    """``results/tables/NAME.csv`` has a form of its own, or is of a sweep of the grid or of the page."""
    from snn.grid import catalogue

    sweeps = set(yaml.safe_load((ROOT / "config/grid.yaml").read_text(encoding="utf-8"))["sweeps"])
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
    [("troubleshooting.md", "", 16), ("reference/guarantees.md", "## If something is refused", 11)],
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
