"""The program ``snn``: its commands with their arguments, options, help and examples.

A command imports the module that does its work when it is used: a cell's process, the help and the completion
do not wait for the others.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from snn import arguments, command
from snn.arguments import FILE, OneOf
from snn.hardware import environment, threads

if TYPE_CHECKING:
    from collections.abc import Collection

    from click.shell_completion import CompletionItem

PROGRAM = "snn"
COMPLETE = "_SNN_COMPLETE"
"""The variable with which a shell asks for completions."""

LISTS = {
    "strategies": "strategy",
    "kernels": "kernel",
    "networks": "network",
    "datasets": "dataset",
    "protocols": "protocol",
    "precisions": "precision",
    "devices": "device",
}
"""Arguments of ``snn list``, each with its group in ``config/``."""


threads.assign()  # before a command imports NumPy

UNKNOWN = {"ignore_unknown_options": True}
"""Leaves unknown options to the check of settings, which has a hint for ``--epochs 5``."""


def main(words: list[str]) -> int:
    """Run a command; return its exit status, or 2 for an unknown command."""
    if instruction := os.environ.get(COMPLETE):
        from snn import completion

        return completion.complete(snn, instruction)
    return arguments.run_line(snn, words, PROGRAM)


def entry() -> int:
    """The program ``snn``."""
    environment.put_packages_first()
    return command.run(main)


def _complete_settings(context: click.Context, param: click.Parameter, last: str) -> "list[CompletionItem]":
    from snn import completion

    return completion.settings(context, last)


def _complete_gpus(context: click.Context, param: click.Parameter, last: str) -> list[str]:
    from snn.config import groups

    return [name for name in groups.known_gpus() if name.startswith(last)]


def settings(text: str = "[KEY=VALUE]...") -> Any:
    """A command's arguments for settings of a cell, such as ``training.epochs=5``."""
    return click.argument(
        "settings", nargs=-1, metavar=text, type=click.UNPROCESSED, shell_complete=_complete_settings
    )


@click.group(cls=arguments.Group, invoke_without_command=True)
@click.option("--version", is_flag=True, help="Print the version, and the commit of the clone.")
@click.pass_context
def snn(context: click.Context, version: bool) -> None:
    """Find out which memory strategy trains a network fastest on your device.

    snn COMMAND --help explains one of these commands.
    """
    if version:
        from snn.files import revision

        print(revision.said())
        context.exit()
    if context.invoked_subcommand is None:
        print(context.get_help())


def _choices_of(group: str) -> OneOf:
    def names() -> "Collection[str]":
        from snn.config import groups

        return groups.names(group)

    return OneOf(names)


def _complete_devices(context: click.Context, param: click.Parameter, last: str) -> list[str]:
    words = ("auto", "cuda", "cpu")
    return [*(name for name in words if name.startswith(last)), *_complete_gpus(context, param, last)]


@snn.command(codes={0: "done: a strategy is recommended", 3: "no training run ended well: no recommendation"})
@settings()
@click.option("--csv", type=FILE, metavar="FILE", help="A CSV file to train on, one sample per row.")
@click.option("--target", metavar="COLUMN", help="The column to predict: its name, or its number from 0.")
@click.option("--classify", is_flag=True, help="The target is a class: a text or a whole number.")
@click.option("--drop", metavar="COLUMN,COLUMN", help="Columns to leave out: names or numbers.")
@click.option(
    "--dataset",
    type=_choices_of("dataset"),
    metavar="NAME",
    help="A data set of snn list datasets; by default small, or patterns for a network that takes images.",
)
@click.option("--hidden", metavar="N,N", help="Widths of the hidden layers, such as 64,64 (fully connected).")
@click.option("--layers", metavar="LAYERS", help="All layers instead: 'linear 64, tanh, linear 1', say.")
@click.option(
    "--network",
    type=_choices_of("network"),
    metavar="NAME",
    help="A network of snn list networks.",
)
@click.option(
    "--model",
    metavar="MODULE:FACTORY",
    help="A function that returns a PyTorch nn.Sequential, whose layers are trained.",
)
@click.option(
    "--budget",
    metavar="TIME",
    help="How long it may take: 3min by default, 10min with --crossover. If full training runs take too "
    "long, they get fewer epochs, or fewer rows; if even that takes too long, the command fails. A first "
    "round that has begun is finished.",
)
@click.option(
    "--device",
    metavar="NAME",
    shell_complete=_complete_devices,
    help="auto (the default), cuda, cpu, or a GPU's name; for a GPU that this machine lacks, only archived "
    "results are shown.",
)
@click.option(
    "--baseline",
    type=_choices_of("strategy"),
    default="reference",
    show_default=True,
    metavar="NAME",
    help="The strategy that speedups are over; for the framework that you use today, torch_eager, "
    "torch_loader (a DataLoader and autograd) or jax_scan.",
)
@click.option(
    "--crossover",
    type=OneOf(lambda: ("width", "batch")),
    metavar="AXIS",
    help="width or batch, instead of ranking strategies: from which one on is the GPU faster than the CPU?",
)
@click.option("--all", is_flag=True, help="Measure every strategy, not only the usual candidates.")
@click.option(
    "--output",
    type=FILE,
    metavar="FOLDER",
    help="Folder for the table and the report, which are replaced; the default is recommendation-NAME.",
)
def recommend(**question: Any) -> int:
    """Find the fastest strategy for your network and your data.

    Measures the candidates of config/recommend.yaml through the workflow, among them PyTorch and JAX if
    Python finds them and, on a GPU, the host's CPU. It gives the leaders more rounds while there is time, and
    writes a ranked table and a report. Measurements are kept: the same command continues them, and goes on
    for longer with a larger --budget. Without a GPU it measures the CPU, and shows archived results of a GPU.

    It takes the same settings as snn run. The format of a table is detected; dataset.header, delimiter,
    decimal, thousands, encoding, comment and na_values override it.

    \b
    snn recommend --csv mine.csv --target price --hidden 64,64
    snn recommend --csv mine.csv --target kind --classify dataset.header=false training.epochs=20
    snn recommend --csv mine.csv --target price network.bias=true training.optimizer=adam
    snn recommend --dataset small network=layers 'network.layers=[linear 64, tanh, linear 1]'
    snn recommend --csv mine.csv --target price --model net:make training.optimizer=adam
    snn recommend --device "NVIDIA H200" --network cnn
    """
    from snn import recommend

    return recommend.answer(**question)


@snn.command(codes={0: "done: the network is saved", 3: "the loss is not finite: nothing is saved"})
@settings()
@click.option("--csv", type=FILE, metavar="FILE", required=True, help="A CSV file, one sample per row.")
@click.option("--target", metavar="COLUMN", required=True, help="The column to predict: a name or number.")
@click.option("--classify", is_flag=True, help="The target is a class: a text or a whole number.")
@click.option("--drop", metavar="COLUMN,COLUMN", help="Columns to leave out: names or numbers.")
@click.option("--hidden", metavar="N,N", help="Widths of the hidden layers, such as 64,64 (fully connected).")
@click.option("--layers", metavar="LAYERS", help="All layers instead: 'linear 64, tanh, linear 1', say.")
@click.option("--model", metavar="MODULE:FACTORY", help="Or a function that returns an nn.Sequential.")
@click.option("--device", metavar="NAME", help="auto (the default), cuda or cpu.")
@click.option(
    "--save", type=FILE, metavar="FILE", required=True, help="The file to write, such as model.npz."
)
@click.option("--overwrite", is_flag=True, help="Replace the file of --save if it exists.")
def train(**options: Any) -> int:
    """Train a network on your data once, and save it.

    strategy=auto, the default, takes the strategy with the shortest mean time of those that snn recommend or
    the workflow has measured here for the same network, batches and optimizer. Without such records, it takes
    the first of persistent, graph and resident that can train the network on a GPU, and NumPy on a CPU. The
    other defaults are usual in PyTorch programs: biases, Adam with a learning rate of 0.001, rows in a new
    order in each epoch. It takes the same settings as snn run, and prints the score on the rows that
    dataset.held_out leaves out. With --model training starts from the model's weights.

    \b
    snn train --csv mine.csv --target price --hidden 64,64 --save model.npz
    snn train --csv mine.csv --target kind --classify training.epochs=200 --save model.npz
    snn train --csv mine.csv --target price --model net:make training.validation=0.2 --save model.npz
    """
    from snn import train

    return train.train(**options)


@snn.command()
@click.argument("model", type=FILE)
@click.argument("table", type=FILE, metavar="CSV")
def predict(model: str, table: str) -> None:
    """Predict new rows with a saved network.

    MODEL is a file of snn train, or weights=FILE.npz of snn run. CSV has the columns that the network was
    trained with, found by their names; others, such as the target, are ignored. The predictions are printed
    in the order of the rows, below the target's name: numbers in the target's units, or classes.

    \b
    snn predict model.npz new.csv > predictions.csv
    """
    from snn import predict

    predict.predict(model, table)


def _list_choices() -> str:
    from snn.config import groups

    lines = [f"  {group}={'|'.join(groups.names(group))}" for group in groups.GROUPS]
    return "\n".join(["Choices, which snn list explains:", *lines])


@snn.command(
    codes={0: "done: the record is written", 3: "with --strict: written, but the cell is not ok"},
    more=_list_choices,
    context_settings=UNKNOWN,
)
@settings()
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 3 if the cell diverged, was unsupported or had too little memory: a record holds these "
    "outcomes like any other, with exit code 0.",
)
def run(settings: tuple[str, ...], strict: bool) -> int:
    """Train and measure one cell, and write its record.

    Without output=FILE the record is printed. A last line gives the mean time of a run with its interval, how
    the cell ended, and the loss: on standard output, or on standard error if the record is printed.

    \b
    snn run strategy=graph dataset=small output=cell.json
    snn run network.hidden=[256] network.init=uniform01 protocol.runs=10
    snn run network=layers 'network.layers=[linear 64, relu, linear 1]' network.loss=mean_squared_error
    snn run training.epochs=100 training.batch_size=256 training.learning_rate=0.002
    snn run training.optimizer=adam training.shuffle=epoch network.bias=true weights=weights.npz
    nsys profile python -m snn profile=nvtx      (three more steps, with NVTX ranges)
    """
    from snn import run

    return run.run_cell(settings, strict)


@snn.command(codes={0: "done, even if a cell does not fit"})
@settings("[KEY=VALUE]... | sweep=NAME [grid=FILE]")
@click.option(
    "--device",
    metavar="NAME",
    shell_complete=_complete_gpus,
    help='Plan for a GPU of config/gpus.yaml, such as "Tesla T4"; the default is this machine\'s GPU.',
)
@click.option(
    "--free", metavar="SIZE", help="Available memory, such as 11GiB; the default is that GPU's free memory."
)
@click.option(
    "--fraction",
    default="0.9",
    show_default=True,
    metavar="F",
    help="The usable share of that memory.",
)
@click.option("--json", "target", type=FILE, metavar="FILE", help="Write the plan to a file as well.")
def plan(settings: tuple[str, ...], device: str | None, free: str | None, fraction: str, target: str) -> None:
    """Does it fit? Predict a cell's device memory, without a GPU.

    Predicts the device memory of a cell by kind, the largest batch that fits, and what would help. It takes
    the same settings as snn run. With sweep=NAME (and grid=FILE) instead, it reports for every cell of a
    sweep whether it fits. Nothing is trained.

    \b
    snn plan strategy=graph dataset=small --device "Tesla T4"
    snn plan sweep=strategies --free 11GiB
    """
    from snn import plan

    plan.answer(settings, device, free, fraction, target)


@snn.command("more-rounds")
@click.argument("table", type=FILE)
@click.argument("settings", nargs=-1, metavar="[rounds=N] [grid=FILE] [device=cpu|cuda]")
def more_rounds(table: str, settings: tuple[str, ...]) -> None:
    """Plan more rounds for open verdicts of a table.

    TABLE is results/tables/NAME.csv, or NAME, or DEVICE/NAME of a device that was planned by name. If a
    verdict is "not significant", or an interval wide, by the thresholds tell_apart and wide of
    config/verdicts.yaml, both cells get as many extra rounds as their spread calls for, at most doubling
    them at once; or, with rounds=N, N rounds in all. Rows that are "not comparable" get none.

    It only plans, in results/more_rounds.json; the same snakemake command as before then measures the rounds.
    Give the same grid, device, devices and folder as to snakemake.

    \b
    snn more-rounds results/tables/speedup.csv
    snn more-rounds mine rounds=40 grid=my_grid.yaml
    """
    from snn import more_rounds

    print(more_rounds.plan(table, settings))


@snn.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.argument("output", type=FILE)
def compare(a: str, b: str, output: str) -> None:
    """Compare two sets of results.

    They may be of other machines, dates or versions. A and B are folders of results, or archives written by
    scripts/publish. OUTPUT gets comparison.csv, .html, .svg and .png. Times are divided only if device,
    driver and the probe's costs are the same on both sides.

    \b
    snn compare results/published/tesla-t4/paper results comparison
    """
    from snn import compare

    print(compare.compare(Path(a), Path(b), Path(output)))


@snn.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER... [output=devices]", type=FILE)
def merge(folders: tuple[str, ...]) -> None:
    """Put the results of many machines into one table.

    Each FOLDER is one of results, or an archive written by scripts/publish. The output is a new folder, or
    one that this command made before; it gets devices.csv, .html, .svg and .png, all of them or none; and
    cards.csv and .html if cards of one model did the same work.

    A GPU is known by its UUID. A CPU has none: it is known by its name, its host and its folder, so put the
    records of one machine into one folder. Microbenchmarks are left out. Speedups are over the device's own
    baseline.

    \b
    snn merge results results/published/*/* output=devices
    """
    from snn import merge

    print(merge.run(*merge.parse(folders)))


@snn.command()
@click.argument("results", default="results", type=FILE)
@click.option(
    "--output", type=FILE, metavar="FILE", help="The file: unless given, one in results/contributed."
)
def contribute(results: str, output: str | None) -> None:
    """Pack this machine's records into one file.

    It is for the public table of devices. RESULTS is a folder of results with all records of
    config/contribute.yaml, which snakemake measures in about five minutes. The file is compressed and sealed;
    names of the host and the user, and paths, are left out. The command prints how to propose the file. snn
    merge checks it, and adds a column for its device.

    \b
    snn contribute
    snn contribute results --output mine.jsonl.gz
    """
    from snn import contribute

    print(contribute.summary(contribute.pack(Path(results), Path(output) if output else None)))


@snn.command()
@click.argument("archive", type=FILE)
@click.argument("output", type=FILE)
@click.argument("grid", required=False, type=FILE)
def retabulate(archive: str, output: str, grid: str | None) -> None:
    """Make tables and figures from published records.

    ARCHIVE is a folder written by scripts/publish, its records.jsonl.gz, or a folder of results. GRID is the
    grid file that defines the tables; its default is the sweeps published with the archive, or
    config/grid.yaml. It needs no GPU.

    \b
    snn retabulate results/published/tesla-t4/paper tables
    """
    from snn.retabulate import retabulate

    retabulate(Path(archive), Path(output), Path(grid) if grid is not None else None)


def _sources() -> list[str]:
    from snn.config import groups

    return sorted(path.stem for path in (groups.CONFIG / "claims").glob("*.yaml"))


@snn.command()
@click.argument("source", required=False, type=OneOf(_sources))
@click.option("--json", "as_json", is_flag=True, help="Print this as JSON, with every case.")
def claims(source: str | None, as_json: bool) -> None:
    """Judge the sources' claims by the published tables.

    Without SOURCE it prints the number of claims with each verdict, by source. With one, it prints each of
    the source's claims with its verdict and the rows that test it.

    \b
    snn claims paper
    """
    from snn import claims

    claims.show(source, as_json)


@snn.command()
@click.argument("folder", type=FILE)
def init(folder: str) -> None:
    """Lay out a workflow to edit in a new folder.

    FOLDER, which must be new or empty, gets a Snakefile, config/grid.yaml, profiles, a small table and a
    README.md with the commands. Edit the grid, then run snakemake there.

    \b
    snn init mine
    cd mine && snakemake --cores 1 results/tables/speedup.csv
    """
    from snn import init

    init.lay_out(folder)


@snn.command(context_settings=UNKNOWN)
@settings("dataset=NAME [KEY=VALUE]... output=FILE.npy")
def prepare(settings: tuple[str, ...]) -> None:
    """Prepare a data set as a file, for all of its cells.

    \b
    snn prepare dataset=small output=small.npy
    """
    from snn import prepare

    prepare.prepare(settings)


@snn.command()
@click.argument("records", nargs=-1, required=True, metavar="RECORD...", type=FILE)
@click.argument("output", type=FILE)
def perfetto(records: tuple[str, ...], output: str) -> None:
    """Write the traces of records for ui.perfetto.dev.

    Each strategy is a process: the host's calls are one thread, each stream is a thread, and counters show
    the bytes held. The format is the Trace Event Format, JSON.

    \b
    snn perfetto results/cells/*/round_1.json trace.json
    """
    from snn import perfetto

    perfetto.convert(records, output)


@snn.command("measure-limits", hidden=True)
@click.argument("backend", metavar="cuda|cpu")
@click.argument("output")
@click.argument("name", required=False)
def measure_limits(backend: str, output: str, name: str | None) -> None:
    """Measure the limits of the device, and record them; a device with another name than NAME is an error.

    \b
    snn measure-limits cpu limits.json
    """
    from snn import measure_device

    measure_device.write_limits(output, backend, name)


@snn.command(hidden=True)
@click.argument("name")
@click.argument("settings")
@click.argument("backend", metavar="auto|cuda|cpu")
@click.argument("output")
@click.argument("device", required=False)
def microbenchmark(name: str, settings: str, backend: str, output: str, device: str | None) -> None:
    """Measure one of the grid's microbenchmarks, and record it.

    NAME is one of the grid's microbenchmarks, SETTINGS its settings as JSON, as a grid file has them. A
    device with another name than DEVICE is an error. OUTPUT is the record.

    \b
    snn microbenchmark transfers '{"sizes": ["256B", "1MiB"], ...}' cpu record.json
    """
    from snn import measure_device

    measure_device.write_microbenchmark(output, name, settings, backend, device)


@snn.command("list")
@click.argument("topic", type=OneOf(lambda: LISTS), metavar="|".join(LISTS))
def list_choices(topic: str) -> None:
    """List strategies, kernels, networks, data sets, and so on.

    Prints a line for each choice: its name in a grid or on the command line, and a description. The files in
    config/ explain each choice's keys.

    \b
    snn list strategies
    """
    from snn.config.groups import names
    from snn.listing import describe

    width = max(map(len, names(LISTS[topic])))
    for name in names(LISTS[topic]):
        print(f"{name:{width}}  {describe(LISTS[topic], name)}")


@snn.command("completion")
@click.argument("shell", type=OneOf(lambda: ("bash", "zsh", "fish")), metavar="bash|zsh|fish")
def print_completion(shell: str) -> None:
    """Print a script for a shell, which completes commands.

    After it, the Tab key completes commands, options, keys, values and files.

    \b
    eval "$(snn completion bash)"      in ~/.bashrc
    eval "$(snn completion zsh)"       in ~/.zshrc, after compinit
    snn completion fish | source       in ~/.config/fish/config.fish
    """
    from snn import completion

    completion.complete(snn, f"{shell}_source")


if __name__ == "__main__":
    sys.exit(command.run(main))
