"""No cell moves: its name is in the paths of its records, which a change of the code must not orphan.

Where a change of config/ moves cells on purpose, this writes a new snapshot:

    PYTHONPATH=. python tests/test_cell_names.py
"""

import hashlib
import json
from pathlib import Path

from whole_grid import H200, HOST, sweeps_of

from snn.config.cell import Cell
from snn.files.published_sets import name_of, sets
from snn.records import archive
from snn.records.store import lift

SNAPSHOT = Path(__file__).parent / "snapshots/cell_names.json"
DEVICES = {"gpu": (H200, HOST), "cpu": (HOST, None)}


def of_grid():
    """By device and sweep of config/grid.yaml: how many cells there are, and the digest of their names."""
    return {
        kind: {sweep.name: counted(sweep.named) for sweep in sweeps_of(*devices).values()}
        for kind, devices in DEVICES.items()
    }


def of_archives():
    """By published set: how many cells its records are of, and the digest of their names."""
    found = {}
    for folder in sets():
        if not (folder / archive.RECORDS).exists():
            continue  # it has microbenchmarks only
        lines = (line for _, line in archive.lines(folder / archive.RECORDS))
        found[name_of(folder)] = counted(dict.fromkeys(map(name_of_cell, lines)))
    return found


def name_of_cell(line):
    """The name of the cell in a record's line, of which nothing else is parsed."""
    cell, _ = json.JSONDecoder().raw_decode(line, line.index('"cell":') + len('"cell":'))
    return Cell(lift({"cell": cell})["cell"]).name


def counted(names):
    return [len(names), hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]]


def read():
    return json.loads(SNAPSHOT.read_text(encoding="utf-8"))


def test_cells_of_the_grid_keep_their_names():
    assert of_grid() == read()["grid"]


def test_cells_of_published_records_keep_their_names():
    assert of_archives() == read()["archives"]


if __name__ == "__main__":
    found = {"grid": of_grid(), "archives": of_archives()}
    SNAPSHOT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
