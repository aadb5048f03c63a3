#!/usr/bin/env python3
"""What does measuring cost what is measured? Runs with everything on beside runs with everything off.

    benchmarks/measuring_cost.py [--device cuda] [--rounds 12]

In turns: a round as a cell makes it (probe, ledger, readings of the machine between runs), and one in
which nothing is done but the timed runs. Both train the reference on the small data set. Prints the ratio of
the mean times with its 95% interval.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn import backends, cell, datasets, devices, measure  # noqa: E402
from snn.config import composed  # noqa: E402
from snn.statistics import ratio_interval  # noqa: E402


def bare(config: dict) -> list[float]:
    """Seconds of the timed runs of a cell of which nothing else is asked."""
    backend = backends.make(config["device"]["backend"], config["kernel"], ROOT)
    job = cell._job(config, 1, datasets.make(config["dataset"]))
    found = measure.Measurement()
    measure._time_runs(job, backend, found, lambda runs: None)
    return [run.seconds for run in found.runs]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--strategy", default="reference")
    given = options.parse_args()
    device = devices.find(given.device).backend
    config = composed([f"device={device}", f"strategy={given.strategy}"])
    on, off = [], []
    for number in range(given.rounds):
        for kind in ("on", "off") if number % 2 else ("off", "on"):
            if kind == "on":
                record = cell.run(config)
                on.append([run["seconds"] for run in record["runs"]])
            else:
                off.append(bare(config))
    low, high = ratio_interval(on, off)
    mean = [sum(map(sum, side)) / sum(map(len, side)) for side in (on, off)]
    print(
        f"{record['provenance']['device']}: with everything on {mean[0]:.6f} s a run, with everything off "
        f"{mean[1]:.6f} s: {mean[0] / mean[1] - 1:+.2%} ({low - 1:+.2%} to {high - 1:+.2%})"
    )


if __name__ == "__main__":
    main()
