"""Compare two sets of results: a table and a figure of their cells' times."""

from pathlib import Path

import pandas as pd

from snn.analysis import frame
from snn.analysis.verdicts import NOT_COMPARABLE
from snn.config.groups import CONFIG, read_yaml
from snn.errors import RecordError
from snn.figures.devices import draw_comparison
from snn.figures.layout import save
from snn.records.archive import read_all
from snn.report.write import write, writing
from snn.tables import comparison


def compare(a: Path, b: Path, output: Path) -> str:
    """Compare, write table and figure, and return a summary of the cells compared and left out.

    Raises RecordError if a folder holds no results or two devices, or shares no cell with the other;
    OutputError if the output cannot be written.
    """
    with writing(output):
        thresholds = read_yaml(CONFIG / "verdicts.yaml")
        left, right = (comparison.keyed(frame.tabulate(read_all(each), thresholds)) for each in (a, b))
        if not left.index.isin(right.index).any():
            raise RecordError(f"{a} and {b} have no cell in common")
        table = comparison.build(left, right, thresholds)
        output.mkdir(parents=True, exist_ok=True)
        title = f"A: {_name(left)}; B: {_name(right)}"
        write(table, str(output / "comparison.csv"), str(output / "comparison.html"), title)
        paths = [str(output / f"comparison.{ending}") for ending in ("svg", "png")]
        save(draw_comparison(table, _name(left), _name(right)), paths)
    counts = (f"{count} {word}" for word, count in table["verdict"].value_counts().items())
    lines = [f"{len(table)} cells compared: {', '.join(counts)}"]
    for name, rows, other in (("A", left, right), ("B", right, left)):
        if alone := (~rows.index.isin(other.index)).sum():
            lines.append(f"{alone} cells are only in {name}")
    not_comparable = table["verdict"] == NOT_COMPARABLE
    lines += [f"{NOT_COMPARABLE}: {note}" for note in table.loc[not_comparable, "note"].unique()]
    return "\n".join(lines)


def _name(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    return f"{first['device']}, {first['started'][:10]}, commit {str(first['commit'])[:7]}"
