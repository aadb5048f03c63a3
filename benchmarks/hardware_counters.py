#!/usr/bin/env python3
"""Print Nsight Compute's counters for each kernel of a training step, next to the bytes of its operands.

    benchmarks/hardware_counters.py [--ncu PATH] [KEY=VALUE]...     settings as for snn run
    benchmarks/hardware_counters.py strategy=resident kernel=tiled_fused dataset=fashion network=cnn

It needs ncu, a GPU whose counters this user may read, and a strategy that launches each kernel by itself:
not graph, persistent, data_parallel or a peer. ncu repeats each kernel with cold caches and fixed clocks, so
its times are longer than in training. The modelled bytes are the sizes of an operation's operands, each moved
once. If fewer bytes come from main memory, caches hold the rest; if more do, numbers are read again.
"""

import argparse
import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from arguments import refused
from steps import ROOT  # it puts snn on the path

from snn.backends.base import Backend
from snn.backends.ops import operand_bytes
from snn.config.cell import Cell
from snn.config.compose import composed
from snn.errors import ConfigError, MeasurementError, Unsupported
from snn.measurement.cell import load_table, make_backend
from snn.measurement.passes import job_of
from snn.profiling.observed import Call, Live, ObservedBackend, Observer
from snn.strategies.factory import Job, class_of, start

METRICS = {
    "dram__bytes_read.sum": "DRAM read (B)",
    "dram__bytes_write.sum": "DRAM written (B)",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput (%)",
    "l1tex__t_sector_hit_rate.pct": "L1 hits (%)",
    "lts__t_sector_hit_rate.pct": "L2 hits (%)",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy (%)",
    "gpu__time_duration.sum": "time (ns)",
}


class Launches(Observer):
    """An observer that lists launches: operation, numbers, and bytes of the operands."""

    def __init__(self, storage: str) -> None:
        self.found: list[tuple[str, str, int]] = []
        self._storage = storage

    def before(self, call: Call, live: Live) -> None:
        if call.name == "launch":
            op, _, numbers = call.arguments
            sizes = "x".join(str(n) for n in numbers if isinstance(n, int))
            self.found.append((op, sizes, sum(operand_bytes(op, numbers, self._storage))))


def cell_of(settings: Sequence[str]) -> Cell:
    """The cell on a GPU. Raises ConfigError for another device, or a strategy without launches to count."""
    on_gpu = "device=cuda"
    for one in settings:
        if one.partition("=")[0] == "device" and one != on_gpu:
            raise ConfigError(f"{one}: only a GPU has these counters: leave it out, or give {on_gpu}")
    cell = composed([*(one for one in settings if one != on_gpu), on_gpu])
    kind = class_of(cell["strategy"])
    if kind.on_host or kind.own_runtime or kind.by_epoch or kind.several_devices:
        raise ConfigError(
            f"strategy={cell.strategy} does not launch each kernel by itself on one GPU: "
            "choose one that does, such as strategy=resident"
        )
    return cell


def launches_of_step(
    job: Job, backend: Backend, begin: Callable[[], object], end: Callable[[], object]
) -> list[Any]:
    """The launches of one step, after another one; ``begin`` and ``end`` are called around it alone."""
    observer = Launches(job.network.storage)
    batch = replace(job, X=job.X[: job.batch_size], Y=job.Y[: job.batch_size])
    strategy = start(batch, ObservedBackend(backend, observer))
    try:
        strategy.load(next(strategy.starts(job.network, job.seed)))
        strategy.epoch()
        backend.synchronize()
        observer.found.clear()
        begin()
        strategy.epoch()
        backend.synchronize()
        end()
    finally:
        strategy.close()
    return observer.found


def counters(text: str) -> list[dict[str, Any]]:
    """Each kernel of ncu's CSV, in order: its name as ``kernel``, and each metric, None for n/a."""
    kernels: dict[str, dict[str, Any]] = {}
    for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
        kernel, value = kernels.setdefault(row["ID"], {"kernel": row["Kernel Name"]}), row["Metric Value"]
        is_number = value.replace(",", "").replace(".", "", 1).isdigit()
        kernel[row["Metric Name"]] = float(value.replace(",", "")) if is_number else None
    return list(kernels.values())


def table(launches: Sequence[Sequence[Any]], kernels: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A row per launch. Raises MeasurementError unless ncu counted one kernel for each."""
    if len(launches) != len(kernels):
        said = f"{len(launches)} launches, but ncu counted {len(kernels)} kernels"
        raise MeasurementError(f"{said}: choose a strategy and a kernel with one kernel per launch")
    heads = ["operation", "sizes", "kernel", "modelled (B)", *METRICS.values()]
    yield from (f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads)))
    for (op, sizes, modelled), kernel in zip(launches, kernels, strict=True):
        values = ["n/a" if (n := kernel.get(of)) is None else f"{n:,.10g}" for of in METRICS]
        yield f"| {op} | {sizes} | {kernel['kernel']} | {modelled:,} | {' | '.join(values)} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--ncu", default="ncu")
    options.add_argument("--launches", type=Path, help=argparse.SUPPRESS)  # this program under ncu
    options.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    given = options.parse_args()
    if not given.launches and not shutil.which(given.ncu):
        print(f"hardware_counters: {given.ncu} is not found: install Nsight Compute, or give --ncu PATH")
        sys.exit(77)
    with refused(), TemporaryDirectory() as folder:
        cell = cell_of(given.settings)
        if given.launches:
            from cupy.cuda.runtime import profilerStart, profilerStop

            job, backend = job_of(cell, load_table(cell, None)), make_backend(cell)
            found = launches_of_step(job, backend, profilerStart, profilerStop)
            given.launches.write_text(json.dumps(found))
            return
        log, launches = Path(folder, "ncu.csv"), Path(folder, "launches.json")
        command = [given.ncu, "--csv", "--print-units=base", "--profile-from-start=off", "--log-file", log]
        command += ["--metrics", ",".join(METRICS), sys.executable, __file__, "--launches", launches]
        done = subprocess.run([*command, *given.settings], cwd=ROOT, capture_output=True, text=True)
        text = log.read_text() if log.exists() else ""
        if done.returncode or not launches.exists():
            said = [line for line in text.splitlines() if line.startswith("==ERROR==")]
            raise Unsupported(
                "\n".join([*said, done.stderr.strip()])
                or f"{given.ncu} ended with {done.returncode} without counters"
            )
        print("\n".join(table(json.loads(launches.read_text()), counters(text))))


if __name__ == "__main__":
    main()
