"""Malformed command lines."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import image_sets
from attempt import HERE, KINDS, Input
from hypothesis import strategies as st
from wrong_settings import Wrong, all_wrong

from snn.config import groups
from snn.config.compose import composed
from snn.config.grammar import written
from snn.grid import sweeps
from snn.grid.naming import SECTIONS

VALID = ("device=cpu", "training.epochs=1", "training.batch_size=2", "output=r.json")
_TABLE = b"a,b\n1,2\n3,4\n"
_GRID = b"device: cpu\nsweeps: {mine: {strategy: [reference, combined], training.epochs: 1}}\n"
_ODD = "\\'\"$%{}[]()=,:;#&|<>*?!~@+- \t\u00e9\u2028a1"


def malformed() -> st.SearchStrategy[Input]:
    """Command lines with something wrong in them."""
    wrong = [
        st.builds(_with_setting, st.sampled_from(all_wrong()), st.just(f"snn{of}")) for of in ("", ".prepare")
    ]
    return st.one_of(*wrong, st.sampled_from(list(_known())))


def garbage() -> st.SearchStrategy[Input]:
    """Keys with any value, and any arguments."""
    keys = [f"{section}.{key}" for section in groups.GROUPS for key in groups.options(section, None)]
    keys += [
        *groups.GROUPS,
        "training.epochs",
        "training.learning_rate",
        "round",
        "profile",
        "strategy.seeds",
    ]
    texts = (
        st.text(_ODD, max_size=8) | st.text(max_size=5) | st.sampled_from(("null", "1e3", "1_0", "'1'", "01"))
    )
    settings = st.dictionaries(st.sampled_from(keys), texts, min_size=1, max_size=3).map(
        lambda given: [f"{key}={value}" for key, value in given.items()]
    )
    arguments = st.lists(
        st.text(max_size=12) | st.text("snetwork.=+~@[]{}1", max_size=12), min_size=1, max_size=3
    )
    return (settings | arguments).map(_any)


def _same_settings(arguments: Sequence[str]) -> bool:
    """Whether a command line that was accepted says the same as the one that is made of its cell."""
    settings = composed(arguments)
    again = composed(sweeps.overrides({section: settings[section] for section in SECTIONS}))
    return all(settings[section] == again[section] for section in SECTIONS)


def _any(further: Sequence[str]) -> Input:
    given = {each.partition("=")[0] for each in further}
    arguments = (*(each for each in VALID if each.partition("=")[0] not in given), *further)

    def same(here: Path) -> bool:
        return _same_settings([each for each in arguments if not each.startswith("output=")])

    return Input("garbage", "snn", arguments, is_wrong=False, really_valid=same)


def _with_setting(wrong: Wrong, command: str) -> Input:
    given = {**wrong.beside, wrong.key: wrong.value}
    arguments = [*(each for each in VALID if each.partition("=")[0] not in given)]
    arguments += [f"{key}={_text(key, value)}" for key, value in given.items()]
    what = f"{wrong.key} is {str(wrong.value)[:60]!r} beside {dict(wrong.beside)}"
    return Input(
        what, command, tuple(arguments), {"t.csv": _TABLE, **image_sets.FOLDER}, wrong.key.partition(".")[0]
    )


def _text(key: str, value: Any) -> str:
    """A value as an argument has it, whether it may be one or not."""
    if key in groups.GROUPS and isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{inner}:{_text('', of)}" for inner, of in value.items()) + "}"
    return written(value)


def _known() -> Iterator[Input]:
    yield from (Input(what, "snn", (*VALID, *given), {}, names) for what, given, names in _grammar())
    for what, given in _outputs():
        files = {given: what} if what in KINDS else {}
        for command, others in _WITH_OUTPUT.items():
            alone = command in _OUTPUT_ALONE
            arguments = (*others, given.strip("'") if alone else f"output={given}")
            yield Input(f"the output is: {what} {given}", command, arguments, files, "output")
    for kind in KINDS:
        csv = ("dataset=csv", "dataset.path=t.csv", "dataset.target=0")
        yield Input(f"the path is: {kind}", "snn", (*VALID, *csv), {"t.csv": kind}, "t.csv")
        yield Input(
            f"a grid is: {kind}", "snn.more_rounds", ("mine", "grid=g.yaml"), {"g.yaml": kind}, "g.yaml"
        )
        yield Input(f"a record is: {kind}", "snn.perfetto", ("r.json", "t.json"), {"r.json": kind}, "r.json")
        for command in ("snn.compare", "snn.retabulate"):
            arguments = tuple(f"{HERE}/{name}" for name in ("a", *["a"] * (command == "snn.compare"), "out"))
            yield Input(f"an archive is: {kind}", command, arguments, {"a": kind}, f"{HERE}/a")
    for table in (
        "",
        "none",
        "../mine",
        "=",
        "results/tables/none.csv",
        "mine\n",
        "MINE",
        "overview.html.x",
        "\0",
    ):
        yield Input(f"more rounds of {table!r}", "snn.more_rounds", (table, "grid=g.yaml"), {"g.yaml": _GRID})
    for given in (
        "rounds=0",
        "rounds=-1",
        "rounds=x",
        "rounds=1001",
        "rounds=1.5",
        "rounds=",
        "rounds=\u0663",
        "rounds=" + "9" * 5000,
        "colour=1",
        "device=gpu",
        "device=",
        "grid=",
        "grid=none.yaml",
        "=1",
    ):
        arguments = ("mine", given, *([] if given.startswith("grid=") else ["grid=g.yaml"]))
        yield Input(f"more rounds with {given[:40]}", "snn.more_rounds", arguments, {"g.yaml": _GRID})
    yield Input("more rounds of two tables", "snn.more_rounds", ("mine", "yours"), {}, "2 tables")
    for device in ("gpu", "", "CPU", "auto x", "\0", "../cpu"):
        yield Input(f"limits of {device!r}", "snn.measure_limits", (device, "l.json"))


_WITH_OUTPUT = {
    "snn": ("device=cpu", "training.epochs=1"),
    "snn.prepare": ("dataset=small",),
    "snn.perfetto": ("none.json",),
    "snn.measure_limits": ("cpu",),
}
_OUTPUT_ALONE = ("snn.perfetto", "snn.measure_limits")


def _outputs() -> Iterator[tuple[str, str]]:
    """What an output cannot be: a kind of file, or a path."""
    for kind in KINDS:
        if kind not in ("no file", "zeros", "nothing", "dangling link"):
            yield kind, "o.json"
    for path in (
        "''",
        ".",
        "..",
        "/",
        "o/",
        "o/.",
        "/dev/null",
        "/dev/stdout",
        "/dev/none",
        "/proc/none",
        "/sys/x",
        "/proc/self/fd/1",
        "x" * 300,
        "/dev/fd/1",
        "/proc/sys/kernel/hostname",
    ):
        yield "a path", path


def _grammar() -> Iterator[tuple[str, tuple[str, ...], str]]:
    """What is no argument, or no value, with what the message names."""
    for argument in (
        "+colour=1",
        "++training.epochs=1",
        "~strategy",
        "~training.epochs",
        "~training.epochs=1",
        "=1",
        "",
        "dataset@training=small",
        "strategy@x=reference",
        "+strategy@x=reference",
        "--help=1",
        "-x",
        "training.epochs",
        "hydra.run.dir=/tmp",
        "hydra/launcher=x",
        "override dataset=small",
        "Training.epochs=1",
        " strategy=combined",
        "strategy =combined",
        "training..epochs=1",
        ".epochs=1",
        "training.epochs.=1",
        "training[epochs]=1",
        "\ufefftraining.epochs=1",
        "--multirun",
        "-m",
        "--config-dir=/tmp",
        "--cfg=job",
        "str\u0430tegy=combined",
        "strategy:=combined",
        "\0=1",
    ):
        yield f"the argument {argument!r}", (argument,), ""
    for key in (
        "training.learning_rate",
        "network.hidden",
        "strategy",
        "dataset.seed",
        "round",
        "data",
        "profile",
    ):
        for value in (
            "${oc.env:HOME}",
            "${training.epochs}",
            "\\${x}",
            "a${x}b",
            "${",
            "1,2",
            "choice(1,2)",
            "range(1,3)",
            "glob(*)",
            "shuffle(1,2)",
            "sort(2,1)",
            "interval(0,1)",
            "tag(x,1)",
            "int(1",
            "[1",
            "1]",
            "{a:",
            "'",
            '"',
            "'a",
            "a\nb",
            "\0",
            "\udcff",
            "[[1]]",
            "{a:{b:1}}",
            "[{a:1}]",
            "(1)",
            "[" * 300,
            "'" * 301,
            "x" * 20_000,
            "1" + "0" * 17_000,
            "!!python/name:os.system",
            "extend_list(1)",
            "@file",
            "\u202e1",
            "\r",
            "\x1b[31m",
        ):
            # A text is as good as any for the path of a prepared data set.
            if key != "data" or "${" in value or not value.isprintable() or len(value) > 5000:
                yield f"{key}={value[:40]!r}", (f"{key}={value}",), key.partition(".")[0]
    for key, value in (
        ("training.epochs", "1"),
        ("strategy", "combined"),
        ("output", "x"),
        ("device", "cpu"),
    ):
        yield f"{key} twice", (f"{key}={value}", f"{key}={value}"), key
    for value in (
        "0",
        "-1",
        "1001",
        "1.5",
        "x",
        "true",
        "'1 2'",
        "[1]",
        "{a:1}",
        "nan",
        "inf",
        "10000000000000000000",
    ):
        yield f"round={value}", (f"round={value}",), "round"
    for value in ("nvtx", "none2", "null", "[none]", "true", "1", "''", "NVTX"):
        yield f"profile={value}", (f"profile={value}",), "profile"
    for given in (
        ("dataset.rows=1",),
        ("training.batch_size=257",),
        ("network.hidden=[1048576,1048576]",),
        ("dataset.rows=1000000000", "dataset.features=1000000"),
        ("strategy=ensemble", "strategy.starts=100000", "strategy.seeds=[1,2]"),
        ("network=layers", "network.layers=['linear 4']"),
        ("network=layers", "network.layers=['conv2d 4 3','linear 1']"),
        ("network=layers", "network.layers=['maxpool2d 2','linear 1']"),
        ("network=layers", "network.hidden=[4]"),
        ("network.layers=['linear 1']",),
        ("dataset=csv",),
        ("dataset=csv", "dataset.path=t.csv"),
        ("dataset=csv", "dataset.target=0"),
        ("device.name='another machine'",),
        ("device=cuda",),
    ):
        yield f"{' '.join(given)}", given, ""
