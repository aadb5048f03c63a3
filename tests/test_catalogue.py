"""The catalogue of tables and figures: what each is of, where the report lists it, and what it refuses."""

import pytest
from conftest import ROOT

from snn.config import groups
from snn.config.cell import Cell
from snn.errors import ConfigError
from snn.grid import catalogue, sweeps
from snn.grid.catalogue import FIGURES, PAGES, TABLES, TIDY_FIGURE, TIDY_TABLE, Entry, table_form
from snn.grid.sweeps import check_sweep
from snn.tables.table import find_table

OF_SIZES = ["correctness", "training_time", "speedup", "attribution", "memory", "timeline"]
OURS = {*OF_SIZES, "neurons", "depth", "attribution_neurons", "attribution_depth"}
"""Without those that somebody adds: of these nothing more is asked than of any table."""


def test_tables_with_published_values_are_those_that_have_a_file_of_them():
    published = {name: table.published for name, table in TABLES.items() if table.published}
    of_the_paper = {file for file in published.values() if file.startswith("config/paper/")}
    files = {path.stem for path in (ROOT / "config/paper").glob("*.yaml")} - PAGES.keys()
    assert of_the_paper == {f"config/paper/{name}.yaml" for name in files}
    assert all((ROOT / file).is_file() for file in published.values())
    of_cnn = {path.stem for path in (ROOT / "config/cnn_report").glob("*.yaml")} & TABLES.keys()
    assert {f"config/cnn_report/{name}.yaml" for name in of_cnn} <= {*published.values()}
    papers = {name for name, table in TABLES.items() if table.category == "The paper's tables"}
    assert {name for name, file in published.items() if file in of_the_paper} == papers


def test_correctness_and_the_timeline_show_some_cells_alone():
    cell = {"dataset": {"name": "small"}, "precision": {"name": "fp32"}}
    assert TABLES["correctness"].holds(cell)
    assert TABLES["correctness"].holds({"dataset": {"name": "small"}})  # before there was a choice
    for section in cell:
        assert not TABLES["correctness"].holds(cell | {section: {"name": "other"}})
    assert TABLES["timeline"].holds(cell | {"precision": {"name": "other"}})
    assert TABLES["depth"].holds({})


def test_every_table_has_its_form():
    for name in (*PAGES, *TABLES):
        assert find_table(table_form(name))


def test_the_menu_has_the_headings_of_its_category():
    assert Entry("Overview", "x").labels("table") == {"table": "x"}
    assert Entry("The paper's figures", "x").labels("figure") == {"figure": "x"}
    assert Entry("Why", "x").labels("figure") == {"what": "x", "form": "figure"}
    assert TIDY_TABLE.labels("table") == {"sweep": "{table}", "form": "table"}
    assert TIDY_FIGURE.labels("figure") == {"sweep": "{figure}", "form": "figure"}
    for entry in (*TABLES.values(), *FIGURES.values(), *PAGES.values()):
        assert entry.labels("table")


def test_sweeps_give_tables_and_figures():
    assert own_tables("neurons", "mine") == ["neurons", "attribution_neurons"]
    assert [name for name in own_tables("dataset_size") if name in OURS] == OF_SIZES
    assert catalogue.sweep_tables(["neurons", "mine", "strategies", "dataset_size"]) == [
        *("mine", "strategies", "dataset_size")
    ]
    assert catalogue.own_figures(["neurons", "strategies"]) == ["speedup_vs_neurons", "ranking"]
    of_sizes = catalogue.own_figures(OF_SIZES)
    assert [name for name in of_sizes if FIGURES[name].table in OURS] == ["attribution", "timeline"]
    assert catalogue.own_figures([]) == []


def own_tables(*names, cells=None):
    """Of sweeps of these names, each with these cells."""
    named = {str(number): one for number, one in enumerate(cells or [cell()])}
    return sweeps.own_tables({name: sweeps.Sweep(name, (), named) for name in names})


@pytest.mark.parametrize(
    ("name", "cells", "has_errors"),
    [
        ("strategies", [("reference", "small"), ("graph", "small")], True),
        ("kernels", [("reference", "small"), ("reference", "medium")], True),
        ("strategies", [("graph", "small"), ("reference", "medium")], False),
        ("networks", [("reference", "small")], False),
    ],
    ids=["another sweep", "another one", "no reference on small", "a sweep that it is not of"],
)
def test_errors_are_compared_with_a_reference_of_any_sweep_that_has_one(name, cells, has_errors):
    """A published set may have the sweep of all strategies alone: its errors are those of Table III."""
    assert ("correctness" in own_tables(name, cells=[cell(*each) for each in cells])) == has_errors


# ---- what a sweep lacks


def cell(strategy="reference", dataset="small", hidden=(64,)):
    sections = {
        "dataset": {"name": dataset},
        "precision": {"name": "fp32"},
        "network": {"hidden": list(hidden)},
    }
    return Cell(strategy=groups.load("strategy", strategy), **sections)


ROOM = "has room for one: give the sweep with the further axis a separate name"
SEVERAL = "shows times of one: give the sweep a separate name"


@pytest.mark.parametrize(
    ("sweep", "cells", "said"),
    [
        ("dataset_size", [cell(), cell(dataset="large")], ""),
        ("dataset_size", [cell(), cell("pinned")], ""),
        ("dataset_size", [cell("pinned")], "strategy: reference is missing: correctness.csv divides by it"),
        ("dataset_size", [cell(dataset="large")], "dataset: small is missing: correctness.csv is about it"),
        (
            "dataset_size",
            [cell(), cell(hidden=(8,))],
            f"2 cells are reference with small, correctness.csv {ROOM}",
        ),
        ("neurons", [cell(), cell("combined")], ""),
        ("neurons", [cell(dataset="large"), cell("combined"), cell(hidden=(8, 4))], ""),
        ("neurons", [cell(dataset="large"), cell("combined", "large")], ""),
        ("neurons", [cell()], "strategy: combined is missing: neurons.csv divides by it"),
        ("depth", [cell("pinned")], "strategy: combined, reference is missing: depth.csv divides by it"),
        (
            "depth",
            [cell(), *(cell("combined", dataset) for dataset in ("small", "large", "medium"))],
            f"3 cells are combined with 64, depth.csv {ROOM}",
        ),
        ("mine", [cell("pinned"), cell("pinned")], ""),
        ("mine", [cell("ensemble")], ""),
        ("learning_rates", [cell("ensemble")], ""),
        ("peers", [cell(), cell("ensemble")], f"peers.csv {SEVERAL}"),
        ("dataset_size", [cell(), cell("ensemble")], f"training_time.csv {SEVERAL}"),
    ],
)
def test_a_sweep_has_what_its_tables_need(sweep, cells, said):
    if said:
        with pytest.raises(ConfigError) as refused:
            check_sweep(sweep, cells)
        assert said in str(refused.value)
    else:
        check_sweep(sweep, cells)
