"""``snn list strategies|kernels|networks|datasets|protocols|precisions|devices``: the choices there are.

A line for each: its name, as a grid or a command line gives it, and what it is. The files are those of
config/, where each choice's keys are explained.
"""

import re
import sys
from collections.abc import Mapping

from snn import command
from snn.config import groups
from snn.config.suggestions import meant
from snn.errors import ConfigError, shown

TOPICS: Mapping[str, str] = {
    "strategies": "strategy",
    "kernels": "kernel",
    "networks": "network",
    "datasets": "dataset",
    "protocols": "protocol",
    "precisions": "precision",
    "devices": "device",
}
"""What can be listed, and the group of ``config/`` that it is."""

_SENTENCE = re.compile(r"(?<=[.])\s+(?=[A-Z])")


@command.entry(__doc__)
def main(arguments: list[str]) -> int:
    known = ", ".join(TOPICS)
    if len(arguments) != 1:
        given = f", not of {len(arguments)}" if arguments else ""
        raise ConfigError(f"list: name one of {known}: it prints the choices of one{given}")
    if arguments[0] not in TOPICS:
        topic = next((topic for topic, group in TOPICS.items() if group == arguments[0]), None)
        hint = f" (did you mean {topic}?)" if topic else meant(arguments[0], TOPICS)
        raise ConfigError(f"list {shown(arguments[0])}: there is no such list{hint}; there are {known}")
    group = TOPICS[arguments[0]]
    width = max(map(len, groups.names(group)))
    for name in groups.names(group):
        print(f"{name:{width}}  {described(group, name)}")
    return 0


def described(group: str, name: str) -> str:
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


if __name__ == "__main__":
    sys.exit(command.run(main))
