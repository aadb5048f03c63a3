"""Benchmarks: wrong command lines end with one message, before anything is measured; the others run."""

import re
import runpy
import subprocess
import sys
from dataclasses import replace
from functools import reduce
from importlib import import_module

import hardware_counters
import headline
import pytest
from conftest import ROOT
from records_of import limits_of
from stages import STAGES
from test_measure import JOB

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.errors import MeasurementError
from snn.hardware.limits import Measured
from snn.models.training_step import training_step


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sampling_cost --device cpu --pairs 1", "--pairs: it is '1': it must be a whole number, at least 2"),
        ("sampling_cost --device cpu --every nan", "--every: it is 'nan': it must be a number of seconds"),
        ("sampling_cost --device cpu --strategy nothing", "sampling_cost: strategy=nothing: not a choice"),
        ("several_gpus --device cpu --gpus 0", "--gpus: it is '0': it must be a whole number, at least 2"),
        ("several_gpus --device cpu --dataset nothing", "several_gpus: "),
        ("plan_accuracy --count -1", "--count: it is '-1': it must be a whole number, at least 0"),
        ("plan_accuracy", "plan_accuracy: device=cuda, but"),
        ("headline", "device=cuda, but"),
        ("losses --epochs 0", "--epochs: it is '0': it must be a whole number, at least 1"),
        ("cnn_pytorch --runs 0", "--runs: it is '0': it must be a whole number, at least 1"),
        ("predictions --rows 0", "--rows: it is '0': it must be a whole number, at least 1"),
        ("predictions --device cuda", "predictions: device=cuda, but"),
        *(
            (f"predictions --device cpu {given}", "this machine has")
            for given in (
                "--rows 1 99999999999999999999",
                "--hidden 9999999 9999999",
                "--train --rows 99999999999",
            )
        ),
        ("hardware_counters --ncu sh strategy=nothing", "hardware_counters: strategy=nothing: not a choice"),
        ("hardware_counters --ncu sh device=cpu", "device=cpu: only a GPU has these counters"),
        *(
            (f"hardware_counters --ncu sh strategy={name}", f"strategy={name} does not launch each kernel")
            for name in ("graph", "persistent", "torch_eager", "threads", "data_parallel")
        ),
        ("members --members 0", "--members: it is '0': it must be a whole number, at least 1"),
        ("members --csv nothing.csv", "members: "),
        *(
            (f"headline {option}", option.partition("=")[0])
            for option in ("--rounds=0", "--seconds=-1", "--rounds=1.5")
        ),
        (
            "start_up --strategies resident training.epochs=0 device=cpu",
            "snn: training.epochs is 0: it must be",
        ),
    ],
)
def test_a_wrong_command_line_is_refused_with_a_message(command, said, monkeypatch, capsys):
    """In this process: nothing is measured."""
    name, *arguments = command.split()
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / f"benchmarks/{name}.py"), run_name="__main__")
    assert ended.value.code and said in f"{ended.value.code}{capsys.readouterr().err}"


def started(command):
    name, *arguments = command.split()
    command = [sys.executable, ROOT / "benchmarks" / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout, done.stderr
    return done


@pytest.mark.parametrize(
    "command",
    [
        "sampling_cost.py --device cpu --epochs 100 --pairs 2",
        "sensitivity.py --device cpu --repetitions 1 --rounds 2 --runs 2 --epochs 2",
        "measuring_cost.py --device cpu --rounds 2 --epochs 2",
        "members.py --device cpu --members 4 --epochs 1 --hidden 2,2 --by ensemble",
        "estimators.py --device cpu --epochs 1 --repeats 1 --tables spirals",
        "predictions.py --device cpu --rows 3 --hidden 5",
        "predictions.py --device cpu --rows 3 --hidden 5 --train",
    ],
)
def test_benchmarks_that_call_the_engine_call_it_as_it_is(command):
    started(command)


# ---- start_up.py


@pytest.mark.parametrize("place", STAGES)
def test_a_function_is_where_the_clock_looks_for_it(place):
    module, _, path = place.partition(":")
    if "cuda" in module:
        pytest.importorskip("cupy")
    assert callable(reduce(getattr, path.split("."), import_module(module)))


def test_the_stages_add_up_to_the_process():
    settings = "device=cpu dataset=small protocol=glance training.epochs=1"
    printed = started(f"start_up.py --strategies resident --repeats 1 {settings}").stdout
    rows = dict(line.rsplit(maxsplit=1) for line in printed.splitlines())
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


# ---- headline.py

LIMITS = Measured.of(limits_of(seconds=1e-6))
NAMES = ["32-128-1", "32-256-1", "32-1024-1", "32-256-256-1", "32-256-1024-256-1"]


def headline_rows(times):
    lines = headline.table(times, LIMITS).splitlines()
    return {
        cells[0]: cells[1:]
        for cells in ([one.strip() for one in line.split("|")[1:-1]] for line in lines[2:])
    }


def test_a_row_holds_the_best_peer_the_ratio_and_the_share_of_the_limit():
    found = headline_rows(
        {name: {} for name in NAMES}
        | {"32-1024-1": {"torch_graph": 4e-5, "jax_scan": 2e-5, "persistent": 4e-6}}
    )
    assert list(found) == NAMES
    assert found["32-1024-1"] == ["jax_scan", "20.00", "", "4.00", "5.00", "1.00", "25%"]
    assert found["32-128-1"][:5] == [""] * 5
    assert found["32-256-1024-256-1"][5] == "8.14"


def test_a_time_below_its_floor_is_kept_with_a_warning():
    times = {name: {} for name in NAMES} | {"32-1024-1": {"graph": 5e-7, "persistent": 2e-6}}
    *_, blank, said = headline.table(times, LIMITS).splitlines()
    assert not blank and re.match(r"32-1024-1 by graph: .* 0.5 us, .* floor of 1 us", said)


def test_where_nobody_has_a_time_rows_are_empty_and_the_reason_is_said():
    times, remarks = headline.in_turns(2, ["jax_scan"], lambda name: dict.fromkeys(NAMES, "no JAX"))
    assert all(row[:5] == [""] * 5 for row in headline_rows(times).values())
    assert remarks == ["jax_scan is left out: no JAX"]


def test_who_fails_in_one_round_is_left_out_of_that_network_alone():
    """One peer is not there, another fails at one network in the second of three rounds."""
    asked = []

    def take(name):
        asked.append(name)
        if name == "jax_scan":
            return dict.fromkeys(NAMES, "JAX is not installed")
        found = {network: headline.Timed(1e-6 * len(asked), "a plan") for network in NAMES}
        if name == "torch_graph" and asked.count(name) == 2:
            found["32-256-1"] = "no memory"
        return found

    times, remarks = headline.in_turns(3, ["jax_scan", "torch_graph", "persistent"], take)
    assert asked == ["jax_scan", *["torch_graph", "persistent"] * 3]
    assert set(times["32-256-1"]) == {"persistent"}
    assert times["32-128-1"] == {"torch_graph": pytest.approx(4e-6), "persistent": pytest.approx(5e-6)}
    assert [one for one in remarks if "left out" in one] == [
        "jax_scan is left out: JAX is not installed",
        "torch_graph is left out of 32-256-1: no memory",
    ]
    assert [one for one in remarks if "plan" in one] == [f"{name} by persistent: a plan" for name in NAMES]


# ---- hardware_counters.py

NCU = """==PROF== Connected to process 7 (/usr/bin/python3)
==PROF== Profiling "matmul": 0%....50%....100% - 8 passes
"ID","Process ID","Kernel Name","Block Size","Section Name","Metric Name","Metric Unit","Metric Value"
"0","7","matmul","(16, 16, 1)","Command line profiler metrics","dram__bytes_read.sum","byte","1,234,560"
"0","7","matmul","(16, 16, 1)","Command line profiler metrics","l1tex__t_sector_hit_rate.pct","%","87.5"
"1","7","relu","(256, 1, 1)","Command line profiler metrics","dram__bytes_read.sum","byte","n/a"
==PROF== Disconnected from process 7
"""


def test_counters_of_ncu_are_read_by_kernel_and_shown_next_to_the_launches():
    found = hardware_counters.counters(NCU)
    read, hits = "dram__bytes_read.sum", "l1tex__t_sector_hit_rate.pct"
    assert found[0] == {"kernel": "matmul", read: 1234560.0, hits: 87.5}
    assert found[1]["kernel"] == "relu" and found[1][read] is None
    assert hardware_counters.counters("==ERROR== ERR_NVGPUCTRPERM") == []
    launches = [("matmul", "256x32x256", 327680), ("relu", "65536", 262144)]
    rows = [line.split(" | ") for line in hardware_counters.table(launches, found)][2:]
    assert rows[0][:6] == ["| matmul", "256x32x256", "matmul", "327,680", "1,234,560", "n/a"]
    assert rows[0][7] == "87.5" and rows[1][3:5] == ["262,144", "n/a"]
    with pytest.raises(MeasurementError, match=r"2 launches, .* 1 kernels"):
        list(hardware_counters.table(launches, found[:1]))


def test_launches_are_those_of_one_step_with_the_bytes_of_their_operands():
    job, counted = replace(JOB, strategy=groups.load("strategy", "resident")), []
    found = hardware_counters.launches_of_step(
        job, CpuBackend(), lambda: counted.append("begin"), lambda: counted.append("end")
    )
    step = training_step(job.network, job.batch_size, 0.0).launches
    assert counted == ["begin", "end"] and [op for op, *_ in found] == [one.op for one in step]
    rows, features, hidden = job.batch_size, job.X.shape[1], job.network.shapes[0][1]
    of_first = rows * features + features * hidden + rows * hidden
    assert found[0] == ("matmul", f"{rows}x{features}x{hidden}", 4 * of_first)


FAKE_NCU = """#!{python}
import sys
from pathlib import Path

given = dict(zip(sys.argv, sys.argv[1:]))
Path(given["--log-file"]).write_text({log!r})
Path(given["--launches"]).write_text('[["matmul", "1x2x3", 32], ["relu", "3", 12]]')
assert "strategy=resident" in sys.argv and "dram__bytes_read.sum" in given["--metrics"]
sys.exit({status})
"""


def counted(tmp_path, ncu, log="", status=0):
    """What the program ends with and prints, where ncu writes this log."""
    if ncu is None:
        ncu = tmp_path / "ncu"
        ncu.write_text(FAKE_NCU.format(python=sys.executable, log=log, status=status))
        ncu.chmod(0o755)
    command = [sys.executable, ROOT / "benchmarks/hardware_counters.py", "--ncu", ncu, "strategy=resident"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_ncu_is_asked_for_the_metrics_and_its_errors_are_shown(tmp_path):
    done = counted(tmp_path, None, NCU)
    assert done.returncode == 0 and "| matmul | 1x2x3 | matmul | 32 | 1,234,560 |" in done.stdout
    refused = counted(tmp_path, None, "==ERROR== ERR_NVGPUCTRPERM\n", status=1)
    assert refused.returncode == 2 and refused.stderr.startswith("hardware_counters: ==ERROR== ERR_NVGPU")
    missing = counted(tmp_path, "no-such-ncu")
    assert missing.returncode == 77 and "no-such-ncu" in missing.stdout and "--ncu" in missing.stdout
