"""Write neurons.csv and its page from the records of the sweep neurons."""

from pathlib import Path

from snn.choices import read_yaml
from snn.tables import frame, pairs
from snn.tables.output import write

verdicts = read_yaml(Path(snakemake.input.verdicts))
cells = frame.load(snakemake.params.records, verdicts)
table = pairs.build(cells, read_yaml(Path(snakemake.input.paper)), "neurons", verdicts["same"])
write(table, snakemake.output.csv, snakemake.output.page, "Width of the hidden layer (Table VI)")
