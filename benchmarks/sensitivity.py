#!/usr/bin/env python3
"""The sensitivity of timer and statistics on this machine: do many rounds in one process tell 5% from none?

    benchmarks/sensitivity.py [--device cpu] [--repetitions 20]

Each repetition measures the reference, the reference again, and a copy of it whose epochs are slowed down by
5%, in alternating rounds as in a workflow, and compares both with the first by the statistics of the tables.
Prints each interval and verdict, and how often each verdict was right.
"""

import argparse
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn.hardware import threads  # noqa: E402

threads.assign()

from snn import backends, datasets  # noqa: E402
from snn.analysis.intervals import ratio, speedup_verdict  # noqa: E402
from snn.backends.base import Backend  # noqa: E402
from snn.config import groups  # noqa: E402
from snn.hardware import devices  # noqa: E402
from snn.measurement.protocol import Round  # noqa: E402
from snn.measurement.runs import Measurement, _time_runs  # noqa: E402
from snn.models.network import mlp  # noqa: E402
from snn.strategies.base import unwatched  # noqa: E402
from snn.strategies.factory import Job  # noqa: E402
from snn.strategies.host_driven import Reference  # noqa: E402

SLOWER = 1.05


class Slowed(Reference):
    """The reference, with every epoch slowed down by busy waiting."""

    def epoch(self) -> None:
        started = time.perf_counter()
        super().epoch()
        self.backend.synchronize()
        until = started + SLOWER * (time.perf_counter() - started)
        while time.perf_counter() < until:
            pass


def timed(job: Job, rules: Round, backend: Backend) -> list[float]:
    """Seconds of a round's runs, without the instrumented pass, so that rounds are close in time."""
    measurement = Measurement()
    _time_runs(job, rules, backend, measurement, lambda runs: None, unwatched)
    return [run.seconds for run in measurement.runs]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    options.add_argument("--repetitions", type=int, default=20)
    options.add_argument("--rounds", type=int, default=400)
    options.add_argument("--runs", type=int, default=1, help="runs per round")
    options.add_argument("--epochs", type=int, default=20, help="epochs per run, on the small data set")
    given = options.parse_args()
    margin = groups.read_yaml(groups.CONFIG / "verdicts.yaml")["same"]
    device = devices.find(given.device)
    backend = backends.make(device.backend, groups.load("kernel", "naive"), ROOT)
    table = datasets.make(groups.load("dataset", "small")).values
    X, Y = datasets.split(table, 256, "small")
    rules = Round(runs=given.runs, warmup_seconds=0.005, max_warmup_seconds=0.02)
    reference = Job(
        strategy=groups.load("strategy", "reference"),
        network=mlp((32, 256, 1)),
        X=X,
        Y=Y,
        seed=1,
        epochs=given.epochs,
        batch_size=256,
        learning_rate=0.002,
    )
    slowed = replace(reference, strategy={"_target_": f"{__name__}.Slowed", "name": "slowed"})
    jobs = {"reference": reference, "again": reference, "slowed": slowed}
    right = dict.fromkeys(("again", "slowed"), 0)
    for repetition in range(1, given.repetitions + 1):
        rounds: dict[str, list[list[float]]] = {name: [] for name in jobs}
        for _ in range(given.rounds):
            for name in random.sample(
                list(jobs), len(jobs)
            ):  # random order: none always follows the same other
                rounds[name].append(timed(jobs[name], rules, backend))
        for name, expected in (("again", "same"), ("slowed", "slower")):
            low, high = ratio(rounds["reference"], rounds[name])[1:3]
            word = speedup_verdict(low, high, margin)
            right[name] += word == expected
            print(f"{repetition:3d} {name:7s} {low:.4f} to {high:.4f} {word}", flush=True)
    print(
        f"{device.name}: same called same {right['again']} of {given.repetitions} times, "
        f"5% slower called slower {right['slowed']} of {given.repetitions}"
    )


if __name__ == "__main__":
    main()
