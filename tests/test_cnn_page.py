"""scripts/cnn_page.py: the tables of docs/explanation/cnn_report.md are made from others."""

import sys

import pytest
from conftest import ROOT

from snn.errors import ConfigError
from snn.grid import catalogue

sys.path.insert(0, str(ROOT / "scripts"))

import cnn_page

PROGRAMS = (cnn_page.FOLDERS[0] / "tables/cnn_programs.csv").read_bytes()


def test_the_page_is_what_its_sources_make():
    text = cnn_page.PAGE.read_text(encoding="utf-8")
    assert cnn_page.fill(text, *cnn_page.FOLDERS) == text
    parts = [name for _, name, _ in cnn_page.BLOCK.findall(text)]
    assert sorted(parts) == sorted(cnn_page.MAKERS)


def test_every_measured_part_is_of_a_table_of_the_workflow():
    assert {table for _, table in cnn_page.MAKERS.values() if table} <= set(catalogue.TABLES)


def test_a_part_that_nothing_makes_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="there is no part 'other': one of published_programs"):
        cnn_page.fill("<!-- made: other -->\n<!-- end -->", tmp_path)


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


def test_usage(capsys, tmp_path):
    assert cnn_page.main([str(tmp_path), str(tmp_path / "none")]) == 2
    assert f"{tmp_path}/none is no folder: it must be one such as" in capsys.readouterr().err
    assert cnn_page.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: python scripts/cnn_page.py [FOLDER ...]")
