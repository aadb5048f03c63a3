"""docs/explanation/cnn_report.md: what its parts make of measured tables."""

import re
import sys
from functools import partial

import pytest
from cnn_cells import AS_PUBLISHED, GPU, MEAN, NAIVE, OPTIMISED, THRESHOLDS, cells_in, loaders, rows_of
from cnn_cells import published_values as published
from conftest import ROOT

from snn.tables.cnn import cnn_block_size, cnn_loader, cnn_programs
from snn.tables.cpu import cpu as cpu_table
from snn.tables.sweep import peers

sys.path.insert(0, str(ROOT / "scripts"))

import cnn_page

TEXT = cnn_page.PAGE.read_text(encoding="utf-8")


@pytest.fixture
def cells_of(tmp_path):
    return partial(cells_in, tmp_path)


def lines(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line][2:]


def test_programs_have_their_ratios_words_and_images(cells_of):
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


def test_block_sizes_and_loaders_have_times_with_their_spread(cells_of):
    sizes = {"kernel.block": [[16, 16], [32, 32]]}
    rows = rows_of(cells_of(NAIVE | sizes, dataset="mnist"), [[10.0, 10.2], [40.0, 41.0]])
    block = cnn_block_size.build(rows, published("cnn_block_size"), THRESHOLDS)
    first, second = lines(cnn_page.block_size(block))
    assert first[:3] == ["256", "as published", "10.10 ± 0.14 s"] and first[4] == ""
    assert second[0] == "1024" and second[4].startswith("0.249 (")
    rows = rows_of(loaders(cells_of, (2, False), (4, True)), [[20.0, 20.1], [10.0, 10.1]])
    table = cnn_loader.build(rows, published("cnn_loader"), THRESHOLDS)
    first, second = lines(cnn_page.loader(table))
    assert first[:4] == ["Fashion-MNIST", "GPU", "2", "no"] and first[6] == ""
    assert second[2:4] == ["4", "yes"] and second[6].startswith("2.00 (")


def test_the_cpu_and_peers_have_theirs(cells_of):
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


def test_a_measured_part_names_its_table_device_and_runs(cells_of, tmp_path):
    rows = rows_of(cells_of(NAIVE | AS_PUBLISHED, device=GPU), [[10.0, 10.2]])
    (tmp_path / "tables").mkdir()
    table = cnn_programs.build(rows, published("cnn_programs"), THRESHOLDS)
    table.to_csv(tmp_path / "tables/cnn_programs.csv", index=False)
    filled = cnn_page.fill("<!-- made: programs -->\n<!-- end -->\n", tmp_path)
    assert "From `cnn_programs.csv`, NVIDIA H200, 2 runs per row." in filled
    assert cnn_page.fill(filled, tmp_path) == filled
