"""How a command declares its arguments and options: by click, with our errors and exit codes."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from snn.command import EXIT_CODES, Main, answer
from snn.config.suggestions import meant
from snn.errors import ConfigError, shown

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Command(click.Command):
    """A command whose help ends with its exit codes, and which gets each of its options once.

    ``codes`` are exit codes besides ``EXIT_CODES``; ``more`` gives lines of the help that are not fixed.
    """

    def __init__(
        self,
        *arguments: Any,
        codes: Mapping[int, str] | None = None,
        more: Callable[[], str] | None = None,
        **others: Any,
    ) -> None:
        super().__init__(*arguments, **others)
        self.context_settings["help_option_names"] = ["-h", "--help"]
        self._codes = {**EXIT_CODES, **(codes or {})}
        self._more = more

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Raises ConfigError for an option that is given twice, or that the command does not have."""
        if ctx.resilient_parsing:  # to complete a line
            return super().parse_args(ctx, args)
        options = [name for one in self.get_params(ctx) if isinstance(one, click.Option) for name in one.opts]
        given = Counter(word.partition("=")[0] for word in args)
        for option in options:
            if given[option] > 1:
                raise ConfigError(f"{option} is given {given[option]} times: give it once")
        try:
            return super().parse_args(ctx, [*args])
        except click.NoSuchOption as error:
            word = next(word for word in args if word.startswith(error.option_name))
            names = [option for option in options if option.startswith("--")]
            hint = meant(error.option_name, names)
            if not hint and any(one.name == "settings" for one in self.get_params(ctx)):
                from snn.config import choices  # with YAML, for which the help does not wait

                hint = meant(error.option_name.strip("-"), choices.known(), "{}=VALUE")
            raise ConfigError(
                f"{shown(word)}: {ctx.command_path} has no such option{hint}; it has {', '.join(names)}"
            ) from error

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._more:
            formatter.write(f"\n{self._more()}\n")
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in sorted(self._codes.items())])


class Group(Command, click.Group):
    """Commands by their names."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are declared."""
        return [*self.commands]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises ConfigError for a word that is not a command."""
        word = args[0]
        if word in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if "=" in word:
            raise ConfigError(f"{shown(word)}: a setting goes after a command: snn run {shown(word)[1:-1]}")
        names = [name for name, one in self.commands.items() if not one.hidden]
        raise ConfigError(
            f"{shown(word)}: no such command{meant(word, self.commands)}; the commands are {', '.join(names)}"
        )


class OneOf(click.ParamType):
    """One of the words that a function returns, for completion and for the error about another word."""

    name = "word"

    def __init__(self, words: Callable[[], Collection[str]]) -> None:
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        words = self._words()
        if value not in words:
            named = param.opts[-1] if isinstance(param, click.Option) else ctx.info_name if ctx else ""
            raise ConfigError(
                f"{named} is {shown(value)}{meant(value, words)}: it must be one of {', '.join(words)}"
            )
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self._words() if word.startswith(incomplete)]


class _File(click.ParamType):
    """A path, which the command checks; the shell completes it."""

    name = "file"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


FILE = _File()


def run_line(command: click.Command, arguments: Sequence[str], name: str) -> int:
    """The status of a command line of the program ``name``; an error of the user's is printed."""

    def work() -> int | None:
        try:
            with command.make_context(name, [*arguments]) as context:
                return command.invoke(context)
        except click.exceptions.Exit as end:
            return end.exit_code
        except click.UsageError as error:
            said = error.format_message()
            if error.ctx:
                usage = " ".join(
                    ["Usage:", error.ctx.command_path, *error.ctx.command.collect_usage_pieces(error.ctx)]
                )
                said = f"{error.ctx.info_name}: {said.rstrip('.')}. {usage}"
            raise ConfigError(said) from error

    return answer(work)


def main_of(program: click.Command) -> Main:
    """The function that runs a program which is one command, as ``snn.command.run`` takes it."""
    return lambda words: run_line(program, words, program.name or "")
