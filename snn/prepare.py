"""``snn prepare dataset=NAME ... output=FILE.npy``: prepare a data set for all of its cells."""

import sys

from snn import command, datasets
from snn.config import compose
from snn.errors import ConfigError
from snn.files import outputs


@command.entry(__doc__)
def main(arguments: list[str]) -> int:
    settings = compose.composed(arguments)
    if settings["output"] is None:
        raise ConfigError("output is missing: the file to write, as output=small.npy")
    output = outputs.checked(settings["output"], datasets.inputs(settings["dataset"]))
    table = datasets.make(settings["dataset"])
    training, test = datasets.parts(table.values, settings["dataset"])
    tested = 0 if test is None else len(test)
    datasets.split(training, settings["training"]["batch_size"], settings["dataset"]["name"], tested)
    datasets.say_remarks(table)
    datasets.write(output, table, settings["dataset"])
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main))
