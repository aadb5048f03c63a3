"""Write recommendation, overview, warnings and provenance, their pages, and the answer that opens the report.

They are the tables that are made from all records.
"""

from pathlib import Path

from snn.analysis import frame
from snn.command import refuse_plainly
from snn.config.groups import read_yaml
from snn.figures.trained import of_records
from snn.files import sealed
from snn.report import opening
from snn.report.write import to_html, write, write_page
from snn.tables import overview, recommend, recommendation
from snn.tables.origin import provenance, warnings

refuse_plainly()

verdicts = read_yaml(Path(snakemake.input.verdicts))
records = frame.checked(snakemake.params.records)
if snakemake.params.is_recommended:
    points = [recommend.prepared(frame.tabulate(records, verdicts))]
else:
    points = overview.points_of(records, verdicts)
origins = provenance.build(records)
write(origins, snakemake.output.origins, snakemake.output.origins_page, provenance.title)
watched = warnings.build(records, verdicts)
write(watched, snakemake.output.warnings, snakemake.output.warnings_page, warnings.title)
table = overview.build(points, verdicts)
if snakemake.params.is_recommended:
    table = recommend.advising_budget(table)
recommended = recommendation.build(points, table)
write(recommended, snakemake.output.recommended, snakemake.output.why, recommendation.TITLE)
said = recommendation.with_sentences(table)
summary = opening.summary(table, points, origins)
page = to_html(said, overview.TITLE, summary, "overview")
write_page(said, snakemake.output.csv, snakemake.output.page, page)
trained, figure = of_records(records.values()), ""
if snakemake.params.is_recommended:
    svg = Path(snakemake.input.figure[0]).read_text(encoding="utf-8")
    figure = svg[svg.index("<svg") :]
fragment = opening.fragment(recommended, table, points, origins, verdicts, trained, figure)
sealed.write(Path(snakemake.output.opening), fragment.encode())
