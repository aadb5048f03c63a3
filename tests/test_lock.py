"""One measurement at a time on a device; one workflow in a folder; none outlives who asked for it."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import pytest
from conftest import ROOT

from snn.hardware.devices import Device
from snn.hardware.locks import (
    END_WITH_PARENT,
    LockedError,
    device_lock,
    end_with_parent,
    folder_lock,
    generation,
)

CPU = Device("cpu", "x")
HOLD = """
import sys, time
from snn.hardware.devices import Device
from snn.hardware.locks import device_lock
with device_lock(Device("cpu", "x", uuid=sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_device_is_waited_for_and_freed_by_death():
    uuid = f"test-{os.getpid()}"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, uuid], cwd=ROOT, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    waiter = subprocess.Popen(
        [sys.executable, "-c", HOLD, uuid], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert b"waiting for another measurement" in waiter.stderr.readline()
    holder.send_signal(signal.SIGKILL)
    assert waiter.stdout.readline() == b"held\n"
    waiter.kill()
    for process in (holder, waiter):
        process.communicate()


def test_the_lock_is_free_again_after_an_error():
    device = Device("cpu", "x", uuid=f"test-error-{os.getpid()}")
    with pytest.raises(RuntimeError), device_lock(device):
        raise RuntimeError
    with device_lock(device):
        pass


def test_a_folder_has_one_workflow(tmp_path):
    planned = generation(tmp_path)
    first = folder_lock(tmp_path, planned)
    assert generation(tmp_path) is None
    with pytest.raises(LockedError, match=f"process {os.getpid()}"):
        folder_lock(tmp_path, planned)
    os.close(first)
    os.close(folder_lock(tmp_path, generation(tmp_path)))


def test_what_was_planned_beside_another_workflow_is_not_run(tmp_path):
    before = generation(tmp_path)
    first = folder_lock(tmp_path, before)
    during = generation(tmp_path)
    os.close(first)
    for planned in (before, during):
        with pytest.raises(LockedError, match="start it again"):
            folder_lock(tmp_path, planned)


@pytest.mark.parametrize("kind", ["fifo", "link", "dangling", "folder"])
def test_a_lock_that_is_not_a_file_is_refused_and_not_waited_for(tmp_path, kind, monkeypatch):
    (tmp_path / "target").write_text("kept")
    for name in ("snn.lock", "snn-cpu.lock"):
        path = tmp_path / name
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(tmp_path / ("target" if kind == "link" else "nowhere"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(LockedError, match=r"snn-cpu\.lock: the lock .* remove it"), device_lock(CPU):
        pass
    with pytest.raises(LockedError, match=r"snn\.lock: the lock .* remove it"):
        generation(tmp_path)
    assert (tmp_path / "target").read_text() == "kept"
    assert not (tmp_path / "nowhere").exists()


def test_other_users_may_lock_the_device_whatever_the_umask(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0o077)
    try:
        with device_lock(Device("cpu", "x")):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "snn-cpu.lock").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells a process of its parent's death")
def test_a_cell_dies_with_its_workflow(tmp_path):
    child = (
        "import os, time; from snn.hardware.locks import end_with_parent; end_with_parent();"
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    parent = (
        f"import os, subprocess, sys, time; os.environ['{END_WITH_PARENT}'] = str(os.getpid());"
        f"subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    )
    started = subprocess.Popen([sys.executable, "-c", parent], cwd=ROOT, stdout=subprocess.PIPE)
    pid = int(started.stdout.readline())
    started.kill()
    started.wait()
    for _ in range(100):
        if not _alive(pid):
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the cell outlived its workflow")


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_parent_that_is_no_process_has_ended(monkeypatch):
    monkeypatch.setenv(END_WITH_PARENT, "none")
    monkeypatch.setattr(ctypes, "CDLL", mock.Mock())  # else this process would end with its parent
    with pytest.raises(SystemExit, match=r"the workflow \(process none\) has ended"):
        end_with_parent()


def test_a_file_in_place_of_snakemakes_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LockedError, match="file: cannot be used as a folder"):
        generation(tmp_path / "file")
