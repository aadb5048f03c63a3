#!/usr/bin/env python3
"""Slowdown of timed runs by sampling the machine: runs with a record's samples, compared with runs without.

    benchmarks/sampling_cost.py [--device cuda] [--strategy graph] [--pairs 30] [--every 0.05] [--epochs 200]

Alternates, in random order and within one process, between a run while a thread takes samples and one without
it. Samples are taken more often than for a record (--every, in seconds), so that their cost stands out from
the noise. Prints the ratio of the mean times with its 95% confidence interval, and the same scaled to
a record's pace, whose samples cost as much each but are fewer.
"""

import argparse
import random
import sys
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn.hardware import threads  # noqa: E402

threads.assign()

from arguments import refused, seconds, whole  # noqa: E402

from snn import backends, datasets  # noqa: E402
from snn.analysis.intervals import ratio  # noqa: E402
from snn.config.compose import composed  # noqa: E402
from snn.hardware import devices  # noqa: E402
from snn.hardware.sampling import EVERY, Sampler, open_sensors  # noqa: E402
from snn.measurement import passes  # noqa: E402
from snn.measurement.runs import _run  # noqa: E402
from snn.strategies.base import unwatched  # noqa: E402
from snn.strategies.factory import start  # noqa: E402


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    options.add_argument("--strategy", default="reference")
    options.add_argument("--dataset", default="small")
    options.add_argument("--pairs", type=whole(2), default=30)
    options.add_argument("--every", type=seconds, default=0.05, help="seconds between two samples")
    options.add_argument("--epochs", type=whole(1), default=200, help="epochs per run")
    given = options.parse_args()
    device = devices.find(given.device)
    config = composed(
        [
            f"device={device.backend}",
            f"strategy={given.strategy}",
            f"dataset={given.dataset}",
            f"training.epochs={given.epochs}",
        ]
    )
    backend = backends.make(device.backend, config["kernel"], ROOT)
    job = passes.job_of(config, datasets.make(config["dataset"]))
    strategy = start(job, backend)
    times: dict[bool, list[list[float]]] = {True: [], False: []}
    taken, cpu_seconds, elapsed = 0, 0.0, 0.0
    kept = ExitStack()
    try:
        kept.enter_context(open_sensors(device))  # so that NVML is loaded once, as in a cell
        strategy.prepare(job.epochs)
        weights = next(strategy.starts(job.network, job.seed))
        _run(job, strategy, backend, weights, unwatched, after_epoch=True)
        for _ in range(given.pairs):
            for is_sampled in random.sample((True, False), 2):
                sampler = Sampler(device, lambda *_: None, given.every, most_share=1.0)
                began = time.perf_counter()
                with sampler if is_sampled else nullcontext():
                    time.sleep(given.every / 2)  # the first sample is not of the run
                    run = _run(job, strategy, backend, weights, unwatched, after_epoch=True)
                times[is_sampled].append([run.seconds])
                if is_sampled:
                    described = sampler.samples([])
                    taken += described["taken"] - 1
                    cpu_seconds += described["cpu_seconds"]
                    elapsed += time.perf_counter() - began
    finally:
        strategy.close()
        kept.close()
    low, high = ratio(times[True], times[False])[1:3]
    sampled, bare = (fmean(run for pair in times[kind] for run in pair) for kind in (True, False))
    if not taken:
        sys.exit(f"no run lasted {given.every / 2:g} s, so none was sampled: give more --epochs")
    pace = elapsed / taken
    fewer = pace / EVERY
    print(
        f"{device.name}, {given.strategy}, {given.pairs} pairs of {bare:.3f} s, a sample each {pace:.3f} s "
        f"of {1e6 * cpu_seconds / (taken + given.pairs):.0f} µs of CPU: {sampled / bare - 1:+.3%} "
        f"({low - 1:+.3%} to {high - 1:+.3%}); one each {EVERY:g} s: {fewer * (sampled / bare - 1):+.4%} "
        f"({fewer * (low - 1):+.4%} to {fewer * (high - 1):+.4%})"
    )


if __name__ == "__main__":
    with refused():
        main()
