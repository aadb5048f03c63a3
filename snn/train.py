"""``snn train``: train a network on a table once, and save it."""

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from snn import datasets
from snn.config.choices import BESIDE_THE_CELL
from snn.errors import ConfigError, DataError, Unsupported
from snn.files import outputs
from snn.files.outputs import say
from snn.hardware import devices
from snn.measurement.accuracy import accuracy, errors
from snn.models import saved
from snn.models.network import network_label
from snn.models.saved import SavedNetwork
from snn.models.validation import best_epoch
from snn.profiling.memory import count
from snn.recommending import earlier
from snn.recommending.question import USUAL, TrainingJob, ask_training
from snn.strategies.factory import Job
from snn.training import torch_models
from snn.training.fit import AUTO, TRIED, Fit, check_single, fit

DIVERGED = 3
_SECONDS = 1.0
"""Least time between two lines of progress."""


def train(
    settings: tuple[str, ...],
    csv: str,
    target: str,
    classify: bool,
    drop: str | None,
    save: str,
    overwrite: bool,
    **options: str | None,
) -> int:
    """Train, save and print the score; 0, or 3 if the loss is not finite, when nothing is saved."""
    _check_new(save, overwrite)
    given = [one for one in settings if one != f"strategy={AUTO}"]
    _check_init(given, options.get("model"))
    usual = {key: value for key, (value, _) in USUAL.items()}
    asked = ask_training(given, csv, target, classify, drop, options, usual, ("protocol", *BESIDE_THE_CELL))
    cell, table = asked.cell, asked.table
    if table is None or asked.job is None:
        raise ConfigError("snn train needs a table: --csv FILE --target COLUMN")
    keys = {one.partition("=")[0] for one in given}
    is_chosen = "strategy" in keys
    if others := [key for key in sorted(keys) if key.startswith(("kernel", "strategy.")) and not is_chosen]:
        raise ConfigError(
            f"{others[0]} is given without strategy=NAME: strategy=auto chooses the kernel, too"
        )
    check_single(cell["strategy"])
    named = [one["name"] for one in table.columns[:-1]]
    if twice := sorted({name for name in named if named.count(name) > 1}):
        raise DataError(f"{csv}: more than one column {twice[0]!r}: rename or remove the others")
    path = outputs.checked(save, datasets.inputs(cell["dataset"]), "--save")
    datasets.say_remarks(table)
    job = replace(asked.job, strategy=cell["strategy"] if is_chosen else {}, keeps_losses=True)
    device = devices.find(asked.device)
    devices.say_unused_gpu(asked.device, device)
    rows = f"{count(len(job.X), 'row')} of {count(job.X.shape[1], 'feature')}"
    epochs = count(job.epochs, "epoch")
    say(f"{network_label(cell['network'])} on {rows}, {epochs}, on {device.name}", sys.stderr)
    initial = torch_models.weights_of(asked.model, job.network) if asked.model is not None else None
    kernel = cell["kernel"] if is_chosen else None
    first = None if is_chosen else earlier.winner(cell, job.X.shape[1], device)
    try:
        found = fit(job, device.backend, kernel, cell.precision, initial, _Progress(job), first and first[:2])
    except Unsupported as error:
        if not is_chosen:
            raise
        strategy = f"strategy={cell.strategy}"
        raise Unsupported(
            f"{strategy} cannot train this: {error}; without {strategy}, one is chosen"
        ) from error
    if not is_chosen:
        say(f"strategy=auto: {_why(found, first, device.backend)}", sys.stderr)
        if first is None:
            chosen = {"csv": csv, "target": target, "drop": drop, **options}
            say(f"measure which is the fastest: {_measuring(asked, given, chosen, classify)}", sys.stderr)
    losses = found.losses or found.final_losses
    if not np.isfinite(losses[-1]):
        say(f"snn: the loss is {losses[-1]}: choose a smaller training.learning_rate", sys.stderr)
        return DIVERGED
    if best := best_epoch(found.validation_losses):
        kept = "; its weights are kept" if job.patience else ""
        least = f"{found.validation_losses[best - 1]:.6g}, after epoch {best}{kept}"
        say(f"epoch {len(losses)} of {job.epochs} was the last; least validation loss {least}", sys.stderr)
    print(f"{found.strategy}: {found.seconds:.3g} s, {_score(job, found.weights)}")
    saved.write(path, _described(asked, job, found))
    print(f"{save}: snn predict {save} NEW.csv > predictions.csv")
    return 0


def _check_new(save: str, overwrite: bool) -> None:
    """Raise ConfigError if the file exists and may not be replaced, or if its folder does not exist."""
    path = Path(save)
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"--save is {save!r}: the folder {path.parent} does not exist: create it first")
    if path.is_file() and not overwrite:
        raise ConfigError(f"--save is {save!r}: the file exists: --overwrite replaces it")


def _check_init(settings: Sequence[str], model: str | None) -> None:
    """Raise ConfigError if settings choose initial weights, and a model brings its own."""
    for one in settings if model is not None else ():
        if one.partition("=")[0] == "network.init":
            raise ConfigError(
                f"{one}: training starts from the weights of --model {model}: leave {one} out, or "
                "initialize the weights in that function"
            )


def _why(found: Fit, first: earlier.Winner | None, backend: str) -> str:
    """The reason for which ``auto`` chose the strategy of a fit."""
    rejected = [f"{name} cannot train this: {why}" for name, why in found.rejected.items()]
    names = ", ".join(name for name, _ in TRIED[backend])
    chosen = f"is the first of {names} that can train this"
    if first is not None and not rejected:
        compared = f"{first.compared} candidates that were measured here for such steps"
        chosen = f"has the shortest mean time of {compared}, on {first.date}"
    return "; ".join([f"{found.strategy} {chosen}", *rejected])


def _measuring(
    asked: TrainingJob, given: Sequence[str], chosen: Mapping[str, str | None], classify: bool
) -> str:
    """The command that ranks strategies for the same training job."""
    usual = [f"{key}={value}" for key, (value, _) in USUAL.items()]
    words = [word for key, value in chosen.items() if value for word in (f"--{key}", value)]
    words += ["--classify"] * classify
    settings = [one for one in usual if one in asked.settings and one not in given]
    return shlex.join(["snn", "recommend", *words, *given, *settings])


def _described(asked: TrainingJob, job: Job, found: Fit) -> SavedNetwork:
    settings = {key: value for key, value in asked.cell.items() if key not in BESIDE_THE_CELL}
    settings["strategy"] = {**job.strategy, "name": found.strategy}
    assert asked.table is not None
    return SavedNetwork(job.network, found.weights, asked.table.columns, settings)


def _score(job: Job, weights: list[np.ndarray]) -> str:
    """The score on the rows that were held out, in words."""
    test = job.test
    if test is None:
        return "no rows were held out (dataset.held_out)"
    if job.is_classification:
        return f"accuracy {accuracy(job.network, weights, test.X, test.targets):.4g} on {_rows(test.X)}"
    found = errors(job.network, weights, *test)
    r2 = "undefined" if found.r2 is None else f"{found.r2:.4g}"
    return f"R² {r2}, root mean squared error {found.rmse:.4g} on {_rows(test.X)}"


def _rows(X: np.ndarray) -> str:
    return f"{count(len(X), 'row')} held out of training"


class _Progress:
    """Prints epochs and losses to standard error, at most every second, and the last one."""

    def __init__(self, job: Job) -> None:
        self._epochs, self._last = job.epochs, time.monotonic()

    def __call__(self, done: float, loss: float | None, validation_loss: float | None) -> None:
        now = time.monotonic()
        if now - self._last < _SECONDS and done < self._epochs:
            return
        self._last = now
        losses = {"loss": loss, "validation loss": validation_loss}
        said = [f"{name} {value:.6g}" for name, value in losses.items() if value is not None]
        say(", ".join([f"epoch {done:.0f} of {self._epochs}", *said]), sys.stderr)
