"""Words that complete a command line: click's, and the keys and values of settings."""

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ZshComplete,
    add_completion_class,
    shell_complete,
    split_arg_string,
)

from snn.config import choices, groups
from snn.errors import SnnError

_SWEEP, _GRID = "sweep=", "grid="
"""Keys of ``snn plan`` instead of a cell's settings."""


def complete(program: click.Command, instruction: str) -> int:
    """Print what a shell asks for, such as ``bash_source`` or ``bash_complete``; return the exit status."""
    return shell_complete(program, {}, "snn", "_SNN_COMPLETE", instruction)


@add_completion_class
class Bash(BashComplete):
    """Bash splits words at ``=``, of which only the last part is replaced, and does not escape spaces."""

    source_template = BashComplete.source_template.replace(
        "COMPREPLY+=($value)", "COMPREPLY+=($value); [[ $value == *= ]] && compopt -o nospace"
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        words = os.environ["COMP_WORDS"].split("\n")[: int(os.environ["COMP_CWORD"]) + 1]
        line = re.sub(r"\n?=\n?", "=", "\n".join(words))
        _, *given = split_arg_string(line)
        return (given, "") if line.endswith("\n") else (given[:-1], given[-1])

    def format_completion(self, item: CompletionItem) -> str:
        key, equals, value = str(item.value).partition("=")
        replaced = value if equals and value else f"{key}{equals}"
        return f"{item.type},{replaced}".replace(" ", r"\\ ")  # `read` takes one of them


@add_completion_class
class Zsh(ZshComplete):
    """After ``KEY=`` zsh adds no space."""

    source_template = ZshComplete.source_template.replace("compadd -U", "compadd -S '' -U")


def settings(context: click.Context, last: str) -> list[CompletionItem]:
    """Completions for the last word of a command whose arguments are settings; files if nothing fits."""
    before: Sequence[str] = context.params.get("settings") or ()
    found = [*_keys_and_values(before, last)]
    if context.info_name == "plan":
        found += [_SWEEP, _GRID]
        if last.startswith(_SWEEP):
            found = [f"{_SWEEP}{name}" for name in _sweeps(before)]
    items = [CompletionItem(word) for word in found if word.startswith(last)]
    return items or [CompletionItem(last.partition("=")[2], type="file")]


def _keys_and_values(before: Sequence[str], last: str) -> Iterable[str]:
    """The keys that are not given yet; after a key's ``=``, the values that its declaration lists."""
    given = dict(one.partition("=")[::2] for one in before)
    key, equals, _ = last.partition("=")
    if equals and key in groups.GROUPS:
        return [f"{key}={name}" for name in groups.names(key)]
    if equals:
        from snn.config.settings import KINDS  # with NumPy, for which keys do not wait

        return [f"{key}={value}" for value in getattr(KINDS.get(key), "allowed", ())]
    chosen = {
        key: value for key, value in given.items() if key in groups.GROUPS and value in groups.names(key)
    }
    return [f"{key}=" for key in choices.known(chosen) if key not in given]


def _sweeps(before: Sequence[str]) -> list[str]:
    """The sweeps of the grid named earlier on the line, or of config/grid.yaml; empty if it is not a grid."""
    named = [Path(one.removeprefix(_GRID)) for one in before if one.startswith(_GRID)]
    with suppress(SnnError):
        grid = groups.read_yaml([groups.default_grid(), *named][-1])
        if isinstance(grid, dict) and isinstance(grid.get("sweeps"), dict):
            return [*map(str, grid["sweeps"])]
    return []
