"""Figures: each a module whose ``draw`` makes a Matplotlib figure from a table."""
