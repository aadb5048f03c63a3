"""Prepare a data set as a file, for all of its cells."""

from collections.abc import Sequence

from snn import datasets
from snn.config import compose
from snn.config.sizes import check_dataset
from snn.errors import ConfigError
from snn.files import outputs


def prepare(arguments: Sequence[str]) -> None:
    """Write the table of the data set that these settings choose."""
    settings = compose.composed(arguments, checks_memory=False)  # other cells' networks train on it
    check_dataset(settings["dataset"])
    if settings["output"] is None:
        raise ConfigError("output is missing: give the file to write, such as output=small.npy")
    output = outputs.checked(settings["output"], datasets.inputs(settings["dataset"]))
    table = datasets.make(settings["dataset"])
    training, test = datasets.parts(table.values, settings["dataset"])
    tested = 0 if test is None else len(test)
    datasets.split(training, settings["training"]["batch_size"], settings["dataset"]["name"], tested)
    datasets.say_remarks(table)
    datasets.write(output, table, settings["dataset"])
