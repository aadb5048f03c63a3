"""Microbenchmarks in a workflow, in archives, and on a device that has memory from every source."""

import json
import runpy
import shutil
from collections import Counter

import pytest
import test_microbenchmarks
from conftest import ROOT
from every_source import EverySource
from project import NOT_OF_WORKFLOW, Project

from snn import microbenchmark, retabulate
from snn.errors import RecordError, Unsupported
from snn.grid.microbenchmarks import record_path
from snn.hardware import devices
from snn.microbenchmarks import memory_calls as calls
from snn.microbenchmarks.readings import Effort
from snn.profiling.calls import ENDED_BY
from snn.records import microbenchmarks as records
from snn.records.digest import sealed
from snn.report.markdown import escaped

SMALL = {name: test_microbenchmarks.SMALL[name] for name in ("memory_access", "memory_calls")}
CPU = devices.find("cpu")
BRIEF = Effort(samples=6, seconds=0)


# ---- in a workflow

GRID = {
    "device": "cpu",
    "sweeps": {"one": {"strategy": "reference", "dataset": "small"}},
    "microbenchmarks": SMALL,
}
TARGETS = [
    f"results/{folder}/{name}.{ending}"
    for name in SMALL
    for folder, ending in (("tables", "csv"), ("figures", "svg"))
]
PARTS = ("build_{}", "plot_{}")


def of(name, *more):
    return {part.format(name): 1 for part in PARTS} | dict.fromkeys(more, 1)


def test_a_workflow_measures_each_once_and_again_if_its_settings_change(tmp_path):
    project = Project(tmp_path / "project")
    shutil.copytree(ROOT, project.folder, ignore=NOT_OF_WORKFLOW)
    project.write_grid(GRID)
    first = project.jobs(*TARGETS, cores=2)
    assert first == of("memory_access") | of("memory_calls") | {
        "measure_limits": 1,
        "measure_microbenchmark": 2,
    }
    for target in TARGETS:
        assert (project.folder / target).stat().st_size > 500
        if target.endswith(".csv"):
            assert (project.folder / target).with_suffix(".html").exists()
    limits = project.table("memory_access").query("access == 'copy' and status == 'ok'")
    assert limits["fraction_of_limit"].between(1e-4, 1e3).all()
    assert project.jobs(*TARGETS, cores=2) == {}
    project.snakemake("results/tables/configuration.csv", cores=2)
    configured = project.table("configuration").set_index(["sweep", "key"])["values"]
    assert configured["memory_calls", "sizes"] == "256B, 1MiB"

    changed = {**SMALL, "memory_calls": {**SMALL["memory_calls"], "sizes": ["1KiB"]}}
    project.write_grid({**GRID, "microbenchmarks": changed})
    assert project.jobs(*TARGETS, cores=2) == of("memory_calls", "measure_microbenchmark")
    assert set(project.table("memory_calls").query("kind == 'copy'")["bytes"]) == {1024}

    shutil.rmtree(project.folder / ".snakemake")  # only time stamps are left to tell
    (project.folder / "results/tables/memory_calls.csv").unlink()
    project.write_grid(GRID)
    printed = project.snakemake(TARGETS[2], cores=2, fails=True)
    assert "measured with other settings than the grid's" in printed
    assert f"snakemake --cores 1 --force {record_path('memory_calls', CPU)}" in printed

    wrong = {**SMALL, "memory_access": {**SMALL["memory_access"], "vectors": [8]}}
    project.write_grid({**GRID, "microbenchmarks": wrong})
    printed = project.snakemake(TARGETS[2], cores=2, fails=True)
    assert "config/grid.yaml: microbenchmarks.memory_access: vectors is [8]: it must be" in printed


# ---- in archives


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder of results that has nothing but microbenchmarks."""
    folder = tmp_path_factory.mktemp("archive")
    for name, settings in SMALL.items():
        path = folder / record_path(name, CPU)
        path.parent.mkdir(parents=True, exist_ok=True)
        assert microbenchmark.main([name, json.dumps(settings), "cpu", str(path)]) == 0
    return folder / "results"


def test_they_are_published_and_tabulated_again(results, tmp_path, capsys):
    script = runpy.run_path(str(ROOT / "scripts/publish"))
    script["publish"].__globals__["PUBLISHED"] = tmp_path / "results/published"
    assert script["main"]([str(results), "--as", "some"]) == 0
    assert "2 records" in capsys.readouterr().out
    published = tmp_path / "results/published" / CPU.slug / "some"
    made = {path.relative_to(published).as_posix() for path in published.rglob("*") if path.is_file()}
    figures = {f"figures/{name}.{ending}" for name in SMALL for ending in ("svg", "png")}
    tables = {f"tables/{name}.csv" for name in (*SMALL, "gpu")}
    assert made == tables | figures | {"README.md", *(f"microbenchmarks/{name}.json" for name in SMALL)}
    assert f"# Results of one {escaped(CPU.name)}" in (published / "README.md").read_text()
    of_device = (published.parent / "README.md").read_text()
    assert of_device.startswith(f"# {escaped(CPU.name)}\n")
    assert f"| [some](some) | {', '.join(sorted(SMALL))} |" in of_device
    assert retabulate.main([str(published), str(tmp_path / "again")]) == 0
    for table in tables:
        assert (tmp_path / "again" / table).read_text() == (published / table).read_text()


def test_records_of_two_devices_make_no_table(results, tmp_path):
    of_one = results / "microbenchmarks" / CPU.slug
    for folder in ("a", "b"):
        shutil.copytree(of_one, tmp_path / "microbenchmarks" / folder)
    with pytest.raises(RecordError, match=r"memory_access is in .* as well, but a table is about one device"):
        records.of_devices(tmp_path)
    assert records.of_devices(tmp_path, {"another"}) == {}


def test_an_edited_record_of_an_archive_is_refused(results, tmp_path, capsys):
    folder = tmp_path / "edited"
    shutil.copytree(results, folder)
    path = folder / "microbenchmarks" / CPU.slug / "memory_calls.json"
    path.write_text(path.read_text().replace('"seconds": [', '"seconds": [\n1.0,', 1))
    assert retabulate.main([str(folder), str(tmp_path / "out")]) == 2
    assert "memory_calls.json: it was changed after it was written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "key", "value", "said"),
    [
        ("memory_calls", "kind", None, r"readings\[0\].point of memory_calls has no kind"),
        ("memory_access", "moved_bytes", None, r"readings\[0\].point of memory_access has no moved_bytes"),
        ("memory_access", "useful_bytes", 0, r"readings\[0\].point.useful_bytes is 0"),
    ],
)
def test_a_sealed_record_without_what_its_table_needs_is_refused(results, tmp_path, name, key, value, said):
    record = json.loads((results / "microbenchmarks" / CPU.slug / f"{name}.json").read_text())
    del record["digest"]
    point = record["readings"][0]["point"]
    point.pop(key) if value is None else point.update({key: value})
    (tmp_path / "it.json").write_text(json.dumps(sealed(record)))
    with pytest.raises(RecordError, match=rf"it.json: .*{said}"):
        records.read(tmp_path / "it.json")


# ---- on a device that has everything


class Asynchronous(EverySource):
    asynchronous = True
    is_processor = False


class Counting(Asynchronous):
    """Counts what is alive, by the call that made it; calls within calls are left out."""

    inside = False

    def __init__(self):
        super().__init__()
        self.alive = Counter()

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        begins = {end: begin for begin, end in ENDED_BY.items()}
        if name not in ENDED_BY and name not in begins:
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


def test_every_memory_call_is_measured_and_everything_is_freed():
    backend = Counting()
    found = [
        *calls.allocations(backend, [256, 5000], BRIEF),
        *calls.copies(backend, [256, 5000], BRIEF),
        *calls.overlap(backend, 100_000, [1, 3], BRIEF),
    ]
    assert all(reading.status == "ok" and len(reading.seconds) == 6 for reading in found)
    assert backend.alive.keys() >= {"malloc", "host_alloc", "pool_create", "managed_alloc", "stream_create"}
    assert not any(backend.alive.values()), backend.alive
    points = [tuple(reading.point.values()) for reading in found]
    assert len(set(points)) == len(points)


def test_a_fault_in_a_copy_frees_what_was_allocated():
    class Broken(Asynchronous):
        held = 0

        def malloc(self, nbytes, purpose=None):
            self.held += 1
            return super().malloc(nbytes, purpose)

        def free(self, buffer):
            self.held -= 1

        def launch(self, *arguments, **options):
            raise ZeroDivisionError

        copy_in = launch

    backend = Broken()
    for measure, arguments in ((calls.copies, ([256], BRIEF)), (calls.overlap, (100_000, [1], BRIEF))):
        with pytest.raises(ZeroDivisionError):
            list(measure(backend, *arguments))
        assert backend.held == 0


def test_more_managed_memory_than_the_budget_is_a_row_with_a_reason():
    class Full(Asynchronous):
        def managed_alloc(self, shape, purpose="workspace"):
            raise Unsupported(f"{4 * shape[0]} bytes were asked for: at most half of what is free")

    found = [*calls.copies(Full(), [1 << 20], BRIEF), *calls.allocations(Full(), [1 << 20], BRIEF)]
    managed = [one for one in found if one.point["call"].startswith("managed")]
    assert len(managed) == 8
    assert all(one.status == "unsupported" and "at most half" in one.reason for one in managed)
    assert all(one.status == "ok" for one in found if one not in managed)


def test_pinned_memory_that_the_system_refuses_is_not_measured_as_pageable():
    class Refusing(Asynchronous):
        def host_alloc(self, shape, purpose="workspace", page_locked=True):
            self.pageable_fallbacks += page_locked
            return super().host_alloc(shape, purpose, page_locked)

    found = list(calls.copies(Refusing(), [4096], BRIEF))
    pinned = [one for one in found if one.point["call"] == "pinned"]
    assert all("refuses to pin 4096 bytes" in one.reason for one in pinned)
    assert all(one.status == "ok" for one in found if one.point["call"] == "pageable")


def test_an_array_that_would_take_the_hosts_memory_is_not_allocated(monkeypatch):
    class Greedy(Asynchronous):
        def host_alloc(self, shape, purpose="workspace", page_locked=True):
            raise AssertionError("it was allocated")

        def managed_alloc(self, shape, purpose="workspace"):
            raise Unsupported("not here")

    monkeypatch.setattr(calls, "usable_bytes", lambda: 1 << 20)
    found = [*calls.allocations(Greedy(), [1 << 19], BRIEF), *calls.copies(Greedy(), [1 << 19], BRIEF)]
    on_host = [one for one in found if one.point["call"] in ("host_alloc", "pinned", "pageable")]
    assert len(on_host) == 6
    assert {one.status for one in on_host} == {"out_of_memory"}
    assert "more than a quarter of the host's memory" in on_host[0].reason
