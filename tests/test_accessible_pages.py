"""Pages of tables: what a screen reader says of them, what the keyboard reaches, what is printed."""

import browser
import pandas as pd

from snn.files.published_sets import PUBLISHED
from snn.report.write import MOST_ROWS, to_html

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
