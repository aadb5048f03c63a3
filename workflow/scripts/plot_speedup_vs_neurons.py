"""Draw speedup_vs_neurons from its table."""

import pandas as pd

from snn.figures import speedup_vs_neurons
from snn.figures.style import save

table = pd.read_csv(snakemake.input.table)
figure = speedup_vs_neurons.draw(table, snakemake.params.paper_device)
save(figure, [snakemake.output.svg, snakemake.output.png])
