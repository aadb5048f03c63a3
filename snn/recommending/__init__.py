"""Which strategy trains one's own network fastest: a small experiment, run through the workflow.

A command line (``settings``) becomes a grid with one sweep (``grid_file``), the workflow measures it, and
contenders get more rounds while there is time (``more_time``). The answer is printed from its tables.
"""

from pathlib import Path

SWEEP = "recommend"
"""The name of the sweep, and of its table and figure."""

FOLDER = Path("results/recommend")
"""Where its grids are, and what is made on the way; one recommendation at a time works in it."""
