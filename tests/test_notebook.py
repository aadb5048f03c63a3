"""The notebook runs from top to bottom: on the CPU, with a grid of two cells in place of the paper's."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from project import IGNORED, copied

NOTEBOOK = Path("docs/tutorials/paper_on_a_t4.ipynb")
GRID = {
    "device": "cpu",
    "defaults": {
        "dataset": "small",
        "strategy": ["reference", "combined"],
        "training.epochs": 2,
        "protocol.runs": 2,
        "protocol.min_runs": 2,
        "protocol.rounds": 1,
        "protocol.warmup_seconds": 0,
        "protocol.max_warmup_seconds": 0,
    },
    "sweeps": {"dataset_size": {"dataset": "small"}, "neurons": {"network.hidden": [[256]]}},
}
PARAMETERS = {
    "GRID": "tiny.yaml",
    "TABLES": ["speedup", "attribution"],
    "FIGURES": ["attribution"],
    "INSTALL": [],
    "PROGRAMS": str(Path(sys.executable).parent),
}


def test_it_runs_from_top_to_bottom(tmp_path):
    """In a kernel of Jupyter, of which only the parameters differ, as with papermill."""
    nbclient = pytest.importorskip("nbclient", reason="envs/requirements-dev.txt brings nbclient")
    pytest.importorskip("ipykernel", reason="envs/requirements-dev.txt brings ipykernel")
    nbformat = pytest.importorskip("nbformat")
    project = copied(ROOT, tmp_path / "project", ignore=IGNORED)
    project.never_drifts()
    folder = project.folder
    (folder / "tiny.yaml").write_text(yaml.safe_dump(GRID))
    notebook = nbformat.read(folder / NOTEBOOK, as_version=4)
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    names = {line.partition(" = ")[0] for line in cell.source.splitlines()}
    assert names == set(PARAMETERS)
    cell.source = "\n".join(f"{name} = {value!r}" for name, value in PARAMETERS.items())
    place = {"metadata": {"path": str((folder / NOTEBOOK).parent)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=place).execute()
    printed = json.dumps([cell.get("outputs") for cell in notebook.cells])
    assert "combined on small" in printed and "<td>combined</td>" in printed
    assert "This is not a Tesla T4" in printed
    assert (folder / "results/my_device.zip").stat().st_size > 1000


def test_it_has_no_outputs_and_says_why():
    notebook = json.loads((ROOT / NOTEBOOK).read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"])
    assert "It has not been run on a T4" in "".join(notebook["cells"][0]["source"]).replace("\n", " ")
