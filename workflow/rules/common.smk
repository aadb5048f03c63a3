# The grid, read and checked once while the DAG is built, and what the rules look up in it.

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.insert(0, str(workflow.basedir))

from snn.grid import catalogue, fingerprint, sweeps
from snn.hardware import devices
from snn.measurement import progress
from snn.config.groups import read_yaml
from snn.errors import SnnError
from snn.hardware.locks import END_WITH_PARENT, LockedError, folder_lock

if Path.cwd().resolve() != Path(workflow.basedir).resolve():
    raise WorkflowError(
        f"start snakemake in {workflow.basedir}: results are written where it starts, "
        "and a cell's code is found there"
    )

try:
    GRID_FILE = Path(config.get("grid", "config/grid.yaml"))
    DEVICE = devices.find(config.get("device") or sweeps.device_of(GRID_FILE))
    SWEEPS = sweeps.read(GRID_FILE, DEVICE)
except SnnError as error:
    raise WorkflowError(str(error)) from None

# A cell's name in paths -> the cell; path of a prepared data set -> a cell that it is for.
CELLS = {sweeps.name_of(cell): cell for cell in sweeps.all_cells(SWEEPS)}
RECORDS = [path for cell in CELLS.values() for path in sweeps.record_paths(cell)]
ROUNDS = range(1, 1 + max(cell["protocol"]["rounds"] for cell in CELLS.values()))
DATASETS = {sweeps.dataset_path(cell): cell for cell in CELLS.values()}

# The record of what the device can do at best, and the hash of what it is measured with.
LIMITS = f"results/limits/{DEVICE.slug}.json"
LIMITS_HASH = fingerprint.digest(tuple(fingerprint.of_limits(DEVICE.backend)))

SWEEP_TABLES = catalogue.sweep_tables(SWEEPS)
TABLES = [
    *("recommendation", "overview", "gpu", "device_limits", "datasets"),
    *catalogue.own_tables(SWEEPS),
    *SWEEP_TABLES,
    *("configuration", "provenance"),
]
FIGURES = [
    name for name in catalogue.FIGURES if catalogue.FIGURES[name] in TABLES
] + SWEEP_TABLES
TRACES = ["results/traces/timeline.json"] if "timeline" in TABLES else []

# In the order in which the report lists them; it sorts them by name.
CATEGORIES = (
    "Overview",
    "The paper's tables",
    "The paper's figures",
    "Sweeps",
    "Why",
    "Configuration and provenance",
)

PAPER_DEVICE = read_yaml(Path("config/paper/gpu.yaml"))["device"]

# What a cell's process needs to know of this one; its threads are set by snn itself.
os.environ[END_WITH_PARENT] = str(os.getpid())
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(workflow.basedir), os.environ.get("PYTHONPATH")))
)
PYTHON = sys.executable


def records_of(table):
    """The records that a table is made from, in the order of the grid."""
    return [
        path
        for cell in sweeps.cells_of(table, SWEEPS)
        for path in sweeps.record_paths(cell)
    ]


def expected(table):
    """Path of a record -> the cell, round and source hash that it must hold to be the one asked for."""
    found = {}
    for cell in sweeps.cells_of(table, SWEEPS):
        source_hash = fingerprint.digest(tuple(fingerprint.of_cell(cell)))
        for number, path in zip(
            sweeps.rounds_of(cell), sweeps.record_paths(cell), strict=True
        ):
            found[path] = {"cell": cell, "round": number, "source_hash": source_hash}
    return found


def category(name):
    """A category of the report with its number, by which it is sorted."""
    return f"{1 + CATEGORIES.index(name)} {name}"


def one_of(names):
    """A wildcard's pattern that matches these names and nothing else."""
    return "|".join(names) or "(?!)"


def code_of(*modules):
    """The source files of these modules of snn, of all that they import, and the styles of their pages."""
    files = fingerprint.closure(modules)
    return sorted(files | fingerprint.assets(files))


def hold_workflow_lock():
    """Refuse a second snakemake in this folder; the system frees the lock when this one dies."""
    global WORKFLOW_LOCK
    try:
        WORKFLOW_LOCK = folder_lock(Path(".snakemake"))
    except LockedError as error:
        raise WorkflowError(str(error)) from None


def write_progress_plan():
    """Tell the cells' processes which records are going to be made, so that they can say what is left."""
    jobs = [
        job for job in workflow.dag.needrun_jobs() if job.rule.name.startswith("train_")
    ]
    progress.write_plan(
        {
            str(job.output[0]): (CELLS[job.wildcards.cell], int(job.wildcards.round))
            for job in jobs
        }
    )
