"""Draw attribution from its table."""

import pandas as pd

from snn.figures import attribution
from snn.figures.style import save

table = pd.read_csv(snakemake.input.table)
save(attribution.draw(table), [snakemake.output.svg, snakemake.output.png])
