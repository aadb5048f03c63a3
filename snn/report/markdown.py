"""Text in a Markdown page that shows it as it is."""

import re

_MARKS = re.compile(r"[\\`*_\[\]<>&|~$#]|(?<=:)(?=//)")
"""What Markdown may read as a mark, and where an address is kept from being a link."""


def escaped(text: str) -> str:
    """A text without line ends, also where it is Markdown itself."""
    return _MARKS.sub(r"\\\g<0>", text)
