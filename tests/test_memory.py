"""Memory by purpose and layout, and a device that is full: what is said, and which batch would fit."""

import re
from dataclasses import replace
from functools import cache

import psutil
import pytest
from conftest import STRATEGIES
from every_source import Captures
from hypothesis import given
from hypothesis import strategies as st
from test_measure import JOB, RULES

from snn import backends
from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches import TrainingLaunch
from snn.config import groups
from snn.config.compose import composed
from snn.errors import OutOfMemory, out_of_memory
from snn.measurement import cell, runs
from snn.models.network import mlp
from snn.profiling import memory
from snn.profiling.ledger import MemoryMap, Space, by_purpose, layout
from snn.profiling.memory import CHUNK
from snn.profiling.observed import Call, ObservedBackend, Ref, Resource, held
from snn.profiling.rehearsal import advice, rehearse
from snn.strategies import factory
from snn.strategies.host_driven import HostDriven

KIB = 1024


def brute_force(blocks, chunk):
    """The layout byte by byte."""
    used = {byte for address, nbytes in blocks for byte in range(address, address + nbytes)}
    chunks = {byte // chunk for byte in used}
    reserved = sorted(byte for one in chunks for byte in range(one * chunk, (one + 1) * chunk))
    longest = run = 0
    for i, byte in enumerate(reserved):
        after_gap = i > 0 and reserved[i - 1] != byte - 1
        run = 0 if byte in used else (1 if after_gap else run + 1)
        longest = max(longest, run)
    return len(used), len(reserved), longest


@given(
    pieces=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 12)), max_size=8),
    chunk=st.sampled_from([4, 8]),
)
def test_layout(pieces, chunk):
    blocks, at = [], 0
    for gap, nbytes in pieces:
        blocks.append((at + gap, nbytes))
        at += gap + nbytes
    found = layout(reversed(blocks), chunk)
    live, reserved, longest = brute_force(blocks, chunk)
    assert (found.live_bytes, found.reserved_bytes, found.largest_free_bytes) == (live, reserved, longest)
    free = reserved - live
    assert found.fragmentation == pytest.approx(1 - longest / free if free else 0)
    assert found.stranded_bytes == free - longest


class Addressed(CpuBackend):
    """Device memory at addresses of our choosing, one block behind the other."""

    def __init__(self, free=CHUNK, total=CHUNK):
        super().__init__()
        self.next, self.at = 0, {}
        self.left, self.total = free, total

    def malloc(self, nbytes, kind=None):
        if nbytes > self.left:
            raise out_of_memory("malloc", nbytes, *self.memory())
        buffer = super().malloc(nbytes, kind)
        self.at[buffer] = (self.next, nbytes)
        self.next += nbytes
        self.left -= nbytes
        return buffer

    def free(self, buffer):
        self.left += self.at.pop(buffer)[1]
        super().free(buffer)

    def address(self, buffer):
        return self.at[buffer][0]

    def memory(self):
        return self.left, self.total


@pytest.mark.gpu
def test_a_planted_pattern_of_holes_on_the_gpu(cuda_backend):
    memory_map = MemoryMap()
    observed = ObservedBackend(cuda_backend, memory_map)
    blocks = [observed.malloc(64 * KIB) for _ in range(128)]  # 8 MiB: more than one chunk can strand
    whole = memory_map.device.describe()
    for block in blocks[::2]:
        observed.free(block)
    holes = memory_map.device.describe()
    for block in blocks[1::2]:
        observed.free(block)
    assert whole["worst_stranded_bytes"] <= CHUNK
    assert holes["worst_stranded_bytes"] >= 60 * 64 * KIB


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_peak_by_kind_is_the_peak(name, backend):
    job = replace(JOB, strategy=groups.load("strategy", name), network=mlp((4, 5, 3, 1)))
    ledger, found = runs.count(job, backend)
    device, locked = found["device"], found["page_locked"]
    assert sum(device["peak_by_kind"].values()) == device["peak_bytes"] == ledger["peak_device_bytes"]
    assert sum(locked["peak_by_kind"].values()) == locked["peak_bytes"] == ledger["peak_host_bytes"]
    assert set(device["peak_by_kind"]) <= set(memory.PURPOSES)
    assert device["reserved_bytes"] >= device["peak_bytes"]
    kind = factory.class_of(job.strategy)
    where = locked if issubclass(kind, HostDriven) else device
    if where["peak_bytes"]:
        padded = 16 * 16 + 16 * 16 + 16
        members = job.strategy.get("starts", 1)
        assert where["peak_by_kind"]["weights"] == 4 * members * (padded if kind.at_once else 20 + 15 + 3)
        assert where["peak_by_kind"]["data"] >= 4 * JOB.X.shape[1]


def test_a_buffer_is_of_the_kind_of_what_is_copied():
    """The reference's largest product is H = X W1: data, weights, and activations copied out."""
    job = replace(JOB, network=mlp((4, 50, 1)))
    device = runs.count(job, CpuBackend())[1]["device"]
    assert device["peak_by_kind"] == {"data": 4 * 16, "weights": 4 * 200, "activations": 4 * 200}


def test_sizes_for_readers():
    sizes = {0: "0 bytes", 12: "12 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1025: "1.001 KiB"}
    sizes |= {3 << 20: "3 MiB", 5 << 30: "5 GiB", 1 << 40: "1024 GiB"}
    assert {n: memory.size(n) for n in sizes} == sizes
    assert [memory.count(n, "block") for n in (0, 1, 2)] == ["0 blocks", "1 block", "2 blocks"]


def block(nbytes, purpose=None, address=0, site="here"):
    return Resource(Ref(1, 0, nbytes), None, Call("malloc", call_site=site), address, purpose)


def test_what_holds_memory_is_named_largest_first():
    data = block(8, "data", site="a")
    blocks = [data, block(2048, site="b"), data, block(20, site="a")]
    said = "1 block with 2 KiB from b, 1 block with 20 bytes from a, 2 data blocks with 16 bytes from a"
    assert held(blocks) == said
    assert by_purpose(blocks) == {"data": 16, "workspace": 2068}
    assert by_purpose([]) == {}


def test_a_space_keeps_its_peak_and_its_worst_layout():
    space = Space()
    assert not any(space.describe().values())
    quarter = CHUNK // 4
    assert [space.add(i, block(quarter, "data", i * quarter)) for i in range(4)] == [True] * 4
    space.remove(0)
    space.remove(2)
    assert not space.add(5, block(quarter, "weights", 0))
    assert not space.add(6, block(quarter, "weights", 2 * quarter))  # as much as before
    found = space.describe()
    assert found["peak_bytes"] == space.live_bytes == CHUNK == 2 << 20
    assert found["peak_by_kind"] == {"data": CHUNK}
    assert (found["reserved_bytes"], found["largest_free_bytes"], found["fragmentation"]) == (CHUNK, 0, 0.0)
    assert (found["worst_stranded_bytes"], found["worst_fragmentation"]) == (quarter, 0.5)
    for number in (1, 3, 5, 6):
        space.remove(number)
    assert space.live_bytes == 0 and space.describe() == found


def test_memory_of_the_host_is_mapped_where_it_is_page_locked():
    memory_map = MemoryMap()
    observed = ObservedBackend(Addressed(), memory_map)
    locked, pageable = observed.host_alloc((4,), "data"), observed.host_alloc((8,), "data", False)
    device = observed.malloc(64, "weights")
    found = memory_map.describe(observed)
    assert found["page_locked"]["peak_bytes"] == 16 and found["device"]["peak_bytes"] == 64
    assert (found["least_free_bytes"], found["total_bytes"], found["warnings"]) == (CHUNK - 64, CHUNK, [])
    for array in (locked, pageable):
        observed.host_free(array)
    observed.free(device)
    assert not memory_map.page_locked.blocks and not memory_map.device.blocks
    assert memory_map.describe(observed) == found
    untouched = MemoryMap().describe(Addressed(7, 100))
    assert (untouched["least_free_bytes"], untouched["total_bytes"]) == (7, 100)
    assert untouched["warnings"] == ["93% of the memory was in use: 7 bytes of 100 bytes were left"]


def test_the_memory_of_a_cpu_is_in_bytes():
    free, total = CpuBackend().memory()
    system = psutil.virtual_memory()
    assert total == system.total
    assert system.available / 2 < free < 2 * system.available


def full(free):
    return replace(JOB, network=mlp((4, 50, 1))), Addressed(free, 10_000)


def test_a_planted_lack_of_memory_says_what_was_asked_free_held_and_would_fit():
    job, backend = full(free=1200)
    found = runs.measure(job, RULES, backend)
    assert found.status == "out_of_memory"
    assert "malloc of 800 bytes failed: 336 of 10000 bytes are free" in found.reason
    assert "held: 2 blocks with 864 bytes from snn/strategies/host_driven.py:" in found.reason
    assert "asked by snn/strategies/host_driven.py:" in found.reason
    assert backend.memory() == (1200, 10_000)  # nothing is kept
    # Half the batch: two rows of X, W1, two rows of H.
    assert advice(job, 1300, backend) == "training.batch_size=2 would fit: 1.203 KiB of 1.27 KiB free"
    assert advice(job, 900, backend).startswith("no batch size would fit: one row per batch needs ")


def job_of(name, batch):
    return replace(JOB, strategy=groups.load("strategy", name), batch_size=batch)


@cache
def peak(name, batch):
    return rehearse(job_of(name, batch), len(JOB.X), Captures()).nbytes


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("batch", [1, 2, 7, 10])
def test_a_batch_that_would_fit_is_named_where_one_does(name, batch):
    job, backend = job_of(name, batch), Captures()
    if not peak(name, 1):
        pytest.skip("uses no device memory")
    assert advice(job, 0, backend).startswith("no batch size would fit: ")
    for smaller in {batch // 2, 1} if batch > 1 else ():
        found = advice(job, peak(name, smaller), backend)
        fits = int(re.match(r"training\.batch_size=(\d+) would fit: ", found)[1])
        assert fits >= smaller
        assert peak(name, fits) <= peak(name, smaller)


class Unloaded(Addressed):
    """Has no room for a kernel when it is asked for the second time."""

    asked = 0

    def training_launch(self, shape):
        self.asked += 1
        if self.asked > 1:
            raise OutOfMemory("no room for the kernel")
        return TrainingLaunch("one cluster")


@pytest.mark.parametrize(
    ("full", "chosen", "advised"),
    [
        (Addressed(900_000, 2**30), ["dataset=medium", "strategy=combined"], "training.batch_size="),
        (Addressed(1000, 2**30), ["dataset=small"], "no batch size would fit"),  # nor has the probe room
        (Unloaded(1000, 2**30), ["dataset=small", "strategy=ensemble"], ""),
    ],
)
def test_a_cell_that_runs_out_of_memory_leaves_a_record(monkeypatch, full, chosen, advised):
    monkeypatch.setattr(backends, "make", lambda *arguments: full)
    found = cell.run(composed(["device=cpu", "protocol=brief", *chosen]))
    assert (found["status"], found["runs"], found["explanation"]) == ("out_of_memory", [], None)
    assert advised in found["reason"] and ("would fit" in found["reason"]) == bool(advised)
    probe = found["machine"]["probe"]
    assert probe == {"before": {}, "after": {}} or "medium" in chosen[0]


def test_a_full_device_is_warned_of():
    job, _ = full(0)
    # 1,664 bytes at the peak leave 236 of 1,900: of 20,000 much was in use before.
    for total, warned in ((20_000, True), (2_000, False)):
        found = runs.count(job, Addressed(1_900, total))[1]
        assert bool(found["warnings"]) == warned
        assert found["least_free_bytes"] == 236
    for free, total, warned in ((100, 1000, False), (99, 1000, True), (0, 0, False), (1000, 1000, False)):
        assert bool(MemoryMap().describe(Addressed(free, total))["warnings"]) == warned


def test_host_memory_that_cannot_be_had_is_an_outcome():
    with pytest.raises(OutOfMemory, match="bytes are free"):
        CpuBackend().host_alloc((1 << 60,))
