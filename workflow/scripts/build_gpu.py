"""Write gpu.csv and its page: the device of this machine beside the paper's."""

from pathlib import Path

from snn.command import refuse_plainly
from snn.config.groups import read_yaml
from snn.hardware.devices import choices
from snn.report.write import write
from snn.tables import gpu

refuse_plainly()

planned = snakemake.params.device
device = choices(planned["backend"], planned["name"])[0]
table = gpu.build(device, read_yaml(Path(snakemake.input.paper)))
write(table, snakemake.output.csv, snakemake.output.page, "The device (Table I)")
