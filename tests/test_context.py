"""What a cell's process opens while it starts: the context of a GPU beside the imports, and NVML once."""

import threading

import pynvml
import pytest

from snn import backends as context
from snn.hardware import devices


class Driver:
    """The calls of a driver, in order; ``failing`` is the first that fails."""

    def __init__(self, failing=None):
        self.calls, self.threads, self._failing = [], set(), failing
        self.imported = threading.Event()

    def __getattr__(self, name):
        def call(*_):
            self.imported.wait(10)
            self.calls.append(name)
            self.threads.add(threading.current_thread())
            return int(name == self._failing)

        return call


@pytest.mark.parametrize(
    ("failing", "calls"),
    [
        (None, ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]),
        ("cuInit", ["cuInit"]),
        ("cuDeviceGet", ["cuInit", "cuDeviceGet"]),
    ],
)
def test_a_context_is_made_during_the_imports_and_there_after_them(monkeypatch, failing, calls):
    driver = Driver(failing)
    monkeypatch.setattr(context.ctypes, "CDLL", {"libcuda.so.1": driver}.__getitem__)
    with context.context_meanwhile():
        assert not driver.calls  # the block goes on, and the driver takes its time
        driver.imported.set()
    assert driver.calls == calls
    assert threading.current_thread() not in driver.threads


def test_without_a_driver_the_imports_say_what_is_missing(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(context.ctypes, "CDLL", missing)
    with pytest.raises(ImportError, match="cupy"), context.context_meanwhile():
        raise ImportError("cupy")


@pytest.mark.parametrize(("backend", "opened"), [("auto", 1), ("cuda", 1), ("cpu", 0)])
def test_nvml_stays_open_for_a_cell_on_a_gpu(monkeypatch, backend, opened):
    level = [0]

    def add(one):
        level[0] += one

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: add(1))
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: add(-1))
    with pytest.raises(ValueError, match="a fault"), devices.nvml_open(backend):
        assert level == [opened]
        raise ValueError("a fault")
    assert level == [0]


def test_a_machine_without_nvml_has_nothing_to_open_or_close(monkeypatch):
    def fails():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fails)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: pytest.fail("it is not open"))
    with devices.nvml_open("auto"):
        pass
