"""What changes times from outside of a cell: it is recorded, and times under two of it are not compared."""

import ctypes
import os
from types import SimpleNamespace
from unittest.mock import Mock

import pynvml
import pytest
from real_records import refusal
from records_of import record
from test_frame import CELL
from test_speedups import THRESHOLDS, row

from snn.analysis.speedups import reason
from snn.hardware import devices, driver
from snn.hardware.devices import Device
from snn.measurement import provenance
from snn.records import store

GPU = Device("cuda", "NVIDIA H200", "GPU-1", "580.1")
PLAIN = {
    "environment": dict.fromkeys(provenance.VARIABLES),
    "schedule": "auto",
    "numa_nodes": [0],
    "gpu_numa_node": 0,
}


def test_variables_are_recorded_as_they_are_set(monkeypatch):
    for name in provenance.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setenv("XLA_FLAGS", "--a=1 " + 5000 * "x")
    found = provenance.describe(devices.find("cpu"))["surroundings"]
    variables = found["environment"]
    assert variables["CUDA_LAUNCH_BLOCKING"] == "1" and variables["NVIDIA_TF32_OVERRIDE"] is None
    assert variables["XLA_FLAGS"].startswith("--a=1 x") and len(variables["XLA_FLAGS"]) == 1000
    assert found["schedule"] is found["gpu_numa_node"] is None


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Two NUMA nodes of four CPUs, a GPU at the second one, and a process that may use some CPUs."""
    for node, cpus in ((0, "0-1,4-5"), (1, "2-3,6-7")):
        folder = tmp_path / f"nodes/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n")
    gpu = tmp_path / "pci/0000:17:00.0"
    gpu.mkdir(parents=True)
    (gpu / "numa_node").write_text("1\n")
    monkeypatch.setattr(provenance, "_NODES", tmp_path / "nodes")
    monkeypatch.setattr(provenance, "_PCI", tmp_path / "pci")
    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceIsMigDeviceHandle": lambda handle: handle.startswith("MIG"),
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda handle: "GPU-1",
        "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId={"GPU-1": "00000000:17:00.0"}[handle]),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.setattr(driver, "schedule", lambda: "spin")
    return gpu


@pytest.mark.parametrize(
    ("cpus", "nodes"), [({0, 5}, [0]), ({3}, [1]), ({1, 2}, [0, 1]), (set(range(8)), [0, 1]), ({9}, None)]
)
def test_numa_nodes_are_those_of_the_process_and_of_the_gpu(machine, monkeypatch, cpus, nodes):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cpus, raising=False)
    for uuid in ("GPU-1", "MIG-1"):
        found = provenance.describe_surroundings(Device("cuda", "x", uuid))
        assert (found["numa_nodes"], found["gpu_numa_node"], found["schedule"]) == (nodes, 1, "spin")


def test_what_the_system_does_not_say_is_none(machine, monkeypatch):
    (machine / "numa_node").write_text("-1\n")  # a machine of one node, or a virtual one
    assert provenance.gpu_numa_node("GPU-1") is None
    (machine / "numa_node").unlink()
    assert provenance.gpu_numa_node("GPU-1") is None
    monkeypatch.setattr(provenance, "_NODES", machine / "none")
    assert provenance.numa_nodes() is None


class Library:
    """A driver with one device, and these flags of its context."""

    def __init__(self, flags, status=0):
        self.flags, self.status = flags, status

    def cuInit(self, flags):
        return 0

    def cuDeviceGet(self, device, number):
        return 0

    def cuDevicePrimaryCtxGetState(self, device, flags, active):
        flags._obj.value = self.flags
        return self.status

    def cuDeviceGetUuid_v2(self, uuid, device):
        uuid[:] = range(16)
        return 0

    def cuDeviceTotalMem_v2(self, nbytes, device):
        nbytes._obj.value = 80 << 30
        return 0

    def cuGetErrorName(self, status, name):
        return 1


@pytest.mark.parametrize(
    ("flags", "status", "schedule"),
    [(0, 0, "auto"), (1, 0, "spin"), (0x12, 0, "yield"), (4, 0, "blocking"), (7, 0, None), (0, 3, None)],
)
def test_the_schedule_is_that_of_the_first_devices_context(monkeypatch, flags, status, schedule):
    monkeypatch.setattr(driver.ctypes, "CDLL", Mock(side_effect=OSError("absent")))
    assert driver.schedule() is None
    monkeypatch.setattr(driver.ctypes, "CDLL", lambda name: Library(flags, status))
    assert driver.schedule() == schedule
    uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert driver.first_device() == driver.Seen(uuid, 80 << 30)


def changed(**changes):
    variables = PLAIN["environment"] | {key: value for key, value in changes.items() if key.isupper()}
    others = {key: value for key, value in changes.items() if not key.isupper()}
    return PLAIN | others | {"environment": variables}


PEER, LIBRARY = {"runtime": "jax"}, {"kernel": "cublas"}


@pytest.mark.parametrize(
    ("change", "of", "said"),
    [
        ({}, {}, ""),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, {}, "different CUDA_LAUNCH_BLOCKING: 0 and 1"),
        ({"CUDA_LAUNCH_BLOCKING": "0"}, {}, ""),
        ({"NVIDIA_TF32_OVERRIDE": "0"}, {}, ""),
        ({"NVIDIA_TF32_OVERRIDE": "0"}, PEER, "different NVIDIA_TF32_OVERRIDE: none and 0"),
        ({"NVIDIA_TF32_OVERRIDE": "0"}, LIBRARY, "different NVIDIA_TF32_OVERRIDE"),
        ({"XLA_FLAGS": "--x"}, {}, ""),
        ({"XLA_FLAGS": "--x"}, PEER, "different XLA_FLAGS: none and --x"),
        ({"schedule": "blocking"}, {}, "different schedule of waits: auto and blocking"),
        ({"schedule": None}, {}, ""),
        ({"numa_nodes": [1]}, {}, "different NUMA node of the process: the GPU's and another"),
        ({"numa_nodes": [0, 1]}, {}, "different NUMA node of the process: the GPU's and any"),
        ({"gpu_numa_node": None}, {}, ""),
    ],
)
def test_times_are_compared_under_the_same_surroundings_only(change, of, said):
    def made(**changes):
        one = record(CELL, [1.0], surroundings=changed(**changes))
        one["traits"] = one["traits"] | {"own_runtime": of.get("runtime")}
        kernel = one["cell"]["kernel"] | ({"name": of["kernel"]} if "kernel" in of else {})
        return one | {"cell": one["cell"] | {"kernel": kernel}}

    around = [store.surroundings(made(**changes)) for changes in ({}, change)]
    rows = [row([1.0], surroundings=one) for one in around]
    found = reason(*rows, THRESHOLDS)
    assert found.startswith(said) and bool(found) == bool(said) == bool(reason(*rows[::-1], THRESHOLDS))
    unknown = row([1.0], surroundings={})
    assert reason(rows[1], unknown, THRESHOLDS) == reason(unknown, rows[1], THRESHOLDS) == ""
    of_rounds = {"x": made(), "y": made(**change) | {"round": 2}}
    if said and "NUMA" not in said:
        assert said.removeprefix("different ").partition(":")[0] in refusal(store.check_rounds, of_rounds)
    else:
        store.check_rounds(of_rounds)


@pytest.mark.gpu
def test_a_gpus_schedule_is_known_and_follows_what_was_asked_for():
    assert driver.schedule() in ("auto", "spin", "yield", "blocking")
    found = provenance.describe_surroundings(devices.find("cuda"))
    assert found["gpu_numa_node"] is None or found["gpu_numa_node"] >= 0
    library, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
    library.cuDeviceGet(ctypes.byref(device), 0)
    before = {"auto": 0, "spin": 1, "yield": 2, "blocking": 4}[driver.schedule()]
    try:
        # Older drivers refuse it of an active context.
        if library.cuDevicePrimaryCtxSetFlags_v2(device, 4) == 0:
            assert driver.schedule() == "blocking"
    finally:
        library.cuDevicePrimaryCtxSetFlags_v2(device, before)
