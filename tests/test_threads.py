"""The threads of a process that measures are its own setting, whoever starts it."""

import json
import os
import subprocess
import sys

from conftest import ROOT

from snn.hardware.threads import blas_threads

CELL = ["device=cpu", "training.epochs=1", "protocol.runs=1", "protocol.warmup_seconds=0"]


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


def test_the_tests_themselves_have_one_thread():
    assert blas_threads() == 1
