"""Locks: one measurement at a time on a device, one workflow in a folder; cells end with their workflow."""

import ctypes
import errno
import fcntl
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

import pytest
from conftest import ROOT

from snn.hardware import locks
from snn.hardware.devices import Device
from snn.hardware.locks import LockedError, Neighbours, device_lock, folder_lock, generation, lock_file

CPU = Device("cpu", "x")
HOLD_ONE_OF = """
import os, sys, time
from snn.hardware.devices import Device
from snn.hardware.locks import device_lock
from snn.hardware.locks import Neighbours
with device_lock(*(Device("cuda", "NVIDIA H200", uuid) for uuid in sys.argv[1:])) as device:
    beside = Neighbours(device)
    print(device.uuid, os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
    for _ in sys.stdin:
        print(*beside.uuids(), flush=True)
"""


@pytest.fixture(autouse=True)
def of_the_test(tmp_path, monkeypatch):
    """The temporary folder, in which devices are locked."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def holds(tmp_path):
    """Starts a process that holds one of these GPUs, locked in a folder of the test's own."""
    started = []

    def hold(*uuids):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD_ONE_OF, *uuids],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": "0,1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield hold
    for process in started:
        process.kill()
        process.communicate()


def held(process):
    return process.stdout.readline().split()


def beside(process):
    print(file=process.stdin, flush=True)
    return process.stdout.readline().split()


def test_each_cell_takes_a_free_gpu_sees_no_other_and_names_its_neighbours(holds):
    first = holds("GPU-a", "GPU-b")
    assert held(first) == ["GPU-a", "GPU-a"] and beside(first) == []
    second = holds("GPU-a", "GPU-b")
    assert held(second) == ["GPU-b", "GPU-b"]
    third = holds("GPU-a", "GPU-b")
    assert "waiting for another measurement" in third.stderr.readline()
    second.kill()
    assert held(third) == ["GPU-b", "GPU-b"]
    third.kill()
    third.wait()
    assert beside(first) == ["GPU-b"]  # which came and went
    time.sleep(0.05)
    fourth = holds("GPU-c", "GPU-b")
    assert held(fourth) == ["GPU-c", "GPU-c"] and beside(fourth) == ["GPU-a"]
    assert beside(first) == ["GPU-b", "GPU-c"]


def test_a_cell_on_the_cpu_shares_the_host_with_no_other(holds, tmp_path):
    """The one that comes later waits, on whichever device the earlier one is."""
    on_cpu = [sys.executable, "-m", "snn", "device=cpu", "training.epochs=1", "protocol=glance"]
    on_cpu += ["protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0"]
    with device_lock(CPU), lock_file("cpu").open() as of_another, pytest.raises(BlockingIOError):
        fcntl.flock(of_another, fcntl.LOCK_SH | fcntl.LOCK_NB)
    on_gpu = holds("GPU-a")
    assert held(on_gpu) == ["GPU-a", "GPU-a"]
    cell = subprocess.Popen(
        [*on_cpu, f"output={tmp_path}/cell.json"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), locks.WAITS: str(tmp_path / "waits")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert not locks.is_waiting(tmp_path / "waits") and locks.waited(tmp_path / "waits") == 0
    assert "waiting for another measurement" in cell.stderr.readline()
    while not locks.is_waiting(tmp_path / "waits"):
        time.sleep(0.01)
    assert not (tmp_path / "cell.json").exists()
    on_gpu.kill()
    assert re.match(r"waited [0-9.]+ s for another measurement", cell.communicate(timeout=60)[1])
    assert not locks.is_waiting(tmp_path / "waits") and locks.waited(tmp_path / "waits") > 0
    assert cell.returncode == 0 and (tmp_path / "cell.json").exists()


def test_files_that_are_no_locks_of_gpus_are_no_neighbours(tmp_path):
    with device_lock(CPU):
        assert Neighbours(CPU).uuids() == []
        (tmp_path / "snn-GPU-new.lock").touch()
        (tmp_path / "snn-other.lock").touch()
        (tmp_path / "snn-GPU-link.lock").symlink_to(tmp_path / "nowhere")
        os.mkfifo(tmp_path / "snn-GPU-pipe.lock")
        os.utime(tmp_path / "snn-GPU-pipe.lock", (0, 0))
        time.sleep(0.05)
        assert Neighbours(CPU).uuids() == []


@pytest.mark.parametrize("before", ["1,0", None])
def test_a_gpu_is_left_as_it_was_found_also_after_an_error(monkeypatch, before):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before or "")
    if before is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    gpu = Device("cuda", "NVIDIA H200", "GPU-1")
    for _ in range(2):
        with pytest.raises(RuntimeError), device_lock(gpu) as taken:
            assert taken == gpu and os.environ["CUDA_VISIBLE_DEVICES"] == gpu.uuid
            raise RuntimeError
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == before


@pytest.mark.parametrize(
    ("at_once", "orders"),
    [({}, "a a a"), ({"1"}, "a a a"), ({"2"}, "ab ba ab"), ({"9"}, "abc bca cab")],
)
def test_the_gpus_of_a_workflow_take_turns_round_by_round(monkeypatch, at_once, orders):
    monkeypatch.delenv(locks.GPUS_AT_ONCE, raising=False)
    for number in at_once:
        monkeypatch.setenv(locks.GPUS_AT_ONCE, number)
    gpus = [Device("cuda", "NVIDIA H200", uuid) for uuid in "abc"]
    turns = ("".join(gpu.uuid for gpu in locks.in_turn(gpus, number)) for number in (1, 2, 3))
    assert " ".join(turns) == orders


@pytest.mark.parametrize("kind", ["fifo", "link", "dangling", "folder"])
def test_a_lock_that_is_not_a_file_is_refused_and_not_waited_for(tmp_path, kind):
    (tmp_path / "target").write_text("kept")
    for path in (tmp_path / "snn.lock", lock_file("cpu")):
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(tmp_path / ("target" if kind == "link" else "nowhere"))
    with pytest.raises(LockedError, match=r"snn-cpu-.*\.lock: the lock .* remove it"), device_lock(CPU):
        pass
    with pytest.raises(LockedError, match=r"snn\.lock: the lock .* remove it"):
        generation(tmp_path)
    assert (tmp_path / "target").read_text() == "kept"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(("umask", "of_folder"), [(0o002, 0o664), (0o022, 0o644), (0o077, 0o600)])
def test_all_users_may_lock_a_device_and_who_may_share_a_folder_that(tmp_path, monkeypatch, umask, of_folder):
    """A device's lock is opened for reading, so that another user's can be."""
    flags, opened, before = [], os.open, os.umask(umask)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(
                os, "open", lambda path, how, *mode: (flags.append(how), opened(path, how, *mode))[1]
            )
            with device_lock(CPU):
                pass
        assert generation(tmp_path) == ""
    finally:
        os.umask(before)
    assert flags and not any(how & (os.O_WRONLY | os.O_RDWR) for how in flags)
    assert lock_file("cpu").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "snn.lock").stat().st_mode & 0o777 == of_folder


def test_a_clone_of_another_user_needs_a_clone_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not (mode & os.W_OK and path == tmp_path))
    for folder in (tmp_path / ".snakemake", tmp_path / "results/recommend"):
        for lock in (generation, lambda folder: folder_lock(folder, "")):
            with pytest.raises(LockedError) as caught:
                lock(folder)
            said = str(caught.value)
            assert said.startswith(f"{tmp_path}: ") and "clone" in said
            assert ".snakemake" not in said and "remove" not in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named(monkeypatch, tmp_path, code):
    monkeypatch.setattr(fcntl, "flock", mock.Mock(side_effect=OSError(code, os.strerror(code))))
    turn, said = lock_file("turn").name, f"{re.escape(str(tmp_path))}/%s: its file system cannot lock files"
    with pytest.raises(LockedError, match=said % turn), device_lock(CPU):
        pass
    with pytest.raises(LockedError, match=said % "snn.lock"):
        folder_lock(tmp_path, "")


# ---- the host that measurements on GPUs share, and one on the CPU has to itself


@pytest.fixture
def said(monkeypatch):
    """What those say that wait for locks."""
    lines = []
    monkeypatch.setattr(locks, "say", lambda text, file: lines.append(text))
    return lines


def test_who_waits_for_the_whole_host_is_not_overtaken(said):
    """A cell of another GPU, which could begin at once, begins after it."""
    order = []

    def take(device):
        with device_lock(device):
            order.append(device.name)

    with device_lock(Device("cuda", "first", "GPU-a")):
        waiting = []
        for number, device in enumerate((CPU, Device("cuda", "second", "GPU-b")), 1):
            waiting.append(threading.Thread(target=take, args=[device]))
            waiting[-1].start()
            while said.count(locks.WAITING) < number and not order:
                time.sleep(0.01)
        assert order == []
    for thread in waiting:
        thread.join()
    assert order == [CPU.name, "second"]


def test_a_process_whose_parent_has_its_share_of_the_host_does_not_queue_for_one(said):
    """Else both would wait for ever where another waits for the whole host in between."""
    with device_lock(Device("cuda", "x", "GPU-a")):
        waiting = threading.Thread(target=lambda: device_lock(CPU).__enter__())
        waiting.start()
        while locks.WAITING not in said:
            time.sleep(0.01)
        with locks.gpu_lock(Device("cuda", "x", "GPU-a"), Device("cuda", "x", "GPU-b")) as gpu:
            assert gpu.uuid == "GPU-b"
    waiting.join()


def test_machines_that_share_a_temporary_folder_do_not_wait_for_each_other(monkeypatch):
    here = lock_file("cpu")
    monkeypatch.setattr(locks, "_machine", lambda: "another")
    assert lock_file("cpu") != here and lock_file("GPU-a").name == "snn-GPU-a.lock"


# ---- workflows


def test_a_folder_has_one_workflow_and_none_that_was_planned_beside_another(tmp_path):
    before = generation(tmp_path)
    first = folder_lock(tmp_path, before)
    during = generation(tmp_path)
    assert during is None
    with pytest.raises(LockedError, match=f"process {os.getpid()}"):
        folder_lock(tmp_path, before)
    os.close(first)
    for planned in (before, during):
        with pytest.raises(LockedError, match="start it again"):
            folder_lock(tmp_path, planned)
    os.close(folder_lock(tmp_path, generation(tmp_path)))


def test_a_workflow_beside_a_lock_that_only_another_user_may_open_is_refused(tmp_path, monkeypatch):
    folder, opened = tmp_path / ".snakemake", os.open

    def denied(path, *arguments):
        if Path(path).parent != folder:
            return opened(path, *arguments)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", denied)  # the tests may run as a user to whom nothing is denied
    for use in (generation, lambda folder: folder_lock(folder, "")):
        with pytest.raises(LockedError, match=r"snn\.lock: .* opened: Permission denied: let its owner give"):
            use(folder)


def test_a_parent_that_is_no_process_has_ended(monkeypatch):
    monkeypatch.setenv(locks.END_WITH_PARENT, "none")
    monkeypatch.setattr(ctypes, "CDLL", mock.Mock())  # else this process would end with its parent
    with pytest.raises(SystemExit, match=r"the workflow \(process none\) has ended"):
        locks.end_with_parent()


def test_a_file_in_place_of_snakemakes_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LockedError, match="file: cannot be used as a folder"):
        generation(tmp_path / "file")
