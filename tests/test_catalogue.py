"""The catalogue of tables and figures: what each is of, where the report lists it, and what it refuses."""

import pytest
from conftest import ROOT

from snn.config import groups
from snn.errors import ConfigError
from snn.grid import catalogue, sweeps
from snn.grid.catalogue import FIGURES, PAGES, TABLES, TIDY_FIGURE, TIDY_TABLE, Entry, Table, table_form
from snn.grid.sweep_checks import check_sweep
from snn.tables.table import find_table

OF_SIZES = ["correctness", "training_time", "speedup", "attribution", "memory", "timeline"]
OF_THEIR_NAMES = (
    "neurons",
    "depth",
    "precision",
    "cpu",
    "peers",
    "learning_rates",
    "neighbours",
    "memory_remedies",
)
OF_NETWORKS = {"attribution_neurons": "neurons", "attribution_depth": "depth"}
OURS = {name: TABLES[name] for name in (*OF_SIZES, *OF_NETWORKS, *OF_THEIR_NAMES, "recommend")}
"""Without those that somebody adds: of these nothing more is asked than of any table."""

CNN = {name: table for name, table in TABLES.items() if table.category == "The CNN report"}


def tables_where(key, tables=OURS):
    """Those of the tables that have a value of this field, with the value."""
    return {name: getattr(table, key) for name, table in tables.items() if getattr(table, key)}


def test_tables_with_published_values_are_those_that_have_a_file_of_them():
    published = tables_where("published", TABLES)
    of_the_paper = {file for file in published.values() if file.startswith("config/paper/")}
    files = {path.stem for path in (ROOT / "config/paper").glob("*.yaml")} - PAGES.keys()
    assert of_the_paper == {f"config/paper/{name}.yaml" for name in files}
    assert all((ROOT / file).is_file() for file in published.values())
    papers = {name for name, table in TABLES.items() if table.category == "The paper's tables"}
    assert {name for name, file in published.items() if file in of_the_paper} == papers


def test_tables_of_one_row_for_each_dataset_or_network():
    of_datasets = dict.fromkeys(OF_SIZES, "dataset")
    of_networks = dict.fromkeys(("neurons", "depth", *OF_NETWORKS), "network")
    assert tables_where("one_row_per") == of_datasets | of_networks


def test_correctness_and_the_timeline_show_some_cells_alone():
    assert tables_where("only") == {
        "correctness": {"dataset": "small", "precision": "fp32"},
        "timeline": {"dataset": "small"},
    }
    assert tables_where("also") == {"correctness": ("strategies", "kernels")}
    cell = {"dataset": {"name": "small"}, "precision": {"name": "fp32"}}
    assert TABLES["correctness"].holds(cell)
    assert TABLES["correctness"].holds({"dataset": {"name": "small"}})  # before there was a choice
    for section in cell:
        assert not TABLES["correctness"].holds(cell | {section: {"name": "other"}})
    assert TABLES["timeline"].holds(cell | {"precision": {"name": "other"}})
    assert TABLES["depth"].holds({})


def test_limits_stand_beside_peers_and_in_tidy_tables():
    assert tables_where("with_limits", TABLES) == {"peers": True, "cnn_peers": True}
    assert TIDY_TABLE.with_limits
    assert TIDY_TABLE.published is None and TIDY_TABLE.one_row_per is None and TIDY_TABLE.only == {}


def test_every_other_table_is_of_the_sweep_of_its_name():
    assert {name: table.sweep for name, table in OURS.items()} == {
        name: "dataset_size" if name in OF_SIZES else OF_NETWORKS.get(name, name) for name in OURS
    }
    for name in OURS:
        find_table(table_form(name))
    assert not tables_where("one_row_per", CNN)
    assert tables_where("only", CNN) == {"cnn_loader": {"strategy": "torch_loader"}}
    assert Table("x", "y", "z") == Table("x", "y", "z", None, (), {}, None, False, None)


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


def test_no_sweep_takes_a_name_that_is_taken():
    for name in ("correctness", "overview", "opening", "ranking", "time_by_depth", "gpu"):
        with pytest.raises(ConfigError) as refused:
            catalogue.check_name(name)
        assert str(refused.value) == f"sweeps.{name}: the name is taken by a table or figure"
    for name in ("neurons", "precision", "cpu", "sweep", "a"):
        catalogue.check_name(name)
    for name in ("A", "", "x" * 65, 3):
        with pytest.raises(ConfigError) as refused:
            catalogue.check_name(name)
        assert "is not the name of a sweep: it must be at most 64 letters a-z" in str(refused.value)


# ---- what a sweep lacks


def cell(strategy="reference", dataset="small", hidden=(64,)):
    return {
        "strategy": groups.load("strategy", strategy),
        "dataset": {"name": dataset},
        "precision": {"name": "fp32"},
        "network": {"hidden": list(hidden)},
    }


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
            "2 cells are reference with small, correctness.csv has room for one: give the sweep with the "
            "further axis a name of its own",
        ),
        ("neurons", [cell(), cell("combined")], ""),
        ("neurons", [cell(dataset="large"), cell("combined"), cell(hidden=(8, 4))], ""),
        ("neurons", [cell(dataset="large"), cell("combined", "large")], ""),
        ("neurons", [cell()], "strategy: combined is missing: neurons.csv divides by it"),
        ("depth", [cell("pinned")], "strategy: combined, reference is missing: depth.csv divides by it"),
        (
            "depth",
            [cell(), cell("combined"), cell("combined", "large"), cell("combined", "medium")],
            "3 cells are combined with 64, depth.csv has room for one: give the sweep with the further axis "
            "a name of its own",
        ),
        ("mine", [cell("pinned"), cell("pinned")], ""),
        ("mine", [cell("ensemble")], ""),
        ("learning_rates", [cell("ensemble")], ""),
        (
            "peers",
            [cell(), cell("ensemble")],
            "strategy: a run of ensemble trains several networks, and times in peers.csv are of one: give "
            "the sweep a name of its own",
        ),
        (
            "dataset_size",
            [cell(), cell("ensemble")],
            "strategy: a run of ensemble trains several networks, and times in training_time.csv are of one: "
            "give the sweep a name of its own",
        ),
    ],
)
def test_a_sweep_has_what_its_tables_need(sweep, cells, said):
    if said:
        with pytest.raises(ConfigError) as refused:
            check_sweep(sweep, cells)
        assert str(refused.value) == said
    else:
        check_sweep(sweep, cells)
