"""``python -m snn [KEY=VALUE ...]``: the same as ``snn run [KEY=VALUE ...]``, or ``snn COMMAND`` with one."""

import sys

from snn import run

# The threads of the process are set by now, which NumPy reads.
from snn import cli, command  # isort: skip


def main(arguments: list[str]) -> int:
    """Run the command that is named first, else a cell; its status."""
    is_command = bool(arguments) and arguments[0] in cli.known()
    return cli.main(arguments) if is_command else run.main(arguments)


if __name__ == "__main__":
    sys.exit(command.run(main))
