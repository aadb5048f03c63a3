"""Pages of very many rows: a browser lays out some of them, and sorts and shows all."""

import re

import pandas as pd
import pytest

from snn.figures import layout
from snn.figures import sweep as figure
from snn.report.write import MOST_ROWS, to_html

ROWS = 2 * MOST_ROWS + 7


def table(rows):
    return pd.DataFrame(
        {"cell": [f"<{i}>" for i in range(rows)], "mean_s": [(i * 37) % rows for i in range(rows)]}
    )


def laid_out(page):
    """The rows that a browser makes of the page before its script does anything."""
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL).count("<tr>") - 1


@pytest.mark.parametrize("rows", [1, MOST_ROWS, MOST_ROWS + 1, ROWS])
def test_every_row_is_in_the_page_and_no_more_than_some_are_laid_out(rows):
    page = to_html(table(rows), "T")
    assert page.count("<tr>") == rows + 1
    assert laid_out(page) == min(rows, MOST_ROWS)
    assert (f"of {rows:,} rows: this page needs JavaScript" in page) == (rows > MOST_ROWS)
    assert page.count("</script>") == 1 + (rows > MOST_ROWS)  # none out of a user's text


def test_a_browser_turns_pages_and_sorts_all_rows(chromium, tmp_path):
    (tmp_path / "page.html").write_text(to_html(table(ROWS), "T"))
    said = chromium.open(tmp_path / "page.html").run(f"({CLICKS})()")
    most, last = MOST_ROWS, ROWS - 1
    assert said == [
        f"1 to {most}: 0 to {most - 1}, {most} rows",
        f"{most + 1} to {2 * most}: {most} to {2 * most - 1}, {most} rows",
        f"{2 * most + 1} to {ROWS}: {2 * most} to {last}, 7 rows",  # the last page
        f"{2 * most + 1} to {ROWS}: {2 * most} to {last}, 7 rows",  # there is no next one
        f"{most + 1} to {2 * most}: {most} to {2 * most - 1}, {most} rows",
        *(f"1 to {most}: {first} to {end}, {most} rows" for first, end in (by_time(1), by_time(-1))),
    ]


def by_time(direction):
    """The cells of the first and the last row of the first page, sorted by time."""
    cells = sorted(range(ROWS), key=lambda i: direction * ((i * 37) % ROWS))
    return cells[0], cells[MOST_ROWS - 1]


CLICKS = """() => {
  const lines = [];
  const say = () => {
    const rows = document.querySelector("tbody").rows;
    const name = (row) => row.cells[0].textContent.replace(/[<>]/g, "");
    const range = document.querySelector("output").value;
    lines.push(`${range}: ${name(rows[0])} to ${name(rows[rows.length - 1])}, ${rows.length} rows`);
  };
  const [first, back, next, last] = document.querySelectorAll(".pager button");
  const time = document.querySelectorAll("th button")[1];
  say();
  for (const button of [next, last, next, back, time, time]) {
    button.click();
    say();
  }
  return lines;
}"""


def test_a_figure_of_very_many_cells_says_which_it_shows(tmp_path):
    rows = pd.DataFrame(
        {"strategy": "reference", "dataset": "small", "network.seed": range(10_000), "mean_s": 1.0}
    ).assign(std_s=0.1, status="ok", device="NVIDIA H200", backend="cuda", network="256")
    drawn = figure.draw(rows, ["network.seed"], "many")
    (axes,) = drawn.axes
    title = "Training time: many: the first 400 of 10,000 cells; its table has all"
    assert drawn.get_suptitle() == title
    assert len(axes.containers[0].lines[0].get_xdata()) == len(axes.get_yticklabels()) == 400


def test_a_png_of_a_huge_figure_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "_MOST_PIXELS", 300)
    layout.save(layout.nothing("nothing"), [str(tmp_path / "f.svg"), str(tmp_path / "f.png")])
    header = (tmp_path / "f.png").read_bytes()[16:24]
    assert [int.from_bytes(header[:4]), int.from_bytes(header[4:])] == [300, 51]
