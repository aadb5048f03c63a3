"""Malformed command lines that are written out: of arguments, outputs, paths, tables and devices."""

from collections.abc import Iterator

from attempt import HERE, KINDS, Input

VALID = ("device=cpu", "training.epochs=1", "training.batch_size=2", "output=r.json")
_GRID = b"device: cpu\nsweeps: {mine: {strategy: [reference, combined], training.epochs: 1}}\n"


def known() -> Iterator[Input]:
    """Each with what is wrong in it, and what its message names."""
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
