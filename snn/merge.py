"""``snn merge FOLDER... [output=devices]``: results of any number of machines in one table.

Each FOLDER is one of results, or an archive written by scripts/publish. The output is a new folder, or one
that this command made before; it gets devices.csv, .html, .svg and .png, all of them or none.

A device is known by its UUID, in whichever folders its records are; GPUs of one name that measured different
rounds of a cell in one folder share a column. A CPU has no UUID: it is known by its name, its host and its
folder, so two machines with one CPU name stay two, unless their folders share a record; put the records of
one machine into one folder. Microbenchmarks are left out. Speedups are over the device's own baseline: times
of two devices are never divided.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from snn import command
from snn.analysis import published
from snn.analysis.verdicts import DIFFERS
from snn.config.groups import CONFIG, read_yaml
from snn.errors import ConfigError, shown
from snn.figures import devices as figure
from snn.figures.style import save
from snn.files.outputs import replaced_folder
from snn.records import archive
from snn.records.by_device import collect
from snn.records.microbenchmarks import FOLDER
from snn.report.write import write
from snn.tables import devices

_OUTPUT = "output="
_FILES = tuple(f"devices.{ending}" for ending in ("csv", "html", "svg", "png"))
_MOST_LINES = 12


def main(arguments: list[str]) -> int:
    """Write table and figure, print what differs; 0, or 2 on a user's error."""
    return command.answered(arguments, __doc__, _main)


def _main(arguments: list[str]) -> int:
    command.counted(arguments, "merge", "FOLDER... [output=devices]", 1)
    print(run(*_parsed(arguments)))
    return 0


def run(folders: Sequence[Path], output: Path) -> str:
    """Merge the records of these folders; returns what was found, in lines.

    Raises RecordError as ``snn.records.by_device.collect`` does, OutputError where the output is no folder
    of this command or cannot be written; then nothing was written.
    """
    kept = [folder for folder in folders if not archive.of_microbenchmarks(folder)]
    with replaced_folder(output, _FILES) as folder:
        records = collect(kept or folders)
        paper = {name: read_yaml(CONFIG / f"paper/{name}.yaml") for name in published.TABLES}
        paper_device = read_yaml(CONFIG / "paper/gpu.yaml")["device"]
        table = devices.build(records, paper, paper_device, read_yaml(CONFIG / "verdicts.yaml"))
        csv, page, svg, png = (str(folder / name) for name in _FILES)
        write(table, csv, page, devices.TITLE)
        save(figure.draw(table), [svg, png])
    counts = [f"{name}: {len(of_device)} records" for name, of_device in records.items()]
    left = [f"{folder} is left out: it has {FOLDER} alone" for folder in folders if folder not in kept]
    return "\n".join([*counts, *left, *_said(table), f"{output / _FILES[0]}"])


def _said(table: pd.DataFrame) -> list[str]:
    """How many rows have which verdict on all devices, and the first of those that differ."""
    found = table.loc[table[devices.ON_ALL] != "", devices.ON_ALL].value_counts()
    words = ", ".join(f"{count} {word}" for word, count in found.items())
    lines = [f"{len(table)} rows, {found.sum()} of several devices{': ' if words else ''}{words}"]
    differing = table[table[devices.ON_ALL] == DIFFERS]
    lines += [
        f"  {row['dataset']}, {row['network']}: {row['advice']}"
        for row in differing.head(_MOST_LINES).to_dict("records")
    ]
    left = len(differing) - _MOST_LINES
    return [*lines, f"  and {left} more that differ"] if left > 0 else lines


def _parsed(arguments: Sequence[str]) -> tuple[list[Path], Path]:
    """The folders, and the output."""
    named = [argument.removeprefix(_OUTPUT) for argument in arguments if argument.startswith(_OUTPUT)]
    folders = [Path(argument) for argument in arguments if not argument.startswith(_OUTPUT)]
    if not folders:
        raise ConfigError(
            "no folder is named: give folders of results, as results or results/published/DEVICE/SET"
        )
    if len(named) > 1:
        raise ConfigError(f"output is given twice, as {' and '.join(map(shown, named))}: give it once")
    if "" in named:
        raise ConfigError("output is empty: it must name a folder, as output=devices")
    return folders, Path(named[0] if named else "devices")


if __name__ == "__main__":
    sys.exit(command.run(main))
