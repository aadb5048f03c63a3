"""A cell that asks for a neighbour is measured beside one that trains all the time, or leaves no record."""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import pytest
from conftest import ROOT
from processes import end_in_time, running
from real_records import disagreements, measured, quick

from snn.config.cell import ANY, Cell
from snn.config.compose import composed
from snn.errors import ConfigError, SnnError, Unsupported
from snn.grid import fingerprint, naming
from snn.hardware import devices
from snn.hardware.devices import Device
from snn.hardware.locks import Neighbours, lock_file
from snn.measurement import busy_neighbour

A, B = (Device("cuda", "NVIDIA H200", f"GPU-{name}") for name in "ab")


def command(*overrides):
    return [sys.executable, "-m", "snn", *quick(*overrides)]


def cell_of(*overrides):
    cell = composed(quick(*overrides))
    return Cell((section, cell[section]) for section in naming.SECTIONS)


@pytest.fixture
def locks_of_the_test(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture
def start(tmp_path):
    """Starts a cell, timed for so many seconds: what starts it gives its process and its record's place."""
    cells = []

    def started(seconds):
        output = tmp_path / str(len(cells)) / "cell.json"
        output.parent.mkdir()
        rules = ["training.epochs=20", "protocol.runs=100000", f"protocol.max_seconds={seconds}"]
        cell = subprocess.Popen(
            command("protocol.neighbour=reference", *rules, f"output={output}"),
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(output.parent)},  # its lock is no other cell's
            stderr=subprocess.PIPE,
            text=True,
        )
        cells.append(cell)
        return cell, output

    yield started
    for cell in cells:
        cell.kill()
        cell.wait()
        cell.stderr.close()


def neighbour_at_work(cell):
    """The process beside a cell, once the cell is being timed."""
    assert " of 100000" in cell.stderr.readline()
    (neighbour,) = running("snn.measurement.busy_neighbour", cell.pid)
    return neighbour


def test_a_cell_is_measured_beside_a_training_and_its_record_says_so():
    record = measured("protocol.neighbour=combined", "protocol.runs=3", "protocol.rounds=1")
    assert record["status"] == "ok" and len(record["runs"]) == 3
    assert record["cell"]["protocol"]["neighbour"] == "combined"
    at_work = record["machine"]["neighbour"]
    assert at_work["strategy"] == "combined" and at_work["device_uuid"] is None
    assert at_work["epochs"] >= 1 and at_work["seconds"] >= sum(run["seconds"] for run in record["runs"])
    assert not disagreements(record)
    for changed in ({**at_work, "strategy": "graph"}, {**at_work, "device_uuid": "GPU-1"}, None):
        other = {**record, "machine": {**record["machine"], "neighbour": changed}}
        assert disagreements(other) == ["neighbour"]


def test_a_cell_and_its_neighbour_end_together_and_leave_no_record(start):
    """The neighbour killed; the cell killed, which Linux tells its neighbour."""
    (bereft, _), (killed, _) = cells = start(2), start(60)
    neighbour_at_work(bereft).kill()

    neighbour = neighbour_at_work(killed)
    killed.kill()
    killed.wait()
    assert sys.platform != "linux" or end_in_time(neighbour.pid)

    said = bereft.communicate()[1]
    assert bereft.returncode == 2
    assert "protocol.neighbour: reference ended with status -9 (it said nothing)" in said
    assert not any(output.exists() for _, output in cells)


def beside(cell, device=None, found=()):
    return busy_neighbour.beside(cell, device or devices.find("cpu"), found, None)


def test_what_cannot_train_as_a_neighbour_makes_the_cell_unsupported():
    record = measured("protocol.neighbour=graph")
    assert record["status"] == "unsupported" and record["runs"] == []
    assert record["reason"].startswith("as a neighbour, graph cannot train this: ")


@pytest.mark.parametrize("found", [[A], []])
def test_without_a_second_gpu_the_cell_is_unsupported(found):
    cell, said = cell_of("protocol.neighbour=reference"), "neighbour=reference needs a second NVIDIA H200 "
    with pytest.raises(Unsupported, match=said), beside(cell, A, found):
        pass


@pytest.mark.usefixtures("locks_of_the_test")
def test_the_neighbour_takes_the_gpu_that_is_not_the_cells_and_holds_it():
    """It trains on the CPU here; locks and names are those of GPUs."""
    meanwhile = Neighbours(A)
    with beside(cell_of("protocol.neighbour=reference"), A, [A, B]) as neighbour:
        neighbour.await_work()
        with lock_file("GPU-b").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(0.2)
        assert neighbour.account()["device_uuid"] == "GPU-b"
        assert meanwhile.uuids() == ["GPU-b"]
    with lock_file("GPU-b").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not lock_file("GPU-a").exists()


@pytest.mark.usefixtures("locks_of_the_test")
def test_a_gpu_that_others_hold_is_waited_for_so_long(monkeypatch):
    monkeypatch.setattr(busy_neighbour, "_MOST_WAIT", 0.5)
    with lock_file("GPU-b").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with (
            beside(cell_of("protocol.neighbour=reference"), A, [A, B]) as neighbour,
            pytest.raises(SnnError, match=r"was not at work after 0\.5 s: no other GPU became free"),
        ):
            neighbour.await_work()


def test_a_cell_that_names_no_neighbour_is_what_it_was():
    """Its name, and what it is measured again for."""
    usual, said = cell_of("device.name=x"), cell_of("device.name=x", "protocol.neighbour=any")
    assert usual == said and usual.neighbour == ANY and usual.strategy_beside is None
    alone, busy = (cell_of("device.name=x", f"protocol.neighbour={who}") for who in ("none", "resident"))
    assert alone.neighbour == "none" and alone.strategy_beside is None
    assert busy.strategy_beside == "resident"
    assert len({cell.name for cell in (usual, alone, busy)}) == 3
    of_usual, of_alone, of_busy = (set(fingerprint.cell_sources(cell)) for cell in (usual, alone, busy))
    assert of_usual == of_alone < of_busy
    assert {"snn/measurement/busy_neighbour.py", "snn/strategies/device_driven.py"} <= of_busy - of_usual


@pytest.mark.parametrize("neighbour", ["nobody", "null", "[reference]", "1"])
def test_a_neighbour_is_a_strategy(neighbour):
    with pytest.raises(ConfigError, match=r"protocol\.neighbour"):
        composed(quick(f"protocol.neighbour={neighbour}"))


STEADY = [(0, 90.0), *((n, 90.0 + n / 4) for n in range(1, 57))]
"""The epochs that ended at each moment until 104, when the cell asks, four in a second."""


@pytest.mark.parametrize(
    ("noted", "pause"),
    [
        (STEADY, None),
        ([one for one in STEADY if not 101 < one[1] < 103.75], "2.75"),
        ([one for one in STEADY if not 97 < one[1] < 103], "3.00"),  # what was before 100 does not count
        (STEADY[:44], "3.25"),  # the epoch that is not finished does
        ([(n, 90 + n / 4) for n in (0, 10, 20, 30, 40, 50)], None),  # long, as all of them are
        ([(0, 90.0), (10, 98.0)], "4.00"),  # none ended
    ],
)
def test_a_pause_since_the_cell_began_is_found(monkeypatch, noted, pause):
    monkeypatch.setattr(busy_neighbour, "time", SimpleNamespace(monotonic=lambda: 104.0))
    neighbour = object.__new__(busy_neighbour.BusyNeighbour)
    neighbour.__dict__ |= {"_strategy": "reference", "_since": 100.0, "_epochs_before": 10}
    neighbour.process = SimpleNamespace(poll=lambda: None)
    with tempfile.TemporaryFile() as neighbour._output:
        neighbour._output.write("\n".join(["GPU-a", *(f"{n} {moment}" for n, moment in noted), "7"]).encode())
        neighbour._output.flush()
        if pause is None:
            assert neighbour.account() == {
                **{"strategy": "reference", "device_uuid": "GPU-a"},
                **{"epochs": noted[-1][0] - 10, "seconds": 4.0},
            }
            return
        with pytest.raises(SnnError, match=f"one of its epochs took {pause} s"):
            neighbour.account()


@pytest.mark.gpu
@pytest.mark.alone
def test_on_two_gpus_the_neighbour_has_the_other_one(tmp_path):
    found = devices.choices("cuda")
    if len(found) < 2:
        pytest.skip(f"there is one {found[0].name}, and a neighbour needs a second")
    settings = ("device=cuda", "strategy=graph", "protocol.neighbour=reference", "protocol.runs=20")
    subprocess.run(command(*settings, f"output={tmp_path / 'cell.json'}"), cwd=ROOT, check=True)
    record = json.loads((tmp_path / "cell.json").read_text())
    assert record["status"] == "ok"
    own, others = record["provenance"]["device_uuid"], record["machine"]["neighbours"]
    assert others == [record["machine"]["neighbour"]["device_uuid"]] and own not in others
    assert {own, *others} <= {gpu.uuid for gpu in found}
