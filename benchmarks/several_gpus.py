#!/usr/bin/env python3
"""The wall time of a sweep with several GPUs and with one, and whether its times stay the same.

    benchmarks/several_gpus.py [--sweep strategies] [--dataset small] [--rounds 3] [--gpus 2]

Measures the cells of a sweep of config/grid.yaml twice, each time in a fresh copy of this checkout: with
`snakemake --resources gpu=2`, then with gpu=1. The first one also compiles the kernels, so the ratio of
the wall times is rather too small. Only cells that config/neighbours.yaml names run side by side.

Then it divides the time of every cell with several GPUs by its time with one, over the rounds that were
measured on the same GPU (by UUID): with two GPUs, the odd rounds. The last line is the geometric mean over
cells, with its 95% interval over them.

--strategy NAME ... leaves out all other strategies; --dataset and --rounds replace the sweep's settings.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev

import pandas as pd
import yaml
from dag import copy_of

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from arguments import refused, whole  # noqa: E402

from snn.analysis import frame  # noqa: E402
from snn.analysis.intervals import ratio  # noqa: E402
from snn.analysis.speedups import common_rounds  # noqa: E402
from snn.config.groups import CONFIG, read_yaml  # noqa: E402
from snn.grid import naming, sweeps  # noqa: E402
from snn.hardware.devices import choices  # noqa: E402
from snn.measurement.student import student_quantile  # noqa: E402
from snn.records import archive  # noqa: E402
from snn.records.origin import gpus_alone  # noqa: E402


def grid_of(sweep: str, device: str, datasets: list[str], rounds: int) -> dict:
    """A grid of this sweep alone, with these data sets and rounds."""
    grid = read_yaml(CONFIG / "grid.yaml")
    if sweep not in grid["sweeps"]:
        sys.exit(f"config/grid.yaml has no sweep {sweep!r}: it has {', '.join(grid['sweeps'])}")
    settings = {**grid["sweeps"][sweep], "dataset": datasets, "protocol.rounds": rounds}
    return {**grid, "device": device, "sweeps": {sweep: settings}}


def records_of(grid: Path, device: str, strategies: list[str] | None) -> list[str]:
    """The paths of the records of a grid's cells, with these strategies if any are given."""
    cells = sweeps.all_cells(sweeps.read(grid, choices(device)[0]))
    return [
        path
        for name, cell in cells.items()
        if not strategies or cell["strategy"]["name"] in strategies
        for path in naming.record_paths(cell, name)
    ]


def wall_time(folder: Path, grid: dict, gpus: int, device: str, strategies: list[str] | None) -> float:
    """Train the cells of a grid in a copy of this checkout; its failure ends this program."""
    copy_of(ROOT, folder, None)
    path = folder / "config/grid.yaml"
    path.write_text(yaml.safe_dump(grid, sort_keys=False), encoding="utf-8")
    records = records_of(path, device, strategies)
    if not records:
        sys.exit(f"the sweep has no cell of {', '.join(strategies or ())}")
    cores = ("--cores", str(max(os.cpu_count() or 1, gpus)), "--resources", f"gpu={gpus}")
    command = [sys.executable, "-m", "snakemake", *cores, "--quiet", "rules", "--", *records]
    started = time.perf_counter()
    log = folder / "several_gpus.log"
    with log.open("wb") as printed:
        done = subprocess.run(command, cwd=folder, stdout=printed, stderr=subprocess.STDOUT)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:9])} failed in {folder}:\n{log.read_text()[-3000:]}")
    return seconds


def measured(folder: Path) -> tuple[pd.DataFrame, int]:
    """The cells of a copy, by name, and how many of its records name a neighbour."""
    records = archive.read_all(folder / "results")
    beside = sum(bool(one["machine"].get("neighbours")) for one in records.values())
    rows = frame.tabulate(records, read_yaml(CONFIG / "verdicts.yaml")).set_index("cell")
    return rows.assign(origins=rows["origins"].map(gpus_alone)), beside


def compared(several: pd.DataFrame, one: pd.DataFrame) -> list[str]:
    """A line per cell: its time with several GPUs over its time with one; then the mean of all cells."""
    lines = [
        f"{'strategy':18} {'kernel':12} {'dataset':8} {'one (s)':>10} {'several (s)':>11}  ratio  95% CI"
    ]
    logs = []
    for name, row in one.iterrows():
        other = several.loc[name]
        place = f"{row['strategy']:18} {row['kernel']:12} {row['dataset']:8}"
        found = ratio(*common_rounds(other.to_dict(), row.to_dict()))
        if not found.rounds:
            lines.append(f"{place} {row['status']}, or no round of both on one GPU")
            continue
        logs.append(log(found.value))
        lines.append(
            f"{place} {row['mean_s']:10.3g} {other['mean_s']:11.3g} {found.value:6.3f} {found.low:6.3f} to "
            f"{found.high:.3f}, {found.rounds} rounds"
        )
    return [*lines, mean_of(logs)]


def mean_of(logs: list[float]) -> str:
    """The geometric mean of ratios, from their logarithms, with Student's 95% interval."""
    if not logs:
        return "no cell has a time in both"
    mean = fmean(logs)
    if len(logs) < 2:
        return f"the ratio of the only cell is {exp(mean):.3f}"
    half = student_quantile(len(logs) - 1) * stdev(logs) / sqrt(len(logs))
    interval = f"{exp(mean - half):.3f} to {exp(mean + half):.3f}"
    return f"geometric mean of {len(logs)} cells: {exp(mean):.3f} (95% interval over cells {interval})"


def main(
    sweep: str, datasets: list[str], strategies: list[str] | None, rounds: int, gpus: int, device: str
) -> None:
    """Print both wall times, their ratio, and how the times of the cells compare."""
    found = choices(device)
    if device == "cuda" and len(found) < gpus:
        sys.exit(f"this process sees {len(found)} {found[0].name}: --gpus {gpus} needs as many")
    grid = grid_of(sweep, device, datasets, rounds)
    seconds, cells = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        for count in (gpus, 1):
            folder = Path(scratch) / f"gpus{count}"
            seconds[count] = wall_time(folder, grid, count, device, strategies)
            cells[count], beside = measured(folder)
            jobs = sum(map(len, cells[count]["rounds"]))
            print(
                f"gpu={count}: {seconds[count]:.1f} s for {jobs} jobs of {len(cells[count])} cells, "
                f"{beside} of them next to another",
                flush=True,
            )
    print(f"wall time with one GPU over {gpus} GPUs: {seconds[1] / seconds[gpus]:.2f}\n")
    print("\n".join(compared(cells[gpus], cells[1])))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--sweep", default="strategies")
    options.add_argument("--dataset", nargs="+", default=["small"])
    options.add_argument("--strategy", nargs="+", help="only these strategies of the sweep")
    options.add_argument("--rounds", type=whole(1), default=3)
    options.add_argument("--gpus", type=whole(2), default=2)
    options.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try this out")
    given = options.parse_args()
    with refused():
        main(given.sweep, given.dataset, given.strategy, given.rounds, given.gpus, given.device)
