"""The workflow, started as a user would start it: in the project's folder, one job at a time."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from snn.config.groups import ROOT
from snn.errors import SnnError
from snn.recommending import SWEEP
from snn.recommending.grid_file import GridFile

TABLE = Path(f"results/tables/{SWEEP}.csv")
ANSWER = Path("results/tables/recommendation.csv")
FIGURE = Path(f"results/figures/{SWEEP}.svg")

_NOISE = "Using workflow specific profile"


class WorkflowError(SnnError):
    """The workflow ended with an error; it has printed why."""


def measure(grid: GridFile) -> None:
    """Measure what is missing, and make the tables. Raises WorkflowError."""
    _snakemake(grid, [TABLE, ANSWER])


def report(grid: GridFile, page: Path) -> None:
    """Draw the figure, and put tables and figure into one page. Raises WorkflowError."""
    _snakemake(grid, [TABLE, ANSWER, FIGURE])
    _snakemake(grid, [TABLE, ANSWER, FIGURE, "--report", page])


def _snakemake(grid: GridFile, arguments: Sequence[str | Path]) -> None:
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *map(str, arguments), "--quiet", "all"]
    backend = grid.plan.device.backend
    command += ["--config", f"grid={grid.path}", f"device={backend}"]
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if not line.startswith(_NOISE):
                print(line, end="", file=sys.stderr, flush=True)
    if run.returncode:
        raise WorkflowError(
            f"the workflow ended with status {run.returncode}, as it says above; what was measured is kept, "
            "and the same command continues"
        )
