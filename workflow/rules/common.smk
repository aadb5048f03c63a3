# The grid, read and checked once while the DAG is built, and what the rules look up in it.

import inspect
import json
import os
import shlex
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.insert(0, str(workflow.basedir))

from snn import datasets
from snn.grid import catalogue, fingerprint, more_rounds, naming, sweeps
from snn.hardware import devices
from snn.config.groups import read_yaml
from snn.errors import SnnError
from snn.hardware.locks import END_WITH_PARENT, LockedError, folder_lock, generation
from snn.files import sealed
from snn.records import store
from snn.workflow import leftovers
from snn.workflow.signals import end_at_once

if Path.cwd().resolve() != Path(workflow.basedir).resolve():
    raise WorkflowError(
        f"start snakemake in {workflow.basedir}: results are written where it starts, "
        "and a cell's code is found there"
    )

end_at_once()

try:
    # Before anything is looked at: what is planned while another workflow is at work must not be run.
    PLANNED_AFTER = generation(Path(".snakemake"))
    GRID_FILE = Path(str(config.get("grid", "config/grid.yaml") or ""))
    DEVICE = devices.find(config.get("device") or sweeps.device_of(GRID_FILE))
    SWEEPS = sweeps.read(GRID_FILE, DEVICE)
    sweeps.check_sizes(SWEEPS)
    MORE_ROUNDS = more_rounds.read()
except SnnError as error:
    raise WorkflowError(str(error)) from None

# A cell's name in paths -> the cell, the paths of its records and of its data set, and the hash of the files that
# decide what it measures; path of a prepared data set -> a cell that it is for.
CELLS = sweeps.all_cells(SWEEPS)
RECORDS_OF = {
    name: naming.record_paths(cell, name, MORE_ROUNDS.get(name, 0))
    for name, cell in CELLS.items()
}
SOURCE_HASHES = {
    name: fingerprint.digest(fingerprint.of_cell(cell)) for name, cell in CELLS.items()
}
DATASET_OF = {name: naming.dataset_path(cell) for name, cell in CELLS.items()}
DATASETS = {DATASET_OF[name]: cell for name, cell in CELLS.items()}
RECORDS = [path for paths in RECORDS_OF.values() for path in paths]
ROUNDS = range(1, 1 + max(map(len, RECORDS_OF.values())))

# The record of what the device can do at best, and the hash of what it is measured with.
LIMITS = f"results/limits/{DEVICE.slug}.json"
LIMITS_HASH = fingerprint.digest(fingerprint.of_limits(DEVICE.backend))

OWN_TABLES = catalogue.own_tables(SWEEPS)
OWN_FIGURES = catalogue.own_figures(SWEEPS)
SWEEP_TABLES = catalogue.sweep_tables(SWEEPS)
TABLES = [*catalogue.PAGES, *OWN_TABLES, *SWEEP_TABLES]
FIGURES = [*OWN_FIGURES, *SWEEP_TABLES]
TRACES = ["results/traces/timeline.json"] if "timeline" in TABLES else []

# What proves that it is whole, and so are the files written with it.
PAGES = {
    "results/tables/opening.html",
    *(f"results/tables/{name}.html" for name in TABLES),
    *(f"results/figures/{name}.svg" for name in FIGURES),
}

PAPER_DEVICE = read_yaml(Path("config/paper/gpu.yaml"))["device"]

# What a cell's process needs to know of this one; its threads are set by snn itself.
os.environ[END_WITH_PARENT] = str(os.getpid())
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(workflow.basedir), os.environ.get("PYTHONPATH")))
)
PYTHON = sys.executable

# Jobs end with this process (snn/workflow/signals.py), not by a Ctrl-C of their own with a traceback each.
shell.prefix("set -euo pipefail; trap '' INT; ")


def quick(function):
    """A function of a rule that keeps its signature, which Snakemake asks for several times a job."""
    function.__signature__ = inspect.signature(function)
    return function


def records_of(table):
    """The records that a table is made from, in the order of the grid."""
    return [
        path for name in sweeps.cells_of(table, SWEEPS) for path in RECORDS_OF[name]
    ]


def all_records(wildcards):
    """The records of all cells, as a function: Snakemake handles a list of thousands twice."""
    return RECORDS


def deleted_records(wildcards):
    """The records that are not there under a table of all records that is.

    Snakemake asks for no input of a current table. To ask for every record would add an edge of the DAG for each.
    """
    if not Path("results/tables/overview.csv").exists():
        return []
    return [path for path in RECORDS if not Path(path).exists()]


def source_hashes(names):
    """Path of a record -> the source hash that it must hold, of the cells of these names."""
    return {path: SOURCE_HASHES[name] for name in names for path in RECORDS_OF[name]}


def code_of(script, *modules):
    """The hash of a script, of all that it imports, and of these modules, which it is told to import."""
    return fingerprint.digest(
        fingerprint.of_script(f"workflow/scripts/{script}.py", *modules)
    )


def axes_of(name):
    """What varies in a sweep that has a tidy table."""
    return list(SWEEPS[name].axes) if name in SWEEP_TABLES else None


def one_of(names):
    """A wildcard's pattern that matches these names and nothing else."""
    return "|".join(names) or "(?!)"


def shown(path, entry, caption):
    """An output of the report, listed as its entry says; one without a caption gets a general one."""
    form = "figure" if path.endswith(".svg") else "table"
    if not Path(f"workflow/report/{caption}.rst").exists():
        caption = f"any_{form}"
    return report(
        path,
        # Categories are sorted by name.
        category=f"{1 + list(catalogue.CATEGORIES).index(entry.category)} {entry.category}",
        caption=f"../report/{caption}.rst",
        labels=entry.labels(form),
    )


def page(name, caption=None):
    """The page of a table that is not of one sweep."""
    return shown(f"results/tables/{name}.html", catalogue.PAGES[name], caption or name)


def as_text(values):
    """Values as JSON for the parameters of a job, which the report puts into its page as they are.

    They may hold a user's own words, such as the name of a column, so no character is left that begins a tag.
    """
    text = json.dumps(values)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def is_whole(path):
    """Whether a file that a killed workflow left is what it should be."""
    try:
        if path in PAGES:
            return sealed.is_whole(Path(path))
        if path in DATASETS:
            return datasets.intact(Path(path), DATASETS[path]["dataset"])
        return path in SOURCE_HASH_AT and bool(store.read(Path(path)))
    except SnnError:
        return False


def data_to_train_on():
    """The data sets of the cells that have records to be made."""
    return {
        DATASET_OF[name]
        for name, paths in RECORDS_OF.items()
        if not all(Path(path).exists() for path in paths)
    }


def correct_notes():
    """Tell Snakemake what is whole and what is not, before it plans, unless another workflow is at work."""
    notes = leftovers.Notes()
    leftovers.keep_whole(notes, is_whole)
    leftovers.mark_stale(notes, SOURCE_HASH_AT)
    leftovers.mark_damaged(notes, data_to_train_on(), is_whole)
    leftovers.mark_damaged(notes, PAGES, is_whole)


def hold_workflow_lock():
    """Refuse a second snakemake in this folder; the system frees the lock when this one dies."""
    global WORKFLOW_LOCK
    end_at_once()  # Snakemake has set a handler of its own since
    try:
        WORKFLOW_LOCK = folder_lock(Path(".snakemake"), PLANNED_AFTER)
    except LockedError as error:
        raise WorkflowError(str(error)) from None


# Path of a record -> the source hash that it must hold.
SOURCE_HASH_AT = source_hashes(CELLS)

if PLANNED_AFTER is not None and workflow.is_main_process:
    correct_notes()


def write_progress_plan():
    """Tell the cells' processes which records are going to be made, so that they can say what is left."""
    from snn.measurement import progress

    jobs = [
        job for job in workflow.dag.needrun_jobs() if job.rule.name.startswith("train_")
    ]
    progress.write_plan(
        {
            str(job.output[0]): (CELLS[job.wildcards.cell], int(job.wildcards.round))
            for job in jobs
        }
    )
