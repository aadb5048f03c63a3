"""Write gpu.csv and its page: the device, from the record of its limits, next to the paper's."""

from pathlib import Path

from snn.analysis.floors import read
from snn.command import refuse_plainly
from snn.config.groups import read_yaml
from snn.report.write import write
from snn.tables import gpu

refuse_plainly()

limits = read(Path(snakemake.input.limits), snakemake.params.limits_hash)
table = gpu.build([limits], read_yaml(Path(snakemake.input.paper)))
write(table, snakemake.output.csv, snakemake.output.page, gpu.TITLE)
