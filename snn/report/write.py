"""A table as two files: CSV for programs, and an HTML page for readers and the report."""

import html
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from snn.errors import OutputError
from snn.files import sealed
from snn.report import html_page

FACTS = {
    "device": "Measured on {}",
    "backend": "Backend: {}",
    "driver": "Driver {}",
    "cuda_runtime": "CUDA runtime {}",
    "cupy": "CuPy {}",
    "numpy": "NumPy {}",
    "torch": "PyTorch {}",
    "jax": "JAX {}",
    "python": "Python {}",
    "system": "{}",
    "cpus": "{} CPUs",
    "device_uuid": "UUID {}",
    "data": "Trained on {}",
    "commit": "Commit {}",
    "dirty": "Dirty working tree: {}",
    "paper_device": "The paper's device: {}",
}
"""Columns that become a sentence above the table where their value is the same in every row."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """For what makes this folder and writes to it, which is not begun where it cannot be.

    Raises OutputError, naming the folder, where it is something else or not writable, or the disk is full.
    """
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            raise OutputError(
                f"{folder}: cannot be written: {there} is not a folder: give a folder, or a new name"
            )
        if not os.access(there, os.W_OK | os.X_OK):
            raise OutputError(f"{folder}: cannot be written: {there} is read-only: give another folder")
        yield
    except BrokenPipeError:  # of what is printed meanwhile
        raise
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def write(table: pd.DataFrame, csv: str, path: str, title: str) -> None:
    """Write both files; numbers are rounded in the page, not in the CSV."""
    write_page(table, csv, path, to_html(table, title, name=Path(csv).stem))


def write_page(table: pd.DataFrame, csv: str, path: str, page: str) -> None:
    """Write a table as CSV, and a page of it."""
    sealed.write(Path(path), page.encode(), {Path(csv): table.to_csv(index=False).encode()})


def to_html(table: pd.DataFrame, title: str, before: str = "", name: str = "") -> str:
    """A page: title, ``before`` (HTML) or else the facts common to all rows, the table, its words.

    ``name`` is the table's, by which its columns are described at the end.
    """
    constant = [name for name in FACTS if name in table and table[name].nunique() <= 1]
    facts = "".join(f"{fact(name, table[name].iloc[0])}. " for name in constant if _is_known(table[name]))
    before = before or f"<p>{html.escape(facts.strip())}</p>\n"
    shown = table.drop(columns=constant)
    hints = "Click a column header to sort by it, again to reverse."
    if any(name.startswith("paper_") for name in shown):
        hints += " Shaded columns are the paper's values."
    if any(name.startswith("published_") for name in shown):
        hints += " Shaded columns are published values."
    return html_page.document(
        title,
        f'{before}{html_page.sortable(shown)}\n<p class="faint">{html.escape(hints)}</p>\n'
        f"{html_page.legend(shown)}{html_page.columns(shown, name)}",
    )


def _is_known(values: pd.Series) -> bool:
    """Whether every row has a value, and there is a row."""
    return bool(len(values) and values.notna().all())


def fact(name: str, value: object) -> str:
    """A column's one value as a sentence; the CPU backend's adds what that means."""
    text = FACTS[name].format(value)
    return f"{text}, no GPU was used" if (name, value) == ("backend", "cpu") else text
