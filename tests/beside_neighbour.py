"""Records of cells alone and beside a neighbour that makes each strategy as much slower as a test says."""

import yaml
from conftest import ROOT
from records_of import COSTS, QUIET, record

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.tables.neighbours import neighbours

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
ALONE = [[1.0, 1.01], [1.1, 1.11], [0.9, 0.91]]
"""Rounds that differ by more than what is looked for, as a pair of one round does not."""

GPU, CPU = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")
SLOWER = {
    ("reference", "reference"): (1.30, 1.31, 1.32),
    ("combined", "reference"): (1.0, 1.04, 1.08),
    ("graph", "reference"): (1.0, 1.001, 1.002),
    ("graph", "graph"): (0.99, 1.0, 1.01),
    ("resident", "reference"): (1.0, 1.001, 1.0),
    ("persistent", "reference"): (1.05, 1.06, 1.05),
}


def cells_of(folder, device=GPU, **settings):
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({"defaults": {"protocol.rounds": 3}, "sweeps": {"neighbours": settings}}))
    return sweeps.read(path, device, CPU)["neighbours"].cells


def times(factors):
    """The seconds of three rounds, each round by a factor longer than alone."""
    return [[factor * one for one in of_round] for factor, of_round in zip(factors, ALONE, strict=True)]


def records_of(cells, slower, gpus=("GPU-1",) * 3, **options):
    """Three rounds of each cell on these GPUs; ``slower`` says by strategy and neighbour how much each is."""
    found = {}
    for i, cell in enumerate(cells):
        by = cell["protocol"]["neighbour"]
        factors = (1.0,) * 3 if by == "none" else slower[cell["strategy"]["name"], by]
        for number, seconds in enumerate(times(factors), 1):
            where = gpus[number - 1] if by == "none" else "GPU-1"
            found[f"{i}-{number}"] = record(
                cell, seconds, number=number, device_uuid=where, machine=machine_of(cell), **options
            )
    return found


def machine_of(cell):
    """Beside a neighbour allocations cost three times as much, and its GPU and a core are busy."""
    by = cell["protocol"]["neighbour"]
    if by == "none":
        return QUIET
    costs = {key: 3 * cost for key, cost in COSTS.items()}
    at_work = {"strategy": by, "device_uuid": "GPU-2", "epochs": 10, "seconds": 3.0}
    reading = QUIET["readings"][0] | {"other_cores": 1.0}
    probe = {"before": costs, "after": costs}
    return QUIET | {"probe": probe, "readings": [reading], "neighbours": ["GPU-2"], "neighbour": at_work}


def build(records):
    return neighbours.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)


def without_second_gpu(records):
    ended = ("unsupported", "protocol.neighbour=reference needs a second NVIDIA H200")
    return {
        name: one
        if one["cell"]["protocol"]["neighbour"] == "none"
        else record(one["cell"], [], ended=ended, number=one["round"], foretold=1.0)
        for name, one in records.items()
    }
