#!/usr/bin/env python3
"""Microseconds per training step, by network, kernel and device-driven strategy, on this GPU.

    benchmarks/step_time.py [--kernels naive tiled_fused] [--strategies resident graph] [--seconds 0.3]
    benchmarks/step_time.py --adam --hidden 64,64 --features 11 --batch 64 --strategies graph graph_pdl

Batches of 256 of the large data set, float32 in memory, by plain gradient descent; with --adam by Adam, with
biases and shuffled rows, and without errors that pass through updated weights. Each time is the median over
epochs of 100 steps (over groups of 20 epochs for a strategy that trains them in one launch), after a warm-up.
Beside it is the rate of the arithmetic that the network requires at least. All kernels are measured one after
the other in one process.
"""

import argparse

from steps import BATCH, data, time_of_step  # first: it puts snn on the path

from snn import backends
from snn.analysis.roofline import Step
from snn.config import groups
from snn.errors import SnnError
from snn.models.network import label, mlp
from snn.models.optimizers import Adam

NETWORKS = ((128,), (256,), (1024,), (256, 256), (256, 1024, 256))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--kernels", nargs="+", help="default: all that support the precision")
    options.add_argument("--strategies", nargs="+", default=["resident", "graph", "persistent"])
    options.add_argument("--precision", default="fp32", choices=groups.names("precision"))
    options.add_argument("--seconds", type=float, default=0.3)
    options.add_argument("--hidden", help="hidden widths instead of several networks: 64,64")
    options.add_argument("--features", type=int, help="only the first ones")
    options.add_argument("--batch", type=int, default=BATCH)
    options.add_argument("--adam", action="store_true")
    given = options.parse_args()
    networks = [tuple(map(int, given.hidden.split(",")))] if given.hidden else NETWORKS
    adam = {"bias": True, "optimizer": Adam(), "order_seed": 1, "update_order": "simultaneous"}
    more = adam if given.adam else {}
    X, Y = data()
    X = X[:, : given.features].copy()
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
        for hidden in networks:
            network = mlp((X.shape[1], *hidden, 1), init="he_uniform", **more)
            for name in given.strategies:
                row = f"| {X.shape[1]}-{label(hidden)}-1 | {name} | {kernel}"
                try:
                    timed = given.seconds, 20, given.batch
                    seconds, plan = time_of_step(name, backend, network, X, Y, *timed)
                except SnnError as error:
                    print(f"{row} | {error} | | |", flush=True)
                    continue
                rate = Step(X.shape[1], hidden, len(X), given.batch).flop / seconds / 1e12
                print(f"{row} | {1e6 * seconds:.2f} | {rate:.2f} | {plan or ''} |", flush=True)


if __name__ == "__main__":
    main()
