"""The environment and the threads of the processes that a command or a workflow starts are the project's."""

import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT
from hostile_environment import hostile_environment
from project import NOT_OF_WORKFLOW, copied

from snn.files import revision
from snn.hardware import environment


@pytest.mark.parametrize(
    ("name", "value", "in_jobs", "in_workflow"),
    [
        ("SNAKEMAKE_PROFILE", "mine", "mine", None),  # a workflow that a user starts has the user's profile
        ("SNAKEMAKE_CONDA_PREFIX", "mine", "mine", None),
        ("MPLBACKEND", "QtAgg", "Agg", "Agg"),
        ("PYTHONHOME", "/mine", None, None),
        ("PYTHONOPTIMIZE", "2", None, None),
        ("PYTHONSAFEPATH", "1", None, None),
        ("PYTHONWARNINGS", "error", None, None),
        ("PYTHONHASHSEED", "1", "1", "1"),
        ("PYTHONIOENCODING", "ascii", "ascii", "utf-8"),  # as the command reads it
        ("CUDA_VISIBLE_DEVICES", "1", "1", "1"),
        ("XLA_FLAGS", "--mine", "--mine", "--mine"),
    ],
)
def test_what_jobs_and_an_inner_workflow_get(monkeypatch, name, value, in_jobs, in_workflow):
    monkeypatch.setenv(name, value)
    assert environment.of_jobs().get(name) == in_jobs
    assert environment.of_workflow().get(name) == in_workflow


def test_only_folders_of_packages_stay_in_pythonpath(monkeypatch, tmp_path):
    """A cluster's `module load` may add one; a folder of modules could hide those of packages."""
    mine, packages = tmp_path / "mine", tmp_path / "packages"
    mine.mkdir()
    (packages / "numpy-2.0.0.dist-info").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", f"{mine}::{packages}:{tmp_path}/missing")
    assert environment.of_jobs()["PYTHONPATH"] == f"{ROOT}:{packages}"
    monkeypatch.setattr(sys, "path", [str(mine), str(packages), str(ROOT), "/lib"])
    monkeypatch.setenv("PYTHONPATH", f"{packages}/../mine/:{packages}")
    environment.put_packages_first()
    assert sys.path == [str(packages), str(ROOT), "/lib", str(mine)]


def test_the_environment_is_assigned_in_place(monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ | {"PYTHONOPTIMIZE": "1", "HOME": "/home"})
    environment.assign_to_jobs()
    assert "PYTHONOPTIMIZE" not in os.environ and os.environ["HOME"] == "/home"


def test_figures_are_drawn_alike_whatever_the_user_sets(tmp_path):
    (tmp_path / "matplotlibrc").write_text("lines.markersize: 40\nsavefig.dpi: 7\n")
    here = os.environ | {"MPLBACKEND": "nonsense", "MATPLOTLIBRC": str(tmp_path)}
    code = "from snn.figures.style import plt; print(plt.get_backend(), plt.rcParams['savefig.dpi'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=here, capture_output=True, text=True)
    assert done.stdout.split() == ["Agg", "figure"], done.stderr


def test_cells_of_a_workflow_do_not_import_the_users_modules(tmp_path):
    project = copied(ROOT, tmp_path / "project", NOT_OF_WORKFLOW)
    one = {"strategy": "reference", "protocol": "glance", "protocol.rounds": 1, "training.epochs": 1}
    one["network.hidden"] = [4]
    project.write_grid({"device": "cpu", "sweeps": {"one": one}})
    here = os.environ | hostile_environment(tmp_path, ["threadpoolctl"])
    del here["SNAKEMAKE_PROFILE"]  # which applies to a workflow that is started by hand
    command = project.command("--until", "train", cores=1)
    done = subprocess.run(command, cwd=project.folder, env=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(project.records()) == 1


def test_the_commit_is_that_of_the_project_also_in_a_hook_of_another_repository(monkeypatch, tmp_path):
    expected = revision.git()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    assert revision.git() == expected


# ---- threads


CELL = ["device=cpu", "training.epochs=1", "protocol.runs=1", "protocol.warmup_seconds=0"]
CELL += ["protocol.max_warmup_seconds=0"]


def test_an_exported_number_of_threads_changes_nothing(tmp_path):
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, "8")}
    command = [sys.executable, "-m", "snn", *CELL, f"output={tmp_path / 'cell.json'}"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    assert json.loads((tmp_path / "cell.json").read_text())["provenance"]["blas_threads"] == 1


def test_the_limits_of_a_device_are_measured_with_one_thread(tmp_path):
    script = (
        "import snn.cli, snn.measure_device; from snn.hardware import threads; print(threads.blas_threads())"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "8"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "1"
