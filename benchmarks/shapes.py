#!/usr/bin/env python3
"""Microseconds per training step of random shapes: `persistent` without its fallback, `graph`, and peers.

    benchmarks/shapes.py FILE.csv [--shapes 300] [--seed 1] [--seconds 600] [--peers jax_scan] [--peered 12]

One row per shape and strategy, written as soon as it is measured. What FILE has is not measured again, so
that an interrupted sweep goes on; --seconds says when to begin no further shape. A grid's microbenchmark
`shapes` measures the same in one job, for its table.
"""

import argparse
import csv
import os
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn.hardware import threads  # noqa: E402

threads.assign()

from arguments import refused, whole  # noqa: E402

from snn import backends  # noqa: E402
from snn.backends.base import Backend  # noqa: E402
from snn.config import groups  # noqa: E402
from snn.errors import ConfigError  # noqa: E402
from snn.microbenchmarks import shapes  # noqa: E402
from snn.microbenchmarks.readings import Effort, Reading  # noqa: E402

COLUMNS = (
    *("seed", "shape", "batch", "features", "hidden", "outputs", "biases", "strategy"),
    *("us_per_step", "min_us", "max_us", "plan", "status", "reason"),
)
EFFORT = Effort(samples=9, seconds=0.1)


def done(path: Path, seed: int) -> set[tuple[int, str]]:
    """Number and strategy of the file's rows with this seed; an incomplete last row is cut off.

    Raises ConfigError if the file has other columns.
    """
    if not path.exists():
        return set()
    content = path.read_bytes()
    whole_lines = content[: content.rfind(b"\n") + 1]
    if len(whole_lines) < len(content):
        os.truncate(path, len(whole_lines))
    rows = list(csv.DictReader(whole_lines.decode().splitlines()))
    if rows and tuple(rows[0]) != COLUMNS:
        raise ConfigError(f"{path}: its columns are {', '.join(rows[0])}: give a new file")
    return {(int(row["shape"]), row["strategy"]) for row in rows if int(row["seed"]) == seed}


def row(seed: int, found: Reading) -> dict[str, object]:
    """A reading as a row, times in microseconds."""
    times = [1e6 * one for one in found.seconds]
    figures = [f"{value:.3f}" for value in (median(times), min(times), max(times))] if times else [""] * 3
    named = dict(zip(("us_per_step", "min_us", "max_us"), figures, strict=True))
    return {"seed": seed, "plan": "", **found.point, **named, "status": found.status, "reason": found.reason}


def measured(device: Backend, shape: shapes.Drawn, name: str) -> Reading:
    """The reading of a strategy at a shape; of a fault one with the status ``failed``: the sweep goes on."""
    try:
        return shapes.of_shape(device, shape, name, EFFORT)
    except Exception as error:
        point = {**shape.point, "strategy": name}
        return Reading(point, status="failed", reason=f"{type(error).__name__}: {error}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("file", type=Path)
    options.add_argument("--shapes", type=whole(1), default=300)
    options.add_argument("--seed", type=whole(0), default=1)
    options.add_argument("--seconds", type=whole(1), default=600)
    options.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options.add_argument("--peers", nargs="+", default=[], choices=groups.names("strategy"))
    options.add_argument("--peered", type=whole(0), default=12)
    given = options.parse_args()
    until = time.monotonic() + given.seconds
    with refused():
        had = done(given.file, given.seed)
        device = backends.make(given.device, groups.load("kernel", shapes.PRODUCTS[given.device]))

        def left(shape: shapes.Drawn) -> list[str]:
            peers = given.peers if shape.number < given.peered else []
            return [
                name for name in (shapes.PERSISTENT, shapes.GRAPH, *peers) if (shape.number, name) not in had
            ]

        drawn = [shapes.drawn(given.seed, number) for number in range(given.shapes)]
        with given.file.open("a", newline="", encoding="utf-8") as file:
            rows = csv.DictWriter(file, COLUMNS)
            if not file.tell():
                rows.writeheader()
            for shape in shapes.compiled_together(device, [shape for shape in drawn if left(shape)]):
                if time.monotonic() > until:
                    break
                for name in left(shape):
                    rows.writerow(row(given.seed, measured(device, shape, name)))
                    file.flush()
                device.synchronize()  # a device that a fault has left unusable ends the sweep


if __name__ == "__main__":
    main()
