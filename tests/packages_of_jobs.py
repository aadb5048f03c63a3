"""What Snakemake, cells, tables and figures import of other projects: for the process that forks theirs.

Snakemake imports some of it only while it runs, and looks for its plugins among all installed packages when
it first makes its options. Hydra's grammar is read here once, too: the first override takes ten times as long
as any other. Nothing of it is looked through for garbage, which a cell collects before each of its runs.
NumPy has one thread, as conftest.py has set.
"""

import gc

import hydra  # noqa: F401
import jsonschema  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import nbformat  # noqa: F401
import pandas  # noqa: F401
import psutil  # noqa: F401
import smart_open  # noqa: F401
import snakemake.api
import snakemake.assets
import snakemake.cli
import snakemake.persistence
import snakemake.profiles
import snakemake.report
import snakemake.script
import threadpoolctl  # noqa: F401
from hydra.core.override_parser.overrides_parser import OverridesParser

_LIKE_THOSE_OF_CELLS = ["a=b", "a.b='c d'", "a=1", "a=0.5", "a=[1, 2]", "a=null", "a=True", "a=b/c.d-e"]

snakemake.cli.get_argument_parser()
OverridesParser.create().parse_overrides(_LIKE_THOSE_OF_CELLS)
gc.freeze()
