"""Write the tidy table and page of any sweep from its records."""

from pathlib import Path

from snn.analysis import frame
from snn.analysis.floors import read, with_floors
from snn.config.groups import read_yaml
from snn.report.write import write
from snn.tables import sweep

verdicts = read_yaml(Path(snakemake.input.verdicts))
cells = frame.load(snakemake.params.records, verdicts)
cells = with_floors(cells, read(Path(snakemake.input.limits), snakemake.params.limits_hash))
table = sweep.build(cells, snakemake.params.axes, verdicts)
write(table, snakemake.output.csv, snakemake.output.page, f"Sweep {snakemake.wildcards.sweep}")
