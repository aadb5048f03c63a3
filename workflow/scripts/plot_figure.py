"""Draw one figure from its table, in a form of snn.figures."""

import pandas as pd

from snn import figures
from snn.command import refuse_plainly
from snn.figures import sweep
from snn.figures.layout import save

refuse_plainly()

params, name = snakemake.params, snakemake.wildcards.figure
table = pd.read_csv(snakemake.input.table)
if params.axes is None:
    figure = figures.draw(params.form, table, params.paper_device, params.trained)
else:
    figure = sweep.draw(table, params.axes, name, params.trained)
save(figure, [snakemake.output.svg, snakemake.output.png])
