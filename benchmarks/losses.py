#!/usr/bin/env python3
"""Print the loss of each epoch, by PyTorch and by a strategy here, side by side for five configurations.

    benchmarks/losses.py [--device cpu] [--strategy resident] [--epochs 20] [--seed 1]

PyTorch trains an nn.Sequential with torch.optim on the CPU. Both start from the weights that the seed draws
and take the rows in the order that it gives (snn/models/row_order.py); all else is each program's own.
A loss is the mean over the batches of an epoch, each before its update. Data: 1,000 rows of 8 features, drawn
from the seed; batches of 64, the last one smaller. The last rows of the table have the largest relative
difference of a loss, and of a layer's weights at the end.
"""

import argparse
from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from arguments import refused, whole
from steps import ROOT  # it puts snn on the path

from snn import backends
from snn.backends.base import Backend
from snn.config import groups
from snn.errors import SnnError
from snn.models.glibc_random import GlibcRandom
from snn.models.layers import ACTIVATIONS, Linear
from snn.models.losses import CROSS_ENTROPY, MEAN_SQUARED_ERROR, Loss
from snn.models.network import Network, draw_weights
from snn.models.optimizers import PLAIN, Adam, AdamW, Optimizer, Sgd
from snn.models.row_order import row_order
from snn.strategies import factory

ROWS, FEATURES, CLASSES, BATCH, HIDDEN = 1000, 8, 3, 64, (32, 32)
SHOWN = (1, 2, 3, 5, 10, 20, 50, 100)


class Configuration(NamedTuple):
    """One column of the table; ``torch``: the activation, the optimiser and its options in PyTorch."""

    activation: str
    optimizer: Optimizer
    rate: float
    shuffles: bool
    torch: tuple[str, str, Mapping[str, Any]]
    loss: Loss = MEAN_SQUARED_ERROR

    def network(self, seed: int) -> Network:
        hidden = [layer for width in HIDDEN for layer in (Linear(width), ACTIVATIONS[self.activation]())]
        outputs = CLASSES if self.loss is CROSS_ENTROPY else 1
        return Network(
            (FEATURES,),
            (*hidden, Linear(outputs)),
            self.loss,
            init="he_uniform",
            update_order="simultaneous",
            optimizer=self.optimizer,
            order_seed=seed if self.shuffles else None,
        )


CONFIGURATIONS = {
    "SGD, ReLU, file order": Configuration("relu", PLAIN, 0.01, False, ("ReLU", "SGD", {})),
    "Adam, tanh, shuffled": Configuration("tanh", Adam(), 1e-3, True, ("Tanh", "Adam", {})),
    "AdamW, GELU, shuffled": Configuration("gelu", AdamW(), 1e-3, True, ("GELU", "AdamW", {})),
    "Nesterov 0.9, SiLU, file order": Configuration(
        "silu", Sgd(0.9, True), 0.01, False, ("SiLU", "SGD", {"momentum": 0.9, "nesterov": True})
    ),
    "Adam, sigmoid, cross-entropy, shuffled": Configuration(
        "sigmoid", Adam(), 3e-3, True, ("Sigmoid", "Adam", {}), CROSS_ENTROPY
    ),
}

Trained = tuple[list[float], list[np.ndarray]]
"""The loss of each epoch, and the parameters at the end."""


def data_of(network: Network, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """X and Y: a sum of sines, or which of three sums is the largest."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(ROWS, FEATURES)).astype(np.float32)
    sums = np.sin(X @ random.normal(0, FEATURES**-0.5, (FEATURES, CLASSES)))
    sums += 0.1 * random.normal(size=sums.shape)
    if network.loss is CROSS_ENTROPY:
        return X, np.eye(CLASSES, dtype=np.float32)[sums.argmax(axis=1)]
    return X, sums[:, :1].astype(np.float32)


def here(
    of: Configuration,
    network: Network,
    data: tuple[np.ndarray, np.ndarray],
    weights: list[np.ndarray],
    epochs: int,
    by: tuple[str, Backend],
) -> Trained:
    """Train with a strategy. Raises SnnError."""
    with closing(factory.make(groups.load("strategy", by[0]), by[1])) as strategy:
        strategy.check_network(network)
        strategy.keeps_losses, losses = True, []
        strategy.setup(network, *data, BATCH, of.rate)
        strategy.load(weights)
        for _ in range(epochs):
            strategy.epoch()
            losses.append(float(np.mean(strategy.epoch_losses())))
        return losses, strategy.weights()


def by_torch(
    of: Configuration,
    network: Network,
    data: tuple[np.ndarray, np.ndarray],
    weights: list[np.ndarray],
    epochs: int,
) -> Trained:
    """Train with PyTorch as its documentation does. Raises SnnError without PyTorch."""
    try:
        import torch
    except ImportError as error:
        raise SnnError(f"torch cannot be imported ({error})") from error
    activation, optimizer, options = of.torch
    widths, modules = (FEATURES, *HIDDEN, network.outputs), []
    for inputs, outputs in pairwise(widths):
        modules += [torch.nn.Linear(inputs, outputs), getattr(torch.nn, activation)()]
    model = torch.nn.Sequential(*modules[:-1])
    with torch.no_grad():
        for parameter, W in zip(model.parameters(), weights, strict=True):
            parameter.copy_(torch.tensor(W.T))
    training = getattr(torch.optim, optimizer)(model.parameters(), lr=of.rate, **options)
    is_classified = of.loss is CROSS_ENTROPY
    criterion = torch.nn.CrossEntropyLoss() if is_classified else torch.nn.MSELoss()
    X, Y = map(torch.tensor, data)
    losses, seed = [], network.order_seed
    for epoch in range(epochs):
        order = np.arange(ROWS) if seed is None else row_order(ROWS, seed, epoch)
        of_batches = []
        for rows in torch.tensor(order.astype(np.int64)).split(BATCH):
            training.zero_grad()
            loss = criterion(model(X[rows]), Y[rows])
            loss.backward()
            training.step()
            of_batches.append(loss.item())
        losses.append(float(np.mean(of_batches)))
    return losses, [parameter.detach().numpy().T for parameter in model.parameters()]


def relative(found: Any, right: Any) -> float:
    """The norm of the difference over the norm."""
    return float(np.linalg.norm(np.subtract(found, right)) / np.linalg.norm(right))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--strategy", default="resident", help="resident, graph, pipelined, ...")
    options.add_argument("--epochs", type=whole(1), default=20)
    options.add_argument("--seed", type=whole(1), default=1)
    given = options.parse_args()
    with refused():
        columns, backend = [], backends.make(given.device, groups.load("kernel", "naive"), ROOT)
        for of in CONFIGURATIONS.values():
            network = of.network(given.seed)
            weights = draw_weights(network, GlibcRandom(given.seed))
            what = of, network, data_of(network, given.seed), weights, given.epochs
            columns.append((here(*what, (given.strategy, backend)), by_torch(*what)))
    rows = [["epoch", *(f"{name}: {who}" for name in CONFIGURATIONS for who in ("here", "PyTorch"))]]
    rows.append(["---"] * len(rows[0]))
    for epoch in sorted({*(one for one in SHOWN if one < given.epochs), given.epochs}):
        losses = [f"{who[0][epoch - 1]:.7f}" for pair in columns for who in pair]
        rows.append([str(epoch), *losses])
    largest = [
        max(abs(a / b - 1) for a, b in zip(ours[0], theirs[0], strict=True)) for ours, theirs in columns
    ]
    apart = [max(map(relative, ours[1], theirs[1])) for ours, theirs in columns]
    for name, values in (("largest difference of a loss", largest), ("of weights at the end", apart)):
        rows.append([name, *(cell for value in values for cell in (f"{value:.1e}", ""))])
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))


if __name__ == "__main__":
    main()
