#!/usr/bin/env python3
"""Time of predictions for few rows, and with --train of steps on a stream of small batches, by device.

    benchmarks/predictions.py [--device cuda] [--rows 1 4 16 64 256] [--hidden 256] [--features 32] [--train]

Rows come from host memory, and outputs return to it before the next call. All programs have the same weights:
snn predict (NumPy on the CPU), a strategy that keeps the network on the device, PyTorch, and on a GPU also
PyTorch's CUDA graph. With --train: time per step of plain gradient descent, whose batch is copied from host
memory in each step. A time in us is the median of samples of many calls, with its 95% interval. PyTorch has
one CPU thread. Without PyTorch its rows are left out.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import steps  # noqa: F401 - it puts snn on the path
from arguments import refused, whole

from snn import backends
from snn.config import groups
from snn.config.sizes import check_fits
from snn.errors import MeasurementError
from snn.hardware import devices
from snn.measurement.accuracy import predicted
from snn.microbenchmarks.readings import Effort
from snn.models.glibc_random import GlibcRandom
from snn.models.network import Network, draw_weights, mlp
from snn.strategies import factory
from snn.tables.microbenchmarks import median_interval
from snn.training.torch_models import to_torch

RATE, BATCHES = 1e-3, 32
Call = Callable[[np.ndarray], Any]


def strategy_of(name: str, device: str, network: Network, stack: ExitStack, *data: Any) -> Any:
    """A strategy with the first draw of weights, set up for X, Y and a batch size."""
    kernel = groups.load("kernel", "tiled_fused" if device == "cuda" else "naive")
    strategy = factory.make(groups.load("strategy", name), backends.make(device, kernel))
    stack.callback(strategy.close)
    strategy.setup(network, *data, RATE)
    strategy.load(draw_weights(network, GlibcRandom(1)))
    return strategy


def torch_model(device: str, network: Network) -> tuple[Any, Any]:
    """PyTorch, and its module with these weights on the device."""
    import torch

    torch.set_num_threads(1)
    return torch, to_torch(network, draw_weights(network, GlibcRandom(1))).to(device)


def predictors(device: str, network: Network, X: np.ndarray, stack: ExitStack) -> Iterator[tuple[str, Call]]:
    """The programs, each with a function from rows like X to the outputs, both in host memory."""
    weights = draw_weights(network, GlibcRandom(1))
    yield "snn predict, cpu", lambda X: predicted(network, weights, X)
    Y = np.zeros((len(X), 1), np.float32)
    yield f"resident, {device}", strategy_of("resident", device, network, stack, X, Y, len(X)).predict
    if not find_spec("torch"):
        return
    torch, model = torch_model(device, network)
    stack.enter_context(torch.inference_mode())
    yield f"PyTorch, {device}", lambda X: model(torch.from_numpy(X).to(device)).cpu().numpy()
    if device == "cuda":
        x, graph = torch.from_numpy(X).to(device), torch.cuda.CUDAGraph()
        model(x)  # the first call also sets up cuBLAS, which cannot be captured
        with torch.cuda.graph(graph):
            outputs = model(x)
        yield (
            f"PyTorch, graph, {device}",
            lambda X: (x.copy_(torch.from_numpy(X)), graph.replay(), outputs.cpu().numpy())[-1],
        )


def trainers(device: str, network: Network, X: np.ndarray, stack: ExitStack) -> Iterator[tuple[str, Call]]:
    """The programs, each with a function that trains on BATCHES batches like X and waits for the device."""
    many, Y = np.tile(X, (BATCHES, 1)), np.ones((BATCHES * len(X), 1), np.float32)
    ours = strategy_of("synchronous", device, network, stack, many, Y, len(X))
    yield f"synchronous, {device}", lambda X: (ours.epoch(), ours.backend.synchronize())
    if not find_spec("torch"):
        return
    torch, model = torch_model(device, network)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def trained(X: np.ndarray) -> None:
        for start in range(0, len(many), len(X)):
            x, y = (torch.from_numpy(of[start : start + len(X)]).to(device) for of in (many, Y))
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        next(model.parameters())[0, 0].item()  # waits for the device

    yield f"PyTorch, {device}", trained


def check_memory(rows: int, widths: Sequence[int], copies: int) -> None:
    """Raise ConfigError if the weights, or these many copies of the rows, exceed this machine's memory."""
    given = f"--features {widths[0]} and --hidden {' '.join(map(str, widths[1:-1]))}"
    weights, values = sum(map(prod, pairwise(widths))), copies * rows * sum(widths)
    check_fits("this benchmark", {given: 4 * weights, f"--rows {rows}": 4 * values})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--rows", nargs="+", type=whole(1), default=[1, 4, 16, 64, 256])
    parser.add_argument("--hidden", nargs="+", type=whole(1), default=[256])
    parser.add_argument("--features", type=whole(1), default=32)
    parser.add_argument("--train", action="store_true")
    given = parser.parse_args()
    with refused():
        device = devices.find(given.device)
        widths = (given.features, *given.hidden, 1)
        check_memory(max(given.rows), widths, BATCHES if given.train else 1)
        network = mlp(widths, init="pytorch", bias=True, update_order="simultaneous")
        print(f"{'-'.join(map(str, widths))} on {device.name}, us per {'step' if given.train else 'call'}\n")
        print("| rows | program | median | 95% interval |\n| --- | --- | --- | --- |")
        for rows in given.rows:
            X = np.random.default_rng(rows).random((rows, given.features), np.float32)
            expected = predicted(network, draw_weights(network, GlibcRandom(1)), X)
            with ExitStack() as stack:
                programs = trainers if given.train else predictors
                for name, call in programs(device.backend, network, X, stack):
                    if not given.train and not np.allclose(call(X), expected, atol=1e-4):
                        raise MeasurementError(f"{name} predicts other numbers than snn predict")
                    seconds = Effort(31, 0.3).repeated(lambda call=call, X=X: call(X))
                    scale = 1e6 / (BATCHES if given.train else 1)
                    median, low, high = (scale * one for one in median_interval(seconds))
                    print(f"| {rows} | {name} | {median:.1f} | {low:.1f} to {high:.1f} |", flush=True)


if __name__ == "__main__":
    main()
