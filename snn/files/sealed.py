"""Pages and figures that contain digests of themselves and of the files written with them.

The last line of such an HTML or SVG file is a comment: the SHA-256 of everything before it, then the name and
the SHA-256 of each file written with it. If a page was damaged or a table edited, the page is rebuilt.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from snn.files.outputs import replaced

_SEAL = re.compile(rb"<!-- sha256 ([0-9a-f]{64})((?: \S+ [0-9a-f]{64})*) -->\n\Z")


def write(path: Path, content: bytes, beside: Mapping[Path, bytes] | None = None) -> None:
    """Write a page or figure after its companion files, in the same folder. Raises OutputError."""
    others = beside or {}
    for other, of_other in others.items():
        with replaced(other) as file:
            file.write(of_other)
    content = content.rstrip(b"\n") + b"\n"
    names = "".join(f" {other.name} {_digest(of_other)}" for other, of_other in others.items())
    with replaced(path) as file:
        file.write(content + f"<!-- sha256 {_digest(content)}{names} -->\n".encode())


def is_whole(path: Path) -> bool:
    """Whether a file and its companions are as ``write`` wrote them."""
    try:
        content = path.read_bytes()
        seal = _SEAL.search(content[-10_000:])
        if seal is None or _digest(content[: -len(seal[0])]) != seal[1].decode():
            return False
        names = seal[2].decode().split()
        pairs = zip(names[::2], names[1::2], strict=True)
        return all(_digest((path.parent / name).read_bytes()) == digest for name, digest in pairs)
    except (OSError, ValueError):  # a damaged seal may hold anything
        return False


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
