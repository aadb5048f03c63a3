"""What an SVG file says of its figure to those who do not see it; alternative texts and links of the site."""

import importlib.util
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import ROOT
from generators import repository

from snn.figures import layout
from snn.report.published_set import escaped

FURO = importlib.util.find_spec("furo")
SVG = "{http://www.w3.org/2000/svg}"


def written(folder, figure):
    """The root of the figure's SVG file."""
    layout.save(figure, [str(folder / "f.svg")])
    return ElementTree.fromstring((folder / "f.svg").read_bytes())


def test_an_svg_file_is_one_image_with_a_title_and_a_description(tmp_path):
    figure, panels = layout.panels(2, 1.5)
    for axes, title, place in zip(panels, ("small", "large"), ("left", "center"), strict=True):
        axes.plot([0, 1], [0, 1], label="a line")
        axes.set_title(title, loc=place)
        axes.set_xlabel("training time (s)")
    panels[0].set_ylabel("loss\nof a <batch>")
    layout.framed(figure, "A & B", ["Device: NVIDIA H200.", ""], "Bars: <none>.", panels[0].lines)
    root = written(tmp_path, figure)
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert root[0].text == "A & B"
    assert root[1].text == (
        "Device: NVIDIA H200. Bars: <none>. Panels: small; large. Horizontal: training time (s). "
        "Vertical: loss of a <batch>."
    )


@pytest.mark.parametrize("words", ["a long-word " * 30, "word " * 60])
def test_lines_are_joined_as_they_were_broken(tmp_path, words):
    figure, (axes,) = layout.panels(1, 1.0)
    axes.plot([0, 1], [0, 1])
    root = written(tmp_path, layout.framed(figure, words, ["a device"], words))
    assert (root[0].text, root[1].text) == (words.strip(), f"a device {words.strip()}")


def test_a_figure_of_nothing_has_its_message_as_title(tmp_path):
    root = written(tmp_path, layout.nothing("no trace: nothing ran"))
    assert (root[0].text, root[1].text) == ("no trace: nothing ran", None)


def test_the_site_has_the_words_of_a_figure_as_its_alternative_text(tmp_path):
    figure, (axes,) = layout.panels(1, 1.0)
    axes.plot([0, 1], [0, 1])
    written(tmp_path, layout.framed(figure, "Times [s]", ["Device: *a_b*."], "Bars: <none>."))
    assert repository.in_words(tmp_path / "f.svg") == "Times [s]. Device: *a_b*. Bars: <none>."
    assert escaped("Times [s] of *a_b*: <none>") == r"Times \[s\] of \*a\_b\*: \<none\>"
    (tmp_path / "old.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><g/></svg>')
    assert repository.in_words(tmp_path / "old.svg") == "old"


@pytest.mark.skipif(FURO is None, reason="needs the site's theme")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_links_in_a_text_are_underlined_in_their_own_colour(chromium, tmp_path, dark):
    theme = Path(FURO.origin).parent / "theme/furo/static/styles/furo.css"
    styles = "".join(f"<style>{path.read_text()}</style>" for path in (theme, ROOT / "docs/_static/site.css"))
    page = f'{styles}<body data-theme="auto"><article><a href="#x">a link</a></article>'
    (tmp_path / "page.html").write_text(f"<!doctype html>{page}")
    shown = chromium.open(tmp_path / "page.html", dark).run(f"({UNDERLINE})()")
    assert shown["line"] == "underline" and shown["under"] == shown["colour"]


UNDERLINE = """() => {
  const style = getComputedStyle(document.querySelector("a"));
  return { colour: style.color, under: style.textDecorationColor, line: style.textDecorationLine };
}"""
