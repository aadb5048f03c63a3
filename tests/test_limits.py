"""A device: the table of its properties, and its limits, measured where there is one."""

import json
import re
from types import SimpleNamespace

import pandas as pd
import pynvml
import pytest
from conftest import ROOT
from real_records import refusal
from records_of import limits_of, record
from whole_grid import sweeps_of

from snn import cli, measure_device
from snn.analysis import roofline
from snn.config.groups import read_yaml
from snn.grid import fingerprint
from snn.hardware import devices
from snn.hardware import limits as hardware
from snn.hardware.limits import BYTES, SECONDS, Limit, Measured, too_old
from snn.records import untrusted
from snn.tables.origin import device_limits, gpu

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
    without = {key: value for key, value in limits().items() if key != "properties"}
    untrusted.check_schema("limits", without, "limits.json")
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
    """A property that the driver does not know is None. The driver is left also if it fails."""
    known = {"memory_bytes": 2 << 30, "cuda_cores": None, "copy_engines": 4}
    assert hardware.properties("GPU-2") == SYSTEM | known
    assert driver == ["init", "shutdown"]
    with pytest.raises(KeyError):
        hardware.properties("GPU-3")
    assert driver == ["init", "shutdown"] * 2


@pytest.mark.gpu
def test_the_properties_of_a_real_gpu():
    found = hardware.properties(devices.find("cuda").uuid)
    assert found["cuda_cores"] > 0 and found["copy_engines"] >= 1 and found["memory_bytes"] > 1 << 30


# ---- the limits of a device: measured where there is one, as a record, and as a table

ON_CPU = {"fp32", "dram_copy"}


@pytest.fixture(scope="module")
def of_cpu(tmp_path_factory):
    path = tmp_path_factory.mktemp("limits") / "cpu.json"
    assert cli.main(["measure-limits", "cpu", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def of_gpu():
    return measure_device.limits_record(devices.find("cuda"))


def test_a_processor_has_a_product_rate_and_a_bandwidth(of_cpu):
    record = roofline.read_limits(of_cpu, fingerprint.limits_sources("cpu").digest)
    table = device_limits.build(record).set_index("limit")
    assert set(table.index[table["status"] == "ok"]) == ON_CPU
    assert (table.loc[list(ON_CPU), "median"] > 0.1).all()
    none = table.drop(list(ON_CPU))
    assert none["median"].isna().all()
    assert set(none["reason"]) == {"needs a CUDA device"}
    assert set(table["device"]) == {devices.find("cpu").name}
    assert Measured.of(record).plain() == {key: record[key] for key in Measured.of(record).plain()}


def test_limits_of_other_sources_and_what_are_none_are_refused(of_cpu, tmp_path, capsys):
    assert "measured with other sources" in refusal(roofline.read_limits, of_cpu, "0123")
    path = tmp_path / "some.json"
    for text, said in (("{", "not a record"), ("[]", "version None"), ('{"limits_version": 9}', "version 9")):
        path.write_text(text)
        assert said in refusal(roofline.read_limits, path)
    for arguments, said in (([], "cuda|cpu OUTPUT"), (["tpu", str(path)], "device is 'tpu'")):
        assert cli.main(["measure-limits", *arguments]) == 2
        assert said in capsys.readouterr().err
    # A T4 has tensor cores for FP16; the instruction with 16 values of k is newer.
    said = "compute capability 7.5, but the instruction that is measured, mma.m16n8k16 of fp16, needs 8.0"
    assert too_old((7, 5), (8, 0), "mma.m16n8k16 of fp16") == said


def test_kernels_decide_the_limits_of_a_gpu_only():
    kernels = {f"kernels/limits/{name}.cu" for name in ("rates", "waits", "latencies")}
    kernels |= {"snn/backends/cuda/limits.py"}
    assert kernels <= set(fingerprint.limits_sources("cuda"))
    assert not kernels & set(fingerprint.limits_sources("cpu"))
    assert "snn/analysis/roofline.py" not in fingerprint.limits_sources("cuda")


def test_a_chain_visits_every_line_once():
    """As kernels/limits/latencies.cu goes on from a line, for any number of lines that is a power of two."""
    text = (ROOT / "kernels/limits/latencies.cu").read_text(encoding="utf-8")
    factor, term = map(int, re.search(r"line \* (\d+)u \+ (\d+)u\) & \(lines - 1\)", text).groups())
    for lines in (1, 2, 128, 1 << 16):
        line, visited = 0, set()
        for _ in range(lines):
            visited.add(line)
            line = (line * factor + term) % (1 << 32) & (lines - 1)
        assert len(visited) == lines and line == 0


@pytest.mark.gpu
def test_a_gpus_limits_are_plausible(of_gpu):
    measured = Measured.of(json.loads(json.dumps(of_gpu)))
    found = {(one.what, one.blocks): one.value for one in measured.limits}
    assert all(value is None or value > 0 for value in found.values())
    assert all(bool(one.samples) != bool(one.reason) for one in measured.limits)
    count = measured.multiprocessors
    for what in ("fp32", "tf32", "fp16", "bf16"):
        if found[what, 1]:
            assert 0.5 * count < found[what, count] / found[what, 1] < 1.1 * count
    if found["tf32", count]:
        assert found["tf32", count] > found["fp32", count]
        assert min(found["bf16", count], found["fp16", count]) > found["tf32", count]
    assert found["l2_read", None] > found["dram_read", None] > 1e10
    assert all(1e-7 < found[what, 1] < 1e-3 for what in ("launch", "launch_compiled", "graph_node"))
    methods = {one.what: one.how for one in measured.limits}
    assert "Python" in methods["launch"] and "compiled" in methods["launch_compiled"]
    waits = [one for one in measured.limits if one.unit == SECONDS and one.blocks != 1 and one.samples]
    assert waits
    assert all(5e-8 < one.value < 50e-6 for one in waits)
    assert found["grid_exchange", 2] <= 1.2 * found["grid_exchange", count]
    assert of_gpu["provenance"]["elapsed_seconds"] < 20
    cycles = [found[f"{what}_latency", 1] for what in ("shared", "l1", "l2", "dram")]
    assert min(cycles) > 10 and max(cycles[:2]) < cycles[2] < cycles[3] < 3000
    assert 1 <= found["register_latency", 1] < min(cycles)
    # Five shuffles in turn, 25 cycles if the compiler removes them; the additions of all lanes in turn
    lanes = 32
    assert 60 < found["sum_by_shuffles", 1] < 3000 and 5 < found["sum_by_atomics", 1] < 500 * lanes


@pytest.mark.gpu
def test_clusters_are_where_there_are_some_and_say_why_elsewhere(of_gpu):
    table = device_limits.build(of_gpu)
    clusters = table[table["limit"].str.startswith("cluster")]
    assert len(clusters) == 8
    assert pd.notna(clusters["blocks"]).all()
    assert (clusters["median"].isna() == (clusters["reason"] != "")).all()
