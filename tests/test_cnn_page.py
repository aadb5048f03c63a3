"""scripts/cnn_page.py: the tables of docs/explanation/cnn_report.md are made from others."""

import re

import cnn_page
import pytest
from cnn_cells import AS_PUBLISHED, MEAN, NAIVE, OPTIMISED, cells_of, loaders, rows_of
from cnn_cells import published_values as published
from records_of import THRESHOLDS

from snn.errors import ConfigError
from snn.grid import catalogue
from snn.tables.cnn import cnn_block_size, cnn_loader, cnn_programs
from snn.tables.cpu import cpu as cpu_table
from snn.tables.sweep import peers

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


# ---- what its parts make of measured tables


def lines(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line][2:]


def test_programs_have_their_ratios_words_and_images():
    both = [{"strategy": "synchronous"} | MEAN, {"strategy": "pipelined", "kernel": "fused"} | MEAN]
    graph = {"strategy": "graph", "kernel": "tiled_fused"} | MEAN
    seconds = [[20.0, 20.2], [5.0, 5.1], [20.0, 30.0], [25.0, 22.0], []]
    accuracies = [[0.8718], [0.7], [0.9], [0.9], [0.9]]
    rows = rows_of(
        cells_of(NAIVE, OPTIMISED, *both, graph),
        seconds,
        accuracies=accuracies,
        ended=[None] * 4 + [("unsupported", "there is none")],
    )
    table = cnn_programs.build(rows, published("cnn_programs"), THRESHOLDS)
    naive, optimised, exact, slower, none = lines(cnn_page.programs(table))
    assert naive[:3] == ["Fashion-MNIST", "naive", "as published"]
    assert naive[3:5] == [f"{20.1e6 / 4685:,.0f}", ""]
    mean = table.iloc[0]
    spread = f"{100 * mean['mean_accuracy']:.2f} ± {100 * mean['accuracy_std']:.2f}%"
    assert naive[-4:-1] == ["87.18%", spread, "87.18%: agrees, no image apart"]
    assert re.fullmatch(r"3\.98 \(3\.\d\d to 4\.\d\d\)", optimised[4])
    assert optimised[-2] == f"87.53%: differs, {round((0.7 - 0.8753) * 9984):+d} images"
    assert exact[2] == "exact, mean, rate 0.25" and exact[-2] == ""
    assert "not significant" in slower[4]
    assert none[3] == "unsupported"
    said = cnn_page.speedups(table).splitlines()
    assert len(said) == 2
    assert said[0].startswith("- Fashion-MNIST, as published: the optimised program is 3.98 (")
    assert said[0].endswith("times as fast as the naive one (published: 3.9 to 4.9).")
    assert "not significant" in said[1] and "published" not in said[1]


def test_block_sizes_and_loaders_have_times_with_their_spread():
    sizes = {"kernel.block": [[16, 16], [32, 32]]}
    rows = rows_of(cells_of(NAIVE | sizes, dataset="mnist"), [[10.0, 10.2], [40.0, 41.0]])
    block = cnn_block_size.build(rows, published("cnn_block_size"), THRESHOLDS)
    first, second = lines(cnn_page.block_size(block))
    assert first[:3] == ["256", "as published", "10.10 ± 0.14 s"] and first[4] == ""
    assert second[0] == "1024" and second[4].startswith("0.249 (")
    rows = rows_of(loaders((2, False), (4, True)), [[20.0, 20.1], [10.0, 10.1]])
    table = cnn_loader.build(rows, published("cnn_loader"), THRESHOLDS)
    first, second = lines(cnn_page.loader(table))
    assert first[:4] == ["Fashion-MNIST", "GPU", "2", "no"] and first[6] == ""
    assert second[2:4] == ["4", "yes"] and second[6].startswith("2.00 (")


def test_the_cpu_and_peers_have_theirs():
    products = [{"strategy": "sequential"}, {"strategy": "synchronous"}, {"strategy": "graph"}]
    rows = rows_of(cells_of(*[one | MEAN for one in products]), [[100.0, 101.0], [10.0, 10.1], [1.0, 1.01]])
    found = lines(cnn_page.cpu(cpu_table.build(rows, {}, THRESHOLDS).replace("", None)))  # as it is read
    assert [row[0] for row in found] == ["graph", "synchronous", "sequential"]
    assert [row[1] for row in found] == ["naive", "naive", ""]
    assert [row[2] for row in found] == ["GPU", "GPU", "CPU"]
    assert found[0][-1].startswith("100 (") and found[2][-1] == "1.00"
    products = [{"strategy": "torch_graph"}, {"strategy": "graph"}]
    rows = rows_of(cells_of(*[one | MEAN for one in products]), [[1.0, 1.01], [0.5, 0.51]])
    found = lines(cnn_page.peers(peers.build(rows, {}, THRESHOLDS)))
    assert [row[0] for row in found] == ["graph", "torch_graph"]
    assert re.fullmatch(r"108 \(\d+ to \d+\)", found[0][3])
    assert re.fullmatch(r"1\.99 \(.*\)", found[0][4]) and found[1][4] == "1.00"


def test_a_measured_part_names_its_table_device_and_runs(tmp_path):
    rows = rows_of(cells_of(NAIVE | AS_PUBLISHED), [[10.0, 10.2]])
    (tmp_path / "tables").mkdir()
    table = cnn_programs.build(rows, published("cnn_programs"), THRESHOLDS)
    table.to_csv(tmp_path / "tables/cnn_programs.csv", index=False)
    filled = cnn_page.fill("<!-- made: programs -->\n<!-- end -->\n", tmp_path)
    assert "From `cnn_programs.csv`, NVIDIA H200, 2 runs per row." in filled
    assert cnn_page.fill(filled, tmp_path) == filled
