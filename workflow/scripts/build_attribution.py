"""Write attribution.csv and its page from the records of the sweep dataset_size."""

from pathlib import Path

from snn.choices import read_yaml
from snn.tables import attribution, frame
from snn.tables.output import write

cells = frame.load(snakemake.params.records, read_yaml(Path(snakemake.input.verdicts)))
table = attribution.build(cells)
write(table, snakemake.output.csv, snakemake.output.page, "Where the time of one training goes")
