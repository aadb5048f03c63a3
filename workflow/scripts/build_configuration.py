"""Write configuration.csv and its page: the grid as resolved, and the thresholds of verdicts."""

from pathlib import Path

from snn.choices import read_yaml
from snn.devices import Device
from snn.tables import configuration
from snn.tables.output import write

table = configuration.build(
    snakemake.params.sweeps, read_yaml(Path(snakemake.input.verdicts)), Device(**snakemake.params.device)
)
write(table, snakemake.output.csv, snakemake.output.page, configuration.TITLE)
