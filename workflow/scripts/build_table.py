"""Write one table of cells and its page from the records of its sweep."""

from pathlib import Path

from snn.analysis import frame
from snn.analysis.roofline import read_limits
from snn.command import refuse_plainly
from snn.config.groups import read_yaml
from snn.report.write import write
from snn.tables.table import build

refuse_plainly()

files, params = snakemake.input, snakemake.params
limits = [read_limits(Path(path), params.limits_hash) for path in files.limits]
records, verdicts = frame.checked(params.records), read_yaml(Path(files.verdicts))
beside = params.axes or (read_yaml(Path(files.paper)) if files.paper else {})
table, title = build(params.form, records, beside, verdicts, limits, params.primary)
write(table, snakemake.output.csv, snakemake.output.page, title.format(snakemake.wildcards.table))
