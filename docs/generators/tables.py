"""A page for every table: what it holds, how to make it, and what each of its columns contains."""

import csv
from collections.abc import Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path

from generators.links import ROOT
from generators.markdown import from_rst, paragraphs, table
from snn.files.published_sets import PUBLISHED, name_of, sets
from snn.grid import catalogue
from snn.report.write import glossary, heading
from snn.tables import columns
from snn.tables.table import find_table

CAPTIONS = ROOT / "workflow/report"
ANY_SWEEP = "any_sweep"
_MERGED = dict.fromkeys(("cards", "devices"), "snn merge FOLDER ...")
COMMANDS = {"comparison": "snn compare A B OUTPUT", **_MERGED}
"""Tables that no rule makes."""

_MOST_ROWS = 200
"""Rows that are looked through for an example."""

_LONG = 60


def pages() -> dict[str, str]:
    found = {name: page(name) for name in names()}
    order = "\n".join(found)
    index = paragraphs(
        "# Tables and their columns",
        "Every table is a CSV file in `results/tables/`, and a sortable page in the report. A sweep without "
        f"a special table has the columns of [any sweep]({ANY_SWEEP}.md). [Words](words.md) explains "
        "verdicts, machine states and statuses.",
        f"```{{toctree}}\n:maxdepth: 1\n\nwords\n{order}\n```",
    )
    made = {f"tables/{name}.md": text for name, text in found.items()}
    return made | {"tables/index.md": index, "tables/words.md": words()}


def names() -> list[str]:
    """The special tables, and the general one of any sweep."""
    own = {*catalogue.TABLES, *catalogue.MICROBENCHMARK_TABLES, *catalogue.PAGES, *COMMANDS}
    return [ANY_SWEEP, *sorted(own)]


def page(name: str) -> str:
    """The page of one table."""
    published = [folder for folder in sets() if _csv(folder, name)]
    listed, example = _columns(name, published), _example(name, published)
    rows = [
        (f"`{column}`", heading(column), columns.describe(name, column), example.get(column, ""))
        for column in listed
    ]
    also = ", ".join(f"[{name_of(folder)}](../published/{name_of(folder)}.md)" for folder in published)
    return paragraphs(
        f"# {name.replace('_', ' ')}",
        title(name),
        caption(name),
        f"`{command(name)}`",
        f"Published in {also}." if also else "Not among the published tables yet.",
        "## Columns",
        table(["column", "header", "what it contains", "example"], rows),
        _others(name),
    )


def _others(name: str) -> str:
    """A remark on columns that the list leaves out."""
    return {
        ANY_SWEEP: "Each axis has a column, such as `training.batch_size`, unless one above shows it.",
        "devices": "A column of one device has its name after a space: `speedup NVIDIA H200`.",
    }.get(name, "")


def command(name: str) -> str:
    """The command that makes the table."""
    if name in COMMANDS:
        return COMMANDS[name]
    return f"snakemake --cores 1 results/tables/{'SWEEP' if name == ANY_SWEEP else name}.csv"


def title(name: str) -> str:
    """The title of its page in the report."""
    module = import_module(f"snn.tables.{name}") if name in COMMANDS else None
    said = getattr(module, "TITLE", "") if module else find_table(catalogue.table_form(name)).title
    return f"**{said.format('of a sweep in the grid')}.**" if said else ""


def caption(name: str) -> str:
    """Its caption in the report, unless that depends on what was measured."""
    path = CAPTIONS / f"{'sweep' if name == ANY_SWEEP else name}.rst"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return "" if "{{" in text or "{%" in text else from_rst(text)


def _columns(name: str, published: Sequence[Path]) -> list[str]:
    """Its columns in order: from published tables, or else those with a description for this table alone."""
    found: list[str] = []
    for folder in published:
        for path in _csv(folder, name):
            with path.open(encoding="utf-8", newline="") as lines:
                _merge(found, [column.partition(" ")[0] for column in next(csv.reader(lines))])
    if name == ANY_SWEEP:
        found = [column for column in found if "." not in column]
    return found or list(columns.own(name))


def _example(name: str, published: Sequence[Path]) -> dict[str, str]:
    """The first value of each column in the published tables."""
    found: dict[str, str] = {}
    for path in (path for folder in published for path in _csv(folder, name)):
        with path.open(encoding="utf-8", newline="") as lines:
            for row in islice(csv.DictReader(lines), _MOST_ROWS):
                for column, value in row.items():
                    if value:
                        found.setdefault(column.partition(" ")[0], _shown(value))
    return found


def _shown(value: str) -> str:
    try:
        return f"{float(value):.6g}" if "." in value else value
    except ValueError:
        return value if len(value) <= _LONG else value[:_LONG].rpartition(" ")[0] + " ..."


def _merge(known: list[str], others: Sequence[str]) -> None:
    """Insert unknown columns after the columns that they follow."""
    place = 0
    for column in others:
        if column in known:
            place = known.index(column) + 1
        else:
            known.insert(place, column)
            place += 1


def _csv(folder: Path, name: str) -> list[Path]:
    """The files of this table in a published set."""
    tables = sorted(folder.glob("tables/*.csv"))
    if name == ANY_SWEEP:
        special = {*catalogue.TABLES, *catalogue.MICROBENCHMARK_TABLES, *catalogue.PAGES, *COMMANDS}
        return [path for path in tables if path.stem not in special]
    own = [path for path in tables if path.stem == name]
    is_merged = name in _MERGED and folder == sets()[0]
    return own + (sorted(PUBLISHED.glob(f"{name}*.csv")) if is_merged else [])


def words() -> str:
    """The words of verdicts, machine states and statuses."""
    rows = [(f"`{word}`", meaning) for word, (_, meaning) in glossary().items() if meaning]
    return paragraphs(
        "# Words in tables",
        "Thresholds are in `config/verdicts.yaml`. "
        "[Protocol and statistics](../../explanation/protocol.md) says how the verdicts come about.",
        table(["word", "meaning"], rows),
    )
