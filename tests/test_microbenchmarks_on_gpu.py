"""Microbenchmarks on a GPU: bandwidths beside its limits, plausible times, kernels against NumPy."""

import numpy as np
import pytest
from conftest import ROOT
from test_kernels_on_cpu import visits
from test_microbenchmarks import SMALL

from snn import backends, measure_device
from snn.backends.access import accesses
from snn.config import groups
from snn.hardware import devices
from snn.microbenchmarks import memory_calls
from snn.microbenchmarks.settings import resolved
from snn.tables.microbenchmarks import memory_access
from snn.tables.microbenchmarks import memory_calls as memory_calls_form


@pytest.fixture(scope="module")
def limits_and_access():
    settings = {**SMALL["memory_access"], "bytes": "1GiB", "strides": [1, 8], "offsets": [0, 1]}
    gpu = devices.find("cuda")
    return measure_device.limits_record(gpu), measure_device.microbenchmark_record(
        "memory_access", settings, gpu
    )


@pytest.mark.gpu
@pytest.mark.alone
def test_neighbouring_accesses_reach_the_limit_of_a_gpu_and_strides_waste_it(limits_and_access):
    limits, record = limits_and_access
    table = memory_access.build(record, limits).set_index(["pattern", "value", "access"])
    assert (table["status"] == "ok").all()
    assert (table["fraction_of_limit"] < 1.1).all()
    assert table.loc["stride", 1, "read"]["fraction_of_limit"] >= 0.9
    assert table.loc["stride", 1, "copy"]["fraction_of_limit"] >= 0.8  # one float at a time: 0.88 on an H200
    for access in ("read", "copy"):
        assert table.loc["vector", 4, access]["fraction_of_limit"] >= 0.9
        offset = table.loc["offset", 1, access]["fraction_of_limit"]
        assert 0.25 < offset < table.loc["offset", 0, access]["fraction_of_limit"]
        assert table.loc["stride", 8, access]["fraction_of_limit"] < 0.25
        assert table.loc["array of structures", 1, access]["fraction_of_limit"] < 0.25


@pytest.mark.gpu
@pytest.mark.alone
def test_memory_calls_of_a_gpu_are_plausible():
    wanted = resolved(
        "memory_calls", {**SMALL["memory_calls"], "sizes": ["256KiB", "64MiB"], "overlapped": "64MiB"}
    )
    wanted |= {"seconds": 0.1, "samples": 31, "streams": [1, 4]}
    backend = backends.make("cuda", groups.load("kernel", "naive"))
    free, _ = backend.memory()
    found = list(memory_calls.measure("cuda", wanted))
    assert free - backend.memory()[0] < 512 << 20  # the runtime keeps some for managed memory
    assert {one.status for one in found} <= {"ok", "unsupported"}
    assert {one.point["call"] for one in found if one.status != "ok"} <= {"managed", "managed_prefetch"}
    us = {
        tuple(one.point.values()): 1e6 * sorted(one.seconds)[len(one.seconds) // 2]
        for one in found
        if one.seconds
    }
    small, large = 1 << 18, 1 << 26
    assert us["allocation", "cupy_pool", small, 0] < us["allocation", "malloc", small, 0]
    assert us["allocation", "malloc_async", small, 0] < 10
    for direction in ("to_device", "to_host"):
        assert us["copy", "pinned", direction, small] < us["copy", "pageable", direction, small]
        rate = large / us["copy", "pinned", direction, large] / 1e3
        assert 2 < rate < 1000  # GB/s
    overlapped = overlap_of(found)
    assert -0.3 < overlapped[1] < 0.3
    assert 0.3 < overlapped[4] < 1.2


def overlap_of(found):
    """The overlap by the number of streams."""
    record = {"readings": [one.plain() for one in found], "provenance": {"device": "", "backend": "cuda"}}
    rows = memory_calls_form.build(record).query("kind == 'overlap' and call == 'overlap'")
    return dict(zip(rows["streams"], rows["median"], strict=True))


@pytest.mark.gpu
def test_kernels_of_a_gpu_visit_what_numpy_visits():
    """As on the CPU, with the blocks and the compiler of the device."""
    import cupy

    from snn.backends.cuda import timing

    n = 100_003
    values = {"strides": (1, 3, 1024), "fields": (1, 2, 4, 8), "offsets": (0, 31), "vectors": (1, 2, 4)}
    source = np.random.default_rng(1).integers(-99, 99, n).astype(np.float32)
    for access in accesses(values):
        kernel = timing.load(ROOT / access.source).get_function(access.kernel)
        given, target = cupy.asarray(source), cupy.full(n if access.copies else 7 * 256, -1, np.float32)
        arguments = (np.uint32(access.count(n)), np.uint32(access.value), np.int32(2))
        kernel((7,), (256,), (given, target, *arguments))
        times = visits(access, n) + visits(access, n, 1)
        if access.copies:
            np.testing.assert_array_equal(target.get(), np.where(times, source, -1))
        else:
            assert target.get().sum(dtype=np.float64) == (source * times).sum(dtype=np.float64)
