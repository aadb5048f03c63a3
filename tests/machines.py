"""Records of several machines, in a folder each."""

from functools import cache

from conftest import ROOT
from records_of import halves, record

from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.records import archive

H200, T4 = "NVIDIA H200", "NVIDIA T4"
CPU = "CPU AMD EPYC"
TIMES = {"reference": 4.0, "streams": 4.0, "pinned": 3.0, "combined": 2.0, "preallocated": 1.0}


@cache
def _grid(device):
    return sweeps.read(ROOT / "config/grid.yaml", device)


LATER = [f"2026-02-12T{hour}:00:00+00:00" for hour in (10, 11, 12)]
"""When other machines began."""


def cells_on(backend, name, dataset="large"):
    found = _grid(Device(backend, name))["dataset_size"].cells
    return [
        cell | {"protocol": cell["protocol"] | {"runs": 8, "rounds": 2}}
        for cell in found
        if cell["dataset"]["name"] == dataset
    ]


def records_of(cells, factor=None, spread=0.0001, **where):
    """Two rounds of each cell, each strategy's times multiplied by its factor."""
    made = []
    for cell in cells:
        mean = TIMES[cell["strategy"]["name"]] * (factor or {}).get(cell["strategy"]["name"], 1.0)
        way = -1 if cell["strategy"]["name"] == "combined" else 1  # slow where the others are fast
        seconds = [mean * (1 + way * spread * step) for step in (1, 0.9, 1.1, 1, -1, -0.9, -1.1, -1)]
        made += [record(cell, some, number=i, **where) for i, some in enumerate(halves(seconds), 1)]
    return made


def folder(path, *records):
    path.mkdir(parents=True)
    archive.write([one for some in records for one in some], path)
    return path
