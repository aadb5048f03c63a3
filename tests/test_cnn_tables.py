"""The tables of the CNN report, where the archived ones show less, and those of its page in the docs."""

import re

import cnn_page
import pytest
from cnn_cells import MEAN, NAIVE, OPTIMISED, cells_of, loaders, published_values, rows_of
from records_of import HOST, THRESHOLDS, frame_of, record
from whole_grid import sweeps_of

from snn.errors import ConfigError
from snn.grid import catalogue
from snn.tables.cnn import cnn_block_size, cnn_epochs, cnn_loader, cnn_programs

TITLES = {cnn_block_size: "cnn_block_size", cnn_epochs: "cnn_epochs", cnn_loader: "cnn_loader"}


def build(table, cells, seconds, **changed):
    return of_rows(table, rows_of(cells, seconds, **changed))


def of_rows(table, rows):
    return table.build(rows, published_values(TITLES.get(table, "cnn_programs")), THRESHOLDS)


# ---- Tables 3 to 6


def test_a_loss_that_is_not_finite_is_none():
    losses = [[1.0, 2.0, *[float("nan")] * 3]]
    rows = rows_of(cells_of(NAIVE), [1.0], mse=[float("nan")], epoch_losses=losses)
    assert [entry["mean_loss"] for entry in rows["curve"][0]] == [1.0, 2.0, None, None, None]
    table = of_rows(cnn_programs, rows)
    assert table["loss"].isna().all() and table["status"].tolist() == ["diverged"]


@pytest.mark.parametrize(
    ("products", "device", "programs"),
    [
        ([NAIVE, OPTIMISED | {"kernel": "naive"}], {"device": HOST}, ["naive", "optimised"]),
        ([OPTIMISED | {"kernel": "naive"}], {}, ["pipelined, naive"]),
        ([{"strategy": "torch_eager"} | MEAN], {}, ["torch_eager"]),
    ],
    ids=["a CPU has NumPy in place of every kernel", "a GPU", "a peer"],
)
def test_the_names_of_programs(products, device, programs):
    cells = cells_of(*products, **device)
    assert build(cnn_programs, cells, [1.0] * len(cells))["program"].tolist() == programs


def test_the_program_with_images_is_named_by_its_device_and_trained_once_for_both_sweeps():
    options = {"dataset": "mnist", "strategy.images": True}
    cells = [*loaders((4, True), **options), *loaders((4, False), **options, **{"strategy.on_host": True})]
    names = build(cnn_programs, cells, [1.0, 9.0])["program"].tolist()
    assert names == ["PyTorch, 4 workers, pinned, images", "PyTorch, 4 workers, on the CPU, images"]
    epochs, tables = (set(sweeps_of()[name].named) for name in ("cnn_epochs", "cnn_pytorch"))
    assert len(epochs & tables) == 2


# ---- other data than the report's

FEW = {"dataset": "patterns", "device": HOST, "dataset.rows": 256, "dataset.test_rows": 100}


@pytest.mark.parametrize(
    ("table", "cells"),
    [
        (cnn_programs, cells_of(NAIVE, **FEW)),
        (cnn_loader, loaders((2, False), (4, True), dataset="patterns")),
        *(
            (cnn_epochs, cells_of(NAIVE, **({"dataset": "mnist"} | change)))
            for change in ({"training.epochs": 4}, {"dataset.rows": 59999}, {"dataset": "fashion"})
        ),
    ],
    ids=["few images", "other images", "fewer epochs", "fewer rows", "another data set of the report"],
)
def test_nothing_published_is_shown_beside_another_training(table, cells):
    found = build(table, cells, [1.0] * len(cells))
    assert len(found) == (cells[0].epochs if table is cnn_epochs else len(cells))
    assert found[[name for name in found if name.startswith("published_")]].isna().all(axis=None)
    assert found["data"].str.endswith(": not the report's data, so nothing published is shown").all()


# ---- Figures 1 to 4, by epoch


def test_a_curve_of_a_data_set_that_is_not_stated_has_no_counterpart():
    """A row of MNIST on a CPU with four workers is not the published 181 s, whose data set nobody knows."""
    table = build(cnn_epochs, loaders((4, False), device=HOST, dataset="mnist"), [100.0])
    measured = table["cumulative_s"].notna()
    assert measured.sum() == 5 and table.loc[measured, "published_cumulative_s"].isna().all()
    assert (table["program"] == "PyTorch on the CPU").sum() == 5


# ---- the block size, and the loader of Tables 1 and 2


def test_a_result_on_either_side_of_the_published_one():
    """Whether it agrees, and the images; a program without a time is a row with its reason."""
    cells = cells_of(NAIVE, OPTIMISED)
    table = build(cnn_programs, cells, [20.0, 5.0], accuracies=[[0.8718], [0.9]])
    assert table["agreement"].tolist() == ["agrees", "differs"]
    assert table["images_apart"].tolist() == [0, round((0.9 - 0.8753) * 9984)]
    untimed = build(cnn_epochs, cells[1:], [[]], ended=[("unsupported", "there is none")])
    (row,) = untimed[untimed["status"] == "unsupported"].to_dict("records")
    assert row["reason"] == "there is none" and row["cumulative_s"] != row["cumulative_s"]  # NaN


def test_rows_of_the_report_without_a_counterpart_say_why():
    """On a CPU pinned memory does not count. The archives have the loader's rows of a GPU."""
    rows = rows_of(loaders((4, False), device=HOST, dataset="mnist"), [2.0])
    table = of_rows(cnn_loader, rows)
    measured = table["mean_s"].notna()
    assert table.loc[measured, "published_s"].tolist() == [159.26] and cnn_loader.pairs(rows) == []
    rest = table[~measured]
    assert len(rest) == 8 and rest["published_s"].notna().all() and rest["device"].isna().all()
    why = {"GPU": "the sweep cnn_pytorch measures it on a GPU's host", "CPU": "not in the sweep"}
    assert (rest["reason"] == "published only: " + rest["ran_on"].map(why)).all()


def test_rows_whose_samples_are_images_are_compared_with_each_other():
    cells = [*loaders((2, False), (4, False)), *loaders((4, False), (2, False), **{"strategy.images": True})]
    rows = rows_of(cells, [4.0, 2.0, 9.0, 3.0])
    assert cnn_loader.pairs(rows) == [(0, 0), (0, 1), (3, 2), (3, 3)]
    table = of_rows(cnn_loader, rows)[:4]
    assert table["images"].tolist() == [False, False, True, True]
    assert table["speedup"].tolist() == pytest.approx([1, 2, 1 / 3, 1])


def test_the_curves_of_two_rounds_are_pooled_by_epoch():
    (cell,) = cells_of(NAIVE, **{"protocol.rounds": 2, "protocol.runs": 3})
    rows = frame_of(
        record(cell, [1.0, 1.0], number=2, accuracies=[0.5, 0.9], epoch_losses=[2, 2, 2, 2, 2.0]),
        record(cell, [3.0], accuracies=[0.7], epoch_losses=[5, 4, 3, 2, 1.0]),
    )
    first, second, *_ = rows["curve"][0]
    wanted = {"cumulative_s": (0.4 + 0.4 + 1.2) / 3, "seconds": (0.2 + 0.2 + 0.6) / 3, "mean_loss": 8 / 3}
    assert {name: second[name] for name in wanted} == pytest.approx(wanted)
    assert (first["mean_loss_std"], first["first_mean_loss"]) == (pytest.approx(3**0.5), 5.0)
    (row,) = of_rows(cnn_programs, rows).to_dict("records")
    assert (row["accuracy"], row["loss"]) == (0.7, 1.0)


# ---- scripts/cnn_page.py: the tables of docs/explanation/cnn_report.md are made from others

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
    with pytest.raises(ConfigError, match="unknown part 'other': it must be one of published_programs"):
        cnn_page.fill("<!-- made: other -->\n<!-- end -->", tmp_path)
    assert cnn_page.main([str(tmp_path), str(tmp_path / "none")]) == 2
    assert f"{tmp_path}/none is not a folder: give one such as" in capsys.readouterr().err


def test_programs_have_their_ratios_words_and_images(tmp_path):
    both = [{"strategy": "synchronous"} | MEAN, {"strategy": "pipelined", "kernel": "fused"} | MEAN]
    graph = {"strategy": "graph", "kernel": "tiled_fused"} | MEAN
    rows = rows_of(
        cells_of(NAIVE, OPTIMISED, *both, graph),
        [[20.0, 20.2], [5.0, 5.1], [20.0, 30.0], [25.0, 22.0], []],
        accuracies=[[0.8718], [0.7], [0.9], [0.9], [0.9]],
        ended=[None] * 4 + [("unsupported", "there is none")],
    )
    table = cnn_programs.build(rows, published_values("cnn_programs"), THRESHOLDS)
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
