"""Write a table that is not of the cells of a sweep, and its page, from what its name says."""

import json
from pathlib import Path

from snn.analysis.roofline import read_limits, read_microbenchmark
from snn.command import refuse_plainly
from snn.config.groups import read_yaml
from snn.datasets import described, load
from snn.hardware.devices import Device
from snn.report.write import write
from snn.tables.table import find_table

refuse_plainly()

files, params = snakemake.input, snakemake.params
table, name = find_table(params.form), params.form.partition(".")[2]
limits = [read_limits(Path(path), params.get("limits_hash")) for path in files.get("limits", ())]
if name == "gpu":
    made = table.build(limits, read_yaml(Path(files.paper)))
elif name == "device_limits":
    made = table.build(*limits)
elif name == "datasets":
    pairs = zip(json.loads(params.cells), files.tables, strict=True)
    trained = [(cell, described(load(Path(path), cell["dataset"]), cell["dataset"])) for cell, path in pairs]
    made = table.build(trained, read_yaml(Path(files.paper)), **params.device)
elif name == "configuration":
    sweeps, settings = json.loads(params.sweeps), json.loads(params.microbenchmarks)
    made = table.build(sweeps, read_yaml(Path(files.verdicts)), Device(**params.device), settings)
else:
    made = table.build(read_microbenchmark(Path(files.record), **params.wanted), *limits)
write(made, snakemake.output.csv, snakemake.output.page, table.title)
