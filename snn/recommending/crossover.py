"""``snn recommend --crossover``: a GPU and its host's CPU at several widths or batch sizes."""

import re
import sys
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import pandas as pd

from snn.config.groups import CONFIG, read_yaml
from snn.datasets import counts
from snn.errors import ConfigError
from snn.files import outputs
from snn.recommending import budget, candidates, workflow
from snn.recommending.budget import Length
from snn.recommending.candidates import Grid
from snn.recommending.question import TAKES_IMAGES, Question
from snn.tables import crossover

OUTPUTS = ("crossover.csv", "crossover.svg", "crossover.png")
_LINEAR = re.compile(r"^ *linear +(\d+)")


def check(question: Question, backend: str) -> None:
    """Raise ConfigError if there is nothing to compare, or no width that could be changed."""
    if backend == "cpu":
        raise ConfigError(
            "--crossover compares a GPU with the CPU of its host, and no GPU is used here, so there is "
            "nothing to compare: run it on a machine with a GPU"
        )
    if question.crossover == "width" and not _hidden(question.cell["network"]):
        raise ConfigError(
            "--crossover is width, and this network has convolutions or no hidden layer: choose batch"
        )


def answer(question: Question) -> str:
    """Measure both devices at all numbers; write the table and the figure into the question's folder.

    Returns the sentence and the table as text. A number at which an epoch would take the CPU too long is left
    out, and runs train fewer epochs at some.
    """
    axis, choices = str(question.crossover), read_yaml(candidates.CHOICES)["crossover"]
    targets = [outputs.checked(str(question.output / name), (), "--output") for name in OUTPUTS]
    numbers = choices[axis]
    if axis == "batch":
        numbers = [number for number in numbers if number <= _rows(question)] or numbers[:1]
    largest = _grid(question, {numbers[-1]: 1}).plan.cells.values()
    on_cpu = next(cell for cell in largest if cell.device.backend == "cpu")
    print(f"Training one epoch on the CPU at a {crossover.AXES[axis]} of {numbers[-1]}.", file=sys.stderr)
    epoch = budget.run_pilot(on_cpu, question.budget).epoch
    seconds = {number: epoch * _work(question, number) / _work(question, numbers[-1]) for number in numbers}
    epochs = {
        number: min(question.cell.epochs, _power_of_two(choices["run_seconds"] / one))
        for number, one in seconds.items()
        if one <= choices["most_seconds"]
    }
    if not epochs:
        raise ConfigError(
            f"an epoch takes the CPU {min(seconds.values()):.2g} s or longer at each {crossover.AXES[axis]}, "
            f"and --crossover allows {choices['most_seconds']} s: train on fewer rows"
        )
    grid = _grid(question, epochs)
    print(f"Measuring {len(grid.missing())} cells on both devices.", file=sys.stderr, flush=True)
    workflow.measure(grid)
    table, trained = tabulate(grid, axis)
    _write(table, axis, trained, targets)
    left_out = ", ".join(str(number) for number in numbers if number not in epochs)
    note = f"\nLeft out, as an epoch would take the CPU too long: {left_out}." if left_out else ""
    return f"\n{crossover.sentence(table, axis)}\n\n{crossover.text(table, axis)}{note}"


def _power_of_two(number: float) -> int:
    """The largest power of two up to a number, or 1: another call with another pilot has the same, mostly."""
    return 1 << max(int(number).bit_length() - 1, 0)


def tabulate(grid: Grid, axis: str) -> tuple[pd.DataFrame, str]:
    """The table of a grid's records, and what they train, in words."""
    from snn.figures.trained import of_records

    thresholds, records = read_yaml(CONFIG / "verdicts.yaml"), grid.records()
    cells = candidates.tabulate(records, thresholds)
    trained = of_records(one for of_cell in records.values() for one in of_cell)
    return crossover.build(cells, axis, thresholds), trained


def _write(table: pd.DataFrame, axis: str, trained: str, targets: list[Path]) -> None:
    from snn.figures import curves, layout

    with outputs.replaced(targets[0]) as file:
        file.write(crossover.shown(table, axis).to_csv(index=False).encode())
    figure = curves.crossover(crossover.AXES[axis])(table, trained=trained)
    layout.save(figure, [*map(str, targets[1:])])


def _grid(question: Question, epochs: Mapping[int, int]) -> Grid:
    """The grid of both devices at these numbers, each with its epochs."""
    choices = read_yaml(candidates.CHOICES)["crossover"]
    union = [
        {**_point(question, number), "training.epochs": each, **candidate}
        for number, each in epochs.items()
        for candidate in candidates.with_fitting_threads(choices["candidates"])
    ]
    rounds = choices["rounds"]
    content = {
        **candidates.PROTOCOL,
        "protocol.rounds": rounds,
        **{f"protocol.{key}": rounds * choices["runs"] for key in ("runs", "min_runs")},
        **question.sweep,
        "union": union,
    }
    return candidates.write_content(content, "cuda", Length(question.cell.epochs))


def _point(question: Question, number: int) -> dict[str, Any]:
    """The settings of a number. Networks wider than the question's get lower rates, so as not to diverge."""
    if question.crossover == "batch":
        return {"training.batch_size": number}
    network, rate = question.cell["network"], question.cell["training"]["learning_rate"]
    point: dict[str, Any]
    if "hidden" in network:
        own, point = max(network["hidden"]), {"network.hidden": [[number] * len(network["hidden"])]}
    else:
        *hidden, last = network["layers"]
        own = max(int(found[1]) for found in map(_LINEAR.match, hidden) if found)
        wide = [_LINEAR.sub(f"linear {number}", layer) for layer in hidden]
        point = {"network.layers": [[*wide, last]]}
    return point | ({"training.learning_rate": rate * own / number} if number > own else {})


def _hidden(network: Mapping[str, Any]) -> int:
    """The number of hidden linear layers; 0 for a network that takes images."""
    if "hidden" in network:
        return len(network["hidden"])
    if TAKES_IMAGES.match(str(network["layers"])):
        return 0
    return sum(bool(_LINEAR.match(layer)) for layer in network["layers"][:-1])


def _rows(question: Question) -> int:
    dataset, table = question.cell["dataset"], question.table
    return counts(len(table.values), dataset)[0] if table is not None else int(dataset["rows"])


def _work(question: Question, number: int) -> float:
    """The weights of the network at a number, to which the time of an epoch is about proportional."""
    if question.crossover == "batch":
        return 1
    dataset, table = question.cell["dataset"], question.table
    features = table.values.shape[1] - 1 if table is not None else prod(dataset.get("shape", [0]))
    features = features or int(dataset.get("features") or 1)
    return number * (features + (_hidden(question.cell["network"]) - 1) * number + 1)
