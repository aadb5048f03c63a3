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
from snn.grid import catalogue, fingerprint, more_rounds, naming, neighbours, sweeps
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
    # Read before anything else: what is planned while another workflow is at work must not run.
    PLANNED_AFTER = generation(Path(".snakemake"))
    sweeps.check_keys(config)
    GRID_FILE = Path(str(config.get("grid", "config/grid.yaml") or ""))
    DEVICE = devices.find(config.get("device") or sweeps.device_of(GRID_FILE))
    SWEEPS = sweeps.read(GRID_FILE, DEVICE)
    sweeps.check_sizes(GRID_FILE, SWEEPS)
    MORE_ROUNDS = more_rounds.read()
except SnnError as error:
    raise WorkflowError(str(error)) from None

# By a cell's name in paths: the cell, the paths of its records and of its data set, and the hash of the files that
# decide what it measures. By the path of a prepared data set: a cell that uses it.
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

# Files that contain digests of themselves and of the files written with them -> one of these.
PAGES = {
    "results/tables/opening.html": "results/tables/overview.csv",
    **{f"results/tables/{name}.html": f"results/tables/{name}.csv" for name in TABLES},
    **{
        f"results/figures/{name}.svg": f"results/figures/{name}.png" for name in FIGURES
    },
}

# How many GPUs of this machine cells may use at once: --resources gpu=2.
GPUS = (
    max(1, workflow.global_resources["gpu"].value)
    if "gpu" in workflow.global_resources
    else 1
)

PAPER_DEVICE = read_yaml(Path("config/paper/gpu.yaml"))["device"]

# What a cell's process needs to know about this one. It sets its number of threads itself.
os.environ[END_WITH_PARENT] = str(os.getpid())
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(workflow.basedir), os.environ.get("PYTHONPATH")))
)
PYTHON = sys.executable

# Ctrl-C ends this process, which ends its jobs (snn/workflow/signals.py): no traceback from each of them.
shell.prefix("set -euo pipefail; trap '' INT; ")


def quick(function):
    """Store the signature of a rule's function, which Snakemake asks for several times per job."""
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
    """The missing records, if there is a table of all records.

    Snakemake does not look for the inputs of a current table. Asking for every record would add an edge to the DAG
    for each of them.
    """
    if not Path("results/tables/overview.csv").exists():
        return []
    return [path for path in RECORDS if not Path(path).exists()]


def source_hashes(names):
    """The source hash that each record of these cells must contain, by the path of the record."""
    return {path: SOURCE_HASHES[name] for name in names for path in RECORDS_OF[name]}


def code_of(script, *modules):
    """The hash of a script, everything that it imports, and the modules that its parameters name."""
    return fingerprint.digest(
        fingerprint.of_script(f"workflow/scripts/{script}.py", *modules)
    )


def axes_of(name):
    """The axes of a sweep that has a tidy table, else None."""
    return list(SWEEPS[name].axes) if name in SWEEP_TABLES else None


def images_of(table):
    """What a table's cells are trained on, where it is images, for its caption: 256 images of patterns."""
    chosen = [cell["dataset"] for cell in sweeps.cells_of(table, SWEEPS).values()]
    named = [
        f"{dataset['rows']} images of {dataset['name']}"
        for dataset in chosen
        if "shape" in dataset
    ]
    return " and ".join(dict.fromkeys(named))


def one_of(names):
    """A pattern for a wildcard that matches only these names."""
    return "|".join(names) or "(?!)"


def shown(path, entry, caption):
    """An output in the report, listed as its entry says, with its own caption or a general one."""
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
    """The page of a table that does not belong to one sweep."""
    return shown(f"results/tables/{name}.html", catalogue.PAGES[name], caption or name)


def as_text(values):
    """Values as JSON for the parameters of a job, which the report writes into its page unescaped.

    They may contain a user's text, such as the name of a column, so characters that could begin a tag are escaped.
    """
    text = json.dumps(values)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def is_whole(path):
    """Whether a file that a killed workflow left behind is complete and undamaged."""
    try:
        if path in PAGES:
            return sealed.is_whole(Path(path))
        if path in DATASETS:
            return datasets.intact(Path(path), DATASETS[path]["dataset"])
        return path in SOURCE_HASH_AT and bool(store.read(Path(path)))
    except SnnError:
        return False


def data_to_train_on():
    """The data sets of the cells whose records are not all there."""
    return {
        DATASET_OF[name]
        for name, paths in RECORDS_OF.items()
        if not all(Path(path).exists() for path in paths)
    }


def correct_notes():
    """Correct Snakemake's marks of incomplete files before it plans."""
    notes = leftovers.Notes()
    leftovers.keep_whole(notes, is_whole)
    leftovers.mark_stale(notes, SOURCE_HASH_AT)
    leftovers.mark_damaged(notes, data_to_train_on(), is_whole)
    leftovers.mark_damaged(notes, PAGES, is_whole)
    leftovers.mark_incomplete(notes, PAGES)


def check_targets():
    """Refuse a record that is not one of this grid on this device before Snakemake looks for it."""
    for target in sys.argv[1:]:  # Snakemake's own settings do not have them yet
        if target.startswith("results/cells/") and target not in SOURCE_HASH_AT:
            raise WorkflowError(
                f"{target}: not a record of {GRID_FILE} on {DEVICE.name}: "
                "give the same --config grid=... device=... as when it was measured"
            )


def hold_workflow_lock():
    """Refuse to run beside another snakemake in this folder; the system releases the lock when this one ends."""
    global WORKFLOW_LOCK
    end_at_once()  # again, since Snakemake has set its own handler meanwhile
    try:
        WORKFLOW_LOCK = folder_lock(Path(".snakemake"), PLANNED_AFTER)
    except LockedError as error:
        raise WorkflowError(str(error)) from None


# The source hash that a record must contain, by its path.
SOURCE_HASH_AT = source_hashes(CELLS)

if workflow.is_main_process:
    check_targets()
    if PLANNED_AFTER is not None:
        correct_notes()


def write_progress_plan():
    """Write down which records will be made, so that the processes of cells can print how much is left."""
    from snn.measurement import progress

    progress.write_plan(
        (CELLS[job.wildcards.cell], int(job.wildcards.round))
        for job in workflow.dag.needrun_jobs()
        if job.rule.name.startswith("train_")
    )
