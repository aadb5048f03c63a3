"""The table of the device's properties, from records: of limits, and of cells without them."""

from types import SimpleNamespace

import pynvml
import pytest
from conftest import ROOT
from records_of import limits_of, record
from whole_grid import sweeps_of

from snn.config.groups import read_yaml
from snn.hardware import devices
from snn.hardware import limits as hardware
from snn.hardware.limits import BYTES, Limit, Measured
from snn.records import untrusted
from snn.tables.origin import gpu

PAPER = read_yaml(ROOT / "config/paper/gpu.yaml")
SYSTEM = {
    "memory_bytes": 150_754_820_096,
    "cuda_cores": 16896,
    "memory_clock_mhz": 3201,
    "memory_bus_bits": 6144,
    "compute_capability": "9.0",
    "copy_engines": 3,
}


def limits(read=4.53e12, properties=SYSTEM, **provenance):
    found = limits_of(**provenance)
    measured = Measured.of(found)
    rates = (*measured.limits, Limit("dram_read", None, BYTES, "", (read, read)))
    return found | Measured(rates, 132, 62_914_560, properties).plain()


def values(*records):
    """The values of the table that are not empty."""
    table = gpu.build(records, PAPER).set_index("parameter")
    assert ((table["value"] == "") == (table["note"] != "")).all()
    return {name: value for name, value in table["value"].items() if value != ""}


def test_what_no_record_says_is_not_invented():
    """Earlier records have the memory and measured rates, but neither cores nor copy engines."""
    assert set(values(limits(properties={}))) == {
        *("Measured read bandwidth (GB/s)", "Multiprocessors", "L2 cache (MB)", "Driver")
    }
    cell = sweeps_of()["neurons"].cells[0]
    of_cell = record(cell, [1.0])
    of_cell["memory"] = {"total_bytes": 150_109_880_320}
    assert values(limits(properties={}), of_cell)["Memory (GB)"] == 150


def test_several_cards_span_and_the_host_is_left_out():
    cell = sweeps_of()["neurons"].cells[0]
    host = record(cell, [1.0], backend="cpu", device="A CPU")
    found = values(host, limits(), limits(read=4.51e12, device_uuid="GPU-2"))
    assert found["Measured read bandwidth (GB/s)"] == "4510 to 4530"
    assert "CPU cores" not in found and found["Copy engines"] == 3


def test_a_cpu_has_cores_and_memory_and_nothing_to_explain():
    of_cpu = limits_of(device="Abacus", backend="cpu", host={"cpu": "Abacus", "cpus": 2})
    of_cpu["properties"] = {"memory_bytes": 1 << 34}
    table = gpu.build([of_cpu], PAPER).set_index("parameter")
    assert table.loc[["CPU cores", "Memory (GB)"], "value"].tolist() == [2, 17]
    assert set(table["note"]) == {""} and set(table["device"]) == {"Abacus"}
    assert table.loc["CUDA cores", ["value", "paper_value"]].tolist() == ["", 2560]


def test_records_of_limits_may_have_properties_and_need_not():
    with_them = limits()
    without = {key: value for key, value in with_them.items() if key != "properties"}
    for one in (with_them, without):
        untrusted.check_schema("limits", one, "limits.json")
    assert Measured.of(without).properties == {}


# ---- what the driver is asked


@pytest.fixture
def driver(monkeypatch):
    """A driver that knows two cards; what is called to begin and to end its use."""
    called = []

    def no_cores(_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    answers = {
        "nvmlInit": lambda: called.append("init"),
        "nvmlShutdown": lambda: called.append("shutdown"),
        "nvmlDeviceGetHandleByUUID": {"GPU-1": 1, "GPU-2": 2}.__getitem__,
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=handle << 30),
        "nvmlDeviceGetNumGpuCores": no_cores,
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: {pynvml.NVML_CLOCK_MEM: 3201}[kind],
        "nvmlDeviceGetMemoryBusWidth": lambda handle: 6144,
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
        "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId=f"0000:0{handle}"),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.setattr(hardware, "_copy_engines", {"0000:01": 2, "0000:02": 4}.__getitem__)
    return called


def test_properties_are_those_of_the_card_with_this_uuid(driver):
    """Copy engines used to be the first card's. A property that the driver does not know is None."""
    assert hardware.properties("GPU-2") == {
        "memory_bytes": 2 << 30,
        "cuda_cores": None,
        "memory_clock_mhz": 3201,
        "memory_bus_bits": 6144,
        "compute_capability": "9.0",
        "copy_engines": 4,
    }
    assert driver == ["init", "shutdown"]


def test_the_driver_is_left_also_where_it_fails(driver):
    with pytest.raises(KeyError):
        hardware.properties("GPU-3")
    assert driver == ["init", "shutdown"]


@pytest.mark.gpu
def test_the_properties_of_a_real_gpu():
    found = hardware.properties(devices.find("cuda").uuid)
    assert found["cuda_cores"] > 0 and found["copy_engines"] >= 1 and found["memory_bytes"] > 1 << 30
