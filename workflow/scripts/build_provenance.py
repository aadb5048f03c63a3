"""Write provenance.csv and its page: where every record of the grid comes from."""

from snn.tables import provenance
from snn.tables.output import write

table = provenance.load(snakemake.input.records)
write(table, snakemake.output.csv, snakemake.output.page, provenance.TITLE)
