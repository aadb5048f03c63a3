#!/usr/bin/env python3
"""Train a thousand networks on a table, and print the seconds and the best held-out score of each program.

    benchmarks/members.py --csv winequality-white.csv --target quality [--members 1000]
    benchmarks/members.py [--by ensemble torch_bmm sklearn] [--hidden 64,64] [--epochs 20] [--few 64]

A sweep of learning rates and weight decays, ten of each (two of each for fewer than 100 networks), and seeds:
each network has two hidden layers with biases, ReLU, Adam, batches of 64 in a new order in every epoch, and
the same number of epochs. A fifth of the rows is held out, and scored by R^2. `ensemble` and its peers train
all networks in one run, which is timed after a first one; the seconds of set-up (compiling, copies) are
separate. scikit-learn's MLPRegressor trains --few of them, one after the other in each process of --jobs, and
its seconds are scaled to all, as its row says; its score is the best of these few. Its alpha, weight_decay
times half the batch, gives the same gradient but for a factor of two, which Adam hardly sees. Without --csv
the table is scikit-learn's diabetes data or, without scikit-learn, one that a formula makes.
"""

import argparse
import sys
import tempfile
import time
import warnings
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from arguments import refused, whole
from steps import ROOT  # it puts snn on the path

from snn import backends
from snn.config import compose, groups
from snn.errors import SnnError
from snn.hardware.devices import find, usable_processors
from snn.measurement.accuracy import errors
from snn.measurement.cell import load_table
from snn.measurement.passes import job_of
from snn.strategies import factory
from snn.strategies.base import required
from snn.strategies.factory import Job

PROGRAMS = ("ensemble", "jax_vmap", "torch_bmm", "sklearn")
RATES = [float(f"{rate:.3g}") for rate in np.geomspace(3e-4, 3e-2, 10)]
DECAYS = [0.0, *(float(f"{decay:.3g}") for decay in np.geomspace(1e-6, 1e-1, 9))]


class Sweep(NamedTuple):
    """Learning rates, weight decays and seeds, whose combinations are the members."""

    rates: list[float]
    decays: list[float]
    seeds: list[int]

    @classmethod
    def of(cls, members: int) -> "Sweep":
        """At least so many members."""
        rates, decays = (RATES, DECAYS) if members >= 100 else (RATES[4:6], DECAYS[::8])
        return cls(rates, decays, [*range(1, -(-members // (len(rates) * len(decays))) + 1)])

    @property
    def every(self) -> list[tuple[float, float, int]]:
        return [(rate, decay, seed) for seed in self.seeds for rate in self.rates for decay in self.decays]


class Result(NamedTuple):
    """Seconds of set-up and of training; the score of each member; what was scaled."""

    setup: float
    seconds: float
    scores: dict[tuple[float, float, int], float]
    remark: str = ""


def table_without_file(folder: Path) -> tuple[Path, str, str]:
    """A table in a folder: its file, its target, and what it is."""
    try:
        from sklearn.datasets import load_diabetes

        bunch = load_diabetes()
        X, y, what = bunch.data, bunch.target, "scikit-learn's diabetes data"
    except ImportError:
        random = np.random.default_rng(1)
        X = random.normal(size=(4000, 11))
        y, what = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * random.normal(size=4000), "a formula's table"
    path = folder / "table.csv"
    names = ",".join([*(f"x{i}" for i in range(X.shape[1])), "y"])
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=names, comments="")
    return path, "y", what


def job(path: Path, target: str, given: argparse.Namespace) -> Job:
    """The training of one member. Raises SnnError."""
    settings = [f"dataset.path={path}", f"dataset.target={target}", f"network.hidden=[{given.hidden}]"]
    settings += ["network.bias=true", "network.update_order=simultaneous", "training.optimizer=adam"]
    settings += ["training.shuffle=epoch", "training.batch_size=64", f"training.epochs={given.epochs}"]
    cell = compose.composed(["dataset=csv", "device=cpu", *settings])
    return job_of(cell, load_table(cell, None))


def here(name: str, of: Job, sweep: Sweep, device: str) -> Result:
    """All members in one run of a strategy. Raises SnnError."""
    backend = backends.make(device, groups.load("kernel", "naive"), ROOT)
    lists = {"starts": 1, "seeds": sweep.seeds}
    lists |= {"learning_rates": sweep.rates, "weight_decays": sweep.decays}
    with closing(factory.make(groups.load("strategy", name) | lists, backend)) as strategy:
        strategy.check_network(of.network)
        started = time.perf_counter()
        strategy.setup(of.network, of.X, of.Y, of.batch_size, of.learning_rate)
        strategy.prepare(of.epochs)
        backend.synchronize()
        setup = time.perf_counter() - started
        weights = next(strategy.starts(of.network, of.seed))
        runs = 1 if backend.is_processor else 2  # the first one of a device is a warm-up
        for _ in range(runs):
            strategy.load(weights)
            backend.synchronize()
            started = time.perf_counter()
            strategy.train(of.epochs)
            backend.synchronize()
            seconds = time.perf_counter() - started
        strategy.check_trained()
        found, count = strategy.weights(), len(of.network.parameters)
        members = strategy.members(of.seed)
    each = (found[i : i + count] for i in range(0, len(found), count))
    scores = {key(one): score(of, own) for one, own in zip(members, each, strict=True)}
    return Result(setup, seconds, scores, strategy.plan or "")


def key(member: dict[str, Any]) -> tuple[float, float, int]:
    return member["learning_rate"], member["weight_decay"], member["seed"]


def score(of: Job, weights: list[np.ndarray]) -> float:
    """R^2 on the held-out rows; -inf if it is not finite."""
    assert of.test is not None
    r2 = errors(of.network, weights, *of.test).r2
    return r2 if r2 is not None and np.isfinite(r2) else -np.inf


def fit(of: Job, hidden: tuple[int, ...], member: tuple[float, float, int]) -> float:
    """The score of a member that MLPRegressor trains."""
    from sklearn.neural_network import MLPRegressor

    rate, decay, seed = member
    model = MLPRegressor(
        hidden_layer_sizes=hidden,
        alpha=decay * of.batch_size / 2,
        batch_size=of.batch_size,
        learning_rate_init=rate,
        max_iter=of.epochs,
        random_state=seed,
        tol=0.0,
        n_iter_no_change=of.epochs,
    )
    assert of.test is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        try:
            return float(model.fit(of.X, of.Y[:, 0]).score(of.test.X, of.test.targets))
        except ValueError as error:
            if "non-finite" not in str(error):
                raise
            return -np.inf  # it diverged


def by_sklearn(of: Job, hidden: tuple[int, ...], sweep: Sweep, few: int, jobs: int) -> Result:
    """Members one after the other, in each of so many processes. Raises SnnError without scikit-learn."""
    version = required("sklearn", "pip install scikit-learn").__version__
    import joblib

    every = sweep.every
    some = [every[i] for i in np.random.default_rng(1).permutation(len(every))[:few]]
    with joblib.Parallel(n_jobs=jobs) as run:
        run(joblib.delayed(abs)(1) for _ in range(jobs))  # starts the processes
        started = time.perf_counter()
        scores = run(joblib.delayed(partial(fit, of, hidden))(member) for member in some)
        seconds = (time.perf_counter() - started) * len(every) / len(some)
    scaled = f", {len(some)} members scaled to {len(every)}" if len(some) < len(every) else ""
    remark = f"scikit-learn {version}, {jobs} processes{scaled}"
    return Result(0.0, seconds, dict(zip(some, scores, strict=True)), remark)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--csv", type=Path)
    options.add_argument("--target", default="-1", help="name or number of the target's column")
    options.add_argument("--members", type=whole(1), default=1000, help="at least so many")
    options.add_argument("--hidden", default="64,64")
    options.add_argument("--epochs", type=whole(1), default=20)
    options.add_argument("--by", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    options.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    options.add_argument("--few", type=whole(1), default=64, help="members of MLPRegressor")
    options.add_argument("--jobs", type=whole(1), default=usable_processors())
    given = options.parse_args()
    sweep = Sweep.of(given.members)
    with refused(), tempfile.TemporaryDirectory() as folder:
        path, target, what = given.csv, given.target, str(given.csv)
        if path is None:
            path, target, what = table_without_file(Path(folder))
        of, device = job(path, target, given), find(given.device)
        print(
            f"{device.name}; {what}: {len(of.X)} rows of {of.X.shape[1]} features, "
            f"{len(of.test.X if of.test else ())} held out; {of.epochs} epochs, {len(sweep.every)} members\n",
            flush=True,
        )
        steps = len(sweep.every) * of.epochs * -(-len(of.X) // of.batch_size)
        figures = ("set-up s", "training s", "µs per network and step", "best R^2", "rate", "decay", "seed")
        heads = ("by", *figures, "")
        for cells in (heads, ["---"] * len(heads)):
            print(f"| {' | '.join(cells)} |", flush=True)
        for name in given.by:
            try:
                if name == "sklearn":
                    hidden = tuple(map(int, given.hidden.split(",")))
                    found = by_sklearn(of, hidden, sweep, given.few, given.jobs)
                else:
                    found = here(name, of, sweep, device.backend)
            except SnnError as error:
                print(f"| {name} |{' |' * (len(heads) - 2)} {error} |", flush=True)
                continue
            best = max(found.scores, key=lambda one: found.scores[one])
            numbers = (found.setup, found.seconds, 1e6 * found.seconds / steps)
            cells = [name, *(f"{number:.4g}" for number in numbers), f"{found.scores[best]:.4f}"]
            print(f"| {' | '.join([*cells, *map(str, best), found.remark])} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
