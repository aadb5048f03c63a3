"""A CUDA source with the headers of its folder that it includes."""

import re
from pathlib import Path

_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)


def text(path: Path) -> str:
    """The source with its headers in place of their includes: all that decides what is compiled."""
    return _INCLUDE.sub(lambda found: text(path.parent / found[1]), path.read_text(encoding="utf-8"))


def files(path: Path) -> list[Path]:
    """The source and the headers that it includes, at any depth."""
    included = _INCLUDE.findall(path.read_text(encoding="utf-8"))
    return [path, *(file for name in included for file in files((path.parent / name).resolve()))]
