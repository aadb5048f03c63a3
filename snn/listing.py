"""One-line descriptions of the choices in ``config/``."""

import re

from snn.config import groups

_SENTENCE = re.compile(r"(?<=[.])\s+(?=[A-Z])")


def describe(group: str, name: str) -> str:
    """A choice in a line: the first sentence of its file's comment, what it needs, a kernel's precisions."""
    lines = (groups.CONFIG / group / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    comment = []
    for line in lines:
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    first, *others = _SENTENCE.split(" ".join(comment))
    said = " ".join([first, *(sentence for sentence in others if sentence.startswith("Needs "))])
    if group == "kernel":
        said += f" Precisions: {', '.join(groups.load(group, name)['precisions'])}."
    return said
