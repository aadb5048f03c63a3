"""Pages of tables: words, sorting, columns, very many rows; what screen reader, keyboard and paper get."""

import re
from html import escape

import browser
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from records_of import record

from snn.config.groups import read_yaml
from snn.figures import layout
from snn.figures import sweep as sweep_figure
from snn.files.published_sets import PUBLISHED
from snn.grid import sweeps as grid
from snn.hardware.devices import Device
from snn.report.write import MOST_ROWS, badges, to_html, write
from snn.tables import columns
from snn.tables.origin import configuration, provenance

GPU = Device("cuda", "NVIDIA H200")
SWEEPS = grid.read(ROOT / "config/grid.yaml", GPU)
ORIGIN = {
    "started": "2026-11-21T00:45:44+00:00",
    "elapsed_seconds": 12.5,
    "cuda_runtime": 13020,
    "versions": {"python": "3.12.3", "numpy": "2.5.2", "cupy": "14.2.0"},
    "git": {"commit": "68f1112", "dirty": True},
    "host": {"system": "Linux x86_64", "cpus": 16},
}


def test_cells_carry_the_value_that_they_are_sorted_by_in_full():
    table = pd.DataFrame({"strategy": ["a", "b"], "mean_s": [1 / 3, None], "runs": [15000, 2]})
    text = to_html(table, "T")
    assert f'<td data-value="{1 / 3!r}">0.3333</td>' in text
    assert '<td data-value="15000">15,000</td>' in text
    assert '<td class="empty">–</td>' in text
    assert '<th scope="row" class="text">a</th>' in text
    text = to_html(pd.DataFrame({"key": list("abc"), "value": [2560, "8.0", ""]}), "T")  # a mixed column
    assert '<td class="text" data-value="2560">2,560</td>' in text
    assert '<td class="text">8.0</td>' in text
    assert '<td class="text empty">–</td>' in text


def test_every_heading_is_a_button_and_the_page_needs_no_other_file():
    text = to_html(pd.DataFrame({"strategy": ["a"], "start_us": [1.0]}), "T")
    headings = re.findall(r'<th scope="col"[^>]*><button type="button">([^<]*)</button></th>', text)
    assert headings == ["strategy", "start (µs)"]
    assert "aria-sort" in text
    assert not re.search(r"""(src|href)=|url\(|https?:""", text)
    assert "<script>" in text and 'tabindex="0"' in text


def test_words_have_a_tone_and_a_legend_of_those_that_occur():
    table = pd.DataFrame({"verdict": ["faster", "not comparable"], "machine": ["quiet", "shared, noisy"]})
    text = to_html(table, "T")
    tones = {"faster": "good", "slower": "bad", "diverged": "bad", "not comparable": "plain", "same": "plain"}
    for word, tone in (tones | {"not significant": "warn", "shared, noisy": "warn"}).items():
        said = ", ".join(f'<span class="word {tone}">{one}</span>' for one in word.split(", "))
        assert badges(f"<new>, {word}") == f"&lt;new&gt;, {said}"
        assert (said in text) == (word in ("faster", "not comparable", "shared, noisy"))
    legend = ["faster", "not comparable", "quiet", "noisy", "shared"]
    assert re.findall(r"<dt>(?:<[^>]*>)?([a-z ]*)", text) == legend


def test_shading_is_explained_if_there_is_some():
    said = {name: to_html(pd.DataFrame({name: [1.0]}), "T") for name in ("mean_s", "paper_s", "published_s")}
    assert {name: "Shaded" in page for name, page in said.items()} == dict(
        zip(said, [False, True, True], strict=True)
    )


def provenance_of(*changes):
    """The records of a cell with each of these changes, and their table."""
    cell = SWEEPS["neurons"].cells[0]
    records = {f"{i}.json": record(cell, [1.0, 2.0], **ORIGIN | one) for i, one in enumerate(changes)}
    return records, provenance.build(records)


def test_provenance_has_a_row_a_record_and_versions_that_all_share_are_named_once():
    records, table = provenance_of({}, {})
    assert table["record"].tolist() == ["0.json", "1.json"]
    said = {"cuda_runtime": "13.2", "cupy": "14.2.0", "driver": "580.1", "device_uuid": "GPU-1"}
    said |= {"commit": "68f1112", "dirty": "yes", "runs": 2, "elapsed_s": 12.5}
    said["source_hash"] = records["0.json"]["provenance"]["source_hash"]
    assert table.iloc[0][[*said]].to_dict() == said
    text = to_html(table, "T")
    assert "Driver 580.1." in text and "CUDA runtime 13.2." in text and "Dirty working tree: yes." in text
    assert "CuPy 14.2.0." in text and ">driver<" not in text


def test_versions_that_differ_stay_columns_and_what_a_cpu_lacks_is_left_out():
    no_gpu = {"cuda_runtime": None, "driver": None, "device_uuid": None, "backend": "cpu"}
    versions = [{"python": "3", "numpy": numpy, "cupy": None} for numpy in "01"]
    text = to_html(provenance_of(*(no_gpu | {"versions": one} for one in versions))[1], "T")
    assert ">numpy<" in text
    assert "CuPy" not in text and "None" not in text


def test_configuration_says_what_varies_what_is_derived_and_what_all_share(tmp_path):
    path = tmp_path / "grid.yaml"
    sweeps = {
        "sizes": {"dataset": ["small", "large"], "strategy": ["reference", "streams"]},
        "widths": {"dataset": "small", "strategy": "reference", "network.hidden": [[4], [4, 4]]},
    }
    path.write_text(yaml.safe_dump({"sweeps": sweeps}))
    found = grid.read(path, GPU)
    verdicts = read_yaml(ROOT / "config/verdicts.yaml")
    plain = [{"name": s.name, "axes": s.axes, "cells": s.cells} for s in found.values()]
    memory = {"memory_calls": {"sizes": ["1KiB", "1MiB"], "samples": 6}}
    table = configuration.build(plain, verdicts, GPU, memory)
    values = table.set_index(["sweep", "key"])[["role", "values"]].apply(tuple, axis=1)
    expected = {
        ("sizes", "dataset"): ("axis", "small, large"),
        ("sizes", "dataset.rows"): ("derived", "256, 25600"),
        ("widths", "dataset"): ("fixed", "small"),
        ("widths", "network.hidden"): ("axis", "4, 4-4"),
        ("sizes", "cells"): ("count", "4"),
        ("all sweeps", "training.batch_size"): ("fixed", "256"),
        ("all sweeps", "protocol.relative_error"): ("fixed", "none"),
        ("verdicts", "noisy"): ("threshold", str(verdicts["noisy"])),
        ("memory_calls", "sizes"): ("setting", "1KiB, 1MiB"),
        ("memory_calls", "samples"): ("setting", "6"),
    }
    assert {key: values[key] for key in expected} == expected
    assert not table["key"].str.contains("_target_").any()
    assert not table.duplicated(["sweep", "key"]).any()


def test_a_page_says_what_its_columns_contain():
    table = pd.DataFrame({"strategy": ["a"], "speedup": [1.5], "training.batch_size": [64]})
    text = to_html(table, "T", name="sweep")
    assert "<dt>speedup</dt><dd>mean time of the baseline divided by that of this row</dd>" in text
    assert "<dd>the setting <code>training.batch_size</code></dd>" in text
    assert "What the columns contain" not in to_html(table, "T")


def test_the_page_escapes_rounds_and_says_where_it_was_measured(tmp_path):
    values = {"name": "<b>", "reference_std_s": 1 / 3, "final_mse": 41.192572021, "paper_x": None}
    table = pd.DataFrame([values | {"device": "D", "backend": "cpu"}])
    write(table, str(tmp_path / "t.csv"), str(tmp_path / "t.html"), "A title")
    page = (tmp_path / "t.html").read_text()
    for text in ("&lt;b&gt;", ">reference std (s)<", ">0.3333<", ">41.192572<", ">–<"):
        assert text in page
    assert "Measured on D. Backend: cpu, no GPU was used." in page
    assert pd.read_csv(tmp_path / "t.csv")["reference_std_s"].iloc[0] == 1 / 3


# ---- very many rows

ROWS = 2 * MOST_ROWS + 7


def long_table(rows):
    return pd.DataFrame(
        {"cell": [f"<{i}>" for i in range(rows)], "mean_s": [(i * 37) % rows for i in range(rows)]}
    )


def laid_out(page):
    """The rows that a browser makes of the page before its script does anything."""
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL).count("<tr>") - 1


@pytest.mark.parametrize("rows", [1, MOST_ROWS, MOST_ROWS + 1, ROWS])
def test_every_row_is_in_the_page_and_no_more_than_some_are_laid_out(rows):
    page = to_html(long_table(rows), "T")
    assert page.count("<tr>") == rows + 1
    assert laid_out(page) == min(rows, MOST_ROWS)
    assert (f"of {rows:,} rows: this page needs JavaScript" in page) == (rows > MOST_ROWS)
    assert page.count("</script>") == 1 + (rows > MOST_ROWS)  # none out of a user's text


def test_a_browser_turns_pages_and_sorts_all_rows(chromium, tmp_path):
    (tmp_path / "page.html").write_text(to_html(long_table(ROWS), "T"))
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
    drawn = sweep_figure.draw(rows, ["network.seed"], "many")
    (axes,) = drawn.axes
    title = "Training time: many: the first 400 of 10,000 cells; its table has all"
    assert drawn.get_suptitle() == title
    assert len(axes.containers[0].lines[0].get_xdata()) == len(axes.get_yticklabels()) == 400


def test_a_png_of_a_huge_figure_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "_MOST_PIXELS", 300)
    layout.save(layout.nothing("nothing"), [str(tmp_path / "f.svg"), str(tmp_path / "f.png")])
    header = (tmp_path / "f.png").read_bytes()[16:24]
    assert [int.from_bytes(header[:4]), int.from_bytes(header[4:])] == [300, 51]


# ---- in a browser

LEAST = 3.0
"""The contrast that WCAG 2.2 asks for around a control (success criterion 1.4.11)."""


def opened(chromium, folder, rows, columns=20, width=1280):
    """The page of a table with so many columns, the last one of long texts."""
    numbers = {f"column_number_{i}_s": [i + row / 7 for row in range(rows)] for i in range(columns)}
    names = [f"a strategy of a long name, {row}" for row in range(rows)]
    table = pd.DataFrame({"strategy": names, **numbers, "note": "words that are many, " * 9})
    (folder / "page.html").write_text(to_html(table, "The times"))
    return chromium.open(folder / "page.html", width=width)


def said(page):
    """Role and name of everything that a screen reader finds."""
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    return [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"]
    ]


def test_a_screen_reader_names_the_table_its_rows_and_its_columns(chromium, tmp_path):
    page = opened(chromium, tmp_path, 2, columns=1)
    page.run("document.querySelector('thead button').click()")
    found = said(page)
    assert [name for role, name in found if role == "table"] == ["The times"]
    assert [name for role, name in found if role == "columnheader"] == [
        "strategy",
        "column number 0 (s)",
        "note",
    ]
    assert [name for role, name in found if role == "rowheader"] == [
        f"a strategy of a long name, {row}" for row in range(2)
    ]
    assert [role for role, _ in found].count("main") == 1
    arrow = page.run("getComputedStyle(document.querySelector('thead button'), '::after').content")
    assert arrow.startswith('" \u2191"')  # the arrow is seen all the same


def test_headings_that_are_focused_are_beside_the_first_column(chromium, tmp_path):
    page = opened(chromium, tmp_path, 60, width=800)
    assert page.run("document.querySelector('.frame').scrollWidth > 2000")
    page.wait("document.querySelector('.frame').style.getPropertyValue('--first-width')")
    assert page.run(f"({HIDDEN})()") == []


HIDDEN = """() => {
  const frame = document.querySelector(".frame");
  const buttons = [...document.querySelectorAll("thead button")];
  frame.scrollTop = 500;
  return buttons.reverse().filter((button) => {
    button.focus();
    const box = button.getBoundingClientRect();
    const at = (x) => document.elementFromPoint(x, box.top + box.height / 2);
    return ![box.left + 3, box.right - 3].every((x) => at(x) === button);
  }).map((button) => button.textContent);
}"""


def test_a_phone_shows_the_page_at_its_own_width_and_every_column(chromium, tmp_path):
    page = opened(chromium, tmp_path, 5, width=400)
    assert page.run("document.documentElement.scrollWidth") == 400
    assert (
        page.run("document.querySelector('meta[name=viewport]').content")
        == "width=device-width, initial-scale=1"
    )
    page.run("document.querySelector('.frame').scrollLeft = 500")
    assert page.run("document.querySelector('tbody th').getBoundingClientRect().right") < 0


def test_every_row_and_column_of_the_frame_is_printed(chromium, tmp_path):
    page = opened(chromium, tmp_path, 60, width=1040)  # A4 in landscape, at 96 pixels per inch
    cut = "[...document.querySelectorAll('th, td')].filter((cell) => {" + OUTSIDE + "}).length"
    page.run("document.querySelector('.frame').scrollTo(300, 300)")
    assert page.run(cut) > 60
    page.send("Emulation.setEmulatedMedia", {"media": "print"})
    assert page.run(cut) == 0
    assert page.run("getComputedStyle(document.querySelector('tbody th')).position") == "static"


def test_the_widest_published_table_is_no_wider_than_a_browser_shrinks_to_its_paper(chromium, tmp_path):
    (tmp_path / "page.html").write_text(to_html(pd.read_csv(PUBLISHED / "devices_strategies.csv"), "Devices"))
    page = chromium.open(tmp_path / "page.html", width=1040)
    page.send("Emulation.setEmulatedMedia", {"media": "print"})
    assert page.run("document.documentElement.scrollWidth") < 1.45 * 1040


OUTSIDE = """
  const [box, frame] = [cell, document.querySelector(".frame")].map((one) => one.getBoundingClientRect());
  return box.left < 0 || box.right > innerWidth || box.top < frame.top || box.bottom > frame.bottom + 1;
"""


def test_buttons_that_turn_pages_are_seen_and_say_what_they_cannot_do(chromium, tmp_path):
    page = opened(chromium, tmp_path, MOST_ROWS + 3, columns=1)
    disabled = "[...document.querySelectorAll('.pager button')].map((one) => one.ariaDisabled).join(' ')"
    assert ("group", "Rows that are shown") in said(page)
    assert page.run(disabled) == "true true false false"
    page.run("document.querySelectorAll('.pager button')[2].click()")
    assert page.run(disabled) == "false false true true"
    for dark in (False, True):
        page.theme(dark)
        page.run("document.querySelectorAll('.pager button').forEach((one) => { one.style = ''; })")
        assert page.least_contrast()["contrast"] >= 4.5
        page.run(f"document.querySelectorAll('.pager button').forEach({BORDER_AS_TEXT})")
        assert page.run(f"({browser.CONTRAST})()")["contrast"] >= LEAST


BORDER_AS_TEXT = """(button) => {
  button.style.color = getComputedStyle(button).borderTopColor;
  button.style.background = "none";
}"""


def test_a_column_is_explained_as_its_own_table_has_it():
    (name, words), *_ = ((table, columns.own(table)) for table in columns.tables() if columns.own(table))
    column = next(one for one in words if columns.describe("", one) != words[one])
    text = to_html(pd.DataFrame({column: [1.0, 2.0]}), "T", name=name)
    assert escape(str(words[column]), quote=False).split("`")[0] in text
    assert "<dl>" not in to_html(pd.DataFrame({column: [1.0, 2.0]}), "T")
