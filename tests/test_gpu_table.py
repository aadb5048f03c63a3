"""The table of the device's properties, of a GPU that a driver of our choosing describes and of real ones."""

from types import SimpleNamespace

import pynvml
import pytest
from conftest import ROOT

from snn.config.groups import read_yaml
from snn.hardware.devices import Device
from snn.tables import gpu

PAPER = read_yaml(ROOT / "config/paper/gpu.yaml")


@pytest.fixture
def calls(monkeypatch):
    """A driver that knows an H200; what is called to begin and to end its use."""
    found = []
    answers = {
        "nvmlInit": lambda: found.append("init"),
        "nvmlShutdown": lambda: found.append("shutdown"),
        "nvmlDeviceGetHandleByUUID": {"GPU-1": 7}.__getitem__,
        "nvmlDeviceGetMemoryBusWidth": {7: 6144}.__getitem__,
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: {(7, pynvml.NVML_CLOCK_MEM): 3201}[handle, kind],
        "nvmlDeviceGetNumGpuCores": {7: 16896}.__getitem__,
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total={7: 150_754_820_096}[handle]),
        "nvmlDeviceGetCudaComputeCapability": {7: (9, 0)}.__getitem__,
        "nvmlSystemGetDriverVersion": lambda: "580.1",
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.setattr(gpu, "_copy_engines", lambda: 3)
    return found


def test_the_properties_of_a_gpu_in_the_units_of_the_paper(calls):
    table = gpu.build(Device("cuda", "NVIDIA H200", "GPU-1", "580.1"), PAPER).set_index("parameter")["value"]
    assert {name: table[name] for name in table.index if table[name] != ""} == {
        "CUDA cores": 16896,
        "Memory (GB)": 151,
        "Memory bandwidth (GB/s)": 4917,
        "Compute capability": "9.0",
        "Copy engines": 3,
        "Driver": "580.1",
    }
    assert calls == ["init", "shutdown"]


def test_the_memory_of_a_host_is_all_that_it_has(monkeypatch):
    monkeypatch.setattr(gpu.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 22}.__getitem__)
    table = gpu.build(Device("cpu", "Abacus"), PAPER).set_index("parameter")["value"]
    assert table["Memory (GB)"] == 17


def test_the_driver_is_left_also_where_it_fails(calls):
    with pytest.raises(KeyError):
        gpu.build(Device("cuda", "NVIDIA H200", "GPU-2", "580.1"), PAPER)
    assert calls == ["init", "shutdown"]


def test_the_device_table_of_a_cpu_says_so():
    table = gpu.build(Device("cpu", "Abacus"), PAPER)
    assert set(table["backend"]) == {"cpu"}
    assert set(table["device"]) == {"Abacus"}
    assert table.set_index("parameter").loc["CUDA cores", "value"] == ""
    assert table.set_index("parameter").loc["CUDA cores", "paper_value"] == 2560


@pytest.mark.gpu
def test_the_device_table_of_a_gpu():
    from snn.hardware import devices

    table = gpu.build(devices.find("cuda"), PAPER).set_index("parameter")["value"]
    assert table["CUDA cores"] > 0
    assert table["Memory bandwidth (GB/s)"] > 0
    assert table["Copy engines"] >= 1
