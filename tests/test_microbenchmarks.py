"""Microbenchmarks: their settings, their readings on a CPU, their tables, in a workflow and in archives."""

import json
import math
import re
import runpy
import shutil
from collections import Counter
from itertools import product
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from every_source import EverySource
from figure_layout import faults
from project import NOT_OF_WORKFLOW, Project
from records_of import PROVENANCE, limits_of

from snn import cli, retabulate
from snn.analysis.roofline import read_microbenchmark
from snn.backends.access import AOS, OFFSET, SOA, STRIDE, VECTOR, Access, elements, moved_bytes
from snn.config.groups import CONFIG, read_yaml
from snn.errors import OutOfMemory, RecordError, Unsupported
from snn.figures import draw
from snn.grid import fingerprint
from snn.grid.naming import microbenchmark_path
from snn.hardware import devices
from snn.hardware.devices import Device
from snn.hardware.limits import BYTES, Limit
from snn.microbenchmarks import memory_access as accesses
from snn.microbenchmarks import memory_calls as calls
from snn.microbenchmarks.memory_calls import BOTH, COPIES, PRODUCTS
from snn.microbenchmarks.readings import Effort, Reading, reading
from snn.microbenchmarks.settings import SETTINGS, resolved
from snn.profiling.calls import ENDED_BY
from snn.records import microbenchmarks as records
from snn.records import store
from snn.records.store import sealed
from snn.report.published_set import escaped
from snn.tables.microbenchmarks import allocation_size, median_interval, memory_access, memory_calls

HERE = devices.find("cpu")
BRIEFLY = {"samples": 6, "seconds": 0}
TRACED = {"bytes": "1MiB", "calls": 100, "seed": 1}
SMALL = {
    "memory_access": {
        **{"bytes": "1MiB", "strides": [1, 8, 1024], "fields": [1, 8], "offsets": [0, 3], "vectors": [4]},
        "samples": 6,
    },
    "memory_calls": {"sizes": ["256B", "1MiB"], "overlapped": "1MiB", "streams": [1, 2], **BRIEFLY},
    "allocation_size": {"sizes": ["256B", "1MiB"], "live": [0, 1], **BRIEFLY},
    "fragmentation": {"traces": ["batches"], **TRACED, "caps": [100, 150], **BRIEFLY},
    "memory_map": {"trace": "growing", **TRACED},
    "shapes": {"shapes": 2, "seed": 570, "peers": ["resident"], "peered": 1, **BRIEFLY},
}
GRID = read_yaml(CONFIG / "grid.yaml")
H200, CPU = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The record of each on this CPU, by name."""
    folder = tmp_path_factory.mktemp("microbenchmarks")
    for name, settings in SMALL.items():
        path = folder / f"{name}.json"
        assert cli.main(["microbenchmark", name, json.dumps(settings), "cpu", str(path)]) == 0
    return {name: folder / f"{name}.json" for name in SMALL}


# ---- readings


def test_moved_bytes_are_those_of_the_sectors():
    n = 1 << 20

    def per_useful(pattern, value, sector=32):
        access = Access(pattern, value, copies=False)
        return moved_bytes(access, n, sector) / (4 * elements(access, n))

    expected = {
        STRIDE: {1: 1, 2: 2, 4: 4, 8: 8, 32: 8, 1024: 8},
        AOS: {1: 8, 2: 4, 4: 2, 8: 1},
        SOA: dict.fromkeys((1, 2, 4, 8), 1),
        VECTOR: dict.fromkeys((1, 2, 4), 1),
        OFFSET: {8: 1, 1: pytest.approx(5 / 4)},
    }
    assert {kind: {of: per_useful(kind, of) for of in row} for kind, row in expected.items()} == expected
    assert per_useful(STRIDE, 16, sector=64) == 16


def test_what_a_device_cannot_do_is_a_reading_with_a_reason():
    for error, status in ((Unsupported, "unsupported"), (OutOfMemory, "out_of_memory")):
        assert reading({}, mock.Mock(side_effect=error("no"))) == Reading({}, (), status, "no")
    with pytest.raises(ValueError, match="bad"):
        reading({}, mock.Mock(side_effect=ValueError("bad")))


def test_a_buffer_that_does_not_fit_is_an_outcome_of_every_access(monkeypatch):
    monkeypatch.setattr("snn.backends.cpu.access.timed", mock.Mock(side_effect=OutOfMemory("too large")))
    found = list(accesses.measure("cpu", resolved("memory_access", SMALL["memory_access"])))
    assert {(one.status, one.reason) for one in found} == {("out_of_memory", "too large")}
    assert len({tuple(one.point.values()) for one in found}) == len(found) > 8


def test_samples_end_with_their_number_or_their_seconds():
    calls = []
    assert len(Effort(10, 60).prepared(lambda: calls.append("call"), lambda: calls.append("before"))) == 10
    assert calls == ["before", "call"] * 11  # the first is not timed
    assert len(Effort(1000, 0).repeated(lambda: None)) == 6
    assert [len(each) for each in Effort(7, 60).together([lambda: None] * 2)] == [7, 7]
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
    assert median_interval(list(range(31))) == (15, 9, 21)


# ---- records and tables


def test_a_cpu_measures_what_has_a_meaning_there_and_gives_a_reason_for_the_rest(measured):
    calls = memory_calls.build(records.read(measured["memory_calls"]))
    access = memory_access.build(records.read(measured["memory_access"]))
    ok, rest = calls[calls["status"] == "ok"], calls[calls["status"] != "ok"]
    assert set(zip(ok["kind"], ok["call"], strict=True)) == {("allocation", "malloc"), ("copy", "pageable")}
    assert ((ok["low"] <= ok["median"]) & (ok["median"] <= ok["high"])).all()
    assert set(rest["status"]) == {"unsupported"} and rest["reason"].str.len().gt(10).all()
    assert rest[["median", "low", "high"]].isna().all(axis=None)
    copies = ok[ok["kind"] == "copy"].set_index(["direction", "bytes"])["median"]
    assert copies["to_device", 1 << 20] > copies["to_device", 256]

    done = access["status"] == "ok"
    assert (done == ((access["access"] == "copy") & (access["pattern"] != VECTOR))).all()
    rows = access[done].set_index(["pattern", "value"])
    ratio = (rows["moved_gb_s"] / rows["median"]).to_dict()
    expected = {(STRIDE, 1): 1, (AOS, 8): 1, (STRIDE, 8): 8, (AOS, 1): 8}
    assert {key: ratio[key] for key in expected} == expected
    assert rows["median"][STRIDE, 1] > rows["median"][STRIDE, 8]
    assert set(calls["device"]) == set(access["device"]) == {HERE.name}


def of_gpu(name, readings):
    """A record of a microbenchmark of a GPU."""
    record = {"microbenchmark_version": 1, "name": name, "settings": SMALL[name], "machine": {}}
    record["readings"] = [each.plain() for each in readings]
    return sealed(record | {"provenance": {**PROVENANCE, "source_hash": "0" * 16}})


def test_bandwidths_stand_beside_the_limits_of_their_device():
    point = {"pattern": STRIDE, "value": 8, "access": "read", "useful_bytes": 1000, "moved_bytes": 8000}
    record = of_gpu("memory_access", [Reading(point, (1e-9, 2e-9, 4e-9, 2e-9, 2e-9, 1e-9))])
    other, limits = limits_of(device_uuid="GPU-2"), limits_of()
    limits["limits"].append({**vars(Limit("dram_read", None, BYTES, "")), "samples": [4e12]})
    row = memory_access.build(record, other, limits).iloc[0]
    wanted = {"median": 500, "low": 250, "high": 1000, "moved_gb_s": 4000, "limit_gb_s": 4000}
    assert row[list(wanted)].to_dict() == pytest.approx(wanted)
    assert row["fraction_of_limit"] == pytest.approx(500 / 4000)
    assert pd.isna(memory_access.build(record).iloc[0]["fraction_of_limit"])
    with pytest.raises(RecordError, match="measure one of them again"):
        memory_access.build(record, other)


def test_the_knee_is_where_every_larger_size_is_expensive():
    def of(kind, *medians):
        point = {"kind": kind, "call": "malloc", "live": 0}
        return [Reading({**point, "bytes": 256 << i}, (one * 1e-6,) * 6) for i, one in enumerate(medians)]

    table = allocation_size.build(
        of_gpu("allocation_size", [*of("allocation", 1, 4, 2, 9, 7), *of("free", 1, 2)])
    )
    assert (
        table["knee_bytes"].to_list()[:5] == [2048] * 5
        and table["knee_bytes"].isna().to_list()[5:] == [True] * 2
    )
    assert table["median"].to_list() == pytest.approx([1, 4, 2, 9, 7, 1, 2])
    assert draw("allocation_size", table, "H200").axes


def test_a_record_is_read_with_its_settings_and_sources_only(measured, tmp_path):
    path, settings = measured["memory_calls"], SMALL["memory_calls"]
    record = records.read(path)
    source_hash = fingerprint.microbenchmark_sources("memory_calls", "cpu").digest
    assert read_microbenchmark(path, settings, source_hash) == record
    for given, said in (
        (({**settings, "samples": 7}, source_hash), "other settings"),
        ((settings, "0" * 16), "other sources"),
    ):
        with pytest.raises(RecordError, match=f"measured with {said}"):
            read_microbenchmark(path, *given)
    store.write(tmp_path / "it.json", record | {"name": "memory_access"})
    with pytest.raises(RecordError, match="it was changed after it was written"):
        records.read(tmp_path / "it.json")


@pytest.mark.parametrize(
    ("name", "of_record", "of_reading", "of_point", "said"),
    [
        ("memory_calls", {"microbenchmark_version": 9}, {}, {}, "microbenchmark version 9"),
        ("memory_calls", {}, {"seconds": []}, {}, "must have either samples or a reason"),
        ("memory_calls", {}, {"seconds": [-1.0]}, {}, r"readings\[0\].seconds\[0\] is -1"),
        (
            "memory_calls",
            {},
            {"series": {"place": [1], "bytes": []}},
            {},
            r"\[0\].series has lists of diff",
        ),
        ("memory_calls", {}, {}, {"kind": None}, r"readings\[0\].point of memory_calls has no kind"),
        ("memory_access", {}, {}, {"moved_bytes": None}, r"point of memory_access has no moved_bytes"),
        ("memory_access", {}, {}, {"useful_bytes": 0}, r"readings\[0\].point.useful_bytes is 0"),
    ],
)
def test_a_sealed_record_without_what_its_table_needs_is_refused(
    measured, tmp_path, name, of_record, of_reading, of_point, said
):
    record = json.loads(measured[name].read_text()) | of_record
    del record["digest"]
    first = record["readings"][0]
    first.update(of_reading, point={k: v for k, v in (first["point"] | of_point).items() if v is not None})
    store.write(tmp_path / "it.json", sealed(record))
    with pytest.raises(RecordError, match=rf"it.json: .*{said}"):
        records.read(tmp_path / "it.json")


def test_kernels_decide_what_is_measured_on_a_gpu_only():
    sources = fingerprint.microbenchmark_sources
    hashes = {sources(name, backend).digest for name in SETTINGS for backend in ("cuda", "cpu")}
    assert len(hashes) == 2 * len(SETTINGS)


PAIR = {name: SMALL[name] for name in ("memory_access", "memory_calls")}
BRIEF, MIB = Effort(samples=6, seconds=0), 1 << 20


# ---- in a workflow

WORKFLOW = {
    "device": "cpu",
    "sweeps": {"one": {"strategy": "reference", "dataset": "small"}},
    "microbenchmarks": PAIR,
}


def test_a_workflow_measures_each_once_and_again_if_its_settings_change(tmp_path):
    project = Project(tmp_path / "project")
    shutil.copytree(ROOT, project.folder, ignore=NOT_OF_WORKFLOW)

    def jobs(**changed):
        project.write_grid(WORKFLOW | {"microbenchmarks": PAIR | changed})
        return project.jobs(*targets, cores=2)

    targets = [f"results/{where}" for name in PAIR for where in (f"tables/{name}.csv", f"figures/{name}.svg")]
    made = {f"{verb}_{name}": 1 for name in PAIR for verb in ("build", "plot")}
    assert jobs() == made | {"measure_limits": 1, "measure_microbenchmark": 2}
    assert all((project.folder / target).stat().st_size > 500 for target in targets)
    assert all((project.folder / f"results/tables/{name}.html").exists() for name in PAIR)
    limits = project.table("memory_access").query("access == 'copy' and status == 'ok'")
    assert limits["fraction_of_limit"].between(1e-4, 1e3).all()
    again = {name: 1 for name in made if name.endswith("_calls")} | {"measure_microbenchmark": 1}
    assert jobs(memory_calls={**PAIR["memory_calls"], "sizes": ["1KiB"]}) == again
    assert set(project.table("memory_calls").query("kind == 'copy'")["bytes"]) == {1024}
    assert jobs(memory_calls={**PAIR["memory_calls"], "sizes": ["1KiB"]}) == {}

    shutil.rmtree(project.folder / ".snakemake")  # only time stamps are left to tell
    (project.folder / "results/tables/memory_calls.csv").unlink()
    project.write_grid(WORKFLOW)
    printed = project.snakemake(targets[2], cores=2, fails=True)
    assert "measured with other settings than the grid's" in printed
    assert f"snakemake --cores 1 --force {microbenchmark_path('memory_calls', HERE)}" in printed


# ---- in archives


@pytest.fixture(scope="module")
def results(measured, tmp_path_factory):
    """A folder of results that has nothing but microbenchmarks."""
    folder = tmp_path_factory.mktemp("archive")
    for name in PAIR:
        path = folder / microbenchmark_path(name, HERE)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(measured[name], path)
    return folder / "results"


def test_they_are_published_and_tabulated_again(results, tmp_path, capsys, monkeypatch):
    def touch(figure, output, name):
        for ending in ("svg", "png"):
            (output / f"figures/{name}.{ending}").touch()

    monkeypatch.setattr(retabulate, "_save", touch)  # which takes as long as all the rest
    script = runpy.run_path(str(ROOT / "scripts/publish"))
    script["publish"].__globals__["PUBLISHED"] = tmp_path / "results/published"
    assert script["main"]([str(results), "--as", "some"]) == 0
    assert "2 records" in capsys.readouterr().out
    published = tmp_path / "results/published" / HERE.slug / "some"
    made = {path.relative_to(published).as_posix() for path in published.rglob("*") if path.is_file()}
    tables = {f"tables/{name}.csv" for name in (*PAIR, "gpu")}
    others = {f"figures/{name}.{ending}" for name in PAIR for ending in ("svg", "png")}
    assert made == tables | others | {"README.md", *(f"microbenchmarks/{name}.json" for name in PAIR)}
    assert f"# Results of one {escaped(HERE.name)}" in (published / "README.md").read_text()
    of_device = (published.parent / "README.md").read_text()
    assert of_device.startswith(f"# {escaped(HERE.name)}\n")
    assert f"| [some](some) | {', '.join(sorted(PAIR))} |" in of_device
    assert cli.main(["retabulate", str(published), str(tmp_path / "again")]) == 0
    assert all((tmp_path / "again" / one).read_text() == (published / one).read_text() for one in tables)


def test_records_of_two_devices_make_no_table(results, tmp_path):
    of_one = results / "microbenchmarks" / HERE.slug
    for folder in ("a", "b"):
        shutil.copytree(of_one, tmp_path / "microbenchmarks" / folder)
    with pytest.raises(RecordError, match=r"memory_access is in .* as well, but a table is about one device"):
        records.of_devices(tmp_path)
    assert records.of_devices(tmp_path, {"another"}) == {}


# ---- on a device that has everything


class Asynchronous(EverySource):
    """Answers as a GPU does; counts launches and the bytes of its copies, and notes what is page-locked."""

    asynchronous, is_processor = True, False

    def __init__(self):
        super().__init__()
        self.counts, self.page_locked = Counter(), []

    def host_alloc(self, shape, purpose="workspace", page_locked=True):
        self.page_locked.append(page_locked)
        return super().host_alloc(shape, purpose, page_locked)

    def copy_in(self, buffer, array, stream=None):
        assert array.nbytes <= buffer.words.nbytes
        self.counts["copied"] += array.nbytes
        super().copy_in(buffer, array, stream)

    def copy_out(self, array, buffer, stream=None):
        assert array.nbytes <= buffer.words.nbytes
        super().copy_out(array, buffer, stream)

    def launch(self, op, buffers, numbers, stream=None):
        self.counts[op] += 1
        super().launch(op, buffers, numbers, stream)


class Counting(Asynchronous):
    """Counts what is alive, by the call that made it; calls within calls are left out."""

    inside = False

    def __init__(self):
        super().__init__()
        self.alive = Counter()

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        begins = {end: begin for begin, end in ENDED_BY.items()}
        if name not in {*ENDED_BY, *begins}:
            return found

        def counted(*arguments, **options):
            if self.inside:
                return found(*arguments, **options)
            self.inside = True
            try:
                made = found(*arguments, **options)
            finally:
                self.inside = False
            self.alive[begins.get(name, name)] += 1 if name in ENDED_BY else -1
            return made

        return counted


@pytest.fixture(scope="module")
def every_call():
    """The readings of every memory call, and the backend on which they were taken."""
    backend = Counting()
    allocated = [
        *calls.allocations(backend, [256, 5000], BRIEF),
        *calls.copies(backend, [5, 4098, MIB], BRIEF),
    ]
    backend.page_locked = []
    return backend, [*allocated, *calls.overlap(backend, 100_000, [1, 3], BRIEF)]


def test_every_memory_call_is_measured_and_everything_is_freed(every_call):
    backend, found = every_call
    assert all(reading.status == "ok" and len(reading.seconds) == 6 for reading in found)
    assert backend.alive.keys() >= {"malloc", "host_alloc", "pool_create", "managed_alloc", "stream_create"}
    assert not any(backend.alive.values()), backend.alive
    assert len({tuple(reading.point.values()) for reading in found}) == len(found)
    sparse = [one.point["call"] for one in found if one.point["kind"] == "sparse"]
    assert sparse == ["pinned", "managed"]  # of the larger size
    overlapped = [tuple(one.point[key] for key in ("kind", "streams", "call")) for one in found[-12:]]
    assert overlapped == list(product(("overlap", "overlap_pageable"), (1, 3), (COPIES, PRODUCTS, BOTH)))
    assert backend.page_locked == [True, False]

    broken = Counting()
    broken.launch = broken.copy_in = mock.Mock(side_effect=ZeroDivisionError)
    for measure, arguments in ((calls.copies, ([256], BRIEF)), (calls.overlap, (100_000, [1], BRIEF))):
        with pytest.raises(ZeroDivisionError):
            list(measure(broken, *arguments))
        assert broken.alive["malloc"] == 0


@pytest.mark.parametrize(("take", "call"), [(calls._explicit, "pinned"), (calls._managed, "managed")])
def test_a_sparse_access_touches_few_pages_of_a_copy_or_of_managed_memory(take, call):
    backend = Asynchronous()
    take(backend, calls.SPARSE, call, calls.TO_DEVICE, MIB, BRIEF)
    accesses = backend.counts["copied"] // MIB if call == "pinned" else 7  # the first is not timed
    assert backend.counts["relu"] == 8 * accesses >= 8 * 6
    assert (backend.counts["copied"] > 0) == (call == "pinned")


def test_the_table_has_a_fraction_for_each_overlap_and_the_figure_a_panel(every_call):
    table = memory_calls.build(of_gpu("memory_calls", every_call[1]))
    rows = table[table["call"] == "overlap"]
    expected = list(product(("overlap", "overlap_pageable"), (1, 3)))
    assert list(zip(rows["kind"], rows["streams"], strict=True)) == expected
    assert pd.api.types.is_float_dtype(rows["median"]) and rows["median"].notna().all()

    def keys(shown):
        drawn = draw("memory_calls", shown, "")
        assert faults(drawn) == []
        legends = {axes.get_title(): axes.get_legend().get_texts() for axes in drawn.axes}
        return {title: [text.get_text() for text in texts] for title, texts in legends.items()}

    assert keys(table)["overlap of copies and kernels"] == ["pinned memory", "pageable memory"]
    for backend, names in (("cuda", {"cudaMalloc", "CuPy's pool"}), ("cpu", {"malloc", "host alloc"})):
        assert names < {*keys(table.assign(backend=backend))["allocation and free"]}


class WithLimits(Asynchronous):
    """Has no managed memory, and pins nothing either if ``pins`` is false."""

    pins = True

    def managed_alloc(self, shape, purpose="workspace"):
        raise Unsupported(f"{4 * shape[0]} bytes were asked for: at most half of what is free")

    def host_alloc(self, shape, purpose="workspace", page_locked=True):
        self.pageable_fallbacks += page_locked and not self.pins
        return super().host_alloc(shape, purpose, page_locked)


ON_HOST, MANAGED = {"host_alloc", "pinned", "pageable"}, {"managed", "managed_prefetch", "managed_alloc"}


@pytest.mark.parametrize(
    ("pins", "usable", "refused", "said"),
    [
        (True, None, MANAGED, "unsupported: .* at most half of what is free"),
        (False, None, ON_HOST - {"pageable"}, "unsupported: .* cannot pin 524288 bytes"),
        (True, MIB, ON_HOST, "out_of_memory: .* more than a quarter of the host's memory"),
    ],
    ids=["managed memory", "pinned memory", "a host's memory"],
)
def test_memory_that_is_refused_is_a_row_with_a_reason(monkeypatch, pins, usable, refused, said):
    """And pinned memory that the system refuses is not measured as pageable."""
    backend = WithLimits()
    backend.pins = pins
    if usable:
        monkeypatch.setattr(calls, "usable_bytes", lambda: usable)
        backend.host_alloc = mock.Mock(side_effect=AssertionError("it was allocated"))
    found = [*calls.copies(backend, [MIB // 2], BRIEF), *calls.allocations(backend, [MIB // 2], BRIEF)]
    rows = {one.point["call"]: f"{one.status}: {one.reason}" for one in found}
    assert all(re.match(said, rows[call]) for call in refused), rows
    assert rows.keys() >= refused and (rows["pageable"] == "ok: ") == ("pageable" not in refused)
