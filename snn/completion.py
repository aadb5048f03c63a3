"""``snn completion bash|zsh``: print a script that completes commands, keys and choices at a press of Tab.

bash    eval "$(snn completion bash)"     in ~/.bashrc
zsh     eval "$(snn completion zsh)"      in ~/.zshrc, after compinit
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from snn import cli, command, listing
from snn.config import choices, groups
from snn.config.suggestions import meant
from snn.errors import ConfigError, SnnError, shown

_BASH = """\
_snn() {
    # Words are those of the line up to the cursor: COMP_WORDS splits at "=".
    local line=${COMP_LINE:0:COMP_POINT} word
    local -a words
    read -a words <<< "$line"  # without -r: a name has its spaces behind backslashes
    [[ $line == *[[:space:]] && $line != *\\\\[[:space:]] ]] && words+=("")
    word=${words[-1]}
    mapfile -t COMPREPLY < <(snn completion words "${words[@]:1}" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]// /\\\\ }")
    # Behind "=", bash replaces only what follows it.
    [[ $word == *=* ]] && COMPREPLY=("${COMPREPLY[@]#*=}")
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=.] ]] && compopt -o nospace
}
complete -o default -F _snn snn
"""

_ZSH = """\
_snn() {
    local -a found
    found=(${(f)"$(snn completion words "${(@Q)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ! $#found )); then
        _files
    else
        compadd -S ' ' -- ${found:#*=}
        compadd -S '' -- ${(M)found:#*=}
    fi
}
compdef _snn snn
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH}
_WORDS = "words"
"""What the scripts ask for: the words that may stand in place of the last one."""

_OF_CELLS = ("run", "plan", "prepare")
"""Commands whose arguments are a cell's settings."""

_SWEEP, _GRID = "sweep=", "grid="
"""Keys of ``snn plan`` in place of a cell's settings."""

_OPTIONS = {
    "run": ["--strict", "--version"],
    "claims": ["--json"],
    "plan": ["--device", "--free", "--fraction", "--json"],
}
"""Of commands with options; those of ``recommend`` are its parser's."""


def main(arguments: list[str]) -> int:
    """Print a script, or for it the words that fit; 0, or 2 for a shell that there is no script for."""
    return command.answered(
        arguments if arguments[:1] != [_WORDS] else [], __doc__, lambda _: _main(arguments)
    )


def _main(arguments: list[str]) -> int:
    if arguments[:1] == [_WORDS]:
        for word in words(arguments[1:] or [""]):
            print(word)  # and no line without a word, which bash would take for one: then it completes files
        return 0
    if len(arguments) != 1 or arguments[0] not in SCRIPTS:
        hint = meant(arguments[0], SCRIPTS) if arguments else ""
        raise ConfigError(f"completion takes bash or zsh, not {shown(' '.join(arguments))}{hint}")
    print(SCRIPTS[arguments[0]], end="")
    return 0


def words(given: Sequence[str]) -> list[str]:
    """What may stand in place of the last of these words of a command line, which it begins with."""
    *before, last = given
    if not before:
        found = [*cli.known(), "--help", "--version"]
    elif before[0] == "list":
        found = [*listing.TOPICS]
    elif before[0] == "completion":
        found = [*SCRIPTS]
    elif before[0] == "claims" and not last.startswith("-"):
        is_named = any(not word.startswith("-") for word in before[1:])
        found = [] if is_named else sorted(path.stem for path in (groups.CONFIG / "claims").glob("*.yaml"))
    elif last.startswith("-"):
        found = ["--help", *_options(before[0])]
    elif before[-1] == "--device":
        gpus = [*groups.known_gpus()]
        found = {"recommend": [*groups.names("device"), *gpus], "plan": gpus}.get(before[0], [])
    elif before[0] == "recommend":
        found = groups.names(before[-1][2:]) if before[-1] in ("--dataset", "--network") else []
    elif before[0] == "plan" and last.startswith(_SWEEP):
        found = [f"{_SWEEP}{name}" for name in _sweeps(before)]
    elif before[0] in _OF_CELLS:
        found = _settings(before[1:], last) + ([_SWEEP, _GRID] if before[0] == "plan" else [])
    else:
        found = []
    return [one for one in found if one.startswith(last)]


def _options(name: str) -> list[str]:
    if name != "recommend":
        return _OPTIONS.get(name, [])
    from snn.recommending import question  # which needs argparse

    return [*question.parser()._option_string_actions]


def _sweeps(before: Sequence[str]) -> list[str]:
    """The sweeps of the grid that is named before, else of config/grid.yaml; none of what is no grid."""
    named = [Path(one.removeprefix(_GRID)) for one in before if one.startswith(_GRID)]
    with suppress(SnnError):
        grid = groups.read_yaml([groups.CONFIG / "grid.yaml", *named][-1])
        if isinstance(grid, dict) and isinstance(grid.get("sweeps"), dict):
            return [*map(str, grid["sweeps"])]
    return []


def _settings(before: Sequence[str], last: str) -> list[str]:
    """The keys that are not given yet; behind a group's ``=``, its choices."""
    given = dict(one.partition("=")[::2] for one in before)
    group, equals, _ = last.partition("=")
    if equals:
        return [f"{group}={name}" for name in groups.names(group)] if group in groups.GROUPS else []
    chosen = {
        key: value for key, value in given.items() if key in groups.GROUPS and value in groups.names(key)
    }
    return [f"{key}=" for key in choices.known(chosen) if key not in given]


if __name__ == "__main__":
    sys.exit(command.run(main))
