"""Write datasets.csv and its page from the prepared tables of the grid."""

import json
from pathlib import Path

from snn.command import refuse_plainly
from snn.config.groups import read_yaml
from snn.hardware.devices import Device
from snn.report.write import write
from snn.tables import datasets

refuse_plainly()

table = datasets.build(
    json.loads(snakemake.params.cells),
    snakemake.input.tables,
    read_yaml(Path(snakemake.input.paper)),
    Device(**snakemake.params.device),
)
write(table, snakemake.output.csv, snakemake.output.page, "Data sets (Table II)")
