#!/usr/bin/env python3
"""Microseconds of each operation of a convolutional network's training step on this GPU, by kernel.

    benchmarks/convolution.py [--kernels fused tensor_core] [--precisions fp32] [--batch 64] [--unchecked]

An operation's time is the median over launches of a CUDA graph that repeats it 20 times: it includes the cost
of a launch in a graph, and no host time. A step is timed in a graph of ten steps. Each operation is first
compared with NumPy in float64; the error shown is the largest, relative to the largest element. Exits with 1
if an error is larger than rounding explains.
"""

import argparse
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from snn import backends  # noqa: E402
from snn.backends.base import Backend  # noqa: E402
from snn.backends.cpu import ops as numpy_ops  # noqa: E402
from snn.backends.ops import OPS  # noqa: E402
from snn.config import groups  # noqa: E402
from snn.errors import SnnError  # noqa: E402
from snn.models.layers import parse  # noqa: E402
from snn.models.losses import LOSSES  # noqa: E402
from snn.models.network import Network  # noqa: E402
from snn.models.step import Launch, Step  # noqa: E402
from snn.models.training_step import training_step  # noqa: E402

LAYERS = ("conv2d 16 3", "relu", "conv2d 32 3", "relu", "maxpool2d 2", "linear 10")
INPUTS = (1, 28, 28)
AT_ONCE = 20
"""Launches of an operation in a graph."""

BOUNDS = {"fp32": 1e-4, "tf32": 3e-3, "bf16": 3e-2}
"""The largest error, relative to the largest element, that rounding explains."""


def operand(name: str, count: int, size: int, random: np.random.Generator) -> np.ndarray:
    """Values for an operand of this name; ``size`` is the side of a pooling's windows."""
    if name == "I":
        return random.integers(0, size * size, count).astype(np.float32)
    values = random.standard_normal(count, dtype=np.float32)
    if name == "Y":
        values[:] = 0
        values[:: len(values) // 64 or 1] = 1
    return np.abs(values) if name in "XH" else values


def check(backend: Backend, launch: Launch) -> float:
    """The largest error of a launch on fresh operands, relative to the largest element of its operand."""
    random, described = np.random.default_rng(3), OPS[launch.op]
    size = int(dict(zip(described.numbers, launch.numbers, strict=True)).get("size", 1))
    sizes = zip(described.operands, described.elements(*launch.numbers), strict=True)
    operands = [operand(name, count, size, random) for name, count in sizes]
    expected = [one.astype(np.float64) for one in operands]
    getattr(numpy_ops, launch.op)(*expected, *launch.numbers)
    buffers = [backend.malloc(one.nbytes) for one in operands]
    try:
        for buffer, one in zip(buffers, operands, strict=True):
            backend.copy_in(buffer, one)
        backend.launch(launch.op, tuple(buffers), launch.numbers)
        backend.synchronize()
        for buffer, one in zip(buffers, operands, strict=True):
            backend.copy_out(one, buffer)
    finally:
        for buffer in buffers:
            backend.free(buffer)
    error = 0.0
    for name, found, right in zip(described.operands, operands, expected, strict=True):
        mine = found.astype(np.float64)
        if name == "S":
            parts = int(dict(zip(described.numbers, launch.numbers, strict=True)).get("parts", len(right)))
            mine, right = (one.reshape(parts, -1).sum(axis=0) for one in (mine, right))
        if name == "I" and "relu_pool" in launch.op:
            error = max(error, 1e-5 * float((mine != right).mean()))
        elif right.size:
            error = max(error, float(np.abs(mine - right).max() / np.abs(right).max()))
    return error


def flop(launch: Launch) -> float:
    """The arithmetic of a product or a convolution; 0 of other operations."""
    numbers = dict(zip(OPS[launch.op].numbers, launch.numbers, strict=True))
    if OPS[launch.op].is_product:
        return 2.0 * numbers["m"] * numbers["k"] * numbers["n"]
    if not OPS[launch.op].is_convolution:
        return 0.0
    high, wide = (
        numbers[side] + 2 * numbers["padding"] - numbers["kernel"] + 1 for side in ("height", "width")
    )
    return (
        2.0
        * numbers["rows"]
        * high
        * wide
        * numbers["filters"]
        * numbers["channels"]
        * numbers["kernel"] ** 2
    )


class Timer:
    """Times launches on the buffers of a step, all of which are allocated."""

    def __init__(self, backend: Backend, step: Step) -> None:
        self._backend, self._stream = backend, backend.stream_create()
        random, sizes, kinds = np.random.default_rng(5), {}, {}
        for op, operands, numbers, _ in step.launches:
            for kind, name, count in zip(OPS[op].operands, operands, OPS[op].elements(*numbers), strict=True):
                sizes[name], kinds[name] = max(sizes.get(name, 0), count), kind
        self._buffers = {}
        for name, count in sizes.items():
            values = 0.01 * operand(kinds[name], count, 2, random)
            if kinds[name] == "I":
                values = random.integers(0, 4, count).astype(np.float32)
            self._buffers[name] = backend.malloc(4 * count)
            backend.copy_in(self._buffers[name], values)

    def seconds(self, launches: list[Launch], times: int, repeats: int = 30) -> float:
        """Median seconds of these launches, of which a graph holds so many."""
        backend, stream = self._backend, self._stream

        def enqueue() -> None:
            for op, operands, numbers, _ in launches:
                backend.launch(op, tuple(self._buffers[name] for name in operands), numbers, stream)

        enqueue()
        backend.synchronize()
        try:
            backend.graph_begin(stream)
            for _ in range(times):
                enqueue()
            graph = backend.graph_end(stream)
        except SnnError:  # cuBLAS cannot be captured
            graph = None
        found = []
        for _ in range(repeats + 3):
            first = backend.mark(stream)
            if graph is None:
                for _ in range(times):
                    enqueue()
            else:
                backend.graph_launch(graph, stream)
            last = backend.mark(stream)
            backend.synchronize()
            found.append(backend.seconds_between(first, last) / times)
        if graph is not None:
            backend.graph_destroy(graph)
        return statistics.median(found[3:])


def measure(kernel: str, precision: str, batch: int, checked: bool) -> bool:
    """Print a kernel's table; whether every operation agrees with NumPy."""
    backend = backends.make("cuda", groups.load("kernel", kernel), ROOT, precision)
    network = Network(
        INPUTS,
        tuple(map(parse, LAYERS)),
        LOSSES["cross_entropy"],
        init="he_uniform",
        update_order="simultaneous",
    )
    step = training_step(network, batch, 0.0, backend.fused, backend.pretransposed, backend.convolves)
    timer, right, total = Timer(backend, step), True, 0.0
    print(f"\n{kernel} {precision}, batch {batch}\n")
    print("| operation | of | numbers | us | TFLOP/s | error |\n|---|---|---|---|---|---|")
    for launch in step.launches:
        error = check(backend, launch) if checked else float("nan")
        bound = BOUNDS[precision] if flop(launch) else BOUNDS["fp32"]
        wrong = "" if not error > bound else " WRONG"
        right = right and not wrong
        seconds = timer.seconds([launch], AT_ONCE)
        total += seconds
        numbers = "x".join(str(n) for n in launch.numbers if isinstance(n, int))
        rate = f"{flop(launch) / seconds / 1e12:.1f}" if flop(launch) else ""
        row = (launch.op, launch.label, numbers, f"{1e6 * seconds:.2f}", rate, f"{error:.1e}{wrong}")
        print(f"| {' | '.join(row)} |", flush=True)
    step_seconds = timer.seconds(step.launches, 10)
    print(f"| the step | {len(step.launches)} launches | | {1e6 * step_seconds:.2f} | | |")
    print(f"| sum of the operations | | | {1e6 * total:.2f} | | |", flush=True)
    return right


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--kernels", nargs="+", default=groups.names("kernel"))
    options.add_argument("--precisions", nargs="+", default=["fp32", "tf32", "bf16"])
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--unchecked", action="store_true")
    given, right = options.parse_args(), True
    for kernel in given.kernels:
        for precision in groups.load("kernel", kernel)["precisions"]:
            if precision in given.precisions:
                try:
                    right = measure(kernel, precision, given.batch, not given.unchecked) and right
                except SnnError as error:
                    print(f"\n{kernel} {precision}: {error}", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
