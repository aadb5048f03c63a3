"""One workflow in a folder, and no cell outlives its workflow."""

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
from conftest import ROOT

from snn.hardware.locks import (
    END_WITH_PARENT,
    LockedError,
    end_with_parent,
    folder_lock,
    generation,
)


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
