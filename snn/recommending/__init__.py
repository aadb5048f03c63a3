"""Which strategy trains one's own network fastest: a small experiment, run through the workflow.

A command line (``settings``) becomes a grid with one sweep (``grid_file``), the workflow measures it, and
contenders get more rounds while there is time (``more_time``). The answer is printed from its tables.
"""

SWEEP = "recommend"
"""The name of the sweep, and of its table and figure."""
