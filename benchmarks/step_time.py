#!/usr/bin/env python3
"""Microseconds of one training step, by network, kernel and device-driven strategy, on this GPU.

    benchmarks/step_time.py [--kernels naive tiled_fused] [--strategies resident graph] [--seconds 0.3]

Batches of 256 of the large data set, float32 in memory. Each figure is the median over epochs of 100 steps,
or over 20 epochs where a strategy trains them at once, after a warm-up; the network's arithmetic at that
speed stands beside it. Kernels in turn, in one process.
"""

import argparse
import itertools
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from snn import backends, choices, datasets, strategies  # noqa: E402
from snn.errors import SnnError  # noqa: E402
from snn.glibc_random import GlibcRandom  # noqa: E402
from snn.network import Network, draw_weights, label  # noqa: E402

NETWORKS = ((128,), (256,), (1024,), (256, 256), (256, 1024, 256))
BATCH = 256
_AT_ONCE = 20  # epochs in one call, of a strategy that trains them all in one


def step_seconds(strategy_name: str, backend, hidden: tuple[int, ...], seconds: float, X, Y) -> float:
    """Seconds of a step: the median over epochs, waited for one by one."""
    network = Network((X.shape[1], *hidden, 1), init="he_uniform")
    strategy = strategies.make(choices.load("strategy", strategy_name), backend)
    try:
        strategy.setup(network, X, Y, BATCH, 1e-4)
        strategy.load(draw_weights(network, GlibcRandom(1)))
        epochs = _AT_ONCE if strategy.at_once else 1
        times = []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until or len(times) < 5:
            started = time.perf_counter()
            strategy.train(epochs)
            backend.synchronize()
            times.append((time.perf_counter() - started) / epochs)
        if not np.isfinite(strategy.loss()):
            raise SnnError("the loss is not finite")
        return statistics.median(times[len(times) // 5 :]) / (len(X) / BATCH)
    finally:
        strategy.close()


def arithmetic(hidden: tuple[int, ...], features: int) -> float:
    """Floating-point operations of the products of one step."""
    layers = (features, *hidden, 1)
    forward = sum(2 * BATCH * a * b for a, b in itertools.pairwise(layers))
    return 3 * forward - 2 * BATCH * layers[0] * layers[1]  # no error goes into the features


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--kernels", nargs="+", help="all that have the precision, unless named")
    options.add_argument("--strategies", nargs="+", default=["resident", "graph", "persistent"])
    options.add_argument("--precision", default="fp32", choices=choices.names("precision"))
    options.add_argument("--seconds", type=float, default=0.3)
    given = options.parse_args()
    X, Y = datasets.split(datasets.make(choices.load("dataset", "large")), BATCH, "large")
    print(
        "| network | strategy | kernel | us a step | TFLOP/s |\n| --- | --- | --- | --- | --- |", flush=True
    )
    able = [
        one for one in choices.names("kernel") if given.precision in choices.load("kernel", one)["precisions"]
    ]
    for kernel in given.kernels or able:
        try:
            backend = backends.make("cuda", choices.load("kernel", kernel), precision=given.precision)
        except SnnError as error:
            print(f"| | | {kernel} | {error} | |")
            continue
        for hidden in NETWORKS:
            for name in given.strategies:
                row = f"| {X.shape[1]}-{label(hidden)}-1 | {name} | {kernel}"
                try:
                    seconds = step_seconds(name, backend, hidden, given.seconds, X, Y)
                except SnnError as error:
                    print(f"{row} | {error} | |", flush=True)
                    continue
                rate = arithmetic(hidden, X.shape[1]) / seconds / 1e12
                print(f"{row} | {1e6 * seconds:.2f} | {rate:.2f} |", flush=True)


if __name__ == "__main__":
    main()
