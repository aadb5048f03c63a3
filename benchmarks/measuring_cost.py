#!/usr/bin/env python3
"""The overhead of measuring: runs with all instruments on, compared with runs with all of them off.

    benchmarks/measuring_cost.py [--device cuda] [--strategy reference] [--rounds 200] [--seconds 600]

Alternates, in random order, between rounds as a cell measures them (probe, ledger, memory, samples, a reading
of the machine after each run) and rounds with nothing but the warm-up and the timed runs. Both train on the
small data set. Prints the ratio of the mean times with its 95% confidence interval.
"""

import argparse
import random
import sys
import time
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn.hardware import threads  # noqa: E402

threads.assign()

from snn import backends, datasets  # noqa: E402
from snn.analysis.intervals import ratio  # noqa: E402
from snn.backends.base import Backend  # noqa: E402
from snn.config.compose import composed  # noqa: E402
from snn.hardware import devices  # noqa: E402
from snn.hardware.sampling import Sampler, gpu_state  # noqa: E402
from snn.measurement import passes  # noqa: E402
from snn.measurement.passes import probe  # noqa: E402
from snn.measurement.protocol import Round  # noqa: E402
from snn.measurement.runs import Measurement, _time_runs, measure  # noqa: E402
from snn.strategies.base import unwatched  # noqa: E402
from snn.strategies.factory import Job  # noqa: E402

RULES = Round(runs=4, warmup_seconds=0.02, max_warmup_seconds=0.1)


def with_everything(job: Job, backend: Backend, device: devices.Device) -> list[float]:
    """Seconds of the runs of a round, measured as a cell is."""
    probe(backend)
    readings = [gpu_state(device)]
    with Sampler(device, lambda *_: None):
        measurement = measure(job, RULES, backend, lambda runs: readings.append(gpu_state(device)))
    return [run.seconds for run in measurement.runs]


def bare(job: Job, backend: Backend, device: devices.Device) -> list[float]:
    """Seconds of the runs of a round without any instrument."""
    measurement = Measurement()
    _time_runs(job, RULES, backend, measurement, lambda runs: None, unwatched)
    return [run.seconds for run in measurement.runs]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    options.add_argument("--rounds", type=int, default=200)
    options.add_argument("--seconds", type=float, default=600.0, help="start no round after this time")
    options.add_argument("--strategy", default="reference")
    options.add_argument("--epochs", type=int, default=20, help="epochs per run")
    given = options.parse_args()
    device = devices.find(given.device)
    config = composed(
        [f"device={device.backend}", f"strategy={given.strategy}", f"training.epochs={given.epochs}"]
    )
    backend = backends.make(device.backend, config["kernel"], ROOT)
    job = passes.job_of(config, datasets.make(config["dataset"]))
    seconds: dict[str, list[list[float]]] = {"on": [], "off": []}
    kinds = {"on": with_everything, "off": bare}
    end = time.monotonic() + given.seconds
    for _ in range(given.rounds):
        if time.monotonic() > end and len(seconds["off"]) > 1:
            break
        for kind in random.sample(list(kinds), 2):
            seconds[kind].append(kinds[kind](job, backend, device))
    low, high = ratio(seconds["on"], seconds["off"])[1:3]
    on, off = (fmean(run for a_round in seconds[kind] for run in a_round) for kind in ("on", "off"))
    print(
        f"{device.name}, {given.strategy}, {len(seconds['off'])} rounds: "
        f"{on:.6f} s per run with all instruments on, "
        f"{off:.6f} s with all off: {on / off - 1:+.2%} ({low - 1:+.2%} to {high - 1:+.2%})"
    )


if __name__ == "__main__":
    main()
