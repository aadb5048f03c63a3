"""CUDA source files and the local headers that they include."""

import re
from pathlib import Path

_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)


def text(path: Path) -> str:
    """The source with its local includes expanded: everything that the compiler sees."""
    return _INCLUDE.sub(lambda include: text(path.parent / include[1]), path.read_text(encoding="utf-8"))


def files(path: Path) -> list[Path]:
    """The source and the headers that it includes, directly or indirectly."""
    included = _INCLUDE.findall(path.read_text(encoding="utf-8"))
    return [path, *(file for name in included for file in files((path.parent / name).resolve()))]
