"""Write provenance.csv and its page: where every record of the grid comes from."""

from snn.report.write import write
from snn.tables import provenance

table = provenance.load(snakemake.input.records)
write(table, snakemake.output.csv, snakemake.output.page, provenance.TITLE)
