"""Claims whose rows are not archived yet: once measured, the rows of their grid give each a verdict."""

from functools import cache

import pytest
from conftest import ROOT
from records_of import HOST, MEMORY, PROVENANCE, THRESHOLDS, record

from snn.backends.cpu.limits import measure as cpu_limits
from snn.config.groups import CONFIG, read_yaml
from snn.files.published_sets import PUBLISHED
from snn.grid import catalogue, sweeps
from snn.hardware.devices import Device
from snn.hardware.limits import CYCLES, Limit, Measured
from snn.report import claims
from snn.tables.origin import device_limits
from snn.tables.table import build

GRIDS = {"cnn": "grid"}
"""The grid of a published set, if it has another name."""


def pending():
    """Each test whose table does not exist, with that table's name."""
    published = claims.published_tables()
    for source in claims.source_names():
        for name, claim in read_yaml(claims.SOURCES / f"{source}.yaml")["claims"].items():
            for i, test in enumerate(claim.get("tests", ())):
                tables = test["table"] if isinstance(test["table"], list) else [test["table"]]
                for table in tables:
                    if published(table) is None:
                        yield pytest.param(test, table, id=f"{source}.{name}.{i}")


@cache
def planned(of_set):
    """The sweeps of a set's grid on an NVIDIA H200 and its host."""
    return sweeps.read(CONFIG / f"{GRIDS.get(of_set, of_set)}.yaml", Device("cuda", "NVIDIA H200"), HOST)


@cache
def rows_of(table):
    """The rows of a table as its grid would give them, from records with made-up times."""
    _, of_set, name = table.split("/")
    if name == "device_limits":
        made = Measured(tuple(Limit(one.what, 1, CYCLES, "", (1.0,)) for one in cpu_limits().limits))
        return device_limits.build(made.plain() | {"provenance": PROVENANCE}).to_dict("records")
    entry = catalogue.TABLES.get(name, catalogue.TIDY_TABLE)
    swept = planned(of_set)
    axes = [] if name in catalogue.TABLES else swept[name].axes
    cells = sweeps.cells_of(name, swept).values()
    records = {str(i): record(cell, [1.0, 1.1]) | peak(i) for i, cell in enumerate(cells)}
    beside = axes or (read_yaml(ROOT / entry.published) if entry.published else {})
    made, _ = build(catalogue.table_form(name), records, beside, THRESHOLDS)
    return made.to_dict("records")


def peak(number):
    """Memory of which each cell needs less than the one before."""
    return {"memory": MEMORY | {"device": MEMORY["device"] | {"peak_bytes": 10**9 - number}}}


@pytest.mark.parametrize(("test", "table"), [*pending()])
def test_rows_of_the_grid_test_the_claim(test, table):
    assert (PUBLISHED / table.partition("/")[0]).is_dir()
    (finding,) = claims.find({**test, "table": table}, lambda _: rows_of(table), "it")
    assert finding.cases
