"""Malformed command lines: of a cell, of ``snn`` and its commands, of a recommendation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import data_files
from attempt import HERE, Input
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


# ---- cells


def malformed() -> st.SearchStrategy[Input]:
    """Command lines of a cell with something wrong in them, and of other modules."""
    wrong = st.builds(with_setting, st.sampled_from(all_wrong()), st.sampled_from(("snn", "snn prepare")))
    return st.one_of(wrong, wrong, st.sampled_from(list(of_modules())))


def garbage() -> st.SearchStrategy[Input]:
    """Keys with any value, and any arguments."""
    keys = [f"{section}.{key}" for section in groups.GROUPS for key in groups.options(section, None)]
    keys += [*groups.GROUPS, *words("training.epochs training.learning_rate round profile strategy.seeds")]
    odd = st.text("\\'\"$%{}[]()=,:;#&|<>*?!~@+- \t\u00e9\u2028a1", max_size=8)
    texts = odd | st.text(max_size=5) | st.sampled_from(words("null 1e3 1_0 '1' 01"))
    settings = st.dictionaries(st.sampled_from(keys), texts, min_size=1, max_size=3)
    word = st.text(max_size=12) | st.text("snetwork.=+~@[]{}1", max_size=12)
    lines = settings.map(lambda of: [f"{key}={value}" for key, value in of.items()])
    return (lines | st.lists(word, min_size=1, max_size=3)).map(_any)


def _any(further: Sequence[str]) -> Input:
    arguments = given(VALID, *further)

    def same(here: Path) -> bool:
        """Whether it says the same as the command line that is made of its cell."""
        settings = composed([each for each in arguments if not each.startswith("output=")])
        again = composed(sweeps.overrides({section: settings[section] for section in SECTIONS}))
        return all(settings[section] == again[section] for section in SECTIONS)

    return Input("snn", arguments, is_wrong=False, really_valid=same)


def with_setting(wrong: Wrong, command: str) -> Input:
    """A cell with a value that a key cannot have."""
    settings = {**wrong.beside, wrong.key: wrong.value}
    arguments = given(VALID, *(f"{key}={_text(key, value)}" for key, value in settings.items()))
    return Input(command, arguments, {"t.csv": CSV, **data_files.FOLDER}, wrong.key.partition(".")[0])


def _text(key: str, value: Any) -> str:
    """A value as an argument has it, whether it may be one or not."""
    if key in groups.GROUPS and isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{inner}:{_text('', of)}" for inner, of in value.items()) + "}"
    return written(value)


def _cell(*settings: str, names: str = "") -> Input:
    return Input("snn", (*VALID, *settings), names=names)


def of_modules() -> Iterator[Input]:
    """Command lines of a cell, and of other modules, each with what its message names."""
    yield from (_cell(argument) for argument in _NO_ARGUMENTS)
    for key in words("training.learning_rate network.hidden strategy dataset.seed round data profile"):
        for value in _NO_TEXTS:
            # Any text may be the path of a prepared data set.
            if key != "data" or "${" in value or not value.isprintable() or len(value) > 5000:
                yield _cell(f"{key}={value}", names=key.partition(".")[0])
    for one in ("training.epochs=1", "strategy=combined", "output=x", "device=cpu"):
        yield _cell(one, one, names=one.partition("=")[0])
    no_rounds = words("0 -1 1001 1.5 true [1] {a:1} 10000000000000000000")
    no_rounds += ["'1 2'", *(text for text in NO_NUMBERS if text != "1_0")]
    no_profiles = words("nvtx none2 null [none] true 1 '' NVTX")
    for key, values in (("round", no_rounds), ("profile", no_profiles)):
        yield from (_cell(f"{key}={value}", names=key) for value in values)
    yield from (_cell(*settings.split("; ")) for settings in _TOGETHER)
    for command, others, key in _WITH_OUTPUT:
        written_to = Input(command, (*others, f"{key}o.json"))
        yield from written_to.of_kinds("o.json", "output", ("no file", "zeros", "nothing", "dangling link"))
        for path in ("''" if key else "", *NO_FILES):
            yield Input(command, (*others, f"{key}{path}"), names="output")
    for command, arguments, name in _WITH_INPUT:
        yield from Input(command, arguments).of_kinds(name)
    for table in ("", "\0", "mine\n", *words("none ../mine = results/tables/none.csv MINE overview.html.x")):
        yield Input("snn more-rounds", (table, "grid=g.yaml"), {"g.yaml": _GRID})
    rounds = [f"rounds={value}" for value in (*NO_NUMBERS, "0", "-1", "1001", "1.5")]
    for one in (*rounds, "colour=1", "device=gpu", "device=", "grid=", "grid=none.yaml", "=1"):
        names = one.partition("=")[0].replace("grid", "")
        yield Input("snn more-rounds", ("mine", *given(["grid=g.yaml"], one)), {"g.yaml": _GRID}, names)
    yield Input("snn more-rounds", ("mine", "yours"), {}, "yours")
    for device in ("gpu", "", "CPU", "auto x", "\0", "../cpu"):
        yield Input("snn measure-limits", (device, "l.json"))


_SETTINGS = '{"trace": "growing", "bytes": "1MiB", "calls": 100, "seed": 1}'
_WITH_OUTPUT = (
    ("snn", ("device=cpu", "training.epochs=1"), "output="),
    ("snn prepare", ("dataset=small",), "output="),
    ("snn perfetto", ("none.json",), ""),
    ("snn measure-limits", ("cpu",), ""),
    ("snn microbenchmark", ("memory_map", _SETTINGS, "cpu"), ""),
)
_WITH_INPUT = (
    ("snn", (*VALID, "dataset=csv", "dataset.path=t.csv", "dataset.target=0"), "t.csv"),
    ("snn more-rounds", ("mine", "grid=g.yaml"), "g.yaml"),
    ("snn perfetto", ("r.json", "t.json"), "r.json"),
    ("snn retabulate", ("a", "out"), "a"),
    ("snn compare", ("a", "a", "out"), "a"),
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
_TOGETHER = """dataset.rows=1
training.batch_size=257
network.hidden=[1048576,1048576]
dataset.rows=1000000000; dataset.features=1000000
strategy=ensemble; strategy.starts=100000; strategy.seeds=[1,2]
network=layers; network.hidden=[4]
dataset=csv
dataset=csv; dataset.path=t.csv
dataset=csv; dataset.target=0
device.name='another-machine'
device=cuda
network=layers; network.layers=[linear 4]
network=layers; network.layers=[conv2d 4 3,linear 1]
network=layers; network.layers=[maxpool2d 2]
network.layers=['linear 1']""".splitlines()
"""Settings that do not fit together, or not the machine."""


# ---- commands


def malformed_commands() -> st.SearchStrategy[Input]:
    """Commands that do not exist, and commands with something wrong in them."""
    wrong = malformed().map(lambda one: replace(one, command="snn run") if one.command == "snn" else one)
    known = st.sampled_from(list(of_commands()))
    return st.one_of(known, known, wrong)


def any_commands() -> st.SearchStrategy[Input]:
    """Any words, after a command or without one."""
    known = [*cli.snn.commands, *cli.LISTS, *words("words --help --version --json --device strategy=graph =")]
    arguments = st.lists(st.sampled_from(known) | st.text(max_size=10), max_size=4)
    return arguments.map(lambda line: Input("cli", tuple(line), is_wrong=False))


def of_commands() -> Iterator[Input]:
    """Commands, lists and options that do not exist, or that have a wrong number of arguments."""
    for names, *line in _lines():
        yield Input("cli", tuple(line), names=names)


def _lines() -> Iterator[tuple[str, ...]]:
    """What the message names, and the command line."""
    for name in cli.snn.commands:
        for word in (name[:-1], name + name[-1], name.upper(), f"{name} ", f"-{name}", name[1:], f"{name}=1"):
            if word not in cli.snn.commands:
                yield word.strip(), word
    for word in ["", " ", "\n", "a\nb", "x" * 5000, *words("-- - --verbose \0 \udcff $(ls) é ../run {}")]:
        if word != "--":  # before arguments that begin with a dash
            yield "", word
        yield "list", "list", word
        yield "completion", "completion", word
        yield "", "plan", f"--{word}x", "dataset=small"
    for group in (*cli.LISTS.values(), "strategie", "STRATEGIES", "all", "help"):
        yield f"list is {group!r}", "list", group
    numbers = (("compare", (0, 2, 4)), ("retabulate", (0, 1, 4)), ("perfetto", (0, 1)))
    for name, counts in (*numbers, ("merge", (0,)), ("more-rounds", (0,))):
        yield from ((f"{name}: ", name, *["a"] * count) for count in counts)
    yield "none", "merge", f"{HERE}/none"
    for option in ("--device", "--free", "--fraction", "--json"):
        yield option, "plan", option
        yield option, "plan", option[:-1], "1"
    for option in ("--csv", "--target", "--hidden", "--budget", "--network"):
        yield option, "recommend", option
        yield from (("", "recommend", option, value) for value in ("", "x y", "-1", "\0", "nan", "1" * 400))
    yield from (("", "plan", "--device", name) for name in ("", "T5", "cpu", "../x", "\0", "NVIDIA  H200"))
    sizes = ["0", "GiB", "-1GiB", "1 furlong", "1e3GiB", "1GiBB", "٣GiB", "1" * 400 + "GiB", *NO_NUMBERS]
    yield from (("--free", "plan", "--free", size, "dataset=small") for size in sizes)
    shares = ["0", "-1", "2", "1e-400", "1" * 400, *(text for text in NO_NUMBERS if text != "１")]
    planned = ("--free", "1GiB", "dataset=small")
    yield from (("--fraction", "plan", "--fraction", share, *planned) for share in shares)
    yield from (
        ("--json", "plan", "--json", output, *planned) for output in ("", ".", "o/", "/dev/null", "/proc/x")
    )
    for of in ("sweep=none", "sweep=", "sweep=mine strategy=graph", "sweep=mine grid=none.yaml"):
        yield "", "plan", *of.split(), "--free", "1GiB"


# ---- recommendations


def any_recommendations() -> st.SearchStrategy[Input]:
    """Any options with any values: whether they are accepted is up to the options' own checks."""
    options = words("--csv t.csv --target b --budget --hidden --classify --dataset 1 64, training.epochs=2")
    options += words("--network cnn patterns --device --output")
    texts = st.text(max_size=5) | st.text("strategy.=+~@[]{}:,&*!1", max_size=12)
    return st.lists(st.sampled_from(options) | texts, max_size=4).map(
        lambda further: _recommend(*further, is_wrong=False)
    )


def _recommend(*further: str, names: str = "", **others: Any) -> Input:
    return Input("snn recommend", (*TRAINED, *further), {"t.csv": CSV}, names, **others)


def wrong_options() -> Iterator[Input]:
    """Each with the option that the message names."""
    budgets = (*NO_NUMBERS, "0", "-1", "\udcff")
    yield from (_recommend(f"--budget={value}", names="--budget") for value in budgets)
    widths = ("x", "0", "-1", "1.5", "", "\udcff")
    yield from (_recommend(f"--hidden={value}", names="network.hidden") for value in widths)
    yield from _recommend().of_kinds("t.csv")
    yield from _recommend("--output=o").of_kinds("o", "--output", ("no file", "folder", "dangling link"))
    for epochs in ("2020-01-01", "!!set {a}", "[1,2]", "[" * 2000):
        yield _recommend(f"training.epochs={epochs}", names="training.epochs")
    for option in ("--colour", "--csv", "--classify=1", "-x", "--target=c", "--device=gpu", "union=1", "a"):
        yield _recommend(option, names=option.partition("=")[0])
