"""Write one table and its page from the records of its sweep: the module snn.tables.FORM says how."""

from importlib import import_module
from pathlib import Path

from snn.analysis import frame
from snn.analysis.floors import read, with_floors
from snn.command import refuse_plainly
from snn.config.groups import read_yaml
from snn.report.write import write

refuse_plainly()

files, params = snakemake.input, snakemake.params
form = import_module(f"snn.tables.{params.form}")
verdicts = read_yaml(Path(files.verdicts))
cells = frame.load(params.records, verdicts)
if files.limits:
    cells = with_floors(cells, read(Path(files.limits[0]), params.limits_hash))
paper = read_yaml(Path(files.paper[0])) if files.paper else {}
table = form.build(cells, paper if params.axes is None else params.axes, verdicts)
write(table, snakemake.output.csv, snakemake.output.page, form.TITLE.format(snakemake.wildcards.table))
