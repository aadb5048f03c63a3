"""benchmarks/start_up.py: the stages of a cell's process, and that their functions are where it looks."""

import runpy
import subprocess
import sys
from functools import reduce
from importlib import import_module

import pytest
from conftest import ROOT

SCRIPT = ROOT / "benchmarks/start_up.py"
STAGES = runpy.run_path(str(ROOT / "benchmarks/stages.py"))["STAGES"]


@pytest.mark.parametrize("place", STAGES)
def test_a_function_is_where_the_clock_looks_for_it(place):
    module, _, path = place.partition(":")
    if "cuda" in module:
        pytest.importorskip("cupy")
    assert callable(reduce(getattr, path.split("."), import_module(module)))


def test_the_stages_add_up_to_the_process():
    settings = ["device=cpu", "dataset=small", "protocol=glance", "training.epochs=1"]
    command = [sys.executable, str(SCRIPT), "--strategies", "resident", "--repeats", "1", *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines())
    assert rows.pop("seconds") == "resident"
    seconds = {stage: float(text) for stage, text in rows.items()}
    for stage in ("import snn", "import Hydra", "configuration", "warm-up", "call costs", "time breakdown"):
        assert seconds[stage] > 0
    assert seconds["warm-up"] >= 0.1  # of the protocol glance
    until, in_all = seconds.pop("until the first epoch"), seconds.pop("the process in all")
    assert sum(seconds.values()) == pytest.approx(in_all, abs=0.001 * len(seconds))
    stages = list(seconds)
    before = sum(seconds[stage] for stage in stages[: stages.index("warm-up")])
    assert 0 < until < in_all - seconds["warm-up"] and until < before + 0.05


def test_a_setting_that_a_cell_refuses_ends_the_benchmark_with_its_message():
    command = [sys.executable, str(SCRIPT), "--strategies", "resident", "training.epochs=0", "device=cpu"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "snn: training.epochs is 0: it must be" in done.stderr
