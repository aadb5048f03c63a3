"""The options of ``snn recommend``, as they are read and as they are helped with."""

import argparse
from collections.abc import Sequence

from snn.config import groups
from snn.config.options import Options

DESCRIPTION = """Which strategy trains your network fastest on this device, and why.

Measures the candidates of config/recommend.yaml through the workflow, gives those in the lead more rounds
while there is time, and leaves a ranked table and a report. What was measured stays: the same command
continues, with a larger --budget for longer. Without a GPU it measures the CPU, and shows published
results of a GPU."""

EPILOG = """KEY=VALUE are settings as in a grid: training.reduction=sum, or a network of any layers:
network=layers 'network.layers=[linear 64, relu, linear 1]'
How a table is written is detected; dataset.header, delimiter, decimal, thousands, encoding, comment and
na_values set it, as in dataset.header=false"""


def helped() -> str:
    """The options, each with what it means."""
    return _parser().format_help()


def options() -> list[str]:
    """Their names."""
    return [name for action in _parser()._actions for name in action.option_strings]


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """The options as text. Raises ConfigError for one that there is not."""
    return _parser().read(arguments)


def _parser() -> Options:
    parser = Options("recommend", DESCRIPTION, EPILOG)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="further settings, as in a grid")
    add = parser.add_argument
    add("--csv", metavar="FILE", help="a CSV file to train on, one sample per row")
    add("--target", metavar="COLUMN", help="the column to predict: its name, or else its number from 0")
    add(
        "--dataset",
        metavar="NAME",
        help="another data set (default: small; of images, where the network takes those, patterns): "
        f"{', '.join(groups.names('dataset'))}",
    )
    add("--hidden", metavar="N,N", help="widths of the hidden layers, as 64,64 (fully connected, ReLU)")
    add("--classify", action="store_true", help="the target of --csv is a class, a text or a whole number")
    add("--network", metavar="NAME", help=f"another network: {', '.join(groups.names('network'))}")
    add(
        "--batch-size",
        metavar="N",
        help="rows per training step (default: 64 with --csv, fewer for a small table; else 256)",
    )
    add("--epochs", metavar="N", help="passes over the data in one training (default: 100)")
    add(
        "--learning-rate",
        metavar="R",
        help="of plain gradient descent (default: 0.002; with --classify 0.02)",
    )
    add(
        "--budget",
        metavar="TIME",
        default="2min",
        help="how long it may take, as 90s (default: 2min); where whole trainings take too long, runs have "
        "fewer epochs, or fewer rows; one too short even for these is refused, and a first round that has "
        "begun is finished",
    )
    add(
        "--device",
        metavar="NAME",
        default="auto",
        help="auto, cuda, cpu, or a GPU's name: for one not in this machine, only published results",
    )
    add("--all", action="store_true", help="measure every strategy, not only the usual candidates")
    add(
        "--output",
        metavar="FOLDER",
        help="for the table and the report, which are replaced (default: recommendation-NAME)",
    )
    return parser
