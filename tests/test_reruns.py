"""What the rules hand on: which file decides that another is made again, and what is checked of it."""

import json
import shutil
import time

from project import TINY

from snn.records.digest import sealed


def test_a_data_set_that_is_newer_than_its_records_is_no_reason_to_train(project):
    tables = list(project.folder.glob("results/datasets/*.npy"))
    assert tables
    time.sleep(0.01)
    for table in tables:
        table.touch()
    # Snakemake compares the content of small files, and of larger ones, as here of all, the time stamp.
    jobs = project.jobs("--dry-run", "--max-checksum-file-size", "0")
    assert not [job for job in jobs if job in ("train", "prepare_dataset")]


def test_limits_of_other_sources_are_in_no_table(project):
    (path,) = project.folder.glob("results/limits/*.json")
    limits = json.loads(path.read_text())
    limits["provenance"]["source_hash"] = "0" * 16
    path.write_text(json.dumps(sealed(limits)))
    printed = project.snakemake(
        *("--keep-going", "results/tables/device_limits.csv", "results/tables/peers.csv"), fails=True
    )
    assert printed.count("measured with other sources (0000000000000000)") == 2


def test_an_edit_of_what_measures_limits_makes_every_table_of_them_again(project):
    with (project.folder / "snn/backends/cpu/limits.py").open("a") as file:
        file.write("# edited\n")
    jobs = project.jobs("--dry-run", "results/tables/device_limits.csv", "results/tables/peers.csv")
    assert {"measure_limits", "build_device_limits", "build_peers"} <= jobs.keys()


def test_the_largest_batch_of_all_cells_is_asked_of_a_data_set_before_any_training(project):
    shutil.rmtree(project.folder / "results/cells")
    rows = "".join(f"{i},{i % 7},{i % 3}\n" for i in range(20))
    (project.folder / "mine.csv").write_text("a,b,y\n" + rows)
    sweep = {"dataset": "csv", "dataset.path": "mine.csv", "dataset.target": "y", "strategy": "reference"}
    project.write_grid(TINY | {"sweeps": {"mine": sweep | {"training.batch_size": [8, 21]}}})
    printed = project.snakemake("--keep-going", "results/tables/mine.csv", fails=True)
    assert "training.batch_size is 21" in printed
    assert project.records() == {}
