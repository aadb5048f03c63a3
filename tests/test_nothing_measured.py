"""Grids of which no cell was measured, or none in fp32: every table and figure is there, with empty times."""

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from project import TINY
from records_of import HOST, QUIET, THRESHOLDS, limits_of, record

from snn.config.groups import read_yaml
from snn.figures import draw
from snn.figures import sweep as sweep_figure
from snn.figures.layout import save
from snn.grid import catalogue, naming, sweeps
from snn.grid.catalogue import table_form
from snn.hardware.devices import Device
from snn.report import opening
from snn.report.write import to_html, write
from snn.tables import overview, recommendation
from snn.tables.origin import provenance
from snn.tables.table import build

REASON = "torch cannot be imported"
PEERS = {"strategy": ["torch_eager", "jax_scan"], "network.hidden": [[4], [8]]}
GRID = {
    "defaults": TINY["defaults"],
    "sweeps": {**TINY["sweeps"], "mine": PEERS, "one": {"strategy": "pool"}},
}


def swept(folder, grid):
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(grid))
    return sweeps.read(path, Device("cuda", "NVIDIA H200", "GPU-1", "580.1"), HOST)


def unsupported(cells):
    """Records of these cells, all of them unsupported."""
    quiet = QUIET | {"probe": {"before": {}, "after": {}}, "readings": []}
    ended = {"machine": quiet, "ended": ("unsupported", REASON)}
    return {
        naming.record_path(name, number): record(cell, [], number=number, **ended)
        for name, cell in cells.items()
        for number in cell.rounds
    }


TIDY = catalogue.sweep_tables(GRID["sweeps"])


@pytest.mark.parametrize(
    "name", [*(name for name, entry in catalogue.TABLES.items() if entry.sweep in GRID["sweeps"]), *TIDY]
)
def test_tables_and_figures_of_cells_that_are_all_unsupported(tmp_path, name):
    grid = swept(tmp_path, GRID)
    entry = catalogue.TABLES.get(name, catalogue.TIDY_TABLE)
    paper = read_yaml(ROOT / entry.published) if entry.published else {}
    beside = grid[name].axes if name in TIDY else paper
    records = unsupported(sweeps.cells_of(name, grid))
    limits = [limits_of()] if entry.with_limits else []
    made, title = build(table_form(name), records, beside, THRESHOLDS, limits)
    csv, page = tmp_path / "table.csv", tmp_path / "table.html"
    write(made, str(csv), str(page), title.format(name))
    table = pd.read_csv(csv)
    figures = [of.form or figure for figure, of in catalogue.FIGURES.items() if of.table == name]
    drawn = [draw(form, table, "Tesla T4") for form in figures]
    if name in TIDY:
        assert set(table["status"]) == {"unsupported"} and table["mean_s"].isna().all()
        drawn.append(sweep_figure.draw(table, grid[name].axes, name))
    for i, figure in enumerate(drawn):
        save(figure, [str(tmp_path / f"{i}.svg")])


@pytest.mark.parametrize(
    "settings",
    [PEERS, {"strategy": "pool"}, {"strategy": "resident", "kernel": "tensor_core", "precision": "tf32"}],
    ids=["peers", "one", "no fp32"],
)
def test_the_report_of_cells_that_are_all_unsupported(settings, tmp_path):
    cells = sweeps.all_cells(swept(tmp_path, {"sweeps": {"x": settings}}))
    records = unsupported(cells)
    points, origins = overview.points_of(records, THRESHOLDS), provenance.build(records)
    table = overview.build(points, THRESHOLDS)
    recommended = recommendation.build(points, table)
    write(recommended, str(tmp_path / "r.csv"), str(tmp_path / "r.html"), recommendation.TITLE)
    read = pd.read_csv(tmp_path / "r.csv")
    assert read.empty
    assert {"case", "strategy", "mean_s", "reason", "verdict", "lead_verdict", "device"} <= set(read)
    said = recommendation.with_sentences(table)
    assert list(said["answer"].unique()) == ["No strategy finished."] * bool(len(table))
    to_html(said, overview.TITLE, opening.summary(table, points, origins))
    page = opening.fragment(recommended, table, points, origins, THRESHOLDS)
    assert "Nothing to compare" in page
    if len(points):
        assert REASON in page
