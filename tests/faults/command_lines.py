"""Malformed command lines: of a cell, of ``snn`` and its commands, of a recommendation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import image_sets
from attempt import HERE, KINDS, Input
from garbage import CSV, NO_FILES, NO_NUMBERS, given, words
from hypothesis import strategies as st
from wrong_settings import Wrong, all_wrong

from snn import cli
from snn.config import groups
from snn.config.compose import composed
from snn.config.overrides import written
from snn.grid import sweeps
from snn.grid.naming import SECTIONS

VALID = ("device=cpu", "training.epochs=1", "training.batch_size=2", "output=r.json")
TRAINED = ("--device=cpu", "--csv=t.csv", "--target=b", "training.batch_size=1", "dataset.held_out=0")
"""Options of a recommendation that are right."""

_GRID = b"device: cpu\nsweeps: {mine: {strategy: [reference, combined], training.epochs: 1}}\n"
_ODD = "\\'\"$%{}[]()=,:;#&|<>*?!~@+- \t\u00e9\u2028a1"
_PLANNED = ("--free", "1GiB", "dataset=small")
_WORDS = ["", " ", "\n", "a\nb", "x" * 5000, *words("-- - --verbose \0 \udcff $(ls) é ../run {}")]


# ---- cells


def malformed() -> st.SearchStrategy[Input]:
    """Command lines of a cell with something wrong in them, and of other modules."""
    modules = st.sampled_from(("snn", "snn prepare"))
    wrong = st.builds(with_setting, st.sampled_from(all_wrong()), modules)
    return st.one_of(wrong, wrong, st.sampled_from(list(of_modules())))


def garbage() -> st.SearchStrategy[Input]:
    """Keys with any value, and any arguments."""
    keys = [f"{section}.{key}" for section in groups.GROUPS for key in groups.options(section, None)]
    keys += [*groups.GROUPS, *words("training.epochs training.learning_rate round profile strategy.seeds")]
    texts = st.text(_ODD, max_size=8) | st.text(max_size=5) | st.sampled_from(words("null 1e3 1_0 '1' 01"))
    settings = st.dictionaries(st.sampled_from(keys), texts, min_size=1, max_size=3)
    word = st.text(max_size=12) | st.text("snetwork.=+~@[]{}1", max_size=12)
    lines = settings.map(lambda of: [f"{key}={value}" for key, value in of.items()])
    return (lines | st.lists(word, min_size=1, max_size=3)).map(_any)


def _same_settings(arguments: Sequence[str]) -> bool:
    """Whether a command line that was accepted says the same as the one that is made of its cell."""
    settings = composed(arguments)
    again = composed(sweeps.overrides({section: settings[section] for section in SECTIONS}))
    return all(settings[section] == again[section] for section in SECTIONS)


def _any(further: Sequence[str]) -> Input:
    arguments = given(VALID, *further)

    def same(here: Path) -> bool:
        return _same_settings([each for each in arguments if not each.startswith("output=")])

    return Input("garbage", "snn", arguments, is_wrong=False, really_valid=same)


def with_setting(wrong: Wrong, command: str) -> Input:
    """A cell with a value that a key cannot have."""
    settings = {**wrong.beside, wrong.key: wrong.value}
    arguments = given(VALID, *(f"{key}={_text(key, value)}" for key, value in settings.items()))
    files = {"t.csv": CSV, **image_sets.FOLDER}
    return Input(str(wrong)[:200], command, arguments, files, wrong.key.partition(".")[0])


def _text(key: str, value: Any) -> str:
    """A value as an argument has it, whether it may be one or not."""
    if key in groups.GROUPS and isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{inner}:{_text('', of)}" for inner, of in value.items()) + "}"
    return written(value)


def of_modules() -> Iterator[Input]:
    """Each with what is wrong in it, and what its message names."""
    for argument in _NO_ARGUMENTS:
        yield Input("no argument", "snn", (*VALID, argument))
    for key in words("training.learning_rate network.hidden strategy dataset.seed round data profile"):
        for value in _NO_TEXTS:
            # A text is as good as any for the path of a prepared data set.
            if key != "data" or "${" in value or not value.isprintable() or len(value) > 5000:
                yield Input("no text", "snn", (*VALID, f"{key}={value}"), {}, key.partition(".")[0])
    for one in ("training.epochs=1", "strategy=combined", "output=x", "device=cpu"):
        yield Input("twice", "snn", (*VALID, one, one), {}, one.partition("=")[0])
    no_rounds = words("0 -1 1001 1.5 true [1] {a:1} 10000000000000000000")
    for value in (*no_rounds, "'1 2'", *(text for text in NO_NUMBERS if text != "1_0")):
        yield Input("a round", "snn", (*VALID, f"round={value}"), {}, "round")
    for value in ("nvtx", "none2", "null", "[none]", "true", "1", "''", "NVTX"):
        yield Input("a profile", "snn", (*VALID, f"profile={value}"), {}, "profile")
    for settings in _TOGETHER:
        yield Input("settings that do not fit", "snn", (*VALID, *settings))
    for command, others, key in _WITH_OUTPUT:
        for kind in KINDS:
            if kind not in ("no file", "zeros", "nothing", "dangling link"):
                arguments = (*others, f"{key}o.json")
                yield Input(f"the output is: {kind}", command, arguments, {"o.json": kind}, "output")
        for path in ("''" if key else "", *NO_FILES):
            yield Input(f"the output {path}", command, (*others, f"{key}{path}"), {}, "output")
    for kind in KINDS:
        csv = ("dataset=csv", "dataset.path=t.csv", "dataset.target=0")
        yield Input(f"the path is: {kind}", "snn", (*VALID, *csv), {"t.csv": kind}, "t.csv")
        for command, arguments, name in (
            ("snn more-rounds", ("mine", "grid=g.yaml"), "g.yaml"),
            ("snn perfetto", ("r.json", "t.json"), "r.json"),
            ("snn retabulate", ("a", "out"), "a"),
            ("snn compare", ("a", "a", "out"), "a"),
        ):
            yield Input(f"{name} is: {kind}", command, arguments, {name: kind}, name)
    for table in ("", "\0", "mine\n", *words("none ../mine = results/tables/none.csv MINE overview.html.x")):
        yield Input("more rounds of no table", "snn more-rounds", (table, "grid=g.yaml"), {"g.yaml": _GRID})
    rounds = [f"rounds={value}" for value in (*NO_NUMBERS, "0", "-1", "1001", "1.5")]
    for one in (*rounds, "colour=1", "device=gpu", "device=", "grid=", "grid=none.yaml", "=1"):
        arguments = ("mine", *given(["grid=g.yaml"], one))
        yield Input(
            "more rounds",
            "snn more-rounds",
            arguments,
            {"g.yaml": _GRID},
            one.partition("=")[0].replace("grid", ""),
        )
    yield Input("more rounds of two tables", "snn more-rounds", ("mine", "yours"), {}, "yours")
    for device in ("gpu", "", "CPU", "auto x", "\0", "../cpu"):
        yield Input("limits of no device", "snn measure-limits", (device, "l.json"))


_SETTINGS = '{"trace": "growing", "bytes": "1MiB", "calls": 100, "seed": 1}'
_WITH_OUTPUT = (
    ("snn", ("device=cpu", "training.epochs=1"), "output="),
    ("snn prepare", ("dataset=small",), "output="),
    ("snn perfetto", ("none.json",), ""),
    ("snn measure-limits", ("cpu",), ""),
    ("snn microbenchmark", ("memory_map", _SETTINGS, "cpu"), ""),
)
_NO_ARGUMENTS = words(
    "+colour=1 ++training.epochs=1 ~strategy ~training.epochs ~training.epochs=1 =1 dataset@training=small",
    "strategy@x=reference +strategy@x=reference --help=1 strategy:=x training.epochs hydra.run.dir=/tmp \0=1",
    "hydra/launcher=x Training.epochs=1 training..epochs=1 .epochs=1 training.epochs.=1 -m --cfg=job",
    "training[epochs]=1 \ufefftraining.epochs=1 --multirun --config-dir=/tmp str\u0430tegy=combined -x",
)
_NO_ARGUMENTS += ["", "override dataset=small", " strategy=combined", "strategy =combined"]
_NO_TEXTS = words(
    "${oc.env:HOME} ${training.epochs} \\${x} a${x}b ${ 1,2 choice(1,2) range(1,3) glob(*) shuffle(1,2)",
    "sort(2,1) interval(0,1) tag(x,1) int(1 [1 1] {a: ' \" 'a \udcff [[1]] {a:{b:1}} [{a:1}] (1) @file",
    "!!python/name:os.system extend_list(1) \u202e1 \x1b[31m \0",
)
_NO_TEXTS += ["a\nb", "\r", "[" * 300, "'" * 301, "x" * 20_000, "1" + "0" * 17_000]
_TOGETHER = [
    of.split()
    for of in (
        "dataset.rows=1",
        "training.batch_size=257",
        "network.hidden=[1048576,1048576]",
        "dataset.rows=1000000000 dataset.features=1000000",
        "strategy=ensemble strategy.starts=100000 strategy.seeds=[1,2]",
        "network=layers network.hidden=[4]",
        "dataset=csv",
        "dataset=csv dataset.path=t.csv",
        "dataset=csv dataset.target=0",
        "device.name='another-machine'",
        "device=cuda",
    )
]
_TOGETHER += [
    ["network=layers", f"network.layers=[{of}]"] for of in ("linear 4", "conv2d 4 3,linear 1", "maxpool2d 2")
]
_TOGETHER += [["network.layers=['linear 1']"]]


# ---- commands


def malformed_commands() -> st.SearchStrategy[Input]:
    """Commands that are none, and commands with something wrong in them."""
    wrong = malformed().map(lambda one: replace(one, command="snn run") if one.command == "snn" else one)
    known = st.sampled_from(list(of_commands()))
    return st.one_of(known, known, wrong)


def any_commands() -> st.SearchStrategy[Input]:
    """Any words, after a command or without one."""
    given = [*cli.snn.commands, *cli.LISTS, *words("words --help --version --json --device strategy=graph =")]
    arguments = st.lists(st.sampled_from(given) | st.text(max_size=10), max_size=4)
    return arguments.map(lambda line: Input("garbage", "cli", tuple(line), is_wrong=False))


def of_commands() -> Iterator[Input]:
    """Commands, lists and options that there are not, or that have a wrong number of arguments."""
    for what, line, names in _known():
        yield Input(f"{what} {line[-1][:20]!r}", "cli", line, {}, names)


def _known() -> Iterator[tuple[str, tuple[str, ...], str]]:
    for name in cli.snn.commands:
        words_ = (name[:-1], name + name[-1], name.upper(), f"{name} ", f"-{name}", name[1:], f"{name}=1")
        for word in dict.fromkeys(words_):
            if word not in cli.snn.commands:
                yield "no command", (word,), word.strip()
    for word in _WORDS:
        if word != "--":  # before arguments that begin with a dash
            yield "no command", (word,), ""
        yield "a list", ("list", word), "list"
        yield "completion", ("completion", word), "completion"
        yield "an option", ("plan", f"--{word}x", "dataset=small"), ""
    for group in (*cli.LISTS.values(), "strategie", "STRATEGIES", "all", "help"):
        yield "a list", ("list", group), f"list is {group!r}"
    for name, counts in (("compare", (0, 2, 4)), ("retabulate", (0, 1, 4)), ("perfetto", (0, 1))):
        for count in counts:
            yield f"{count} arguments", (name, *["a"] * count), f"{name}: "
    yield "no arguments", ("merge",), "merge: "
    yield "no arguments", ("more-rounds",), "more-rounds: "
    yield "no folder", ("merge", f"{HERE}/none"), "none"
    for option in ("--device", "--free", "--fraction", "--json"):
        yield "no value", ("plan", option), option
        yield "cut off", ("plan", option[:-1], "1"), option
    for option in ("--csv", "--target", "--hidden", "--budget", "--network"):
        yield "no value", ("recommend", option), option
        for value in ("", "x y", "-1", "\0", "nan", "1" * 400):
            yield option, ("recommend", option, value), ""
    for device in ("", "T5", "cpu", "../x", "\0", "NVIDIA  H200"):
        yield "a plan for", ("plan", "--device", device), ""
    for size in ("0", "GiB", "-1GiB", "1 furlong", "1e3GiB", "1GiBB", "٣GiB", "1" * 400 + "GiB", *NO_NUMBERS):
        yield "so much free", ("plan", "--free", size, "dataset=small"), "--free"
    for share in ("0", "-1", "2", "1e-400", "1" * 400, *(text for text in NO_NUMBERS if text != "１")):
        yield "a share", ("plan", "--fraction", share, *_PLANNED), "--fraction"
    for output in ("", ".", "o/", "/dev/null", "/proc/x"):
        yield "a plan in", ("plan", "--json", output, *_PLANNED), "--json"
    for of in (
        ["sweep=none"],
        ["sweep="],
        ["sweep=mine", "strategy=graph"],
        ["sweep=mine", "grid=none.yaml"],
    ):
        yield "a plan of", ("plan", *of, "--free", "1GiB"), ""


# ---- recommendations


def malformed_recommendations() -> st.SearchStrategy[Input]:
    """Options of a recommendation of which one is wrong, with what the message names."""
    return st.sampled_from(list(wrong_options()))


def any_recommendations() -> st.SearchStrategy[Input]:
    """Any options with any values: whether they are accepted is up to the options' own checks."""
    options = words("--csv t.csv --target b --budget --hidden --classify --dataset 1 64, training.epochs=2")
    options += words("--network cnn patterns --device --output")
    texts = st.text(max_size=5) | st.text("strategy.=+~@[]{}:,&*!1", max_size=12)
    return st.lists(st.sampled_from(options) | texts, max_size=4).map(
        lambda further: _recommend("garbage", further, is_wrong=False, really_valid=lambda here: True)
    )


def _recommend(what: str, further: Sequence[str], names: str = "", files: Any = None, **others: Any) -> Input:
    files = {"t.csv": CSV, **(files or {})}
    return Input(what, "snn recommend", (*TRAINED, *further), files, names, **others)


def wrong_options() -> Iterator[Input]:
    """Each with the option that the message names."""
    for value in (*NO_NUMBERS, "0", "-1", "\udcff"):
        yield _recommend(f"a budget of {value[:9]!r}", [f"--budget={value}"], "--budget")
    for value in ("x", "0", "-1", "1.5", "", "\udcff"):
        yield _recommend(f"widths {value!r}", [f"--hidden={value}"], "network.hidden")
    for kind in KINDS:
        yield _recommend(f"the table is: {kind}", [], "t.csv", files={"t.csv": kind})
        if kind not in ("no file", "folder", "dangling link"):
            yield _recommend(f"the output is: {kind}", ["--output=o"], "--output", files={"o": kind})
    for setting in ("epochs=2020-01-01", "epochs=!!set {a}", "epochs=[1,2]", "epochs=" + "[" * 2000):
        yield _recommend(setting[:20], [f"training.{setting}"], "training.epochs")
    for option in ("--colour", "--csv", "--classify=1", "-x", "--target=c", "--device=gpu", "union=1", "a"):
        yield _recommend(option, [option], option.partition("=")[0])
