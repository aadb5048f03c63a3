"""Write the tidy table and page of any sweep from its records."""

from snn.tables import frame, sweep
from snn.tables.output import write

table = sweep.build(frame.load(snakemake.params.records), snakemake.params.axes)
write(table, snakemake.output.csv, snakemake.output.page, f"Sweep {snakemake.wildcards.sweep}")
