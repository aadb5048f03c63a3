#!/usr/bin/env python3
"""Score and seconds of estimators on small tables: scikit-learn's, PyTorch's and this program's.

    benchmarks/estimators.py [--device cpu] [--epochs 200] [--repeats 3] [--tables friedman digits]
    benchmarks/estimators.py --csv wine.csv --target quality [--classify]

All train perceptrons of two hidden layers of 64 on standardised features, by Adam with a rate of 0.001 and
shuffled batches of 64, for the same number of epochs. The score, R² or accuracy, is of a quarter of the rows,
which are not trained on. Seconds are of a whole fit, after one that is not timed: the median of the repeats,
with the smallest and the largest. Tables and programs whose package is not installed are left out.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from arguments import refused, whole

from snn.datasets import csv_table
from snn.estimators import MLPClassifier, MLPRegressor
from snn.hardware import devices

HIDDEN, RATE, BATCH, SEED = (64, 64), 1e-3, 64, 1
HAS_SKLEARN, HAS_TORCH = (find_spec(name) is not None for name in ("sklearn", "torch"))


def friedman() -> tuple[np.ndarray, np.ndarray]:
    """Friedman's first problem (1991): 2,000 rows of 10 features, with noise of standard deviation 1."""
    random = np.random.RandomState(0)
    X = random.uniform(size=(2000, 10))
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, signal + random.normal(size=2000)


def spirals() -> tuple[np.ndarray, np.ndarray]:
    """Three noisy spirals in the plane: 1,500 rows, three classes."""
    random = np.random.RandomState(0)
    radius, label = random.uniform(0.2, 1, 1500), np.arange(1500) % 3
    angle = 2 * np.pi * (radius + label / 3) + 0.1 * random.normal(size=1500)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), label


def of_sklearn(name: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def load() -> tuple[np.ndarray, np.ndarray]:
        from sklearn import datasets

        return getattr(datasets, f"load_{name}")(return_X_y=True)

    return load


def of_csv(path: str, target: str, classify: bool) -> tuple[np.ndarray, np.ndarray]:
    task = "classification" if classify else "regression"
    column = int(target) if target.lstrip("-").isdigit() else target
    values = csv_table.make(path, column, task=task, text_columns="one_hot", missing="drop_rows").values
    return values[:, :-1], values[:, -1].astype(int if classify else float)


TABLES = {"friedman": friedman, "spirals": spirals}
if HAS_SKLEARN:
    TABLES |= {name: of_sklearn(name) for name in ("diabetes", "wine", "digits")}


class Torch:
    """The usual program: data on the device, a new order in each epoch, autograd, Adam."""

    def __init__(self, device: str, epochs: int, classes: int) -> None:
        self.device, self.epochs, self.classes = device, epochs, classes

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        import torch
        from torch import nn

        torch.set_num_threads(1)  # more take longer for steps this small
        torch.manual_seed(SEED)
        widths = [X.shape[1], *HIDDEN]
        hidden = [
            layer for k, n in zip(widths, HIDDEN, strict=False) for layer in (nn.Linear(k, n), nn.ReLU())
        ]
        self.model = nn.Sequential(*hidden, nn.Linear(HIDDEN[-1], self.classes or 1)).to(self.device)
        X = torch.tensor(X, dtype=torch.float32, device=self.device)
        kind = torch.int64 if self.classes else torch.float32
        y = torch.tensor(y, dtype=kind, device=self.device)
        loss_of = nn.CrossEntropyLoss() if self.classes else nn.MSELoss()
        optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE)
        for _ in range(self.epochs):
            order = torch.randperm(len(X), device=self.device)
            for rows in order.split(BATCH):
                optimizer.zero_grad()
                outputs = self.model(X[rows])
                loss_of(outputs if self.classes else outputs[:, 0], y[rows]).backward()
                optimizer.step()
        self.loss = loss_of(
            outputs if self.classes else outputs[:, 0], y[rows]
        ).item()  # waits for the device

    def score(self, X: np.ndarray, y: np.ndarray) -> float:
        import torch

        with torch.no_grad():
            outputs = self.model(torch.tensor(X, dtype=torch.float32, device=self.device)).cpu().numpy()
        if self.classes:
            return float(np.mean(outputs.argmax(axis=1) == y))
        return float(1 - np.square(outputs[:, 0] - y).sum() / np.square(y - y.mean()).sum())


def programs(device: str, epochs: int, classes: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each program's name, and a function that returns a new estimator of it."""
    usual = {"hidden_layer_sizes": HIDDEN, "batch_size": BATCH, "learning_rate_init": RATE, "alpha": 0.0}
    usual |= {"max_iter": epochs, "random_state": SEED}
    ours = MLPClassifier if classes else MLPRegressor
    yield f"snn, {device}", lambda: ours(**usual, device=device)
    if device == "cuda":
        yield "snn, cuda, without loss_curve", lambda: ours(**usual, device=device, loss_curve=False)
        yield "snn, cpu", lambda: ours(**usual, device="cpu")
    if HAS_TORCH:
        yield f"PyTorch, {device}", lambda: Torch(device, epochs, classes)
        if device == "cuda":
            yield "PyTorch, cpu", lambda: Torch("cpu", epochs, classes)
    if HAS_SKLEARN:
        from sklearn import neural_network

        theirs = getattr(neural_network, ours.__name__)
        yield "scikit-learn, cpu", lambda: theirs(**usual, tol=0.0, n_iter_no_change=epochs)


def measured(make: Callable[[], Any], data: list[np.ndarray], repeats: int) -> tuple[list[float], float, Any]:
    """The seconds of the repeats, the score of the last, and its estimator."""
    X, held, y, y_held = data
    times = []
    for _ in range(repeats + 1):
        model = make()
        started = time.perf_counter()
        model.fit(X, y)
        times.append(time.perf_counter() - started)
    return times[1:], model.score(held, y_held), model


def split(X: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """X and y to train on and held out, in one order; features have mean 0 and variance 1."""
    order = np.random.RandomState(SEED).permutation(len(X))
    held, rows = np.split(order, [len(X) // 4])
    mean, scale = X[rows].mean(axis=0), X[rows].std(axis=0)
    X = (X - mean) / np.where(scale, scale, 1)
    return [X[rows], X[held], y[rows], y[held]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--epochs", type=whole(1), default=200)
    parser.add_argument("--repeats", type=whole(1), default=3)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--csv")
    parser.add_argument("--target", default="-1")
    parser.add_argument("--classify", action="store_true")
    arguments = parser.parse_args()
    with refused():
        device = devices.find(arguments.device)
        tables = {name: TABLES[name] for name in arguments.tables}
        if arguments.csv:
            table = of_csv(arguments.csv, arguments.target, arguments.classify)
            tables = {Path(arguments.csv).stem: lambda: table}
    warnings.filterwarnings("ignore", category=UserWarning)  # scikit-learn's, that all epochs were trained
    print(f"on {device.name}, {arguments.epochs} epochs, batches of {BATCH}\n")
    print("| table | rows | features | program | score | seconds | least to most | strategy |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, load in tables.items():
        X, y = load()
        classes = len(np.unique(y)) if np.asarray(y).dtype.kind in "iu" else 0
        if not classes:
            y = (y - y.mean()) / y.std()
        data = split(X, y)
        for program, make in programs(device.backend, arguments.epochs, classes):
            times, score, model = measured(make, data, arguments.repeats)
            found = statistics.median(times), min(times), max(times)
            seconds = "{:.3g} | {:.3g} to {:.3g}".format(*found)
            cells = [name, len(data[0]), X.shape[1], program, f"{score:.4f}", seconds]
            print("|", *(f"{cell} |" for cell in [*cells, getattr(model, "strategy_", "")]), flush=True)


if __name__ == "__main__":
    main()
