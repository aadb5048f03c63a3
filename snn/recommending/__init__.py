"""Which strategy trains one's own network fastest: a small experiment, run through the workflow.

A command line is a ``question``. It becomes a grid with one sweep (``candidates``), the ``workflow`` measures
it, and contenders get more rounds while there is time (``budget``). The answer is printed by ``text``.
"""

from pathlib import Path

SWEEP = "recommend"
"""The name of the sweep, and of its table and figure."""

FOLDER = Path("results/recommend")
"""Where its grids are, and what is made on the way; one recommendation at a time works in it."""
