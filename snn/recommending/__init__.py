"""Which strategy trains one's own network fastest: a small experiment, run through the workflow.

A command line (``settings``) becomes a grid with one sweep (``candidates``), the ``workflow`` measures it,
and contenders get more rounds while there is time (``budget``). The answer is printed by ``text``.
"""

from pathlib import Path

SWEEP = "recommend"
"""The name of the sweep, and of its table and figure."""

FOLDER = Path("results/recommend")
"""Where its grids are, and what is made on the way; one recommendation at a time works in it."""

JOBS_FAILED = 4
"""The exit status of its workflow if a job failed, and not Snakemake itself."""
