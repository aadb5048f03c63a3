"""Points of a grid with times of our choosing, and the first page of the report of them."""

import re

import pandas as pd
import yaml
from conftest import ROOT
from records_of import PROVENANCE, write_all

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.report import opening
from snn.tables import overview, recommendation

GPU = Device("cuda", "NVIDIA H200")
THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
SLOW, FAST, FASTER = ([base + i / 1000 for i in range(6)] for base in (4.0, 2.0, 1.0))
UNSURE = [0.6, 1.9, 0.7, 1.8, 0.65, 1.75]
THREE = {"strategy": ["reference", "combined", "pinned"]}


def cells_of(folder, settings, device=GPU):
    """The cells of a grid with one sweep of these settings, two rounds each."""
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": {"mine": {"protocol.rounds": 2} | settings}}))
    return sweeps.read(path, device)["mine"].cells


def points_of(folder, settings, seconds, on=GPU, **changed):
    """The frames of such a grid, whose cells took these seconds; ``changed`` as for ``write_all``."""
    expected = write_all(folder, cells_of(folder, settings, on), seconds, **changed)
    return overview.points_of(frame.checked(expected), THRESHOLDS)


def answers_of(points):
    """The tables ``overview`` and ``recommendation`` of these points."""
    table = overview.build(points, THRESHOLDS)
    return table, recommendation.build(points, table)


def opening_of(points, recommended=None, **changed):
    """The first page of the report of these points; ``recommended`` if it is not what they give."""
    table, of_points = answers_of(points)
    recommended = of_points if recommended is None else recommended
    return opening.fragment(recommended, table, points, origins(**changed), THRESHOLDS)


def text_of(page):
    """What a page says, without its elements."""
    page = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(re.sub("<[^>]*>", " ", page).split())


def origins(**changed):
    """A provenance table of one record."""
    known = {"cuda_runtime": "13.2", "cupy": "14.2", "numpy": "2.5"}
    return pd.DataFrame([PROVENANCE | known | changed])
