"""Figures: one module per figure, whose ``draw`` makes a Matplotlib figure from a table."""

import os

os.environ["MPLBACKEND"] = "Agg"  # before Matplotlib is imported, which rejects a name that it does not know
