#!/usr/bin/env python3
"""Passes over data larger than the memory that is left on the GPU: unified memory, and copies in chunks.

    benchmarks/oversubscription.py [--left MIB] [--percent 50 90 110 150 200] [--csv FILE]

Managed memory is allocated first, at most half of what is free on the device. Then all of the device's memory
but --left MiB is occupied, so that data of more than 100% of it does not fit. In each pass the device reads
and writes every number once: in managed memory by page faults; else a quarter of --left at a time, which is
copied from pinned memory and back. Rates are medians with 95% intervals. Nothing else should run on the GPU.
results/published/oversubscription.csv is the output of --csv.
"""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import steps  # noqa: F401 - it puts snn on the path
from arguments import refused, whole

from snn import backends
from snn.backends.base import Backend
from snn.config import groups
from snn.files import outputs
from snn.hardware import devices
from snn.microbenchmarks.allocators import ballast
from snn.microbenchmarks.memory_calls import MANAGED, PINNED, check_host, pinned
from snn.microbenchmarks.readings import Effort, reading
from snn.tables.microbenchmarks import median_interval

CHUNKS = 4  # of the memory that is left
EFFORT = Effort(samples=11, seconds=2)


def managed(backend: Backend, nbytes: int, left: int) -> list[float]:
    """Seconds per pass over managed memory whose pages are on the host at first."""
    check_host(nbytes)
    with ExitStack() as stack:
        array = backend.managed_alloc((nbytes // 4,))
        stack.callback(backend.managed_free, array)
        backend.advise(array[:1], "accessed_by")  # Unsupported if host and device cannot share an array
        array.fill(1.0)
        stack.enter_context(ballast(backend, left))

        def step() -> None:
            backend.launch("relu", (backend.shared_buffer(array),), (array.size,))
            backend.synchronize()

        return EFFORT.prepared(step, lambda: None)


def copied(backend: Backend, nbytes: int, left: int) -> list[float]:
    """Seconds per pass over a pinned array that is copied to the device and back, chunk by chunk."""
    with ExitStack() as stack:
        array = pinned(backend, (nbytes // 4,))
        stack.callback(backend.host_free, array)
        array.fill(1.0)
        stack.enter_context(ballast(backend, left))
        buffer = backend.malloc(left // CHUNKS)
        stack.callback(backend.free, buffer)

        def step() -> None:
            for chunk in np.array_split(array, -(-nbytes // (left // CHUNKS))):
                backend.copy_in(buffer, chunk)
                backend.launch("relu", (buffer,), (chunk.size,))
                backend.copy_out(chunk, buffer)
            backend.synchronize()

        return EFFORT.prepared(step, lambda: None)


def rows(backend: Backend, left: int, percents: list[int]) -> Iterator[dict[str, Any]]:
    """A row per kind of memory and size, with the bytes per second of a pass; else the reason."""
    block = backend.malloc(4096)
    backend.launch("relu", (block,), (1024,))  # which loads the kernel while there is memory
    backend.free(block)
    for memory, take in ((MANAGED, managed), (PINNED, copied)):
        for percent in percents:
            nbytes = left * percent // 100
            found = reading({}, partial(take, backend, nbytes, left))
            rate = median_interval([nbytes / s / 1e9 for s in found.seconds]) if found.seconds else [None] * 3
            row = {"memory": memory, "percent": percent, "bytes": nbytes, "left_bytes": left}
            row |= dict(zip(("gb_s", "gb_s_low", "gb_s_high"), rate, strict=True))
            yield row | {"samples": len(found.seconds), "status": found.status, "reason": found.reason}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="cuda")
    parser.add_argument("--left", type=whole(64), default=1024, metavar="MIB")
    parser.add_argument("--percent", nargs="+", type=whole(1), default=[50, 90, 110, 150, 200])
    parser.add_argument("--csv", metavar="FILE")
    given = parser.parse_args()
    with refused():
        target = None if given.csv is None else outputs.checked(given.csv, (), "--csv")
        device = devices.find(given.device)
        backend = backends.make(device.backend, groups.load("kernel", "naive"))
        table = pd.DataFrame(rows(backend, given.left << 20, given.percent)).assign(device=device.name)
        print(table.drop(columns=["device", "left_bytes"]).to_string(index=False))
        if target is not None:
            with outputs.replaced(target) as file:
                file.write(table.to_csv(index=False).encode())


if __name__ == "__main__":
    main()
