"""Write the overview, its page, and the answer that opens the report, from the records of all sweeps."""

from pathlib import Path

from snn.choices import read_yaml
from snn.tables import answer, opening, overview, provenance
from snn.tables.output import to_html

verdicts = read_yaml(Path(snakemake.input.verdicts))
points = overview.load(snakemake.params.records, verdicts)
origins = provenance.load(snakemake.input.records)
table = overview.build(points, verdicts)
said = answer.with_sentences(table)
said.to_csv(snakemake.output.csv, index=False)
summary = opening.summary(table, points, origins)
for path, text in (
    (snakemake.output.page, to_html(said, overview.TITLE, summary)),
    (snakemake.output.opening, opening.fragment(table, points, origins)),
):
    Path(path).write_text(text, encoding="utf-8")
