"""Figures of the paper's tables: from equal tables the same bytes, and drawn where there is no ratio."""

import pytest
from figure_layout import said_in
from records_of import write_all
from test_paper_tables import PAPER, SWEEPS, THRESHOLDS

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.figures import speedup_vs_neurons, style, time_by_depth
from snn.grid.catalogue import table_form
from snn.tables.table import find_table


def table_of(folder, name, paper):
    rows = frame.load(write_all(folder, SWEEPS[name].cells, [[1.0, 1.5]] * 6), THRESHOLDS)
    return find_table(table_form(name)).build(rows, paper, THRESHOLDS)


@pytest.mark.parametrize(("name", "module"), [("neurons", speedup_vs_neurons), ("depth", time_by_depth)])
def test_figures_are_the_same_bytes_twice(tmp_path, name, module):
    table = table_of(tmp_path, name, read_yaml(PAPER / f"{name}.yaml"))
    found = []
    for number in range(2):
        path = tmp_path / f"{number}.svg"
        style.save(module.draw(table, "Tesla T4"), [str(path)])
        found.append(path.read_bytes())
    assert found[0] == found[1]
    assert b"<svg" in found[0]


def test_a_figure_without_any_ratio_is_drawn(tmp_path):
    table = table_of(tmp_path, "neurons", {})
    ratios = ["speedup", "speedup_ci_low", "speedup_ci_high"]
    figure = speedup_vs_neurons.draw(table.assign(**dict.fromkeys(ratios, float("nan"))), "Tesla T4")
    assert "NVIDIA H200" in said_in(figure)
