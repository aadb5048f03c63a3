"""Overhead of a large grid, without training: python benchmarks/large_grid.py [--cells N] [--run-seconds S]

Makes a copy of this checkout in a temporary folder, in which every strategy is a stub that sleeps 0 seconds,
with a grid of N cells in one round, and prints seconds, peak memory and files of

  plan     ``snakemake -n`` when nothing has been made
  run      cells, for S seconds; the time of all cells follows from the cells that were made
  tables   every table and figure, and every other output but the cells
  no-op    ``snakemake`` when everything has been made
  report   ``snakemake --report report.html``
  edit     ``snakemake -n`` after an edit of the stub, which affects every cell

Cells that the run had no time for get a copy of the record of a trained cell, so that tables and report cover
all cells. Peak memory is the largest process's. Each command is printed with the machine's load before it:
other programs slow everything down.

With --browser PROGRAM (a Chromium) it times how long the page of the largest table and the report take to
appear in it, headless; the time of an empty page is subtracted.
"""

import argparse
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from dag import ROOT, SNAKEMAKE, copy_of

STUB = '''"""A strategy that sleeps 0 seconds in each epoch: only the work around training is timed."""

import time

import numpy as np

from snn.strategies.base import Strategy


class Stub(Strategy):
    """Nothing is trained; one host array is allocated, since an empty ledger would count as missing."""

    _array = None

    def setup(self, network, X, Y, batch_size, learning_rate):
        self._array = self.backend.host_alloc((1,), "data", False)
        self._batches = -(-len(X) // batch_size)

    def load(self, weights):
        self._weights = [W.copy() for W in weights]

    def epoch(self):
        time.sleep(0)

    def loss(self):
        return 1.0

    def epoch_losses(self):
        return np.ones(self._batches)

    def predict(self, X):
        return np.zeros((len(X), 1), np.float32)

    def weights(self):
        return self._weights

    def close(self):
        if self._array is not None:
            self.backend.host_free(self._array)
            self._array = None
'''
STUBS = ("reference", "streams", "pinned", "combined")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
OPTIONS = ("--config", "device=cpu")
FILL = """
import json, os, sys
from pathlib import Path
from snn.grid import fingerprint, naming, sweeps
from snn.hardware.devices import find
from snn.records import store
cells = sweeps.all_cells(sweeps.read(Path("config/grid.yaml"), find("cpu")))
paths = {naming.record_paths(cell, name)[0]: cell for name, cell in cells.items()}
known = {}
for path, cell in paths.items():
    if os.path.exists(path):
        known.setdefault(cell["strategy"]["name"], store.read(Path(path)))
some = next(iter(known.values()))
for path, cell in paths.items():
    if not os.path.exists(path):
        record = {key: value for key, value in some.items() if key != store.DIGEST} | {"cell": cell}
        sources = fingerprint.cell_sources(cell).digest
        record["provenance"] = record["provenance"] | {"source_hash": sources}
        store.write(Path(path), store.sealed(record))
"""


@dataclass(frozen=True)
class Cost:
    """Cost of a command: seconds, processor seconds, and bytes of its largest process.

    ``files`` is how many the copy has after it, ``load`` the machine's load average before it.
    """

    what: str
    seconds: float
    processor_seconds: float
    peak_bytes: int
    files: int
    load: float

    def __str__(self) -> str:
        times = f"{self.seconds:8.1f} s {self.processor_seconds:8.1f} s"
        sizes = f"{self.peak_bytes / 2**20:6.0f} MiB {self.files:8} files"
        return f"{self.what:8} {times} {sizes}   load {self.load:4.1f}"


def grid_of(cells: int) -> dict:
    """A grid of one sweep of so many cells in one round: every fourth is the others' baseline."""
    rounds = {"protocol.runs": 1, "protocol.rounds": 1, "protocol.min_runs": 1}
    rounds |= {"protocol.warmup_seconds": 0, "protocol.max_warmup_seconds": 0}
    seeds = list(range(1, cells // len(STUBS) + 1))
    return {
        "defaults": {"training.epochs": 1, **rounds},
        "sweeps": {"many": {"strategy": list(STUBS), "network.seed": seeds}},
    }


def with_stubs(folder: Path, cells: int) -> Path:
    """A copy of this checkout in which the paper's strategies are stubs, with a large grid."""
    copy_of(ROOT, folder, None)
    (folder / "config/grid.yaml").write_text(yaml.safe_dump(grid_of(cells)), encoding="utf-8")
    (folder / "snn/strategies/stub.py").write_text(STUB, encoding="utf-8")
    for name in STUBS:
        choice = {"_target_": "snn.strategies.stub.Stub", "name": name}
        (folder / f"config/strategy/{name}.yaml").write_text(yaml.safe_dump(choice), encoding="utf-8")
    return folder


def timed(what: str, command: Sequence[str], folder: Path, limit: float = math.inf) -> Cost:
    """Run a command in the copy up to a time limit; its failure before that ends this program."""
    load, started = os.getloadavg()[0], time.perf_counter()
    log = folder / f"{what}.log"
    with log.open("wb") as printed:
        process = subprocess.Popen(
            command, cwd=folder, stdout=printed, stderr=subprocess.STDOUT, env=ENVIRONMENT
        )
        used = waited_for(process, limit)
    seconds = time.perf_counter() - started
    if process.returncode != 0 and seconds < limit:
        sys.exit(f"{' '.join(command)} failed in {folder}:\n{log.read_text()[-3000:]}")
    files = sum(len(names) for _, _, names in os.walk(folder))
    return Cost(what, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, files, load)


def waited_for(process: subprocess.Popen, limit: float) -> resource.struct_rusage:
    """Resources used by a process and its children; after ``limit`` seconds it is terminated."""
    end = time.perf_counter() + limit
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return used
        time.sleep(0.05)
        if time.perf_counter() > end:
            process.send_signal(signal.SIGTERM)
            end = math.inf


def trained(folder: Path) -> list[float]:
    """When each record was written."""
    return sorted(path.stat().st_mtime for path in (folder / "results/cells").rglob("*.json"))


def shown_in(browser: str, page: Path, scratch: Path) -> float:
    """Seconds that a browser takes to load a page and lay it out, less those of an empty one."""
    empty = scratch / "empty.html"
    empty.write_text("<!doctype html><title>empty</title>", encoding="utf-8")
    taken = []
    for path in (empty, page):
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch / 'b'}"]
        command += ["--window-size=1600,900", f"--screenshot={scratch / 'page.png'}", path.resolve().as_uri()]
        times = []
        for _ in range(3):
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, timeout=600)
            times.append(time.perf_counter() - started)
        taken.append(min(times))
    return taken[1] - taken[0]


def main(cells: int, run_seconds: float, browser: str | None, kept: Path | None) -> None:
    """Print the cost of each command."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = with_stubs(kept or Path(scratch) / "copy", cells)
        planned = [*SNAKEMAKE, "-n", "--quiet", "rules", *OPTIONS]
        print(f"{cells} cells of one round, {os.cpu_count()} CPUs", flush=True)
        print("           seconds  processor      peak         files in the copy", flush=True)
        print(timed("plan", planned, folder), flush=True)
        run = timed("run", [*SNAKEMAKE, *OPTIONS], folder, run_seconds)
        made = trained(folder)
        if len(made) < 2:
            sys.exit(f"too few cells were trained:\n{(folder / 'run.log').read_text()[-3000:]}")
        per_cell = (made[-1] - made[0]) / (len(made) - 1)
        print(f"{run}   {len(made)} cells, {per_cell:.2f} s each", flush=True)
        if len(made) < cells:
            print(
                f"         all of them would take {per_cell * cells / 3600:.1f} h (extrapolated)", flush=True
            )
        subprocess.run([sys.executable, "-c", FILL], cwd=folder, check=True)
        print(timed("tables", [*SNAKEMAKE, *OPTIONS], folder), flush=True)
        print(timed("no-op", [*SNAKEMAKE, *OPTIONS], folder), flush=True)
        report = [*SNAKEMAKE, "--report", "report.html", *OPTIONS]
        print(timed("report", report, folder), flush=True)
        pages = (folder / "report.html", folder / "results/tables/many.html")
        for page in pages:
            print(f"{page.name}: {page.stat().st_size / 2**20:.1f} MiB", flush=True)
        if browser:
            for page in pages:
                print(f"{page.name}: {shown_in(browser, page, Path(scratch)):.2f} s in a browser", flush=True)
        with (folder / "snn/strategies/stub.py").open("a") as stub:
            stub.write("# edited\n")
        print(timed("edit", planned, folder), flush=True)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--cells", type=int, default=10_000, help="of the grid (default 10000)")
    options.add_argument(
        "--run-seconds", type=float, default=300, help="that cells are trained (default 300)"
    )
    options.add_argument("--browser", default=shutil.which("chromium"), help="to time pages with")
    options.add_argument("--keep", type=Path, help="a new folder in which the copy is kept")
    given = options.parse_args()
    main(given.cells, given.run_seconds, given.browser, given.keep)
