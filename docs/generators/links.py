"""Relative links of Markdown, as they are in the repository and as they are on the site."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ELSEWHERE = {
    "README.md": "docs/index.md",
    "CHANGELOG.md": "docs/_generated/changelog.md",
    "CONTRIBUTING.md": "docs/_generated/contributing.md",
    "config/README.md": "docs/_generated/configuration.md",
    "results/published": "docs/results.md",
    "kernels": "docs/_generated/kernels.md",
    "snn/records/record.schema.json": "docs/_generated/record_schema.md",
    "snn/strategies": "docs/_generated/strategies.md",
    "snn/tables/columns.py": "docs/_generated/tables/index.md",
    "workflow/schemas/grid.schema.json": "docs/_generated/grid.md",
}
"""Files and folders outside docs/ that have a page of the site, or from which one is generated."""

_LINK = re.compile(r"(\]\(\s*)([^)\s]+)(\s*\))")
_OUTSIDE = re.compile(r"[a-z]+:")


def rewritten(text: str, source: Path, page: Path) -> str:
    """The text of the file ``source`` with its links as they must be in ``page``, both relative to the root.

    Raises ValueError for a link to a folder that has no page.
    """

    def moved(link: re.Match[str]) -> str:
        path, _, anchor = link[2].partition("#")
        if _OUTSIDE.match(link[2]) or not path:
            return link[0]
        target = on_site(os.path.normpath(source.parent / path), source)
        return link[1] + os.path.relpath(target, page.parent) + ("#" + anchor if anchor else "") + link[3]

    return _LINK.sub(moved, text)


def on_site(target: str, source: Path) -> str:
    """The page of a file or folder, or the file itself, which a reader can download."""
    if target in ELSEWHERE:
        return ELSEWHERE[target]
    folder = Path(target)
    if folder.parts[:2] == ("results", "published") and (ROOT / folder / "README.md").is_file():
        of_device = len(folder.parts) == 3
        return f"docs/_generated/{'/'.join(folder.parts[1:])}{'/index' if of_device else ''}.md"
    if (ROOT / target).is_dir():
        raise ValueError(f"{source}: {target} is a folder without a page: link a file of it")
    return target
