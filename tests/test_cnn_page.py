"""scripts/cnn_page.py: the tables of docs/explanation/cnn_report.md are made from others."""

import re

import cnn_page
import pytest
from cnn_cells import MEAN, NAIVE, OPTIMISED, cells_of, rows_of
from cnn_cells import published_values as published
from records_of import THRESHOLDS

from snn.errors import ConfigError
from snn.grid import catalogue
from snn.tables.cnn import cnn_programs

PROGRAMS = (cnn_page.FOLDERS[0] / "tables/cnn_programs.csv").read_bytes()


def test_the_page_is_what_its_sources_make():
    text = cnn_page.PAGE.read_text(encoding="utf-8")
    assert cnn_page.fill(text, *cnn_page.FOLDERS) == text
    parts = [name for _, name, _ in cnn_page.BLOCK.findall(text)]
    assert sorted(parts) == sorted(cnn_page.MAKERS)
    assert {table for _, table in cnn_page.MAKERS.values() if table} <= set(catalogue.TABLES)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"", "not a table"),
        (b"\xff", "not a table"),
        (b"a,b\n1,2\n", "not a cnn_programs.csv of this version: KeyError("),
        (
            PROGRAMS.partition(b"\n")[0],
            "not a cnn_programs.csv of this version: ValueError('no row has a run')",
        ),
        (PROGRAMS.replace(b"naive", b"").replace(b"sum", b"").replace(b"0.01", b"x"), "of this version: "),
    ],
)
def test_the_page_stays_where_a_table_is_missing_or_another(tmp_path, monkeypatch, capsys, content, said):
    page, text = tmp_path / "page.md", "<!-- made: programs -->\nold\n<!-- end -->\n"
    page.write_text(text)
    monkeypatch.setattr(cnn_page, "PAGE", page)
    (tmp_path / "tables").mkdir()
    if content is not None:
        (tmp_path / "tables/cnn_programs.csv").write_bytes(content)
    assert cnn_page.main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path}/tables/cnn_programs.csv" in error and said in error
    assert page.read_text() == text
    assert cnn_page.main([]) == 0 and "old" not in page.read_text()


# ---- what its parts make of measured tables


def lines(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line][2:]


def test_a_part_that_nothing_makes_and_a_folder_that_is_none_are_refused(capsys, tmp_path):
    with pytest.raises(ConfigError, match="there is no part 'other': one of published_programs"):
        cnn_page.fill("<!-- made: other -->\n<!-- end -->", tmp_path)
    assert cnn_page.main([str(tmp_path), str(tmp_path / "none")]) == 2
    assert f"{tmp_path}/none is no folder: it must be one such as" in capsys.readouterr().err


def test_programs_have_their_ratios_words_and_images(tmp_path):
    both = [{"strategy": "synchronous"} | MEAN, {"strategy": "pipelined", "kernel": "fused"} | MEAN]
    graph = {"strategy": "graph", "kernel": "tiled_fused"} | MEAN
    rows = rows_of(
        cells_of(NAIVE, OPTIMISED, *both, graph),
        [[20.0, 20.2], [5.0, 5.1], [20.0, 30.0], [25.0, 22.0], []],
        accuracies=[[0.8718], [0.7], [0.9], [0.9], [0.9]],
        ended=[None] * 4 + [("unsupported", "there is none")],
    )
    table = cnn_programs.build(rows, published("cnn_programs"), THRESHOLDS)
    naive, optimised, exact, slower, none = lines(cnn_page.programs(table))
    assert naive[:5] == ["Fashion-MNIST", "naive", "as published", f"{20.1e6 / 4685:,.0f}", ""]
    mean = table.iloc[0]
    spread = f"{100 * mean['mean_accuracy']:.2f} ± {100 * mean['accuracy_std']:.2f}%"
    assert naive[-4:-1] == ["87.18%", spread, "87.18%: agrees, no image apart"]
    assert re.fullmatch(r"3\.98 \(3\.\d\d to 4\.\d\d\)", optimised[4])
    assert optimised[-2] == f"87.53%: differs, {round((0.7 - 0.8753) * 9984):+d} images"
    assert exact[2] == "exact, mean, rate 0.25" and exact[-2] == ""
    assert "not significant" in slower[4]
    assert none[3] == "unsupported"
    first, second = cnn_page.speedups(table).splitlines()
    assert first.startswith("- Fashion-MNIST, as published: the optimised program is 3.98 (")
    assert first.endswith("times as fast as the naive one (published: 3.9 to 4.9).")
    assert "not significant" in second and "published" not in second
    (tmp_path / "tables").mkdir()
    table.to_csv(tmp_path / "tables/cnn_programs.csv", index=False)
    filled = cnn_page.fill("<!-- made: programs -->\n<!-- end -->\n", tmp_path)
    assert "From `cnn_programs.csv`, NVIDIA H200, 2 runs per row." in filled
    assert cnn_page.fill(filled, tmp_path) == filled
