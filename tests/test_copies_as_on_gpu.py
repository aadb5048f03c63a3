"""Copies, sparse accesses and overlap, on a CPU backend that answers as a GPU does."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from figure_layout import faults

from snn.backends.cpu.backend import CpuBackend, HostBuffer
from snn.figures import draw
from snn.microbenchmarks import memory_calls as calls
from snn.microbenchmarks.readings import Effort
from snn.tables.microbenchmarks import memory_calls

QUICK = Effort(samples=6, seconds=0.0)
MIB = 1 << 20


class AsGpu(CpuBackend):
    """NumPy with managed memory and work in streams; counts its copies and launches."""

    is_processor = False
    asynchronous = True

    def __init__(self):
        super().__init__()
        self.counts = Counter()
        self.page_locked = []

    def host_alloc(self, shape, purpose="workspace", page_locked=True):
        self.page_locked.append(page_locked)
        return super().host_alloc(shape, purpose, page_locked)

    def copy_in(self, buffer, array, stream=None):
        self.counts["copied"] += array.nbytes
        super().copy_in(buffer, array, stream)

    def launch(self, op, buffers, numbers, stream=None):
        self.counts[op] += 1
        assert buffers[0].words.size >= numbers[0] or op == "matmul"
        super().launch(op, buffers, numbers, stream)

    def managed_alloc(self, shape, purpose="workspace"):
        return np.ones(shape, np.float32)

    def managed_free(self, array):
        pass

    def managed_buffer(self, array):
        return HostBuffer(array.ravel())

    def advise(self, array, advice):
        pass

    prefetch_in = prefetch_out = lambda self, array: None


def of_kind(readings, *kinds):
    return [one for one in readings if one.point["kind"] in kinds]


def test_a_sparse_access_touches_few_pages_of_a_copy_or_of_managed_memory():
    backend = AsGpu()
    found = of_kind(calls.copies(backend, [256, MIB, 4 * MIB], QUICK), "sparse")
    assert [(one.point["call"], one.point["bytes"]) for one in found] == [
        ("pinned", MIB),
        ("pinned", 4 * MIB),
        ("managed", MIB),
        ("managed", 4 * MIB),
    ]
    assert all(one.status == "ok" and len(one.seconds) >= 6 for one in found)
    backend = AsGpu()
    calls._explicit(backend, calls.SPARSE, calls.PINNED, calls.TO_DEVICE, MIB, QUICK)
    accesses = backend.counts["copied"] // MIB
    assert backend.counts["relu"] == 8 * accesses >= 8 * 6
    backend = AsGpu()
    calls._managed(backend, calls.SPARSE, calls.MANAGED, calls.TO_DEVICE, MIB, QUICK)
    assert backend.counts["relu"] % 8 == 0 and backend.counts["copied"] == 0


@pytest.fixture(scope="module")
def overlapped():
    backend = AsGpu()
    return backend, list(calls.overlap(backend, MIB, [1, 3], QUICK))


def test_overlap_is_measured_from_pinned_and_from_pageable_memory(overlapped):
    backend, found = overlapped
    assert {one.status for one in found} == {"ok"}
    points = [tuple(one.point[key] for key in ("kind", "call", "streams")) for one in found]
    calls = ("copies", "products", "copies_and_products")
    assert points == [
        (kind, call, streams)
        for kind in ("overlap", "overlap_pageable")
        for streams in (1, 3)
        for call in calls
    ]
    assert backend.page_locked == [True, False]


def test_the_table_has_a_fraction_for_each_and_the_figure_a_line(overlapped):
    _, found = overlapped
    record = {
        "readings": [one.plain() for one in found],
        "provenance": {"device": "NVIDIA H200", "backend": "cuda"},
    }
    table = memory_calls.build(record)
    rows = table[table["call"] == "overlap"]
    assert list(zip(rows["kind"], rows["streams"], strict=True)) == [
        *(("overlap", 1), ("overlap", 3)),
        *(("overlap_pageable", 1), ("overlap_pageable", 3)),
    ]
    assert pd.api.types.is_float_dtype(rows["median"]) and rows["median"].notna().all()
    (axes,) = (drawn := draw("memory_calls", table, "")).axes
    assert drawn.axes[0].get_title() == "overlap of copies and kernels"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "pinned memory",
        "pageable memory",
    ]


def test_the_figure_of_calls_has_the_names_of_allocators_and_a_title_for_each_of_its_panels():
    calls = ["malloc", "malloc_async", "cupy_pool", "host_alloc", "managed_alloc"]
    known = {"direction": "", "live": 0, "streams": None, "median": 2.0, "low": 1.0, "high": 3.0}
    sizes = [{"kind": "allocation", "call": call, "bytes": 1 << shift} for call in calls for shift in (8, 20)]
    table = pd.DataFrame(sizes).assign(**known, status="ok", device="NVIDIA H200", backend="cuda")
    drawn = draw("memory_calls", table, "")
    assert faults(drawn) == []
    names = [text.get_text() for text in drawn.axes[0].get_legend().get_texts()]
    assert names[:3] == ["cudaMalloc", "cudaMallocAsync", "CuPy's pool"]
    assert names[3:] == ["cudaHostAlloc (pinned)", "cudaMallocManaged"]
    names = [
        text.get_text()
        for text in draw("memory_calls", table.assign(backend="cpu"), "").axes[0].get_legend().get_texts()
    ]
    assert names[0] == "malloc" and "host alloc" in names
