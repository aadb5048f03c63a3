"""``python -m snn [KEY=VALUE ...]``: the same as ``snn run [KEY=VALUE ...]``, or ``snn COMMAND`` with one."""

import sys

from snn import command


def main(words: list[str]) -> int:
    """Run the command that the first word names, or else a cell; return the exit status."""
    if words and all("=" in word and not word.startswith("-") for word in words):
        from snn import run  # a workflow's job, which does not wait for click

        return command.answer(lambda: run.run_cell(words))
    from snn import cli

    is_command = bool(words) and (words[0] in cli.snn.commands or words[0] == "--version")
    return cli.main(words if is_command else ["run", *words])


if __name__ == "__main__":
    sys.exit(command.run(main))
