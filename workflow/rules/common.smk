# The grid, read and checked once while the DAG is built, and what the rules look up in it.

import getpass
import inspect
import json
import os
import shlex
import sys
from functools import cache
from pathlib import Path

# A clone's Snakefile finds its package here; that of an installed package, and that of `snn init`, find it by themselves.
if (Path(workflow.basedir) / "snn").is_dir():
    sys.path.insert(0, str(workflow.basedir))

from snn.grid import (
    catalogue,
    fingerprint,
    more_rounds,
    naming,
    order,
    plans,
    sweeps,
)
from snn.config import groups
from snn.config.cell import ANY
from snn.errors import SnnError, one_line
from snn.files.project import IS_INSTALLED, ROOT
from snn.hardware import devices, environment
from snn.hardware.locks import (
    END_WITH_PARENT,
    GPUS_AT_ONCE,
    generation,
)
from snn.figures.trained import trained
from snn.strategies.factory import several_devices
from snn.workflow.signals import end_at_once


def refuse(message):
    """Exit with one line before anything has begun: Snakemake would add the line number of this file."""
    sys.exit(f"snn: {one_line(message)}")


# The Snakefile of an installed package works in any folder.
HERE, BASE = Path.cwd().resolve(), Path(workflow.basedir).resolve()
if HERE != BASE and not (IS_INSTALLED and BASE == ROOT):
    refuse(
        f"start snakemake in {workflow.basedir}: results are written where it starts, "
        "and a cell's code is found there"
    )
if "{" in os.path.relpath(ROOT, HERE):
    refuse(
        f"{ROOT}: Snakemake takes braces in the path of an input for a wildcard: install snn into a folder without them"
    )

end_at_once()

try:
    # Read before anything else: what is planned while another workflow is at work must not run.
    PLANNED_AFTER = generation(Path(".snakemake")) if workflow.is_main_process else None
    sweeps.check_keys(config)
    GRID_FILE = Path(str(config.get("grid", "config/grid.yaml") or ""))
    PLANS = {plan.folder: plan for plan in plans.read(GRID_FILE, config)}
    for PLAN in PLANS.values():
        if not PLAN.by_name:  # on other machines, the job itself checks
            sweeps.check_sizes(GRID_FILE, PLAN.sweeps)
    MORE_ROUNDS = more_rounds.read()
except SnnError as error:
    refuse(error)

# By a cell's name in paths: the cell, the paths of its records and of its data set, and the hash of the files that
# decide what it measures. By the path of a prepared data set: a cell that uses it.
CELLS = {name: cell for plan in PLANS.values() for name, cell in plan.cells.items()}
RECORDS_OF = {
    name: naming.record_paths(cell, name, MORE_ROUNDS.get(name, 0))
    for name, cell in CELLS.items()
}
SOURCE_HASHES = {
    name: fingerprint.cell_sources(cell).digest for name, cell in CELLS.items()
}
DATASET_OF = {name: naming.dataset_path(cell) for name, cell in CELLS.items()}
DATASETS = {DATASET_OF[name]: cell for name, cell in CELLS.items()}
ROUNDS = range(1, 1 + max(map(len, RECORDS_OF.values())))

# By the name in paths of a device: the plan for it, and the device, whose limits are measured.
PLAN_OF = {plan.device.slug: plan for plan in reversed(PLANS.values())}
DEVICES = {slug: plan.device for slug, plan in PLAN_OF.items()}


# The wildcard `of` is the folder of a device's tables and figures: empty if the device was not planned by name, and no
# folder was asked for.
wildcard_constraints:
    of=f"(?:{'|'.join(PLANS)})",


TABLES_OF = {
    folder: [
        *catalogue.PAGES,
        *sweeps.own_tables(plan.sweeps),
        *catalogue.sweep_tables(plan.sweeps),
        *catalogue.microbenchmark_tables(plan.microbenchmarks),
    ]
    for folder, plan in PLANS.items()
}
FIGURES_OF = {
    folder: [
        *catalogue.own_figures(TABLES_OF[folder]),
        *catalogue.sweep_tables(plan.sweeps),
    ]
    for folder, plan in PLANS.items()
}
SWEEPS = {name for plan in PLANS.values() for name in plan.sweeps}
OWN_TABLES = [
    name
    for name in catalogue.TABLES
    if any(name in tables for tables in TABLES_OF.values())
]
MICROBENCHMARKS = sorted(
    {name for plan in PLANS.values() for name in plan.microbenchmarks}
)
OWN_FIGURES = [
    name
    for name in catalogue.FIGURES
    if any(name in figures for figures in FIGURES_OF.values())
]
SWEEP_TABLES = catalogue.sweep_tables(SWEEPS)

# Files that contain digests of themselves and of the files written with them -> one of these.
PAGES = {}
for FOLDER in PLANS:
    AT = f"results/tables/{FOLDER}"
    PAGES[f"{AT}opening.html"] = f"{AT}overview.csv"
    PAGES |= {f"{AT}{name}.html": f"{AT}{name}.csv" for name in TABLES_OF[FOLDER]}
    AT = f"results/figures/{FOLDER}"
    PAGES |= {f"{AT}{name}.svg": f"{AT}{name}.png" for name in FIGURES_OF[FOLDER]}

# How many GPUs of this machine cells may use at once: --resources gpu=2. Each is also a separate resource.
GPUS = 1
if "gpu" in workflow.global_resources:
    GPUS = max(1, workflow.global_resources["gpu"].value)
for NUMBER in range(GPUS):
    workflow.register_resource(f"gpu_{NUMBER}", 1)

PAPER_DEVICE = groups.read_yaml(groups.CONFIG / "paper/gpu.yaml")["device"]

# What a cell's process needs to know about this one. It sets its number of threads itself.
os.environ[END_WITH_PARENT] = str(os.getpid())
os.environ[GPUS_AT_ONCE] = str(GPUS)
if workflow.is_main_process:  # a job on a cluster inherits them
    order.begin_run()
environment.assign_to_jobs()
PYTHON = shlex.quote(sys.executable)

# Snakemake asks for the user's name. A user without an account, as in a container, has none.
try:
    getpass.getuser()
except (KeyError, OSError):
    os.environ["USER"] = str(os.getuid())


def quote_python_of_scripts():
    """Let rules' scripts start with a Python whose path has blanks or braces: Snakemake 9 does not quote it."""
    from snakemake.script import PythonScript

    execute = PythonScript._execute_cmd

    def execute_quoted(script, command, **given):
        return execute(script, command.replace("{py_exec} ", "{py_exec:q} "), **given)

    PythonScript._execute_cmd = execute_quoted


if PYTHON != sys.executable:  # else Snakemake is left as it is
    quote_python_of_scripts()

# Ctrl-C ends this process, which ends its jobs (snn/workflow/signals.py): no traceback from each of them.
shell.prefix("set -euo pipefail; trap '' INT; ")


def of_project(path):
    """A file of the project as an input: relative, so that a clone can be moved."""
    return os.path.relpath(ROOT / path, HERE)


def quick(function):
    """Store the signature of a rule's function, which Snakemake asks for several times per job."""
    function.__signature__ = inspect.signature(function)
    return function


def cells_of(table, folder):
    """The cells that a table of a device is made from, in the order of the grid, by name."""
    return sweeps.cells_of(table, PLANS[folder].sweeps)


def records_of(table, folder):
    """The records of these cells."""
    return [path for name in cells_of(table, folder) for path in RECORDS_OF[name]]


def limits_of(folder):
    """The record of what a device can do at best."""
    return f"results/limits/{PLANS[folder].device.slug}.json"


def limits_hash(device):
    """The hash of what the limits of a device are measured with."""
    return fingerprint.limits_sources(device.backend).digest


@cache
def all_of(folder):
    """The records of all cells of a device."""
    return [path for name in PLANS[folder].cells for path in RECORDS_OF[name]]


def all_records(wildcards):
    """The same as a function: Snakemake handles a list of thousands twice."""
    return all_of(wildcards.of)


def deleted_records(wildcards):
    """The missing records of devices whose table of all records exists.

    Snakemake does not look for the inputs of a current table. Asking for every record would add an edge to the DAG
    for each of them.
    """
    return [
        path
        for folder in PLANS
        if Path(f"results/tables/{folder}overview.csv").exists()
        for path in all_of(folder)
        if not Path(path).exists()
    ]


def everything(wildcards):
    """Every table and figure of every device, and the traces."""
    for folder in PLANS:
        yield from (f"results/tables/{folder}{name}.csv" for name in TABLES_OF[folder])
        yield from (
            f"results/figures/{folder}{name}.svg" for name in FIGURES_OF[folder]
        )
        if "timeline" in TABLES_OF[folder]:
            yield f"results/traces/{folder}timeline.json"


def source_hashes(names):
    """The source hash that each record of these cells must contain, by the path of the record."""
    return {path: SOURCE_HASHES[name] for name in names for path in RECORDS_OF[name]}


def code_of(script, *modules):
    """The hash of a script, everything that it imports, and the modules that its parameters name."""
    return fingerprint.script_sources(f"workflow/scripts/{script}.py", *modules).digest


def axes_of(name, folder):
    """The axes of a sweep that has a tidy table, else None."""
    if name not in SWEEP_TABLES:
        return None
    return list(PLANS[folder].sweeps[name].axes)


def images_of(table, folder):
    """The images that a table's cells are trained on, for its caption: 256 images of patterns."""
    chosen = [cell["dataset"] for cell in cells_of(table, folder).values()]
    named = [
        f"{dataset['rows']} images of {dataset['name']}"
        for dataset in chosen
        if "shape" in dataset
    ]
    return " and ".join(dict.fromkeys(named))


def device_of(wildcards):
    """The device of a folder, for the parameters of a job."""
    return vars(PLANS[wildcards.of].device)


def one_of(names):
    """A pattern for a wildcard that matches only these names."""
    return "|".join(names) or "(?!)"


def shown(path, entry, caption):
    """An output in the report, listed as its entry says, with its own caption or a general one."""
    form = "figure" if path.endswith(".svg") else "table"

    def labels(wildcards):
        of = {"device": PLANS[wildcards.of].device.name} if len(PLANS) > 1 else {}
        return entry.labels(form) | of

    # A figure with a table's name has a separate caption.
    names = (f"{caption}_{form}", caption, f"any_{form}")
    caption = next(
        one for one in names if (ROOT / f"workflow/report/{one}.rst").exists()
    )
    return report(
        path,
        # Categories are sorted by name.
        category=f"{1 + list(catalogue.CATEGORIES).index(entry.category)} {entry.category}",
        caption=f"../report/{caption}.rst",
        labels=labels,
    )


def page(name, caption=None):
    """The page of a table that does not belong to one sweep."""
    return shown(
        f"results/tables/{{of}}{name}.html", catalogue.PAGES[name], caption or name
    )


def as_text(values):
    """Values as JSON for the parameters of a job, which the report writes into its page unescaped.

    They may contain a user's text, such as the name of a column, so characters that could begin a tag are escaped.
    """
    text = json.dumps(values)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
