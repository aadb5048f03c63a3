"""Draw one figure from its table: the module snn.figures.NAME says how."""

from importlib import import_module

import pandas as pd

from snn.figures.style import save

figure = import_module(f"snn.figures.{snakemake.params.figure}")
table = pd.read_csv(snakemake.input.table)
save(figure.draw(table, snakemake.params.paper_device), [snakemake.output.svg, snakemake.output.png])
