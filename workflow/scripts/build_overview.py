"""Write recommendation, overview and provenance, their pages, and the answer that opens the report.

They are the tables that are made from all records.
"""

from pathlib import Path

from snn.config.groups import read_yaml
from snn.report import summary as opening
from snn.report.write import to_html, write
from snn.tables import overview, overview_text, provenance, recommendation

verdicts = read_yaml(Path(snakemake.input.verdicts))
points = overview.load(snakemake.params.records, verdicts)
origins = provenance.load(snakemake.input.records)
write(origins, snakemake.output.origins, snakemake.output.origins_page, provenance.TITLE)
table = overview.build(points, verdicts)
recommended = recommendation.build(points, table)
write(recommended, snakemake.output.recommended, snakemake.output.why, recommendation.TITLE)
said = overview_text.with_sentences(table)
said.to_csv(snakemake.output.csv, index=False)
summary = opening.summary(table, points, origins)
for path, text in (
    (snakemake.output.page, to_html(said, overview.TITLE, summary)),
    (snakemake.output.opening, opening.fragment(table, points, origins)),
):
    Path(path).write_text(text, encoding="utf-8")
