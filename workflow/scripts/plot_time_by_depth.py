"""Draw time_by_depth from its table."""

import pandas as pd

from snn.figures import time_by_depth
from snn.figures.style import save

table = pd.read_csv(snakemake.input.table)
figure = time_by_depth.draw(table, snakemake.params.paper_device)
save(figure, [snakemake.output.svg, snakemake.output.png])
