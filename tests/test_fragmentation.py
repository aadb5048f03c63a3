"""Traces of allocations, allocators, and what fragmentation and memory_map measure of a replay."""

import io
from collections import Counter
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from every_source import EverySource
from figure_layout import dots, faults, said_in
from hypothesis import given
from hypothesis import strategies as st
from records_of import PROVENANCE

from snn import backends
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.errors import OutOfMemory, out_of_memory
from snn.figures import draw
from snn.microbenchmarks import fragmentation, memory_map
from snn.microbenchmarks.allocators import (
    ALLOCATORS,
    CUPY_POOL,
    FIRST_FIT,
    MALLOC,
    MALLOC_ASYNC,
    TRACES,
    Allocations,
    FirstFit,
    Trace,
    allocator,
    recorded,
    reserved_bytes,
    trace,
    watch,
)
from snn.models.network import mlp
from snn.profiling.ledger import Ledger
from snn.profiling.observed import ObservedBackend
from snn.strategies import factory
from snn.strategies.factory import Job, start
from snn.tables.microbenchmarks import fragmentation as fragmentation_table
from snn.tables.microbenchmarks import memory_map as memory_map_table

MIB = 1 << 20


# ---- allocators


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50)), max_size=60))
def test_the_first_fit_pool_hands_out_whole_blocks_and_keeps_them(steps):
    backend = Device()
    pool, alive = FirstFit(backend), []
    for frees, size in steps:
        if frees and alive:
            pool.free(alive.pop(size % len(alive))[0])
            continue
        had = backend.reserved
        fitting = [block for block in pool._blocks if not block[2] and block[1] >= size]
        block = pool.malloc(size)
        assert block[1] >= size and all(block is not other for other, _ in alive)
        assert backend.reserved == (had if fitting else had + rounded(size))
        if fitting:
            assert block is fitting[0]
        alive.append((block, size))
    pool.close()
    assert backend.reserved == 0


def rounded(nbytes):
    return -(-nbytes // (2 * MIB)) * 2 * MIB


class Device(EverySource):
    """A device of ``total`` bytes that maps 2 MiB at a time for each block; its pools keep what they had."""

    is_processor = False

    def __init__(self, total=1 << 34):
        super().__init__()
        self.total, self.reserved, self.next = total, 0, 0
        self.made, self.count = {}, Counter()

    def malloc(self, nbytes, kind=None):
        if self.reserved + rounded(nbytes) > self.total:
            raise out_of_memory("malloc", nbytes, *self.memory())
        self.reserved += rounded(nbytes)
        self.next += 1
        self.made[self.next] = nbytes
        self.count["malloc"] += 1
        return self.next

    def free(self, buffer):
        self.reserved -= rounded(self.made.pop(buffer))

    def address(self, buffer):
        return buffer << 40

    def memory(self):
        return self.total - self.reserved, self.total

    def pool_create(self, stream=None):
        return FirstFit(self)

    def pool_destroy(self, pool):
        assert not any(block[2] for block in pool._blocks)
        pool.close()

    def pool_malloc(self, pool, nbytes, kind=None):
        return pool.malloc(nbytes)

    def pool_free(self, pool, buffer):
        pool.free(buffer)


@pytest.mark.parametrize("name", ALLOCATORS)
def test_a_replay_leaves_nothing_behind_even_where_an_allocation_fails(name):
    traced = trace("random_lifetimes", 64 * MIB, 200, 1)
    for total in (1 << 34, 32 * MIB):
        device = Device(total)
        try:
            with allocator(device, name) as made:
                reserved, _ = watch(device, traced, made, reserved_bytes(device))
            assert total == 1 << 34
            assert len(reserved) == len(traced.events)
            assert max(reserved) >= traced.peak_bytes
            if name == MALLOC:
                blocks = {event.block: event.nbytes for event in traced.events if event.nbytes}
                alive, most = set(), 0
                for event in traced.events:
                    alive ^= {event.block}
                    most = max(most, sum(rounded(blocks[block]) for block in alive))
                assert max(reserved) == most
        except OutOfMemory:
            assert total < 1 << 34
        assert device.reserved == 0


def test_what_malloc_has_of_the_system_is_known_on_this_cpu():
    backend = CpuBackend()
    reserved = reserved_bytes(backend)
    before = reserved()
    block = backend.malloc(64 * MIB)
    assert 64 * MIB <= reserved() - before <= 66 * MIB
    backend.free(block)
    assert reserved() - before < 2 * MIB


# ---- the microbenchmarks


SETTINGS = {"bytes": 64 * MIB, "calls": 200, "seed": 3}
FRAGMENTATION = {
    **SETTINGS,
    "traces": ["growing", "random_lifetimes"],
    "caps": [100, 150, 1000],
    "samples": 6,
    "seconds": 0.0,
}


def of(device, module, asked, monkeypatch):
    monkeypatch.setattr(backends, "make", lambda *arguments: device)
    return {"readings": [one.plain() for one in module.measure("cuda", asked)], "provenance": PROVENANCE}


def test_a_table_says_what_each_allocator_reserves_and_how_little_suffices(monkeypatch):
    device = Device()
    table = fragmentation_table.build(of(device, fragmentation, FRAGMENTATION, monkeypatch))
    assert device.reserved == 0
    assert len(table) == 2 * len(ALLOCATORS) and (table["status"] == "ok").all()
    row = table.set_index(["trace", "allocator"])
    for traced in FRAGMENTATION["traces"]:
        over = row.loc[traced, "reserved_over_used"]
        assert 1 < over[MALLOC] <= over[FIRST_FIT]
        assert row.loc[(traced, MALLOC), "again_us"] == row.loc[(traced, MALLOC), "first_us"]
        assert row.loc[(traced, CUPY_POOL), "again_us"] > 0
    assert (table["reserved_bytes"] >= table["used_bytes"]).all()
    assert (table["first_us_low"] <= table["first_us"]).all()
    fits = table["suffices"].notna()
    assert (
        table.loc[fits, "suffices"] * table.loc[fits, "used_bytes"] >= table.loc[fits, "reserved_bytes"]
    ).all()
    failed = table[table["fails"].notna()]
    assert len(failed) and failed["served"].between(0, 1, inclusive="left").all()
    assert (failed["fails"] * failed["used_bytes"] < failed["reserved_bytes"]).all()
    assert (failed["suffices"].isna() | (failed["fails"] < failed["suffices"])).all()
    assert draw("fragmentation", pd.read_csv(io.StringIO(table.to_csv(index=False))), "T4").axes


def test_the_figure_marks_what_no_tested_ratio_sufficed_for_and_hides_no_dot():
    of = {"trace": "growing", "status": "ok", "device": "NVIDIA H200", "backend": "cuda"}
    times = {f"{name}_us{end}": 2.0 for name in ("first", "again") for end in ("", "_low", "_high")}
    rows = [
        {"allocator": MALLOC, "suffices": 1.1, "fails": 1.05, "reserved_over_used": 1.1},
        {"allocator": FIRST_FIT, "suffices": None, "fails": 3.0, "reserved_over_used": 6.2},
    ]
    table = pd.DataFrame([one | of | times for one in rows]).astype({"suffices": float})
    drawn = draw("fragmentation", table, "T4")
    assert faults(drawn) == []
    _, middle, right = drawn.axes
    shown = {value: face for value, _, _, face in dots(middle)}
    assert set(shown) == {1.1, 3.0} and shown[3.0] == "white" != shown[1.1]
    said = said_in(drawn)
    assert "the least of the tested ratios (1.05, 1.1, 3) that sufficed, not an exact value" in said
    assert "not even this ratio, the largest tested, sufficed" in said
    assert len({dot[:2] for dot in dots(right)}) == 4  # the two times of an allocator, though they are equal
    drawn = draw("fragmentation", table.head(1), "T4")
    assert "not even this ratio" not in said_in(drawn)


def test_a_full_device_is_an_outcome_of_a_trace(monkeypatch):
    device = Device(16 * MIB)
    table = fragmentation_table.build(of(device, fragmentation, FRAGMENTATION, monkeypatch))
    assert (table["status"] == "out_of_memory").all()
    assert table["reason"].str.contains("bytes are free").all()
    assert table[["reserved_bytes", "first_us", "suffices", "fails"]].isna().all(axis=None)
    assert device.reserved == 0


@pytest.mark.parametrize("name", ["fragmentation", "memory_map"])
def test_a_cpu_has_one_allocator_and_a_pool_over_it(name, monkeypatch):
    module, build = {
        "fragmentation": (fragmentation, fragmentation_table.build),
        "memory_map": (memory_map, memory_map_table.build),
    }[name]
    asked = FRAGMENTATION if name == "fragmentation" else {**SETTINGS, "trace": "growing"}
    table = build(of(CpuBackend(), module, asked, monkeypatch))
    by = table.groupby("allocator")["status"].agg(set)
    assert by[MALLOC] == by[FIRST_FIT] == {"ok"}
    assert by[MALLOC_ASYNC] == by[CUPY_POOL] == {"unsupported"}
    if name == "fragmentation":
        assert table["suffices"].isna().all() and table["fails"].isna().all()


def test_the_map_has_every_block_where_it_was_put(monkeypatch):
    asked = {**SETTINGS, "trace": "random_lifetimes"}
    table = memory_map_table.build(of(CpuBackend(), memory_map, asked, monkeypatch))
    traced = trace("random_lifetimes", *SETTINGS.values())
    for allocator_name in (MALLOC, FIRST_FIT):
        rows = table[table["allocator"] == allocator_name]
        assert [traced.events[at].nbytes for at in rows["allocated"]] == list(rows["bytes"])
        assert all(not traced.events[at].nbytes for at in rows["freed"])
        assert (rows["allocated"] < rows["freed"]).all()
        assert max(rows["in_use_bytes"]) == traced.peak_bytes
        assert (rows["reserved_bytes"] >= rows["in_use_bytes"]).all()
        check_apart(rows)
    drawn = draw("memory_map", pd.read_csv(io.StringIO(table.to_csv(index=False))), "T4")
    assert drawn.axes[0].get_ylabel() == "place of a block,\namount of a line (MiB)"
    assert "Lines: amounts; they end at the last call that allocates." in said_in(drawn)


def check_apart(rows):
    """Blocks that are alive at once do not overlap."""
    for one in rows.itertuples():
        others = rows[(rows["allocated"] < one.allocated) & (rows["freed"] > one.allocated)]
        apart = (others["place"] + others["bytes"] <= one.place) | (others["place"] >= one.place + one.bytes)
        assert apart.all()


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 60)), min_size=1, max_size=12))
def test_places_leave_out_what_nothing_touches_and_keep_the_rest(blocks):
    addresses, sizes = [at for at, _ in blocks], [nbytes for _, nbytes in blocks]
    found = memory_map.places(addresses, sizes, chunk=16)
    touched = {byte // 16 for at, nbytes in blocks for byte in range(at, at + nbytes)}
    assert max(place + nbytes for place, nbytes in zip(found, sizes, strict=True)) <= 16 * len(touched)
    for (at, nbytes), place in zip(blocks, found, strict=True):
        assert place % 16 == at % 16 and place <= at
        for (other, _), elsewhere in zip(blocks, found, strict=True):
            assert (place < elsewhere) == (at < other)
            if at <= other < at + nbytes:
                assert elsewhere - place == other - at


@pytest.mark.gpu
@pytest.mark.alone
def test_every_allocator_serves_every_trace_on_the_gpu():
    """And keeps nothing of the device; with as much as it had reserved a trace is served."""
    asked = {**FRAGMENTATION, "traces": list(TRACES), "caps": [100, 200, 400]}
    device = backends.make("cuda", groups.load("kernel", "naive"))
    free = device.memory()[0]
    readings = [one.plain() for one in fragmentation.measure("cuda", asked)]
    table = fragmentation_table.build({"readings": readings, "provenance": PROVENANCE})
    assert (table["status"] == "ok").all()
    assert (table["reserved_over_used"] > 0.9).all()
    made = table[table["trace"].isin(RULES)]
    assert (made["suffices"].notna() | (made["allocator"] == FIRST_FIT)).all()
    mapped = list(memory_map.measure("cuda", {**SETTINGS, "trace": "random_lifetimes"}))
    assert [one.status for one in mapped] == ["ok"] * len(ALLOCATORS)
    assert free - device.memory()[0] < 64 * MIB  # a process that has just ended may give back more


RULES = [name for name in TRACES if not name.endswith(("_mlp", "_cnn"))]


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_frees_what_it_allocates_and_is_that_of_its_seed(name):
    sizes = ((1 << 20, 800, 3), (1 << 33, 1500, 7)) if name in RULES else ((1 << 20, 100, 1),)
    for nbytes, calls, seed in sizes:
        found = trace(name, nbytes, calls, seed)
        assert found == trace(name, nbytes, calls, seed)
        alive, seen = set(), set()
        for event in found.events:
            if event.nbytes:
                assert event.block not in seen
                seen.add(event.block)
                alive.add(event.block)
            else:
                alive.remove(event.block)
        assert not alive
        if name in RULES:
            assert 0.5 * nbytes <= found.peak_bytes <= 1.1 * nbytes
            assert 0.5 * calls <= len(found.events) <= 1.1 * calls
            assert found.events != trace(name, nbytes, calls, seed + 1).events


@pytest.mark.parametrize("name", ["reference", "resident", "streams", "async_pool"])
def test_a_recorded_trace_is_that_of_a_training(name):
    network, batch = mlp((4, 40, 30, 1)), 32
    X, Y = np.ones((80, 4), np.float32), np.ones((80, 1), np.float32)
    job = Job(groups.load("strategy", name), network, X, Y, 1, 3, batch, 1e-5)
    observed = ObservedBackend(EverySource(), ledger := Ledger(), allocations := Allocations())
    with closing(start(job, observed)) as strategy:
        strategy.load(next(strategy.starts(network, 1)))
        strategy.train(3)

    def plain(events):
        numbers = {}
        return [(numbers.setdefault(event.block, len(numbers)), event.nbytes) for event in events]

    found = list(recorded(factory.class_of(job.strategy), network, batch, epochs=3))
    assert plain(found) == plain(allocations.events)
    counted = ledger.totals()
    assert sum(event.nbytes > 0 for event in found) == counted["mallocs"] + counted["pool_allocs"] > 0
    assert Trace("", tuple(found)).peak_bytes == counted["peak_device_bytes"]
