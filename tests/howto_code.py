"""The code that a how-to guide shows, by the file that it goes into."""

import re

from conftest import ROOT

_BLOCK = re.compile(r"^(?:In|Append to) `([\w/.]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files(name):
    """The contents of docs/howto/NAME.md's files by path."""
    page = ROOT / f"docs/howto/{name}.md"
    return dict(_BLOCK.findall(page.read_text(encoding="utf-8")))
