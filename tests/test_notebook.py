"""The notebook runs from top to bottom: on the CPU, with the tiny grid instead of the paper's."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import forked_snakemake
import pytest
from conftest import ROOT

NOTEBOOK = json.loads((ROOT / "docs/tutorials/paper_on_a_t4.ipynb").read_text(encoding="utf-8"))
PARAMETERS = {
    "GRID": "config/grid.yaml",
    "TABLES": ["speedup", "attribution"],
    "FIGURES": ["attribution"],
    "INSTALL": [],
    "CONTRIBUTE": False,
    "PROGRAMS": str(Path(sys.executable).parent),
}


@pytest.fixture
def run(monkeypatch):
    """Runs a command as the notebook does; Snakemake in a fork."""
    start = subprocess.run

    def run(command, **options):
        if Path(command[0]).name != "snakemake":
            return start(command, **options)
        status, printed = forked_snakemake.run(options["cwd"], command[1:])
        return SimpleNamespace(returncode=status, stdout=printed)

    monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.usefixtures("run")
def test_it_runs_from_top_to_bottom(project, monkeypatch):
    """In a shell of IPython, with only the parameters changed, as papermill does."""
    interactive = pytest.importorskip("IPython.core.interactiveshell", reason="make dev installs IPython")
    config = pytest.importorskip("traitlets.config").Config(HistoryManager={"hist_file": ":memory:"})
    for name in ("tables/speedup.csv", "tables/gpu.csv", "figures/attribution.svg"):
        (project.folder / "results" / name).unlink()
    monkeypatch.chdir(project.folder)
    cells = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    (parameters,) = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    assert {line.partition(" = ")[0] for line in parameters["source"]} == set(PARAMETERS)
    monkeypatch.setenv("IPYTHONDIR", str(project.folder / "ipython"))
    shell = interactive.InteractiveShell.instance(user_ns=dict(PARAMETERS), config=config)
    with pytest.importorskip("IPython.utils.capture").capture_output() as printed:
        for cell in cells:
            if cell is not parameters:
                shell.run_cell("".join(cell["source"])).raise_error()
    interactive.InteractiveShell.clear_instance()
    shown = printed.stdout + "".join(str(output.data) for output in printed.outputs)
    assert "combined on small" in shown and "<td>combined</td>" in shown
    assert "This is not a Tesla T4" in shown and "<svg" in shown
    assert (project.folder / "results/my_device.zip").stat().st_size > 1000


def test_it_has_no_outputs_and_says_why():
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in NOTEBOOK["cells"])
    assert "It has not been run on a T4" in "".join(NOTEBOOK["cells"][0]["source"]).replace("\n", " ")
