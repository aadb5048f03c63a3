"""Figures: one module per figure, whose ``draw`` makes a Matplotlib figure from a table."""
