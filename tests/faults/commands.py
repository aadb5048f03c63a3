"""Malformed command lines of ``snn``: no commands, no lists, no options, and those of its commands."""

from collections.abc import Iterator
from dataclasses import replace

import command_lines
from attempt import HERE, Input
from hypothesis import strategies as st

from snn import cli, listing

_NAMES = {
    "snn": "run",
    "snn.prepare": "prepare",
    "snn.perfetto": "perfetto",
    "snn.compare": "compare",
    "snn.merge": "merge",
    "snn.retabulate": "retabulate",
    "snn.more_rounds": "more-rounds",
}
"""The command that a module is."""

_TAKES = {
    "compare": (3, 3),
    "retabulate": (2, 3),
    "perfetto": (2, 99),
    "merge": (1, 99),
    "more-rounds": (1, 99),
}
"""The fewest and the most arguments of commands."""


def malformed() -> st.SearchStrategy[Input]:
    """Commands that are none, and commands with something wrong in them."""
    of_modules = command_lines.malformed()
    return st.one_of(
        st.sampled_from(list(_known())),
        st.sampled_from(list(_known())),
        of_modules.filter(lambda one: one.command in _NAMES).map(_as_command),
    )


def garbage() -> st.SearchStrategy[Input]:
    """Any words, after a command or without one."""
    words = (
        *cli.known(),
        *listing.TOPICS,
        "words",
        "--help",
        "--version",
        "--json",
        "--device",
        "strategy=graph",
        "=",
    )
    arguments = st.lists(st.sampled_from(words) | st.text(max_size=10), max_size=4)
    return arguments.map(lambda given: Input("garbage", "cli", tuple(given), is_wrong=False))


def _as_command(one: Input) -> Input:
    return replace(one, command="cli", arguments=(_NAMES[one.command], *one.arguments))


def _known() -> Iterator[Input]:
    for name in cli.known():
        for word in {name[:-1], name + name[-1], name.upper(), f"{name} ", f"-{name}", name[1:], f"{name}=1"}:
            if word not in cli.known():
                yield Input(f"the command {word!r}", "cli", (word,), {}, word.strip())
    for word in (
        "",
        " ",
        "--",
        "-",
        "--verbose",
        "\0",
        "\n",
        "a\nb",
        "\udcff",
        "$(ls)",
        "é",
        "x" * 5000,
        "../run",
        "{}",
    ):
        yield Input(f"the command {word[:20]!r}", "cli", (word,), {})
        yield Input(f"the list {word[:20]!r}", "cli", ("list", word), {}, "list")
        yield Input(f"completion in {word[:20]!r}", "cli", ("completion", word), {}, "completion takes")
        yield Input(f"the option {word[:20]!r}x", "cli", ("plan", f"--{word}x", "dataset=small"), {})
    for group in (*listing.TOPICS.values(), "strategie", "STRATEGIES", "all", "help"):
        yield Input(f"the list {group!r}", "cli", ("list", group), {}, f"list {group!r}")
    for name, (least, most) in _TAKES.items():
        for count in {0, least - 1, most + 1} - set(range(least, most + 1)):
            if count < 10:
                yield Input(f"{count} arguments", "cli", (name, *["a"] * count), {}, f"{name} takes")
    for option in ("--device", "--free", "--fraction", "--json"):
        yield Input(f"{option} without a value", "cli", ("plan", option), {}, option)
        yield Input(f"{option} cut off", "cli", ("plan", option[:-1], "1"), {}, option)
    for option in ("--csv", "--target", "--hidden", "--budget", "--epochs", "--network"):
        yield Input(f"{option} without a value", "cli", ("recommend", option), {}, option)
        for value in ("", "x y", "-1", "\0", "nan", "1" * 400):
            yield Input(f"{option} {value[:20]!r}", "cli", ("recommend", option, value), {})
    beside = ("--free", "1GiB", "dataset=small")
    for device in ("", "T5", "cpu", "../x", "\0", "NVIDIA  H200"):
        yield Input(f"a plan for {device!r}", "cli", ("plan", "--device", device), {})
    for size in (
        "",
        "0",
        "-1GiB",
        "1 furlong",
        "1e3GiB",
        "nan",
        "inf",
        "GiB",
        "1GiBB",
        "٣GiB",
        "1" * 400 + "GiB",
    ):
        yield Input(f"{size[:20]} free", "cli", ("plan", "--free", size, "dataset=small"), {}, "--free")
    for share in ("", "0", "-1", "2", "nan", "inf", "x", "1e-400", "1" * 400):
        yield Input(
            f"the share {share[:20]}", "cli", ("plan", "--fraction", share, *beside), {}, "--fraction"
        )
    for output in ("", "/dev/null", ".", "o/", "/proc/x"):
        yield Input(f"a plan in {output!r}", "cli", ("plan", "--json", output, *beside), {}, "--json")
    for given in (
        ("sweep=none",),
        ("sweep=",),
        ("sweep=mine", "strategy=graph"),
        ("sweep=mine", "grid=none.yaml"),
    ):
        yield Input(f"a plan of {given}", "cli", ("plan", *given, "--free", "1GiB"), {})
    yield Input("a folder that is none", "cli", ("merge", f"{HERE}/none"), {}, "none")
