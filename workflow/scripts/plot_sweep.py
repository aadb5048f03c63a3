"""Draw the figure of any sweep from its tidy table."""

import pandas as pd

from snn.figures import sweep
from snn.figures.style import save

table = pd.read_csv(snakemake.input.table)
figure = sweep.draw(table, snakemake.params.axes, snakemake.wildcards.sweep)
save(figure, [snakemake.output.svg, snakemake.output.png])
