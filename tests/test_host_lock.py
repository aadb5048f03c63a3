"""The host that measurements on GPUs share, and one on the CPU has to itself: who waits for it, and where."""

import tempfile
import threading
import time

import pytest

from snn.hardware import locks
from snn.hardware.devices import Device
from snn.hardware.locks import WAITING, device_lock, gpu_lock, lock_file

CPU = Device("cpu", "x")


@pytest.fixture
def said(tmp_path, monkeypatch):
    """What those say that wait for locks in a folder of the test's own."""
    lines = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
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
            while said.count(WAITING) < number and not order:
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
        while WAITING not in said:
            time.sleep(0.01)
        with gpu_lock(Device("cuda", "x", "GPU-a"), Device("cuda", "x", "GPU-b")) as gpu:
            assert gpu.uuid == "GPU-b"
    waiting.join()


def test_machines_that_share_a_temporary_folder_do_not_wait_for_each_other(monkeypatch):
    here = lock_file("cpu")
    monkeypatch.setattr(locks, "_machine", lambda: "another")
    assert lock_file("cpu") != here and lock_file("GPU-a").name == "snn-GPU-a.lock"
