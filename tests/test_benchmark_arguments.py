"""Benchmarks run; wrong command lines of theirs end with one message, before anything is measured."""

import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "sampling_cost.py --device cpu --pairs 1",
            "--pairs: it is '1': it must be a whole number, at least 2",
        ),
        ("sampling_cost.py --device cpu --every nan", "--every: it is 'nan': it must be a number of seconds"),
        ("sampling_cost.py --device cpu --strategy nothing", "sampling_cost: strategy=nothing: not a choice"),
        ("several_gpus.py --device cpu --gpus 0", "--gpus: it is '0': it must be a whole number, at least 2"),
        ("several_gpus.py --device cpu --dataset nothing", "several_gpus: "),
        ("plan_accuracy.py --count -1", "--count: it is '-1': it must be a whole number, at least 0"),
    ],
)
def test_a_wrong_command_line_is_refused_in_a_line(command, said):
    name, *arguments = command.split()
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / name, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "sampling_cost.py --device cpu --epochs 500 --pairs 2",
        "sensitivity.py --device cpu --repetitions 1 --rounds 2 --runs 2 --epochs 2",
        "measuring_cost.py --device cpu --rounds 2 --epochs 2",
    ],
)
def test_benchmarks_that_call_the_engine_call_it_as_it_is(command):
    name, *arguments = command.split()
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / name, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout, done.stderr
