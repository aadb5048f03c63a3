#!/usr/bin/env python3
"""Microseconds per training step, by network, kernel and device-driven strategy, on this GPU.

    benchmarks/step_time.py [--kernels naive tiled_fused] [--strategies resident graph] [--seconds 0.3]

Batches of 256 of the large data set, float32 in memory. Each time is the median over epochs of 100 steps
(over groups of 20 epochs for a strategy that trains them in one launch), after a warm-up. Beside it is the
rate of the arithmetic that the network requires at least. All kernels are measured one after the other in one
process.
"""

import argparse

from steps import BATCH, data, time_of_step  # first: it puts snn on the path

from snn import backends
from snn.analysis.roofline import Step
from snn.config import groups
from snn.errors import SnnError
from snn.models.network import label, mlp

NETWORKS = ((128,), (256,), (1024,), (256, 256), (256, 1024, 256))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--kernels", nargs="+", help="default: all that support the precision")
    options.add_argument("--strategies", nargs="+", default=["resident", "graph", "persistent"])
    options.add_argument("--precision", default="fp32", choices=groups.names("precision"))
    options.add_argument("--seconds", type=float, default=0.3)
    given = options.parse_args()
    X, Y = data()
    heads = ("network", "strategy", "kernel", "us per step", "TFLOP/s", "plan")
    for cells in (heads, ("---",) * len(heads)):
        print(f"| {' | '.join(cells)} |", flush=True)
    able = [
        name
        for name in groups.names("kernel")
        if given.precision in groups.load("kernel", name)["precisions"]
    ]
    for kernel in given.kernels or able:
        try:
            backend = backends.make("cuda", groups.load("kernel", kernel), precision=given.precision)
        except SnnError as error:
            print(f"| | | {kernel} | {error} | | |")
            continue
        for hidden in NETWORKS:
            network = mlp((X.shape[1], *hidden, 1), init="he_uniform")
            for name in given.strategies:
                row = f"| {X.shape[1]}-{label(hidden)}-1 | {name} | {kernel}"
                try:
                    seconds, plan = time_of_step(name, backend, network, X, Y, given.seconds)
                except SnnError as error:
                    print(f"{row} | {error} | | |", flush=True)
                    continue
                rate = Step(X.shape[1], hidden, len(X), BATCH).flop / seconds / 1e12
                print(f"{row} | {1e6 * seconds:.2f} | {rate:.2f} | {plan or ''} |", flush=True)


if __name__ == "__main__":
    main()
