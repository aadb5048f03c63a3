"""Draw one figure from its table: the module snn.figures.FORM says how."""

from importlib import import_module

import pandas as pd

from snn.command import refuse_plainly
from snn.figures.style import save

refuse_plainly()

params, name = snakemake.params, snakemake.wildcards.figure
form = import_module(f"snn.figures.{params.form}")
table = pd.read_csv(snakemake.input.table)
beside = [params.paper_device] if params.axes is None else [params.axes, name]
save(form.draw(table, *beside, params.trained), [snakemake.output.svg, snakemake.output.png])
