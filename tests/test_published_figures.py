"""What is published: tables are what its records give, and each figure can be read by itself at 7 inches."""

import re
from io import StringIO
from itertools import pairwise
from xml.sax.saxutils import unescape

import pandas as pd
import pytest
from figure_layout import faults, said_in
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex, to_rgb
from matplotlib.text import Text

from snn import cli, retabulate
from snn.figures import breakdown, layout, style
from snn.figures.breakdown import PARTS
from snn.files.published_sets import name_of, sets
from snn.report import write


def lines_in(svg):
    """The lines of text of a published figure: an SVG file has them beside their letters."""
    return {unescape(line) for line in re.findall("<!-- (?!sha256)(.*?) -->", svg.read_text())}


OF_INTERVALS = ("standard deviation", "confidence interval", "without an interval")


@pytest.mark.parametrize("folder", sets(), ids=name_of)
def test_a_published_folder_is_what_its_records_give_and_its_figures_can_be_read(
    folder, tmp_path, monkeypatch
):
    """Pages, of which none is published, are not made: test_retabulate.py makes them all."""
    found, stale, titles = {}, {}, []

    def looked_at(figure, output, name):
        found[name] = faults(figure), said_in(figure)
        drawn = {line for text in figure.findobj(Text) for line in text.get_text().split("\n")}
        stale[name] = lines_in(folder / f"figures/{name}.svg") - drawn
        titles.append(figure.get_suptitle())
        plt.close(figure)

    monkeypatch.setattr(retabulate, "_save", looked_at)
    monkeypatch.setattr(write, "to_html", lambda *_, **named: "")
    assert cli.main(["retabulate", str(folder), str(tmp_path)]) == 0
    published = {path.name: path.read_text() for path in folder.glob("tables/*.csv")}
    assert published == {path.name: path.read_text() for path in tmp_path.glob("tables/*.csv")}
    assert set(found) == {path.stem for path in folder.glob("figures/*.png")}
    assert {name: wrong for name, (wrong, _) in found.items() if wrong} == {}
    assert {name: lines for name, lines in stale.items() if lines} == {}  # else scripts/redraw it
    assert len(set(titles)) == len(titles)
    known = {
        device for text in published.values() for device in pd.read_csv(StringIO(text))["device"].dropna()
    }
    for name, (_, said) in found.items():
        assert any(device in said for device in known), name
        assert "Microbenchmark" in said or ("Data: " in said and "layers: " in said) or "Network: " in said, (
            name
        )
        assert any(words in said for words in OF_INTERVALS), name


def test_the_check_finds_every_fault():
    figure, (axes,) = layout.panels(1, 2.0)
    axes.plot([0, 1], [0, 1], label="a line")
    axes.set_axis_off()
    assert faults(layout.framed(figure, "a title", ["a device"], "a note", axes.lines)) == []
    assert (figure.get_figwidth(), figure.get_suptitle()) == (layout.WIDTH, "a title")
    figure.set_layout_engine("none")
    texts = {
        "'small' is of 6.0 points": axes.text(0.1, 0.8, "small", fontsize=6),
        "'outside' is not within the figure": figure.text(0.99, 0.5, "outside"),
        "'crossed' is over a line": axes.text(0.5, 0.5, "crossed", ha="center", va="center"),
        "'twice' is over 'twice'": axes.text(0.8, 0.1, "twice"),
    }
    texts["beside"] = axes.text(0.82, 0.1, "twice")
    assert set(faults(figure)) == set(texts) - {"beside"}
    figure.set_figwidth(8)
    assert "8.0 inches wide" in faults(figure)
    axes.errorbar(0.5, 0.9, yerr=0.05)
    assert not any("error bar" in fault for fault in faults(figure))
    axes.set_ylim(0, 0.94)
    assert "an error bar ends outside the panel of ''" in faults(figure)


def test_a_title_and_a_note_of_any_length_are_within_the_figure():
    figure, (axes,) = layout.panels(1, 1.0)
    axes.plot([0, 1], [0, 1])
    words = " ".join(["word"] * 100)
    key = [axes.plot([], [], label=f"a long name of a series, number {i}")[0] for i in range(9)]
    layout.framed(figure, f"title {words}", [f"NVIDIA {'H' * 400}", ""], words, key)
    for dpi in (200, 120, 72):  # a text is as wide at every resolution
        figure.set_dpi(dpi)
        assert faults(figure) == []


def linear(colour):
    """Linear RGB (sRGB's transfer function, IEC 61966-2-1)."""
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]


def lab(rgb):
    """Linear RGB in CIE L*a*b*, whose distances are about those that are seen."""
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = (sum(a * b for a, b in zip(row, rgb, strict=True)) for row in to_xyz)
    x, y, z = (max(one / white, 1e-6) ** (1 / 3) for one, white in zip(xyz, (0.9505, 1, 1.089), strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


SEEN_BY = {  # Machado, Oliveira and Fernandes (2009), complete deficiency, on linear RGB
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopes": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "deuteranopes": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "tritanopes": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}


@pytest.mark.parametrize("reader", SEEN_BY)
@pytest.mark.parametrize(
    "colours", [style.LINES, [shade for shade, _ in PARTS.values()]], ids=["lines", "parts"]
)
def test_colours_are_told_apart(reader, colours):
    seen = [
        lab([sum(a * max(b, 0) for a, b in zip(row, linear(colour), strict=True)) for row in SEEN_BY[reader]])
        for colour in colours
    ]
    distances = {
        (colours[i], colours[j]): sum((a - b) ** 2 for a, b in zip(seen[i], seen[j], strict=True)) ** 0.5
        for i in range(len(seen))
        for j in range(i)
    }
    closest = min(distances, key=distances.get)
    assert distances[closest] > 10, (closest, distances[closest])


def luminance(colour):
    """The relative luminance of WCAG 2."""
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def test_parts_of_a_time_differ_without_their_colours():
    """In any order, as some may be missing: by a line and by hatches, or lightness where there is none."""
    looks = [breakdown.box(part) for part in breakdown.PARTS]
    assert all(to_hex(look["edgecolor"]) == "#ffffff" for look in looks)
    hatches = [look["hatch"] for look in looks if look["hatch"]]
    assert len(set(hatches)) == len(hatches) == len(looks) - 3
    solid = [luminance(look["facecolor"]) for look in looks if not look["hatch"]]
    assert all((high + 0.05) / (low + 0.05) > 1.9 for low, high in pairwise(sorted(solid)))


@pytest.mark.parametrize("first", style.LINES)
def test_later_curves_of_a_program_are_seen_on_white(first):
    assert 1.05 / (luminance(style.mixed(first, "black", style.DARKEST)) + 0.05) >= 3
