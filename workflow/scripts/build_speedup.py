"""Write speedup.csv and its page from the records of the sweep dataset_size."""

from pathlib import Path

from snn.choices import read_yaml
from snn.tables import frame, speedup
from snn.tables.output import write

verdicts = read_yaml(Path(snakemake.input.verdicts))
cells = frame.load(snakemake.params.records, verdicts)
table = speedup.build(cells, read_yaml(Path(snakemake.input.paper)), verdicts["same"])
write(table, snakemake.output.csv, snakemake.output.page, "Speedup over the reference (Table V)")
