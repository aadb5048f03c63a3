"""Microbenchmarks: their settings, their readings on a CPU, and their tables."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from records_of import PROVENANCE, limits_of

from snn import backends, microbenchmark
from snn.analysis import microbenchmarks as of_tables
from snn.analysis.medians import median_interval
from snn.backends.access import AOS, OFFSET, SOA, STRIDE, VECTOR, Access, elements, moved_bytes
from snn.config import groups
from snn.config.groups import CONFIG, read_yaml
from snn.errors import OutOfMemory, RecordError, Unsupported
from snn.grid import microbenchmarks as of_grid
from snn.hardware import devices
from snn.hardware.devices import Device
from snn.hardware.limits import BYTES, Limit
from snn.microbenchmarks import memory_calls as calls
from snn.microbenchmarks.memory_calls import BOTH, COPIES, PRODUCTS
from snn.microbenchmarks.readings import Effort, Reading, reading
from snn.microbenchmarks.settings import SETTINGS
from snn.records import microbenchmarks as records
from snn.records import store
from snn.records.digest import sealed
from snn.tables import memory_access, memory_calls

SMALL = {
    "memory_access": {
        "bytes": "1MiB",
        "strides": [1, 8, 1024],
        "fields": [1, 8],
        "offsets": [0, 3],
        "vectors": [4],
        "samples": 6,
    },
    "memory_calls": {
        "sizes": ["256B", "1MiB"],
        "overlapped": "1MiB",
        "streams": [1, 2],
        "samples": 6,
        "seconds": 0,
    },
    "fragmentation": {
        "traces": ["batches"],
        "bytes": "1MiB",
        "calls": 100,
        "seed": 1,
        "caps": [100, 150],
        "samples": 6,
        "seconds": 0,
    },
    "memory_map": {"trace": "growing", "bytes": "1MiB", "calls": 100, "seed": 1},
    "shapes": {"shapes": 2, "seed": 570, "peers": ["resident"], "peered": 1, "samples": 6, "seconds": 0},
}
GRID = read_yaml(CONFIG / "grid.yaml")
H200, CPU = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The record of each on this CPU, by name."""
    folder = tmp_path_factory.mktemp("microbenchmarks")
    for name, settings in SMALL.items():
        path = folder / f"{name}.json"
        assert microbenchmark.main([name, json.dumps(settings), "cpu", str(path)]) == 0
    return {name: folder / f"{name}.json" for name in SMALL}


# ---- readings


def test_moved_bytes_are_those_of_the_sectors():
    n = 1 << 20

    def per_useful(pattern, value, sector=32):
        access = Access(pattern, value, copies=False)
        return moved_bytes(access, n, sector) / (4 * elements(access, n))

    assert [per_useful(STRIDE, value) for value in (1, 2, 4, 8, 32, 1024)] == [1, 2, 4, 8, 8, 8]
    assert [per_useful(AOS, fields) for fields in (1, 2, 4, 8)] == [8, 4, 2, 1]
    assert [per_useful(SOA, fields) for fields in (1, 2, 4, 8)] == [1, 1, 1, 1]
    assert [per_useful(VECTOR, width) for width in (1, 2, 4)] == [1, 1, 1]
    assert per_useful(OFFSET, 8) == 1
    assert per_useful(OFFSET, 1) == pytest.approx(5 / 4)
    assert per_useful(STRIDE, 16, sector=64) == 16


def test_what_a_device_cannot_do_is_a_reading_with_a_reason():
    def refuse(error):
        raise error

    assert reading({}, lambda: refuse(Unsupported("no"))) == Reading({}, (), "unsupported", "no")
    assert reading({}, lambda: refuse(OutOfMemory("big"))) == Reading({}, (), "out_of_memory", "big")
    with pytest.raises(ValueError, match="bad"):
        reading({}, lambda: refuse(ValueError("bad")))


def test_samples_end_with_their_number_or_their_seconds():
    calls = []
    assert len(Effort(10, 60).prepared(lambda: calls.append("call"), lambda: calls.append("before"))) == 10
    assert calls == ["before", "call"] * 11  # the first is not timed
    assert len(Effort(1000, 0).repeated(lambda: None)) == 6
    together = Effort(7, 60).together([lambda: None, lambda: None])
    assert [len(each) for each in together] == [7, 7]


def test_no_copy_is_longer_than_its_buffer(monkeypatch):
    backend = backends.make("cpu", groups.load("kernel", "naive"))
    kinds = type(backend)
    sizes, copied = {}, []
    malloc, copy_in, copy_out = kinds.malloc, kinds.copy_in, kinds.copy_out

    def noted_malloc(self, nbytes):
        buffer = malloc(self, nbytes)
        sizes[id(buffer)] = nbytes
        return buffer

    def noted_copy_in(self, buffer, array, stream=None):
        copied.append((array.nbytes, sizes[id(buffer)]))
        return copy_in(self, buffer, array, stream)

    def noted_copy_out(self, array, buffer, stream=None):
        copied.append((array.nbytes, sizes[id(buffer)]))
        return copy_out(self, array, buffer, stream)

    monkeypatch.setattr(kinds, "malloc", noted_malloc)
    monkeypatch.setattr(kinds, "copy_in", noted_copy_in)
    monkeypatch.setattr(kinds, "copy_out", noted_copy_out)
    found = list(calls.copies(backend, [5, 4098], Effort(6, 0)))
    assert {one.status for one in found if one.point["call"] == calls.PAGEABLE} == {"ok"}
    assert {4100, 8} <= {array for array, _ in copied}
    assert all(array <= buffer for array, buffer in copied)


def test_what_is_prepared_is_put_away_after_a_fault():
    held = []
    with pytest.raises(ZeroDivisionError):
        Effort(6, 1).prepared(lambda: 1 / 0, lambda: held.append(1), held.pop)
    assert not held


def test_the_interval_of_a_median_holds_it_in_95_of_100():
    """Exactly: P(low <= median <= high) by the binomial distribution, and no narrower pair reaches it."""
    assert median_interval([3.0, 1.0, 2.0, 4.0, 6.0, 5.0]) == (3.5, 1.0, 6.0)
    assert all(map(math.isnan, median_interval([1.0, 2.0])[1:]))
    random = np.random.default_rng(1)
    for count in (6, 20, 31):
        draws = np.sort(random.exponential(size=(4000, count)))
        held = [low <= math.log(2) <= high for _, low, high in map(median_interval, draws.tolist())]
        assert 0.94 < np.mean(held) < 0.995
    middle, low, high = median_interval(list(range(31)))
    assert (middle, low, high) == (15, 9, 21)


# ---- records and tables


def test_a_cpu_measures_what_has_a_meaning_there_and_gives_a_reason_for_the_rest(measured):
    calls = memory_calls.build(records.read(measured["memory_calls"]))
    ok = calls[calls["status"] == "ok"]
    assert set(zip(ok["kind"], ok["call"], strict=True)) == {("allocation", "malloc"), ("copy", "pageable")}
    assert (ok["low"] <= ok["median"]).all()
    assert (ok["median"] <= ok["high"]).all()
    rest = calls[calls["status"] != "ok"]
    assert (rest["status"] == "unsupported").all()
    assert rest["reason"].str.len().gt(10).all()
    assert rest[["median", "low", "high"]].isna().all(axis=None)
    copies = ok[ok["kind"] == "copy"].set_index(["direction", "bytes"])["median"]
    assert copies["to_device", 1 << 20] > copies["to_device", 256]

    access = memory_access.build(records.read(measured["memory_access"]))
    done = access["status"] == "ok"
    assert (done == ((access["access"] == "copy") & (access["pattern"] != VECTOR))).all()
    rows = access[done].set_index(["pattern", "value"])
    ratio = rows["moved_gb_s"] / rows["median"]
    assert ratio[STRIDE, 1] == ratio[AOS, 8] == 1
    assert ratio[STRIDE, 8] == ratio[AOS, 1] == 8
    assert rows["median"][STRIDE, 1] > rows["median"][STRIDE, 8]
    assert set(calls["device"]) == set(access["device"]) == {devices.find("cpu").name}


def of_gpu(name, readings):
    """A record of a microbenchmark of a GPU."""
    provenance = {**PROVENANCE, "source_hash": "0" * 16}
    return sealed(
        {
            "microbenchmark_version": 1,
            "name": name,
            "settings": SMALL[name],
            "readings": [each.plain() for each in readings],
            "machine": {},
            "provenance": provenance,
        }
    )


def test_bandwidths_stand_beside_the_limits_of_their_device():
    point = {"pattern": STRIDE, "value": 8, "access": "read", "useful_bytes": 1000, "moved_bytes": 8000}
    record = of_gpu("memory_access", [Reading(point, (1e-9, 2e-9, 4e-9, 2e-9, 2e-9, 1e-9))])
    rate, limits = 4e12, limits_of()
    limits["limits"].append({**vars(Limit("dram_read", None, BYTES, "")), "samples": [rate]})
    row = memory_access.build(record, limits).iloc[0]
    assert (row["median"], row["low"], row["high"]) == pytest.approx((500, 250, 1000))
    assert row["moved_gb_s"] == pytest.approx(4000)
    assert row["limit_gb_s"] == pytest.approx(rate / 1e9)
    assert row["fraction_of_limit"] == pytest.approx(500e9 / rate)
    assert np.isnan(memory_access.build(record).iloc[0]["fraction_of_limit"])
    other = limits_of(device_uuid="GPU-2")
    assert memory_access.build(record, other, limits).iloc[0]["limit_gb_s"] == pytest.approx(rate / 1e9)
    with pytest.raises(RecordError, match="measure one of them again"):
        memory_access.build(record, other)


def test_overlap_is_what_streams_hide_of_the_shorter_part():
    def part(call, *seconds):
        return Reading({"kind": "overlap", "call": call, "bytes": 64, "streams": 2}, seconds)

    parts = [part(COPIES, *6 * [4.0]), part(PRODUCTS, *6 * [2.0]), part(BOTH, 6, 6, 5, 5, 4, 4)]
    table = memory_calls.build(of_gpu("memory_calls", parts))
    row = table[table["call"] == "overlap"].iloc[0]
    assert (row["unit"], row["median"], row["low"], row["high"]) == ("fraction", 0.5, 0.0, 1.0)
    assert (row["streams"], row["samples"], row["status"]) == (2, 6, "ok")
    assert list(table["median"][:3]) == [4e6, 2e6, 5e6]


def test_a_record_is_read_with_its_settings_and_sources_only(measured, tmp_path):
    path = measured["memory_calls"]
    record = records.read(path)
    source_hash = of_grid.source_hash("memory_calls", devices.find("cpu"))
    assert of_tables.read(path, SMALL["memory_calls"], source_hash) == record
    with pytest.raises(RecordError, match="measured with other settings"):
        of_tables.read(path, {**SMALL["memory_calls"], "samples": 7}, source_hash)
    with pytest.raises(RecordError, match="measured with other sources"):
        of_tables.read(path, SMALL["memory_calls"], "0" * 16)

    def changed(**keys):
        store.write(tmp_path / "changed.json", {**record, **keys})
        return tmp_path / "changed.json"

    first = record["readings"][0]
    without_reason = sealed({**record, "readings": [{**first, "seconds": []}]})
    for keys, said in (
        ({"name": "memory_access"}, "it was changed after it was written"),
        ({"microbenchmark_version": 9}, "microbenchmark version 9"),
        (without_reason, "must have either samples or a reason"),
        (sealed({**record, "readings": [{**first, "seconds": [-1.0]}]}), r"readings\[0\].seconds\[0\] is -1"),
        (
            sealed({**record, "readings": [{**first, "series": {"place": [1], "bytes": []}}]}),
            r"readings\[0\].series has lists of different lengths",
        ),
    ):
        with pytest.raises(RecordError, match=said):
            records.read(changed(**keys))


def test_kernels_decide_what_is_measured_on_a_gpu_only():
    hashes = {of_grid.source_hash(name, device) for name in SETTINGS for device in (H200, CPU)}
    assert len(hashes) == 2 * len(SETTINGS)


def test_tables_have_plain_columns(measured):
    calls = memory_calls.build(records.read(measured["memory_calls"]))
    assert list(calls)[:10] == [
        *("kind", "call", "direction", "bytes", "live", "streams"),
        *("median", "low", "high", "unit"),
    ]
    access = memory_access.build(records.read(measured["memory_access"]))
    assert list(access)[:8] == [
        *("pattern", "value", "access", "useful_bytes", "moved_bytes", "median", "low", "high")
    ]
    assert pd.api.types.is_float_dtype(calls["median"])
