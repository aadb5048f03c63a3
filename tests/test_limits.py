"""The limits of a device: measured where there is one, as a record, and as a table."""

import json
import re

import pandas as pd
import pytest
from conftest import ROOT

from snn import cli, measure_device
from snn.analysis import roofline
from snn.errors import RecordError
from snn.grid import fingerprint
from snn.hardware import devices
from snn.hardware.limits import SECONDS, Measured
from snn.tables.origin import device_limits

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


def test_limits_of_other_sources_and_what_are_none_are_refused(of_cpu, tmp_path):
    with pytest.raises(RecordError, match="measured with other sources"):
        roofline.read_limits(of_cpu, "0123")
    for text, said in (("{", "not a record"), ("[]", "version None"), ('{"limits_version": 9}', "version 9")):
        path = tmp_path / "some.json"
        path.write_text(text)
        with pytest.raises(RecordError, match=said):
            roofline.read_limits(path)


def test_kernels_decide_the_limits_of_a_gpu_only():
    kernels = {f"kernels/limits/{name}.cu" for name in ("rates", "waits", "latencies")}
    kernels |= {"snn/backends/cuda/limits.py"}
    assert kernels <= set(fingerprint.limits_sources("cuda"))
    assert not kernels & set(fingerprint.limits_sources("cpu"))
    assert "snn/analysis/roofline.py" not in fingerprint.limits_sources("cuda")


def test_usage(capsys, tmp_path):
    assert cli.main(["measure-limits"]) == 2
    assert "cuda|cpu OUTPUT" in capsys.readouterr().err
    assert cli.main(["measure-limits", "tpu", str(tmp_path / "x.json")]) == 2
    assert "device is 'tpu'" in capsys.readouterr().err


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


@pytest.mark.gpu
def test_clusters_are_where_there_are_some_and_say_why_elsewhere(of_gpu):
    table = device_limits.build(of_gpu)
    clusters = table[table["limit"].str.startswith("cluster")]
    assert len(clusters) == 8
    assert pd.notna(clusters["blocks"]).all()
    assert (clusters["median"].isna() == (clusters["reason"] != "")).all()
