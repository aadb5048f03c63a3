"""Write device_limits.csv and its page from the record of the device's limits."""

from pathlib import Path

from snn.analysis.floors import read
from snn.command import refuse_plainly
from snn.report.write import write
from snn.tables import device_limits

refuse_plainly()

limits = read(Path(snakemake.input.limits), snakemake.params.limits_hash)
write(device_limits.build(limits), snakemake.output.csv, snakemake.output.page, device_limits.TITLE)
