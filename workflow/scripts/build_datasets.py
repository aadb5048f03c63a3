"""Write datasets.csv and its page from the prepared tables of the grid."""

from pathlib import Path

from snn.choices import read_yaml
from snn.devices import Device
from snn.tables import datasets
from snn.tables.output import write

table = datasets.build(
    snakemake.params.cells,
    snakemake.input.tables,
    read_yaml(Path(snakemake.input.paper)),
    Device(**snakemake.params.device),
)
write(table, snakemake.output.csv, snakemake.output.page, "Data sets (Table II)")
