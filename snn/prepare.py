"""``python -m snn.prepare dataset=NAME ... output=FILE.npy``: prepare a data set for all of its cells."""

import sys

from snn import command, datasets
from snn.config import compose
from snn.datasets.common import prepared
from snn.errors import ConfigError, SnnError
from snn.files import outputs


def main(arguments: list[str]) -> int:
    """Write the table of the composed data set; 0, or 2 on a user's error."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    try:
        settings = compose.composed(arguments)
        if settings["output"] is None:
            raise ConfigError("output is missing: the file to write, as output=small.npy")
        output = outputs.checked(settings["output"], datasets.inputs(settings["dataset"]))
        table = datasets.make(settings["dataset"])
        training, test = datasets.parts(table.values, settings["dataset"])
        tested = 0 if test is None else len(test)
        datasets.split(training, settings["training"]["batch_size"], settings["dataset"]["name"], tested)
        prepared.write(output, table, settings["dataset"])
    except SnnError as error:
        print(f"snn: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main))
