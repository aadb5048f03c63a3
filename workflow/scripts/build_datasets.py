"""Write datasets.csv and its page from the prepared tables of the grid."""

import json
from pathlib import Path

from snn.command import refuse_plainly
from snn.config.groups import read_yaml
from snn.datasets import described, load
from snn.report.write import write
from snn.tables import datasets

refuse_plainly()

cells = json.loads(snakemake.params.cells)
trained = [
    (cell, described(load(Path(path), cell["dataset"]), cell["dataset"]))
    for cell, path in zip(cells, snakemake.input.tables, strict=True)
]
table = datasets.build(trained, read_yaml(Path(snakemake.input.paper)), **snakemake.params.device)
write(table, snakemake.output.csv, snakemake.output.page, datasets.TITLE)
