"""Write correctness.csv and its page from the records of the sweep dataset_size."""

from pathlib import Path

from snn.choices import read_yaml
from snn.tables import correctness, frame
from snn.tables.output import write

cells = frame.load(snakemake.params.records, read_yaml(Path(snakemake.input.verdicts)))
table = correctness.build(cells, read_yaml(Path(snakemake.input.paper)))
write(table, snakemake.output.csv, snakemake.output.page, "All strategies reach the same error (Table III)")
