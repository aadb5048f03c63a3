"""``python -m snn.prepare dataset=NAME ... output=FILE.npy``: prepare a data set for all of its cells."""

import os
import sys
from pathlib import Path

import numpy as np

from snn import datasets
from snn.config import compose
from snn.errors import ConfigError, SnnError


def main(arguments: list[str]) -> int:
    """Write the table of the composed data set; 0, or 2 on a user's error."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    try:
        settings = compose.composed(arguments)
        if settings["output"] is None:
            raise ConfigError("output is missing: the file to write, as output=small.npy")
        table = datasets.make(settings["dataset"])
        datasets.split(table, settings["training"]["batch_size"], settings["dataset"]["name"])
    except SnnError as error:
        print(f"snn: {error}", file=sys.stderr)
        return 2
    _write(Path(settings["output"]), table)
    return 0


def _write(path: Path, table: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            np.save(file, table)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
