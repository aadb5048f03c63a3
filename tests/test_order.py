"""The order of the cells in a pass, and what a record knows of its pass."""

import itertools
import os
import shutil

import pytest
from conftest import ROOT
from project import NOT_OF_WORKFLOW, Project

from snn.config.cell import Cell
from snn.grid import order
from snn.hardware import host

NAMES = [f"cell{i}" for i in range(12)]
STRATEGIES = ["reference", "combined", "streams", "pinned", "sequential"]
GRID = {
    "device": "cpu",
    "defaults": {
        **{"dataset": "small", "training.epochs": 1, "protocol.runs": 4, "protocol.rounds": 4},
        **{"protocol.warmup_seconds": 0, "protocol.max_warmup_seconds": 0},
    },
    "sweeps": {"order": {"strategy": STRATEGIES}},
}


@pytest.fixture(autouse=True)
def seed(monkeypatch):
    for name in (order.RUN, order.POSITION):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(order.SEED, "a seed")


def is_first(places):
    """For every two cells, whether the first comes first."""
    return {pair: places[pair[0]] < places[pair[1]] for pair in itertools.combinations(sorted(places), 2)}


@pytest.mark.parametrize("number", [1, 3, 9])
def test_over_two_rounds_every_two_cells_come_in_both_orders(number):
    one, two = (order.positions(NAMES, n) for n in (number, number + 1))
    assert sorted(one.values()) == sorted(two.values()) == list(range(1, 13))
    assert all(is_first(one)[pair] != found for pair, found in is_first(two).items())
    assert {one[name] + two[name] for name in NAMES} == {13}


def test_the_order_is_drawn_from_seed_and_round_and_another_grid_keeps_it(monkeypatch):
    first = order.positions(NAMES, 1)
    assert first == order.positions(reversed(NAMES), 1)
    assert list(first) not in (NAMES, list(order.positions(NAMES, 3)))
    some = is_first(order.positions(NAMES[::2], 1))
    assert some.items() <= is_first(first).items()
    monkeypatch.setenv(order.SEED, "another")
    assert first != order.positions(NAMES, 1)


def test_each_cell_comes_early_as_often_as_late():
    """Over many draws: the mean position of each of twelve is 6.5, within four standard errors."""
    draws = [order.positions(NAMES, 2 * i + 1) for i in range(500)]
    for name in NAMES:
        assert abs(sum(draw[name] for draw in draws) / 500 - 6.5) < 4 * (143 / 12 / 500) ** 0.5


def test_a_job_knows_its_run_and_position(monkeypatch):
    assert order.describe_job() is None
    order.begin_run()
    assert order.describe_job()["position"] is None
    monkeypatch.setenv(order.POSITION, "3")
    found = order.describe_job()
    assert found == {"run": os.environ[order.RUN], "seed": os.environ[order.SEED], "position": 3}
    order.begin_run()
    again = order.describe_job()
    assert again["run"] != found["run"] and again["seed"] == found["seed"]


def test_a_host_is_named_by_hashes(monkeypatch, tmp_path):
    for name in ("_MACHINE_ID", "_BOOT_ID"):
        monkeypatch.setattr(host, name, tmp_path / name)
    assert host.identity() == {"id": None, "boot": None}
    (tmp_path / "_MACHINE_ID").write_text("")
    (tmp_path / "_BOOT_ID").write_text("01728beb\n")
    found = host.identity()
    assert found["id"] is None and len(found["boot"]) == 16 and "01728beb" not in found["boot"]


def test_a_workflow_measures_the_cells_in_this_order(tmp_path):
    project = Project(tmp_path / "project")
    shutil.copytree(ROOT, project.folder, ignore=NOT_OF_WORKFLOW)
    project.write_grid(GRID)
    project.snakemake("results/tables/order.csv", cores=1)
    rounds = {}
    for path, record in project.records().items():
        rounds.setdefault(record["round"], []).append((path.stat().st_mtime_ns, record))
    orders = {}
    for number, found in rounds.items():
        records = [record for _, record in sorted(found, key=lambda one: one[0])]
        orders[number] = [Cell(record["cell"]).strategy for record in records]
        assert [record["provenance"]["workflow"]["position"] for record in records] == [1, 2, 3, 4, 5]
    assert orders[2] == orders[1][::-1] and orders[4] == orders[3][::-1] and orders[3] != orders[1]
    provenances = [record["provenance"] for found in rounds.values() for _, record in found]
    runs = {(one["workflow"]["run"], one["workflow"]["seed"]) for one in provenances}
    assert len(runs) == 1 and None not in runs.pop()
    assert {tuple(host.identity().items())} == {
        (("id", one["host"]["id"]), ("boot", one["host"]["boot"])) for one in provenances
    }
