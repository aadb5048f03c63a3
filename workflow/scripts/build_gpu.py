"""Write gpu.csv and its page: the device of this machine beside the paper's."""

from pathlib import Path

from snn.choices import read_yaml
from snn.devices import Device
from snn.tables import gpu
from snn.tables.output import write

table = gpu.build(Device(**snakemake.params.device), read_yaml(Path(snakemake.input.paper)))
write(table, snakemake.output.csv, snakemake.output.page, "The device (Table I)")
