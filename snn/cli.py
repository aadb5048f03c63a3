"""``snn COMMAND [ARGUMENT ...]``: which memory strategy trains a network fastest, measured on your device.

``snn COMMAND --help`` explains one of them.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from snn import command
from snn.config.suggestions import meant
from snn.errors import ConfigError, shown
from snn.files import revision
from snn.hardware import environment


class Command(NamedTuple):
    """A command: the module whose ``main`` it is, and what it does."""

    module: str
    summary: str


COMMANDS = {
    "recommend": Command("snn.recommend", "find the fastest strategy for your network and your data"),
    "run": Command("snn.run", "train and measure one cell, and write its record"),
    "plan": Command("snn.plan", "say whether a cell or a sweep fits into a GPU's memory, without one"),
    "more-rounds": Command("snn.more_rounds", "plan more rounds where a table's verdicts are open"),
    "compare": Command("snn.compare", "compare two sets of results"),
    "merge": Command("snn.merge", "put the results of many machines into one table"),
    "retabulate": Command("snn.retabulate", "make tables and figures from published records"),
    "claims": Command("snn.claims", "judge the sources' claims by the published tables"),
    "prepare": Command("snn.prepare", "prepare a data set as a file"),
    "perfetto": Command("snn.perfetto", "write the traces of records for ui.perfetto.dev"),
    "list": Command("snn.listing", "list strategies, kernels, networks, data sets, ..."),
    "completion": Command("snn.completion", "print what completes these commands in bash or zsh"),
}
"""By name. A module is imported when its command is used."""

OPTIONS = {
    "--help": "print this, or behind a command what it does",
    "--version": "print the version, and the commit of the clone",
}


def known() -> dict[str, Command]:
    """The commands whose modules there are."""
    return {name: one for name, one in COMMANDS.items() if find_spec(one.module)}


def main(arguments: list[str]) -> int:
    """Run a command; its status, or 2 where there is none of that name."""
    if arguments and arguments[0] in COMMANDS and arguments[0] in known():
        return int(import_module(COMMANDS[arguments[0]].module).main(arguments[1:]))
    if arguments and arguments[0] == "--version":
        print(revision.said())
        return 0
    asked = not arguments or arguments[0] in ("-h", "--help")
    return command.answered(["--help"] if asked else arguments, __doc__, _refuse, more=_listed)


def _refuse(arguments: list[str]) -> int:
    word = arguments[0]
    if "=" in word and not word.startswith("-"):
        raise ConfigError(f"{shown(word)}: a setting stands behind a command, as snn run {shown(word)[1:-1]}")
    there = [*known(), *OPTIONS]
    raise ConfigError(
        f"{shown(word)}: there is no such command{meant(word, there)}; there are {', '.join(there)}"
    )


def _listed() -> str:
    listed = {name: one.summary for name, one in known().items()} | OPTIONS
    width = max(map(len, listed))
    lines = [f"  {name:{width}}  {summary}" for name, summary in listed.items()]
    return "\n".join(["commands:", *lines[: -len(OPTIONS)], "", "options:", *lines[-len(OPTIONS) :]])


def entry() -> int:
    """The program ``snn``."""
    environment.put_packages_first()
    return command.run(main)


if __name__ == "__main__":
    sys.exit(command.run(main))
