"""The options of a command that has some, such as ``--device NAME``: errors are of one line, in our words."""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

from snn.config import choices
from snn.config.suggestions import meant
from snn.errors import ConfigError, shown


class Options(argparse.ArgumentParser):
    """A parser of the command ``snn NAME`` that raises ConfigError, and leaves the help to its caller."""

    def __init__(self, name: str, description: str = "", epilog: str = "") -> None:
        super().__init__(
            prog=f"snn {name}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            allow_abbrev=False,
        )
        self._negative_number_matcher = re.compile(r"-\.?\d")  # `-2min` is a value as well, which is refused

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options and what stands between them. Raises ConfigError for what is none of them, or twice."""
        given = Counter(argument.partition("=")[0] for argument in arguments)
        for option in self._option_string_actions:
            if given[option] > 1:
                raise ConfigError(f"{option} is given {given[option]} times: give it once")
        found, unknown = self.parse_known_intermixed_args(list(arguments))
        for argument in unknown:
            name = argument.partition("=")[0]
            known = [option for option in self._option_string_actions if option.startswith("--")]
            hint = meant(name, known) or meant(name.strip("-"), choices.known(), "{}=VALUE")
            raise ConfigError(
                f"{shown(argument)}: {self.prog} has no such option{hint}; it has {', '.join(known)}"
            )
        return found

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError for what argparse says."""
        needs = re.fullmatch(r"argument (?:.*/)?(--?[\w-]+): expected .*", message)
        if needs:
            raise ConfigError(f"{needs[1]} needs a value: {needs[1]} {self._metavar(needs[1])}")
        raise ConfigError(f"{message.removeprefix('argument ')}; see {self.prog} --help")

    def _metavar(self, option: str) -> Any:
        return self._option_string_actions[option].metavar or "VALUE"
