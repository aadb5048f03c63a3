"""``snn recommend --crossover``: a GPU and its host's CPU at several widths or batch sizes."""

import re
import sys
import time
from collections.abc import Mapping, Sequence
from math import ceil, floor, prod
from pathlib import Path
from typing import Any

import pandas as pd

from snn.config.cell import Cell
from snn.config.groups import CONFIG, read_yaml
from snn.datasets import counts
from snn.errors import ConfigError, MeasurementError
from snn.files import outputs
from snn.grid import more_rounds
from snn.profiling.memory import count
from snn.recommending import PROJECT, budget, candidates, workflow
from snn.recommending.budget import Length, Pilot
from snn.recommending.candidates import Grid
from snn.recommending.question import TAKES_IMAGES, Question
from snn.tables import crossover

OUTPUTS = ("crossover.csv", "crossover.svg", "crossover.png")
_LINEAR = re.compile(r"^ *linear +(\d+)")

_PASS_SECONDS = 2.0
"""Seconds that the workflow takes to plan a round; the table and the figure take as long."""

_HALVINGS = 3
"""Most halvings of the time of a run before rounds or numbers are left out."""

_MARGIN = 1.2
"""Factor on the budget that is suggested: the next call's pilots and processes may take longer."""


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


def answer(question: Question, started: float) -> str:
    """Measure both devices at all numbers; write the table and the figure into the question's folder.

    Returns the sentence and the table as text. A number at which an epoch would take the CPU too long is left
    out, and runs train fewer epochs at some. ``started``, of the clock ``time.monotonic``, is when the budget
    began: if it is too short, runs train fewer epochs, then there are fewer rounds, and then numbers are left
    out. Raises ConfigError, with a budget that suffices, if that is not enough.
    """
    axis, choices = str(question.crossover), read_yaml(candidates.CHOICES)["crossover"]
    word = crossover.AXES[axis]
    targets = [outputs.checked(str(question.output / name), (), "--output") for name in OUTPUTS]
    numbers = choices[axis]
    if axis == "batch":
        numbers = [number for number in numbers if number <= _rows(question)] or numbers[:1]
    largest = list(_grid(question, {numbers[-1]: 1}).plan.cells.values())
    print(f"Training one epoch on both devices at a {word} of {numbers[-1]}.", file=sys.stderr)
    on_cpu = next(cell for cell in largest if cell.device.backend == "cpu")
    cpu = budget.run_pilot(on_cpu, question.budget)
    gpu = _pilot_on_gpu([cell for cell in largest if cell.device.backend != "cpu"], question.budget) or cpu
    deadline = started + question.budget + cpu.waited + (gpu.waited if gpu is not cpu else 0)
    seconds = {
        number: cpu.epoch * _work(question, number) / _work(question, numbers[-1]) for number in numbers
    }
    short = {number: one for number, one in seconds.items() if one <= choices["most_seconds"]}
    if not short:
        raise ConfigError(
            f"an epoch takes the CPU {min(seconds.values()):.2g} s or longer at each {word}, "
            f"and --crossover allows {choices['most_seconds']} s: train on fewer rows"
        )
    jobs = [(cpu if cell.device.backend == "cpu" else gpu).job for cell in largest]
    epochs = _epochs_that_fit(question, short, jobs, deadline - time.monotonic())
    notes = []
    for why, left_out in (
        ("an epoch would take the CPU too long", [one for one in numbers if one not in short]),
        (f"the budget is {question.budget:.0f} s", [one for one in short if one not in epochs]),
    ):
        if left_out:
            notes.append(f"Left out, since {why}: {', '.join(map(str, left_out))}.")
            print(notes[-1], file=sys.stderr)
    grid = _grid(question, epochs)
    rounds = _measure(grid, choices["rounds"], cpu.outside, deadline)
    if rounds < choices["rounds"]:
        notes.append(
            f"Measured {rounds} of {choices['rounds']} rounds: the budget of {question.budget:.0f} s is too "
            "short for more. Use a larger --budget to continue."
        )
    table, trained = tabulate(grid, axis)
    _write(table, axis, trained, targets)
    return "\n".join([f"\n{crossover.sentence(table, axis)}\n", crossover.text(table, axis), *notes])


def _pilot_on_gpu(cells: Sequence[Cell], seconds: float) -> Pilot | None:
    """The pilot of the first of these cells that can be trained; None if none can."""
    for cell in cells:
        try:
            return budget.run_pilot(cell, seconds)
        except MeasurementError:  # unsupported, for example; its record will say so
            continue
    return None


def _epochs_that_fit(
    question: Question, seconds: Mapping[int, float], jobs: Sequence[float], left: float
) -> dict[int, int]:
    """The epochs of a run at each number that is measured, so that its rounds take the seconds left.

    First runs get shorter, then there are fewer rounds, and then fewer numbers. ``seconds`` of an epoch on
    the CPU are given by number; ``jobs`` are the seconds of each candidate's process outside training. A
    GPU's runs are taken to be no longer than the CPU's. Raises ConfigError.
    """
    choices = read_yaml(candidates.CHOICES)["crossover"]
    runs = choices["runs"] + budget.BESIDE_RUNS

    def epochs_of(numbers: Sequence[int], run_seconds: float) -> dict[int, int]:
        return {
            number: min(question.cell.epochs, _power_of_two(run_seconds / seconds[number]))
            for number in numbers
        }

    def needed(epochs: Mapping[int, int], rounds: int) -> float:
        of_runs = sum(runs * count * seconds[number] for number, count in epochs.items())
        round_seconds = len(epochs) * sum(jobs) + len(jobs) * of_runs
        return float(_PASS_SECONDS + rounds * (_PASS_SECONDS + round_seconds))

    all_numbers = list(seconds)
    for step in range(1, max(2, len(all_numbers))):
        numbers = list(dict.fromkeys([*all_numbers[::step], all_numbers[-1]]))
        for rounds in range(choices["rounds"], 0, -1):
            for halved in range(_HALVINGS + 1):
                epochs = epochs_of(numbers, choices["run_seconds"] / 2**halved)
                if needed(epochs, rounds) <= left:
                    return epochs
    spent, at = question.budget - left, count(len(epochs), "number")
    raise ConfigError(
        f"One round of {len(jobs)} candidates on both devices at {at} takes about "
        f"{ceil(needed(epochs, 1))} s, and of the budget {max(floor(left), 0)} s are left: give --budget "
        f"{ceil(_MARGIN * (spent + needed(epochs, 1)))}s"
    )


def _measure(grid: Grid, rounds: int, outside: float, deadline: float) -> int:
    """Measure round after round of all cells until the next one would end after the deadline.

    Returns how many rounds there are. ``outside`` are the seconds of a job that its record does not count.
    """
    grid.limit_rounds()
    while True:
        if lacking := grid.missing():
            print(f"Measuring {count(len(lacking), 'cell')} on both devices.", file=sys.stderr, flush=True)
            deadline += workflow.measure(grid)
        records = grid.records().values()
        done = min(map(len, records))
        if done >= rounds:
            return done
        elapsed = [float(one["provenance"]["elapsed_seconds"]) for of_cell in records for one in of_cell]
        round_seconds = len(records) * (outside + sum(elapsed) / len(elapsed))
        if time.monotonic() + round_seconds + 2 * _PASS_SECONDS > deadline:
            return done
        more_rounds.add(dict.fromkeys(grid.plan.cells, done + 1), PROJECT / more_rounds.FILE)


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
    content = {
        **candidates.PROTOCOL,
        **{f"protocol.{key}": choices["runs"] for key in ("runs", "min_runs")},
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
