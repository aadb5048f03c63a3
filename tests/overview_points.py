"""Points of a grid with times of our choosing, and the first page of the report of them."""

import pandas as pd
import yaml
from conftest import ROOT
from records_of import PROVENANCE, write_all

from snn.config.groups import read_yaml
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.report import summary
from snn.tables import overview, recommendation

GPU = Device("cuda", "NVIDIA H200")
THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
SLOW, FAST, FASTER = ([base + i / 1000 for i in range(6)] for base in (4.0, 2.0, 1.0))
UNSURE = [0.6, 1.9, 0.7, 1.8, 0.65, 1.75]


def cells_of(folder, settings, device=GPU):
    """The cells of a grid with one sweep of these settings, two rounds each."""
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": {"mine": {"protocol.rounds": 2} | settings}}))
    return sweeps.read(path, device)["mine"].cells


def points_of(folder, settings, seconds, **provenance):
    """The frames of such a grid, whose cells took these seconds."""
    return overview.load(write_all(folder, cells_of(folder, settings), seconds, **provenance), THRESHOLDS)


def opening_of(points, table=None, **changed):
    """The first page of the report of these points."""
    table = overview.build(points, THRESHOLDS) if table is None else table
    recommended = recommendation.build(points, table)
    return summary.fragment(recommended, table, points, origins(**changed), THRESHOLDS)


def origins(**changed):
    """A provenance table of one record."""
    known = {"cuda_runtime": "13.2", "cupy": "14.2", "numpy": "2.5"}
    return pd.DataFrame([PROVENANCE | known | changed])
