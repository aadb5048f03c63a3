"""The report: it begins with the answer, everything is captioned, and a browser shows it without a fault."""

import base64
import io
import json
import re
import shutil
import time
from types import SimpleNamespace

import jinja2
import numpy as np
import pytest
from conftest import ROOT
from PIL import Image
from project import copied, embedded

from snn.grid.sweeps import SHORTENED

READABLE = 4.5
"""The least contrast of text that WCAG 2.2 allows (success criterion 1.4.3)."""


@pytest.fixture(scope="module")
def report(made, tmp_path_factory):
    """The report of the made project: its file, what it says, and the project."""
    project = copied(made.folder, tmp_path_factory.mktemp("report") / "project")
    project.snakemake("--report", "report.html")
    path = project.folder / "report.html"
    page = path.read_text()
    parts = {name: embedded(page, name) for name in ("workflow-desc", "categories", "results")}
    yield SimpleNamespace(path=path, page=page, project=project, opening=parts.pop("workflow-desc"), **parts)
    shutil.rmtree(project.folder)


def test_it_begins_with_the_answer(report):
    """For every case its strategy, interval and verdict; and that no GPU was used, where none was."""
    opening = re.sub(r"<style>.*?</style>", "", report.opening, flags=re.DOTALL).strip()
    text = " ".join(re.sub("<[^>]*>", " ", opening).split())
    assert text.startswith("Which strategy trains fastest? These are times of a CPU; no GPU was used.")
    rows = report.project.table("recommendation")
    assert len(rows) == 3
    for row in rows.to_dict("records"):
        said = re.search(rf'<th scope="row" rowspan="2">{row["case"]}</th>(.*?)</tr>', opening)[1]
        assert f"<b>{row['strategy']}</b>" in said and f">{row['lead_verdict']}</span>" in said
        assert said.startswith("<td>no single one: ") == (row["lead_verdict"] == "not significant")
    assert len(report.page) < 10_000_000
    assert "State of the machine while the" in opening


def test_one_of_named_files_says_that_it_has_no_answer(report):
    opening = jinja2.Template((ROOT / "workflow/report/overview.rst").read_text())
    said = "This report has the requested tables and figures only."
    made = opening.render(files=[], snakemake=SimpleNamespace(config={}))
    assert said in made and said not in report.opening
    assert "Each run trained" not in made + report.opening
    shorter = opening.render(files=[], snakemake=SimpleNamespace(config={SHORTENED: "1 of the 100 epochs"}))
    assert "Each run trained 1 of the 100 epochs: one-off work" in shorter


def test_it_holds_everything_captioned(report):
    assert sorted(name[0] for name in report.categories) == [*"123568"]
    tables = {path.stem for path in report.project.folder.glob("results/tables/*.csv")}
    figures = {path.stem for path in report.project.folder.glob("results/figures/*.svg")}
    assert set(report.results) == {f"results/tables/{name}.html" for name in tables} | {
        f"results/figures/{name}.svg" for name in figures
    }
    for path, result in report.results.items():
        caption = re.sub("<[^>]*>", "", result["caption"])
        assert 1 <= len(re.findall(r"[.](?:\s|$)", caption)) <= 8, (path, caption)
    assert "safe center" in report.page  # profiles/default/report.css


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_it_without_error_or_request_and_legibly(report, chromium, dark):
    page, seen = chromium.open(report.path, dark), set()
    page.wait("document.querySelector('#app .answer') && document.querySelector('#rulegraph canvas')")
    readable(page, "the first page")
    assert page.run("document.querySelector('#app .answer').getBoundingClientRect().top") < 100
    page.run("document.querySelectorAll('.answer details').forEach((one) => { one.open = true; })")
    readable(page, "the rankings")
    answer = "document.querySelector('#app .answer')"
    assert page.run(f"{answer}.scrollWidth <= {answer}.clientWidth")  # nothing is wider than the page
    graph = shades(page.picture("document.querySelector('#rulegraph canvas')"))
    background = np.median(graph)
    assert (background < 32) if dark else (background > 223)
    assert np.abs(graph - background).max() > 128  # the names of rules
    for category in report.categories:
        page.run(f"app.showCategory({json.dumps(category)})")
        readable(page, category)
    for path, result in report.results.items():
        page.run(f"app.showResultInfo({json.dumps(path)})")
        page.wait(
            f"document.querySelector('#app .prose-invert')?.innerHTML === {json.dumps(result['caption'])}"
        )
        if is_new(result["caption"], seen):
            readable(page, f"the caption of {path}")
    assert page.errors() == [] and page.requests() == []


def is_new(html, seen):
    """Whether a text has an element of a class that none before had, and so may have other colours."""
    elements = {"".join(one) for one in re.findall(r'<([a-z]\w*)[^>]*?( class="[^"]*"|>)', html)}
    return not elements <= seen and not seen.update(elements)


def shades(png):
    """The pixels of a picture, from 0 (black) to 255 (white)."""
    with Image.open(io.BytesIO(png)) as picture:
        return np.asarray(picture.convert("L"), dtype=int)


def test_in_a_narrow_window_nothing_hides_the_answer(report, chromium):
    page = chromium.open(report.path, width=400)
    page.wait("document.querySelector('#app .answer h1')")
    page.wait(f"({SHOWN})(document.querySelector('#app .answer h1'), 400)")


SHOWN = """(element, width) => {
  element.scrollIntoView();
  const box = element.getBoundingClientRect();
  const points = [box.left + 2, (box.left + box.right) / 2];
  const at = (x) => document.elementFromPoint(x, box.top + 5);
  return box.left >= 0 && box.right <= width && points.every((x) => at(x)?.closest(".answer"));
}"""


def test_all_of_the_answer_is_printed(report, chromium):
    page = chromium.open(report.path, width=700)  # less than the answer's tables take on a screen
    page.wait("document.querySelector('#app .answer h1')")
    page.run("document.querySelectorAll('.answer details').forEach((one) => { one.open = true; })")
    assert page.run(f"({CUT})()") > 0
    page.send("Emulation.setEmulatedMedia", {"media": "print"})
    assert page.run(f"({CUT})()") == 0
    assert page.run("document.querySelector('#app nav').checkVisibility()") is False


CUT = """() => {
  let cut = 0;
  for (let one = document.querySelector(".answer"); one; one = one.parentElement) {
    const overflow = getComputedStyle(one).overflow !== "visible";
    if (overflow && (one.scrollHeight > one.clientHeight || one.scrollWidth > one.clientWidth)) cut += 1;
  }
  return cut;
}"""


def test_its_tables_sort_and_are_legible_in_light_and_dark(report, chromium, tmp_path):
    """Each page as the report holds it, alone in the browser."""
    page, clicked, seen = chromium.open(report.path), 0, set()
    for path, result in report.results.items():
        if not path.endswith(".html"):
            continue
        kind, _, data = result["data_uri"].partition(",")
        assert kind.startswith("data:text/html") and kind.endswith("base64"), path
        content = base64.b64decode(data)
        (tmp_path / path.rpartition("/")[2]).write_bytes(content)
        page.go(tmp_path / path.rpartition("/")[2])
        for dark in (False, True) if is_new(content.decode(), seen) else ():
            page.theme(dark)
            readable(page, (path, dark))
        for heading, values in page.run(f"({CLICKS})()").items():
            ascending, descending = ([one for one in column if one is not None] for column in values)
            assert ascending == sorted(ascending), (path, heading)
            assert descending == sorted(descending, reverse=True), (path, heading)
            clicked += len(set(ascending)) > 1
    assert clicked > 2 * len(report.categories)
    assert page.errors() == [] and page.requests() == []


CLICKS = """() => {
  const sorted = {};
  const number = (cell) => (cell.dataset.value === undefined ? null : Number(cell.dataset.value));
  for (const heading of document.querySelectorAll("thead th:not(.text)")) {
    const column = heading.cellIndex;
    sorted[heading.textContent] = [1, 2].map(() => {
      heading.firstElementChild.click();
      return [...document.querySelector("tbody").rows].map((row) => number(row.cells[column]));
    });
  }
  return sorted;
}"""
"""By heading of each column of numbers: its values in the rows shown after one click, and after two."""


def test_a_page_with_faults_is_found_out(chromium, tmp_path):
    inner = "<script>undefined.x</script>"
    (tmp_path / "page.html").write_text(
        f'<p style="color: #888; background: #fff">grey</p><iframe src="data:text/html,{inner}"></iframe>'
        '<img src="http://127.0.0.1:9/outside.png">'
    )
    page = chromium.open(tmp_path / "page.html")
    page.wait("performance.now() > 100")
    assert page.requests() == ["http://127.0.0.1:9/outside.png"]
    assert any("TypeError" in str(error) for error in page.errors())
    least = page.least_contrast()
    assert least["text"] == "grey" and least["contrast"] == pytest.approx(3.54, abs=0.01)


def readable(page, what):
    """Its text, as soon as styles that are made while it is shown have been applied."""
    end = time.monotonic() + 60
    while True:
        least = page.least_contrast()
        if least["count"] > 3 and least["contrast"] >= READABLE:
            return
        assert time.monotonic() < end, (what, least)
        time.sleep(0.05)
