"""A copy of the checkout with a tiny grid of its own, in which the tests of the pipeline run snakemake."""

import json
import re
import shutil
import sys

import forked_snakemake
import pandas as pd
import yaml

TINY = {
    "device": "cpu",
    "defaults": {
        "dataset": "small",
        "training.epochs": 2,
        "protocol.runs": 4,
        "protocol.rounds": 2,
        "protocol.warmup_seconds": 0,
        "protocol.max_warmup_seconds": 0,
    },
    "sweeps": {
        "dataset_size": {"strategy": ["reference", "streams", "pinned", "combined", "preallocated"]},
        "neurons": {"strategy": ["reference", "combined"], "network.hidden": [[4], [256]]},
        "depth": {"strategy": ["reference", "combined"], "network.hidden": [[4], [4, 4]]},
        "tiles": {"strategy": "combined", "strategy.tile_rows": [32, 128], "network.hidden": [4]},
        "strategies": {"strategy": ["reference", "graph", "blas"]},
        "cpu": {"strategy": ["reference", "blas"]},
        "peers": {"strategy": ["reference", "torch_graph"]},
        "precision": {"strategy": ["reference", "combined"]},
        "neighbours": {"strategy": "reference", "protocol.neighbour": ["none", "reference"]},
        "learning_rates": {
            "strategy": "ensemble",
            "strategy.starts": 2,
            "strategy.learning_rates": [0.001, 0.01],
        },
    },
}
CELLS_OF_TINY = 5 + 2 + 2 + 1 + 2 + 1 + 1 + 2
ON_HOST = 1  # of these, wherever the others are
UNSUPPORTED = "graph"  # on a CPU, and so is the peer
ROUNDS = 2
_LEFT = (
    *(".git", ".venv", ".snakemake", "results", ".*_cache", ".hypothesis"),
    "*.pyc.*",  # which another process is compiling
    *("_build", "_generated"),  # of docs/
)
IGNORED = shutil.ignore_patterns(*_LEFT)
NOT_OF_WORKFLOW = shutil.ignore_patterns(*_LEFT, "benchmarks", "docs", "tests")
"""Also what no rule reads: over a quarter of the files of each copy."""


class Project:
    """A copy of the checkout with a grid of its own."""

    def __init__(self, folder):
        self.folder = folder

    def write_grid(self, grid):
        (self.folder / "config/grid.yaml").write_text(yaml.safe_dump(grid, sort_keys=False))

    def never_drifts(self):
        """Whatever else the machine does meanwhile, its times may be divided, whatever they are."""
        path = self.folder / "config/verdicts.yaml"
        path.write_text(re.sub(r"^drifted: \S+", "drifted: 1.0e+9", path.read_text(), flags=re.MULTILINE))

    @staticmethod
    def arguments(*arguments, cores=None):
        return (*(("--cores", str(cores)) if cores else ()), *arguments)

    def command(self, *arguments, cores=None):
        return [sys.executable, "-m", "snakemake", *self.arguments(*arguments, cores=cores)]

    def snakemake(self, *arguments, cores=None, fails=False):
        """Run snakemake; returns what it printed. Its exit status must be as expected."""
        status, printed = forked_snakemake.run(self.folder, self.arguments(*arguments, cores=cores))
        assert (status != 0) == fails, printed
        return printed

    def jobs(self, *arguments, **options):
        """How many jobs of each rule a run has: see ``jobs_in``."""
        return jobs_in(self.snakemake(*arguments, **options))

    def records(self):
        return {path: json.loads(path.read_text()) for path in self.folder.glob("results/cells/**/*.json")}

    def table(self, name):
        return pd.read_csv(self.folder / f"results/tables/{name}.csv")


def jobs_in(printed):
    """How many jobs of each rule Snakemake ran, ``all`` left out."""
    stats = re.search(r"^Job stats:\n.*?^total", printed, re.MULTILINE | re.DOTALL)
    counts = re.findall(r"^(\w+) +(\d+)$", stats[0], re.MULTILINE) if stats else []
    return {rule: int(count) for rule, count in counts if rule not in ("all", "total")}


def copied(source, target, ignore=None):
    """A copy with its time stamps, as a backup has them."""
    shutil.copytree(source, target, ignore=ignore)
    return Project(target)


def embedded(page, name):
    """The value that a report's page holds under this name."""
    return json.loads(re.search(rf'<script id="{name}">\s*var \w+ = (.*);\n', page)[1])
