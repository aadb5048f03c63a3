#!/usr/bin/env python3
"""Other constants for the direct convolutions, tried one at a time on this GPU.

    benchmarks/convolution_tuning.py [--kernels fused tensor_core] [--seconds 60]

For every convolution in the step of the network of ``benchmarks/convolution.py``, each constant of
``CONSTANTS`` takes its other values in turn, and keeps the one with which the operation is fastest; then all
of them again, until nothing changes or the time of the operation is up. What is printed is every trial, and
at the end the best.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from convolution import AT_ONCE, INPUTS, LAYERS, ROOT, Timer, check  # first: it puts snn on the path

from snn import backends
from snn.backends import kernel_source
from snn.backends.cuda.kernels import Kernels
from snn.backends.ops import OPS
from snn.config import groups
from snn.models.layers import parse
from snn.models.losses import LOSSES
from snn.models.network import Network
from snn.models.step import Launch
from snn.models.training_step import training_step

MOST_PARTS = 264

_TILE_OUT = "static constexpr int TILE_OUT = ([^;]*);"
_TILE_ROWS = r"static constexpr int TILE_ROWS = ([^;]*);"
CONSTANTS: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "fused": {
        "ENOUGH_BLOCKS": (r"ENOUGH_BLOCKS = (\d+)", ("60", "120", "190", "250", "380")),
        "MOST_THREADS": (r"MOST_THREADS = (\d+)", ("256", "512", "1024")),
        "MOST_SUMS": (r"MOST_SUMS = (\d+)", ("12", "16", "28", "36", "56")),
        "MOST_CHANNELS": (r"MOST_CHANNELS = (\d+)", ("1", "2", "4", "8")),
        "TILE_OUT": (_TILE_OUT, ("1", "2", "4")),
        "TILE_ROWS": (_TILE_ROWS, ("1", "2")),
    },
    "tensor_core": {
        "ENOUGH_BLOCKS": (r"ENOUGH_BLOCKS = (\d+)", ("60", "120", "190", "250", "380")),
        "MOST_THREADS": (r"MOST_THREADS = (\d+)", ("256", "512", "1024")),
        "TILES_DOWN": (r"TILES_DOWN = (\d+)", ("1", "2", "4")),
    },
}
OF_SUMS: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "fused": {
        "parts": ("", ("66", "128", "132", "256", "264")),
        "MOST_THREADS": (r"MOST_THREADS = (\d+)", ("128", "256", "512", "1024")),
        "held": (r"held\(units \+ 1\) <= (\d+)", ("8", "16", "24")),
        "TILE_OUT": (r"TILE_OUT = KERNEL <= 3 \? (\d+)", ("2", "4", "8")),
        "OUT_BLOCK": (r"smaller\(FILTERS, KERNEL <= 3 \? (\d+)", ("16", "32")),
    },
    "tensor_core": {
        "parts": ("", ("66", "128", "132", "256", "264")),
        "MOST_THREADS": (r"MOST_THREADS = (\d+)", ("128", "256", "512", "1024")),
        "held": (r"held\(units \+ 1\) <= (\d+)", ("8", "16", "24")),
        "TILES": (r"TILES = smaller\(up\(LEFT_ROWS, 16\), (\d+)\)", ("1", "3", "5", "9")),
    },
}


def replaced(source: str, values: dict[str, str], constants: dict[str, tuple[str, tuple[str, ...]]]) -> str:
    """The source with other values of these constants."""
    for name, value in values.items():
        pattern = constants[name][0]
        if pattern:
            match = re.search(pattern, source)
            assert match is not None, f"{name}: {pattern} is not in the source"
            source = source[: match.start(1)] + value + source[match.end(1) :]
    return source


def seconds_of(
    timer: Timer, backend: Any, make: Callable[[], Kernels], launch: Launch, checked: bool = False
) -> float:
    """The time of a launch by other kernels; infinite if they do not compile or are wrong."""
    kept, backend._kernels = backend._kernels, make()
    try:
        if checked and check(backend, launch) > 5e-2:
            return float("inf")
        return timer.seconds([launch], AT_ONCE, repeats=10)
    except Exception as error:  # of the compiler, or of a launch that asks for too much
        print(f"    {type(error).__name__}: {str(error).strip().splitlines()[0][:100]}")
        return float("inf")
    finally:
        backend._kernels = kept


def tune(kernel: str, precision: str, batch: int, limit: float) -> None:
    choice = groups.load("kernel", kernel)
    backend: Any = backends.make("cuda", choice, ROOT, precision)
    loss = LOSSES["cross_entropy"]
    network = Network(INPUTS, tuple(map(parse, LAYERS)), loss, update_order="simultaneous")
    step = training_step(network, batch, 0.0, backend.fused, backend.pretransposed, backend.convolves)
    with_parts = [i for i, launch in enumerate(step.launches) if "parts" in OPS[launch.op].numbers]
    larger = list(step.launches)
    for i in with_parts:
        step.launches[i] = parted(larger[i], MOST_PARTS)
    timer = Timer(backend, step)
    for launch in larger:
        if not OPS[launch.op].is_convolution:
            continue
        of_sums = "parts" in OPS[launch.op].numbers
        constants = (OF_SUMS if of_sums else CONSTANTS)[kernel]
        print(f"\n{kernel} {precision} {launch.op} {launch.numbers}", flush=True)

        def timed(values: dict[str, str], launch=launch, constants=constants) -> float:
            def make() -> Kernels:
                kernels = Kernels(choice, precision, ROOT)
                kernels._text = lambda source: replaced(  # type: ignore[method-assign]
                    kernel_source.text(ROOT / source), values, constants
                )
                return kernels

            one = parted(launch, int(values["parts"])) if "parts" in values else launch
            seconds = seconds_of(timer, backend, make, one)
            print(f"  {1e6 * seconds:8.2f} us  {values}", flush=True)
            return seconds

        best: dict[str, str] = {}
        fastest, end, changed = timed(best), time.monotonic() + limit, True
        while changed and time.monotonic() < end:
            changed = False
            for name, (_, options) in constants.items():
                for value in options:
                    if value == best.get(name) or time.monotonic() > end:
                        continue
                    seconds = timed(best | {name: value})
                    if seconds < 0.99 * fastest:
                        best, fastest, changed = best | {name: value}, seconds, True
        print(f"  best {1e6 * fastest:.2f} us  {best}", flush=True)
    for launch in larger:
        if launch.op == "update_parts":
            times = [
                f"{parts}: {1e6 * timer.seconds([parted(launch, parts)], AT_ONCE):.2f} us"
                for parts in (66, 128, 132, 256, 264)
            ]
            print(f"\n{launch.op} {launch.numbers} by parts: {', '.join(times)}", flush=True)


def parted(launch: Launch, parts: int) -> Launch:
    """The launch with another number of partial sums."""
    at = OPS[launch.op].numbers.index("parts")
    return launch._replace(numbers=(*launch.numbers[:at], parts, *launch.numbers[at + 1 :]))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--kernels", nargs="+", default=list(CONSTANTS), choices=list(CONSTANTS))
    options.add_argument("--precisions", nargs="+", default=["fp32", "tf32"])
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--seconds", type=float, default=60, help="for each operation")
    given = options.parse_args()
    for kernel in given.kernels:
        for precision in groups.load("kernel", kernel)["precisions"]:
            if precision in given.precisions:
                tune(kernel, precision, given.batch, given.seconds)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
