"""Points of a grid with times of our choosing, and the first page of the report of them."""

import re

import pandas as pd
from records_of import GPU, PROVENANCE, THRESHOLDS, halves, record, sweep_of

from snn.report import opening
from snn.tables import overview, recommendation

SLOW, FAST, FASTER = ([base + i / 1000 for i in range(6)] for base in (4.0, 2.0, 1.0))
UNSURE = [0.6, 1.9, 0.7, 1.8, 0.65, 1.75]
TWO = {"strategy": ["reference", "combined"]}
THREE = {"strategy": ["reference", "combined", "pinned"]}


def cells_of(settings, device=GPU):
    """The cells of a sweep of these settings, two rounds each."""
    return sweep_of(settings, device=device, defaults={"protocol.rounds": 2}).cells


def records_of_cells(cells, rounds, **given):
    """Records of cells; ``rounds`` has the runs of each round of each, ``given`` is as for ``record``."""
    return {
        f"{i} {number}": record(cell, runs, number=number, **given)
        for i, (cell, of_cell) in enumerate(zip(cells, rounds, strict=True))
        for number, runs in enumerate(of_cell, 1)
    }


def points_of(settings, seconds, on=GPU, **given):
    """The frames of such a sweep, whose cells took these seconds in two rounds."""
    records = records_of_cells(cells_of(settings, on), map(halves, seconds), **given)
    return overview.points_of(records, THRESHOLDS)


def answers_of(points):
    """The tables ``overview`` and ``recommendation`` of these points."""
    table = overview.build(points, THRESHOLDS)
    return table, recommendation.build(points, table)


def only(points):
    """The one row of the overview and of the recommendation of these points."""
    (row,), (advice,) = (table.to_dict("records") for table in answers_of(points))
    return row, advice


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
