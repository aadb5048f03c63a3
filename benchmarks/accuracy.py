#!/usr/bin/env python3
"""Measure the error of float32 training against float64 on this GPU: of the outputs, and of the weights.

    benchmarks/accuracy.py [--strategies persistent graph jax_scan] [--networks 32-64-1 ...] [--json FILE]
    benchmarks/accuracy.py --strategies graph --kernel tensor_core --precision tf32

For each network, with positive data and weights, where rounding towards 0 would add up, and with mixed signs:
the relative difference of the root mean square of the outputs before any update, with its sign; and the
largest relative difference of a layer's weights after the steps, in the Euclidean norm. Batches of 256 rows,
the mean squared error, the paper's order of updates. Data and weights are drawn from a seed, and are the same
for every strategy. float64 is computed by the formulae, on the GPU.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from steps import ROOT  # it puts snn on the path

from snn import backends
from snn.backends.base import Backend
from snn.config import groups
from snn.errors import SnnError
from snn.models.network import Network, mlp
from snn.strategies import factory

BATCH, BATCHES, EPOCHS = 256, 5, 10
STRATEGIES = ("persistent", "graph", "jax_scan")
NETWORKS = (
    *("32-64-1", "32-128-1", "32-256-1", "32-1024-1", "16-512-1", "64-128-1"),
    *("32-256-256-1", "16-64-64-1", "32-256-512-256-1", "32-256-1024-256-1"),
    *("512-512-1", "512-512-512-1", "128-256-512-256-1", "784-256-10", "100-64-64-8"),
    *("1024-1024-1024-1", "1024-2048-2048-1", "512-2048-512-2048-4", "2048-2048-8", "2048-2048-2048-8"),
)


class Problem(NamedTuple):
    """A network with its data, first weights, and learning rate."""

    network: Network
    X: np.ndarray
    Y: np.ndarray
    weights: list[np.ndarray]
    rate: float


class Errors(NamedTuple):
    """Relative, of the outputs' root mean square, and the largest of a layer's weights."""

    y: float
    weights: float


def problem(name: str, positive: bool, seed: int = 1) -> Problem:
    """Data and weights for a network such as 32-64-1; ``positive``, or with mixed signs."""
    widths = tuple(map(int, name.split("-")))
    random = np.random.default_rng(seed)
    rows = BATCH * BATCHES

    def drawn(*shape: int) -> np.ndarray:
        values = random.uniform(0, 1, shape) if positive else random.normal(0, 1, shape)
        return values.astype(np.float32)

    scale = (lambda k: 2 / k) if positive else (lambda k: (2 / k) ** 0.5)
    pairs = list(itertools.pairwise(widths))
    X = drawn(rows, widths[0])
    weights = [(drawn(*pair) * scale(pair[0])).astype(np.float32) for pair in pairs]
    teacher = [(drawn(*pair) * scale(pair[0])).astype(np.float32) for pair in pairs]
    Y = forward(np, X, teacher)[-1].astype(np.float32)
    return Problem(mlp(widths), X, Y, weights, steady_rate(X[:BATCH], weights))


def forward(xp: Any, X: Any, weights: Sequence[Any]) -> list[Any]:
    """Activations of all layers, X first, the output last."""
    found = [X]
    for i, W in enumerate(weights):
        Z = found[-1] @ W
        found.append(xp.maximum(Z, 0) if i + 1 < len(weights) else Z)
    return found


def steady_rate(X: np.ndarray, weights: Sequence[np.ndarray]) -> float:
    """A learning rate at which a step changes an output by a twentieth of its error, about."""
    H = forward(np, X, weights)
    gradient, total = np.ones_like(H[-1]), 0.0
    for i in reversed(range(len(weights))):
        total += float(np.mean((H[i] ** 2).sum(1) * (gradient**2).sum(1)))
        gradient = (gradient @ weights[i].T) * (H[i] > 0)
    return float(np.float32(0.025 / total))


def exact(of: Problem) -> tuple[float, list[np.ndarray]]:
    """The outputs' root mean square in the last batch, and the weights after all steps, in float64."""
    import cupy  # needs a GPU

    X, Y = (cupy.asarray(M, dtype=np.float64) for M in (of.X, of.Y))
    weights = [cupy.asarray(W, dtype=np.float64) for W in of.weights]
    y = float(cupy.sqrt(cupy.mean(cupy.square(forward(cupy, X[-BATCH:], weights)[-1]))))
    for step in range(EPOCHS * BATCHES):
        rows = slice(step % BATCHES * BATCH, (step % BATCHES + 1) * BATCH)
        H = forward(cupy, X[rows], weights)
        gradient = 2 / BATCH * (H[-1] - Y[rows])
        for i in reversed(range(len(weights))):
            weights[i] = weights[i] - of.rate * (H[i].T @ gradient)
            gradient = (gradient @ weights[i].T) * (H[i] > 0)
    return y, [W.get() for W in weights]


def errors(name: str, backend: Backend, of: Problem, right: Any) -> tuple[Errors, str | None]:
    """Errors of a strategy, and its plan. Raises SnnError."""
    y, weights = right
    last = of._replace(X=of.X[-BATCH:], Y=np.zeros_like(of.Y[-BATCH:]), rate=0.0)
    loss, _, _ = trained(name, backend, last, 1)  # with targets of 0, of the outputs
    _, found, plan = trained(name, backend, of, EPOCHS)
    return Errors((loss**0.5 - y) / y, max(map(relative, found, weights))), plan


def trained(
    name: str, backend: Backend, of: Problem, epochs: int
) -> tuple[float, list[np.ndarray], str | None]:
    """The loss of the last batch, the weights, and the plan of a strategy. Raises SnnError."""
    strategy = factory.make(groups.load("strategy", name), backend)
    try:
        strategy.setup(of.network, of.X, of.Y, BATCH, of.rate)
        strategy.load(of.weights)
        strategy.prepare(epochs)
        strategy.train(epochs)
        backend.synchronize()
        return strategy.loss(), strategy.weights(), strategy.plan
    finally:
        strategy.close()


def relative(found: np.ndarray, right: np.ndarray) -> float:
    """The norm of the difference over the norm of the exact values."""
    return float(np.linalg.norm(found.astype(np.float64) - right) / np.linalg.norm(right))


def rows(strategies: Sequence[str], networks: Sequence[str], backend: Backend) -> Iterator[dict[str, Any]]:
    """A row for each network, data and strategy."""
    for name in networks:
        for positive in (True, False):
            of = problem(name, positive)
            right = exact(of)
            for strategy in strategies:
                row = {"network": name, "data": "positive" if positive else "mixed", "strategy": strategy}
                try:
                    found, plan = errors(strategy, backend, of, right)
                    yield row | found._asdict() | {"plan": plan}
                except SnnError as error:
                    yield row | {"plan": f"{type(error).__name__}: {error}"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=STRATEGIES)
    options.add_argument("--networks", nargs="+", default=NETWORKS)
    options.add_argument("--kernel", default="tiled_fused", choices=groups.names("kernel"))
    options.add_argument("--precision", default="fp32", choices=groups.names("precision"))
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    try:
        backend = backends.make("cuda", groups.load("kernel", given.kernel), ROOT, given.precision)
    except SnnError as error:
        sys.exit(f"accuracy: {error}")
    heads = ("network", "data", "strategy", "y", "weights", "plan")
    for cells in (heads, ("---",) * len(heads)):
        print(f"| {' | '.join(cells)} |", flush=True)
    found = []
    for row in rows(given.strategies, given.networks, backend):
        found.append(row)
        figures = [f"{row[key]:+.1e}" if key in row else "" for key in Errors._fields]
        cells = (row["network"], row["data"], row["strategy"], *figures, row["plan"] or "")
        print(f"| {' | '.join(cells)} |", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
