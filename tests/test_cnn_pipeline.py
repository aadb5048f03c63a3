"""The CNN report's sweeps from grid to report, on a CPU and few images: nothing is downloaded."""

import html
import shutil

import pytest
from conftest import ROOT
from project import NOT_OF_WORKFLOW, Project, embedded

from snn.grid import catalogue

PUBLISHED = {"training.reduction": "sum", "training.learning_rate": 0.01}
NAIVE = {"strategy": "synchronous", "training.gradient": "published_naive"} | PUBLISHED
EXACT = {"strategy": "synchronous", "training.learning_rate": 0.25}
GRID = {
    "device": "cpu",
    "defaults": {
        "dataset": "patterns",
        "dataset.rows": 150,
        "dataset.test_rows": 100,
        "network": "cnn",
        "network.layers": ["conv2d 3 3", "relu", "conv2d 4 3", "relu", "maxpool2d 2", "linear 10"],
        "training.batch_size": 64,
        "training.epochs": 2,
        "training.drop_last": True,
        "protocol.runs": 1,
        "protocol.rounds": 1,
        "protocol.warmup_seconds": 0,
        "protocol.max_warmup_seconds": 0,
    },
    "sweeps": {
        "cnn_programs": {
            "union": [
                NAIVE,
                EXACT,
                {"strategy": "pipelined", "training.gradient": "published_optimised"} | PUBLISHED,
            ]
        },
        "cnn_loader": {"strategy": "torch_loader", "strategy.pin_memory": False, "network": "cnn_pytorch"},
        "cnn_pytorch": {"strategy": "torch_loader", "strategy.images": True, "network": "cnn_pytorch"},
        "cnn_epochs": {"union": [NAIVE, EXACT]},
        "cnn_block_size": {"union": [NAIVE | {"kernel.block": [[16, 8], [16, 16]]}, EXACT]},
        "cnn_strategies": {"strategy": ["reference", "synchronous", "graph"], "training.epochs": 1},
        "cnn_peers": {"strategy": ["synchronous", "jax_scan"], "training.epochs": 1},
    },
}
SHOWN = {
    "tables": [
        *("cnn_programs", "cnn_loader", "cnn_epochs", "cnn_block_size", "cnn_block_epochs", "cnn_cpu"),
        *(
            "cnn_kernel_gains",
            "cnn_calls",
            "cnn_block_calls",
            "cnn_peers_memory",
            "cnn_pytorch",
            "cnn_pytorch_cpu",
        ),
    ],
    "figures": ["cnn_cumulative_time", "cnn_loss", "cnn_block_time", "cnn_block_loss", "cnn_ranking"],
}
CATEGORY = "4 The CNN report"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project in which the CNN report's tables and figures have been made, and the report of them."""
    project = Project(tmp_path_factory.mktemp("cnn") / "project")
    shutil.copytree(ROOT, project.folder, ignore=NOT_OF_WORKFLOW)
    project.write_grid(GRID)
    targets = [
        f"results/{kind}/{name}.{'csv' if kind == 'tables' else 'svg'}"
        for kind, names in SHOWN.items()
        for name in [*names, "cnn_peers"]
    ]
    project.snakemake(*targets, cores=1)
    project.snakemake("--report", "report.html", *targets)
    return project


def test_the_programs_have_times_losses_and_accuracies(made):
    table = made.table("cnn_programs")
    assert table["program"].tolist() == ["naive", "naive", "optimised"]
    assert table["gradient"].tolist() == ["as published", "exact", "as published"]
    assert (table["status"] == "ok").all()
    assert (table["step_us"] * 2 * 2 / 1e6).tolist() == pytest.approx(table["mean_s"].tolist())
    assert table[["accuracy", "loss", "test_s"]].notna().all(axis=None)
    assert table["published_accuracy"].isna().all()


def test_every_epoch_has_a_time_of_its_own(made):
    table = made.table("cnn_epochs").set_index(["gradient", "epoch"])
    for gradient in ("as published", "exact"):
        first, second = (table.loc[(gradient, epoch)] for epoch in (1, 2))
        assert second["cumulative_s"] == pytest.approx(first["epoch_s"] + second["epoch_s"])
        assert first["epoch_s"] != second["epoch_s"]


def test_block_sizes_train_alike_only_where_the_gradient_is_exact(made):
    table = made.table("cnn_block_size").set_index(["gradient", "threads"])
    assert table["samples_used"].to_dict() == {
        ("as published", 128): 12.8,
        ("as published", 256): 25.6,
        ("exact", 256): 64.0,
    }
    assert table.loc[("as published", 128), "loss"] != table.loc[("as published", 256), "loss"]


def test_the_report_has_a_counterpart_of_all_its_tables_and_figures(made):
    categories = embedded((made.folder / "report.html").read_text(), "categories")
    assert CATEGORY in categories
    results = embedded((made.folder / "report.html").read_text(), "results")
    labels = [result["labels"].get("what", "") for path, result in results.items() if "cnn_" in path]
    for part in ("Tables 1 and 2", "Tables 3 to 6", *(f"Figure {number}:" for number in range(1, 5))):
        assert any(label.startswith(part) for label in labels), part


def test_few_images_are_said_in_table_caption_and_page(made):
    results = embedded((made.folder / "report.html").read_text(), "results")
    for kind, names in SHOWN.items():
        for name in names:
            path = f"results/{kind}/{name}.{'html' if kind == 'tables' else 'svg'}"
            assert "150 images of patterns" in results[path]["caption"], path
    page = (made.folder / "results/tables/cnn_programs.html").read_text()
    assert "150 images of patterns, 2 epochs, tested on 100: not the report's data" in html.unescape(page)
    assert "no GPU was used" in page
    assert (made.table("cnn_block_epochs")["data"].str.contains("not the report's data")).all()


def test_every_line_of_the_catalogue_that_is_of_the_report_is_made_here():
    of_report = (catalogue.TABLES | catalogue.FIGURES).items()
    named = {name for name, entry in of_report if entry.category == catalogue.CNN_REPORT}
    assert named == {"cnn_peers", *SHOWN["tables"], *SHOWN["figures"]}
