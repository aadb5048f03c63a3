"""A call of `snn recommend`, and the records and tables that its workflow would leave."""

import json

import pandas as pd
from records_of import record

from snn import cli, recommend
from snn.recommending import budget, candidates, crossover, question, workflow
from snn.recommending.budget import Length

ASKED = ["--device", "cpu", "--dataset", "small", "--output", "out"]


def main(arguments):
    """The status of `snn recommend`."""
    return cli.main(["recommend", *arguments])


def ask(arguments):
    """The question of a command line."""
    return question.ask(**cli.recommend.make_context("recommend", [*arguments]).params)


def work_in(folder, monkeypatch):
    """Let a recommendation find and leave its results in this folder instead of the checkout's."""
    monkeypatch.chdir(folder)
    for module in (budget, candidates, crossover, workflow, recommend):
        monkeypatch.setattr(module, "PROJECT", folder)


def measure(grid, folder, but=()):
    """Write the records that the workflow would, but for these strategies, and its tables."""
    for name, cell in grid.plan.cells.items():
        if cell["strategy"]["name"] in but:
            continue
        for number, path in enumerate(grid.present()[name], 1):
            made = record(cell, [1.0, 1.001, 0.999], number=number, device=cell["device"]["name"])
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(json.dumps(made))
    (folder / workflow.TABLE).parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"strategy": ["resident"]}).to_csv(folder / workflow.TABLE)


def paths(grid):
    """All records of a grid."""
    return [path for of_cell in grid.present().values() for path in of_cell]


def lengths(grid):
    """How long the runs of a grid train: epochs and rows."""
    return {
        Length(cell["training"]["epochs"], cell["dataset"].get("rows")) for cell in grid.plan.cells.values()
    }


def strategies(grid):
    """The names of a grid's candidates."""
    return {cell["strategy"]["name"] for cell in grid.plan.cells.values()}
