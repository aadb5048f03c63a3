"""Write configuration.csv and its page: the grid as resolved, and the thresholds of verdicts."""

import json
from pathlib import Path

from snn.command import refuse_plainly
from snn.config.groups import read_yaml
from snn.hardware.devices import Device
from snn.report.write import write
from snn.tables import configuration

refuse_plainly()

table = configuration.build(
    json.loads(snakemake.params.sweeps),
    read_yaml(Path(snakemake.input.verdicts)),
    Device(**snakemake.params.device),
    json.loads(snakemake.params.microbenchmarks),
)
write(table, snakemake.output.csv, snakemake.output.page, configuration.TITLE)
