"""Tables from an archive of records, without the device that they were measured on."""

import gzip
import runpy
from operator import attrgetter
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from conftest import ROOT
from figure_layout import faults
from records_of import PROVENANCE, limits_of, record
from whole_grid import HOST, sweeps_of

from snn import cli, retabulate
from snn.config import groups
from snn.grid import catalogue, sweeps
from snn.measurement.protocol import of_round
from snn.records import archive, store
from snn.report.published_set import readme
from snn.strategies.factory import side_by_side

SWEEPS = sweeps_of(host=HOST)
CELLS = list(sweeps.all_cells(SWEEPS).values())


def archived(folder, cells, measured=attrgetter("rounds"), **provenance):
    folder.mkdir(exist_ok=True)
    records = [
        record(
            cell, [float(i), i + 1.0][: of_round(cell["protocol"], number).runs], number=number, **provenance
        )
        for i, cell in enumerate(cells, 1)
        for number in measured(cell)
    ]
    archive.write(records, folder)
    return str(folder)


def made(folder):
    return {path.stem for path in folder.glob("tables/*.csv")}, {
        path.name for path in folder.glob("figures/*")
    }


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are built and not drawn, which is half of the time."""
    monkeypatch.setattr(retabulate, "_save", lambda figure, *where: plt.close(figure))


def test_everything_is_made_from_a_whole_archive(tmp_path, capsys, monkeypatch):
    """Figures that are not published can be read, too. test_published_figures.py draws the others, and
    test_microbenchmarks.py has files."""
    published = {path.stem for path in ROOT.glob("results/published/*/*/figures/*")}
    others = {name: figure for name, figure in catalogue.FIGURES.items() if name not in published}
    monkeypatch.setattr(catalogue, "FIGURES", others)
    drawn, wrong = set(), []

    def looked_at(figure, output, name):
        drawn.add(name)
        wrong.extend(faults(figure) if name not in published else [])
        plt.close(figure)

    monkeypatch.setattr(retabulate, "_save", looked_at)
    assert cli.main(["retabulate", archived(tmp_path / "a", CELLS), str(tmp_path / "out")]) == 0
    named = {*sweeps.own_tables(SWEEPS), *catalogue.sweep_tables(SWEEPS)}
    assert made(tmp_path / "out")[0] == {*named, "recommendation", "overview", "gpu", "datasets"}
    assert drawn == {*catalogue.own_figures(named), *catalogue.sweep_tables(SWEEPS)}
    assert wrong == []
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("undrawn")
def test_limits_of_the_archive_are_tabulated_and_stand_beside_its_times(tmp_path):
    """Published as limits.json beside the records; those of another device are left aside."""
    cells = sweeps.cells_of("peers", SWEEPS).values()
    folder = Path(archived(tmp_path / "a", cells))
    for name, limits in (
        ("limits.json", limits_of(seconds=1e-6)),
        ("limits/cpu.json", limits_of(device="Arm")),
    ):
        store.write(folder / name, limits)
    assert cli.main(["retabulate", str(folder), str(tmp_path / "out")]) == 0
    table = pd.read_csv(tmp_path / "out/tables/peers.csv")
    assert table["fraction_of_limit"].between(0, 1).all()
    assert set(pd.read_csv(tmp_path / "out/tables/device_limits.csv")["device"]) == {"NVIDIA H200"}


@pytest.mark.usefixtures("undrawn")
def test_rounds_of_two_gpus_stand_beside_limits_of_both(tmp_path):
    cells, folder = sweeps.cells_of("peers", SWEEPS).values(), tmp_path / "a"
    folder.mkdir()
    rounds = [(cell, number) for cell in cells for number in cell.rounds]
    archive.write(
        [record(cell, [2.0], number=number, device_uuid=f"GPU-{1 + number % 2}") for cell, number in rounds],
        folder,
    )
    for gpu, known in (("GPU-2", False), ("GPU-1", True)):
        store.write(folder / f"limits/{gpu}.json", limits_of(device_uuid=gpu))
        assert cli.main(["retabulate", str(folder), str(tmp_path / "out")]) == 0
        table = pd.read_csv(tmp_path / "out/tables/peers.csv")
        assert (table["fraction_of_limit"].notna() == known).all()


@pytest.mark.usefixtures("undrawn")
def test_what_an_archive_does_not_hold_is_said(tmp_path, capsys):
    cells = (sweeps.cells_of("correctness", SWEEPS) | sweeps.cells_of("speedup", SWEEPS)).values()
    assert cli.main(["retabulate", archived(tmp_path / "a", cells), str(tmp_path / "out")]) == 0
    assert made(tmp_path / "out")[0] == {
        "correctness",
        "training_time",
        "speedup",
        "attribution",
        "memory",
        "timeline",
        "dataset_size",
        "recommendation",
        "overview",
        "gpu",
        "datasets",
    }
    assert "neurons is left out: 40 of its 60 records are missing" in capsys.readouterr().out


@pytest.mark.usefixtures("undrawn")
def test_rounds_that_an_interrupted_workflow_lacks_cost_no_table(tmp_path, capsys):
    """Rows are of the rounds up to the first that is missing; it is said how many are, and not used."""
    cells = SWEEPS["neurons"].cells

    def measured(cell):
        return [1, 2, 3, 5] if cell is cells[-1] else range(1, 5)

    folder = archived(tmp_path / "a", cells, measured)
    assert cli.main(["retabulate", folder, str(tmp_path / "out"), str(ROOT / "config/grid.yaml")]) == 0
    said = capsys.readouterr().out
    planned = "neurons has fewer rounds than planned: 36 of its 60 records are missing"
    assert f"{planned}, 1 after a missing round is not used\n" in said
    assert "speedup is left out" in said
    table = pd.read_csv(tmp_path / "out/tables/neurons.csv")
    assert sorted(table["reference_runs"] + table["combined_runs"]) == [7, 8, 8]


def test_a_sweep_with_fewer_rounds_is_published_if_that_is_asked_for(tmp_path, capsys):
    complete = runpy.run_path(str(ROOT / "scripts/publish"))["complete"]
    first_missing = SWEEPS["depth"].cells[-1]
    cells = sweeps.all_cells({name: SWEEPS[name] for name in ("neurons", "depth")}).values()

    def measured(cell):
        if cell["network"]["hidden"] == [128]:
            return range(1, 11)
        return [2] if cell is first_missing else [*range(1, 9), 10]

    entries = list(archive.entries(Path(archived(tmp_path / "a", cells, measured))).values())
    assert complete(entries, "nvidia-h200", False, ROOT / "config/grid.yaml") == ([], {})
    capsys.readouterr()
    kept, found = complete(entries, "nvidia-h200", True, ROOT / "config/grid.yaml")
    assert set(found) == {"neurons"} and len(kept) == 52
    said = capsys.readouterr().out
    planned = "neurons has fewer rounds than planned: 4 of its 60 records are missing"
    assert f"{planned}, 4 after a missing round are not used\n" in said
    assert "depth is left out: 14 of its 60 records are missing\n" in said
    assert "| rounds per cell | 8 to 10 |" in readme([entry.record for entry in kept]).splitlines()


def test_a_published_folder_names_its_packages_and_what_its_commit_lacks():
    versions = {"cupy": "14.2.0", "numpy": "2.5.2", "python": "3.12.3", "torch": "2.11.0", "jax": None}
    git = {"commit": "beef", "dirty": True}
    one = record(CELLS[0], [1.0], git=git, versions=versions, host={"cpu": "AMD EPYC", "cpus": 2})
    lines = readme([one]).splitlines()
    assert "| commit | beef (dirty working tree) |" in lines
    assert "| PyTorch | 2.11.0 |" in lines and not any("JAX" in line for line in lines)
    one["provenance"]["git"]["dirty"] = False
    assert "| commit | beef |" in readme([one], "f00d")
    git["commit"] = git["dirty"] = None
    assert "| commit | f00d (as told, not recorded) |" in readme([one], "f00d")
    assert "| commit | not recorded |" in readme([one])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no records found: it has neither cells nor records.jsonl.gz\n"),
        ("", "no records found"),
        ("{}\n", "line 1: the schema version is None"),
        ("{", "line 1: not a record"),
    ],
)
def test_what_is_no_archive_is_refused(tmp_path, capsys, text, said):
    if text is not None:
        (tmp_path / archive.RECORDS).write_bytes(gzip.compress(text.encode()))
    assert cli.main(["retabulate", str(tmp_path), str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err


def test_two_devices_in_one_archive_are_refused(tmp_path, capsys):
    folder = Path(archived(tmp_path / "a", CELLS[:8]))
    other = Path(
        archived(
            tmp_path / "b", CELLS[8:16], device_uuid="GPU-2", host=PROVENANCE["host"] | {"cpu": "another"}
        )
    )
    archive.write([*archive.read_all(folder).values(), *archive.read_all(other).values()], folder)
    assert cli.main(["retabulate", str(folder), str(tmp_path / "out")]) == 2
    assert "GPU-2" in capsys.readouterr().err


def test_published_errors_of_one_training_differ_only_where_their_draws_do():
    """The tables of the paper's network with its settings: an error over six draws is not one over ten."""
    errors = {}
    for name in ("correctness", "dataset_size", "strategies", "kernels"):
        for path in (ROOT / "results/published").glob(f"*/*/tables/{name}.csv"):
            table = pd.read_csv(path, dtype={"network": str})
            if "dataset" in table:
                table = table[(table["dataset"] == "small") & (table["network"] == "256")]
            for row in table[table["final_mse"].notna()].to_dict("records"):
                errors.setdefault(row["draws"], []).append(row["final_mse"])
    assert len(errors) >= 2 and sum(map(len, errors.values())) > 30
    for draws, found in errors.items():
        assert max(found) == pytest.approx(min(found), rel=1e-4), draws
    means = [found[0] for found in errors.values()]
    assert max(means) != pytest.approx(min(means), rel=1e-4)


def test_no_published_recommendation_is_a_launch_of_several_networks():
    """A share of one launch is not the time of one network's training."""
    several = [name for name in groups.names("strategy") if side_by_side(groups.load("strategy", name))]
    assert several == ["ensemble", "jax_vmap", "torch_bmm"]
    checked = 0
    for path in (ROOT / "results/published").glob("*/*/tables/*.csv"):
        if path.stem in ("recommendation", "overview"):
            checked += 1
            assert not any(name in path.read_text() for name in several), path
    assert checked > 10
