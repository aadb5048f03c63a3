"""Write one table and its page from the records of its sweep: the module snn.tables.NAME says how."""

from importlib import import_module
from pathlib import Path

from snn.analysis import frame
from snn.analysis.floors import read, with_floors
from snn.config.groups import read_yaml
from snn.report.write import write

table = import_module(f"snn.tables.{snakemake.params.table}")
verdicts = read_yaml(Path(snakemake.input.verdicts))
paper = read_yaml(Path(snakemake.input.paper)) if snakemake.input.get("paper") else {}
cells = frame.load(snakemake.params.records, verdicts)
if limits := snakemake.input.get("limits"):
    cells = with_floors(cells, read(Path(limits), snakemake.params.limits_hash))
write(table.build(cells, paper, verdicts), snakemake.output.csv, snakemake.output.page, table.TITLE)
