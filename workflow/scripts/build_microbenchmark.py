"""Write the table of a microbenchmark and its page from its record: the module snn.tables.NAME says how."""

from importlib import import_module
from pathlib import Path

from snn.analysis import floors, microbenchmarks
from snn.command import refuse_plainly
from snn.report.write import write

refuse_plainly()

files, params, name = snakemake.input, snakemake.params, snakemake.wildcards.microbenchmark
form = import_module(f"snn.tables.{name}")
record = microbenchmarks.read(Path(files.record), **params.wanted)
limits = [floors.read(Path(path), params.limits_hash) for path in files.limits]
write(form.build(record, *limits), snakemake.output.csv, snakemake.output.page, form.TITLE)
