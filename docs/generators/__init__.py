"""The pages of the site that follow from the code, the configuration and the published tables.

A module has ``pages()``: Markdown by the path of a page in docs/_generated/, such as ``kernels.md``.
It raises SnnError if its input is wrong.
"""

from pathlib import Path

from generators import commands, grid, kernels, records, repository, strategies, tables

MODULES = (commands, grid, kernels, records, repository, strategies, tables)


def pages() -> dict[str, str]:
    """All of them, by path."""
    return {path: text for module in MODULES for path, text in module.pages().items()}


def write(folder: Path) -> None:
    """Make the folder hold these pages and no others; unchanged files keep their time stamps."""
    made = pages()
    for old in folder.rglob("*.md"):
        if str(old.relative_to(folder)) not in made:
            old.unlink()
    for path, text in made.items():
        page = folder / path
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
