"""Find the strategy that trains a user's network fastest: a small experiment, run through the workflow.

A command line is a ``question``. It becomes a grid with one sweep (``candidates``), the ``workflow`` measures
it, and contenders get more rounds while there is time (``budget``). ``text`` prints the answer.
"""

from pathlib import Path

from snn.files.project import IS_INSTALLED, ROOT

PROJECT = Path.cwd() if IS_INSTALLED else ROOT
"""The folder in which the workflow runs: the clone, or the current folder if there is no clone."""

SWEEP = "recommend"
"""The name of the sweep, and of its table and figure."""

FOLDER = Path("results/recommend")
"""Folder for its grids and intermediate files; only one recommendation at a time uses it."""
