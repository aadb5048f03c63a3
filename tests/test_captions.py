"""Captions of the report: each says how to read what it is of, with names that exist and proved numbers."""

import re

import pytest
from conftest import ROOT
from records_of import THRESHOLDS

from snn.backends import access
from snn.backends.cpu import access as cpu_access
from snn.config import groups
from snn.grid import catalogue
from snn.microbenchmarks import allocation_size, memory_calls
from snn.report.write import glossary
from snn.tables.cnn import BLOCK
from snn.tables.columns import describe

CAPTIONS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "workflow/report").glob("*.rst")}
GENERAL = {"any_table", "any_figure", "overview"}
PAGES = {"overview": "overview_table"}
"""The caption of overview.html, as overview.rst is the report's first page."""


def percent(fraction):
    return f"{100 * fraction:g}%"


NUMBERS = {
    "cnn_block_size": [f"the block of {BLOCK} threads"],
    "memory": ["more than 90% of the device memory"],  # as test_a_full_device_is_warned_of
    "memory_access": [f"sectors of {access.LINE} bytes", f"lines of {cpu_access.SECTOR})"],
    "allocation_size": [f"of {allocation_size.SMALL} bytes"],
    "allocation_size_figure": [f"of {allocation_size.SMALL} bytes"],
    "memory_calls": [f"access of the device to {memory_calls._PLACES} pages"],
    "precision": [f"within {percent(THRESHOLDS['converges'])} (``converges``"],
    "warnings": [
        f"more than {percent(THRESHOLDS['memory_full'])} of the memory",
        f"a power {percent(THRESHOLDS['irregular_power'])} away from the usual",
    ],
}
"""What captions say with a number that the code or the settings have."""

HARMLESS = re.compile(
    r"95% confidence interval|\bTables? [IVX\d]+(?: and \d+| to \d+)?|\bFigures? \d(?: and \d)?"
    r"|contains? 1\b|around 1\b|above 1\b|crosses 1\b|1 would be no waste|: 1 is all of it, 0 none"
)
"""Numbers of tables and figures, the interval's level, and what a ratio or a fraction of 1 or 0 means."""


def caption_of(name, form):
    """The caption that the rules give an output: its own, or that of the table and figure of its name.

    None where there is neither, so that it has a general one.
    """
    return next((one for one in (f"{name}_{form}", name) if one in CAPTIONS), None)


OF_FIGURES = (*catalogue.FIGURES, catalogue.TIDY)
OF_TABLES = (*catalogue.TABLES, *catalogue.PAGES, *catalogue.MICROBENCHMARK_TABLES, catalogue.TIDY)
FIGURES = {caption: name for name in OF_FIGURES if (caption := caption_of(name, "figure"))}
TABLES = {caption: name for name in OF_TABLES if (caption := caption_of(PAGES.get(name, name), "table"))}


def prose(name):
    """A caption without the names of files and columns, and without what a template fills in."""
    return re.sub(r"``.*?``|\{\{.*?\}\}", "", CAPTIONS[name])


def test_every_table_and_figure_has_a_caption_and_no_caption_is_left_over():
    lacking = {*OF_FIGURES} - {*FIGURES.values()} | {*OF_TABLES} - {*TABLES.values()}
    assert not lacking, (
        "in workflow/report/ write NAME.rst, or of a figure with a table's name NAME_figure.rst"
    )
    assert {*FIGURES, *TABLES} | GENERAL == set(CAPTIONS)
    assert not {*FIGURES} & {*TABLES}  # none has to be read as a table's and as a figure's


@pytest.mark.parametrize("name", sorted({*FIGURES, *TABLES}))
def test_a_caption_is_a_few_plain_sentences(name):
    text = CAPTIONS[name].strip()
    assert "\n" not in text and text.endswith(".")
    sentences = re.findall(r"[^.]+[.](?=\s|$)", prose(name))
    assert 1 <= len(sentences) <= 6 and max(len(one.split()) for one in sentences) <= 70
    for word in ("unclear", "above chart", "page-locked", "multiprocessor"):
        assert word not in text


@pytest.mark.parametrize("name", sorted({*FIGURES, *TABLES}))
def test_every_number_is_one_that_the_code_or_the_settings_have(name):
    text = prose(name)
    for said in NUMBERS.get(name, ()):
        assert said in CAPTIONS[name]
        text = text.replace(re.sub(r"``.*", "", said), "")
    left = re.findall(r"(?<![A-Za-z\d])\d[\d.,]*%?", HARMLESS.sub("", text))
    assert not left, f"{name}: say in NUMBERS where it is from: {left}"


def test_roman_numbers_are_those_of_the_menu():
    labelled = {**catalogue.TABLES, **catalogue.PAGES}
    for name, entry in labelled.items():
        if entry.category == catalogue.PAPER_TABLES:
            number = entry.label.partition(" ")[0]
            said = re.search(r"\(Table ([IVX]+)\)", CAPTIONS[caption_of(name, "table")])
            assert said and said[1] == number, name


@pytest.mark.parametrize("name", sorted(CAPTIONS))
def test_every_name_in_a_caption_is_one_that_there_is(name):
    """A column of the table, a word of the glossary, a file, a choice, or a value that the code writes."""
    chosen = {choice for group in ("strategy", "kernel", "network") for choice in groups.names(group)}
    keys = {key for choice in groups.names("strategy") for key in groups.load("strategy", choice)}
    table = TABLES.get(name) or catalogue.FIGURES.get(FIGURES.get(name, ""), catalogue.TIDY_FIGURE).table
    for said in re.findall(r"``([^`]+)``", re.sub(r"``[^`]*\{\{[^`]*``", "", CAPTIONS[name])):
        known = said in chosen or said in glossary() or said in keys or describe(table, said)
        written = known or any(f'"{said}' in text for text in SOURCES)
        assert written or (ROOT / said).exists() or said == "results/traces/timeline.json", said


SOURCES = [path.read_text(encoding="utf-8") for path in (ROOT / "snn").rglob("*.py")]
