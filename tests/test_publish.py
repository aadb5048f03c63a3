"""``scripts/publish``: a set is published whole or not at all, and nothing that was published is lost."""

import fcntl
import re
import runpy
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from published_tables import entries_of
from records_of import limits_of, record

from snn.errors import OutputError, RecordError
from snn.files import outputs, published_sets
from snn.files.published_sets import name_of
from snn.grid import naming, sweeps
from snn.hardware.devices import Device
from snn.records import archive, store
from snn.report import published_set

GPU = Device("cuda", "NVIDIA H200")
GRID = {
    "defaults": {"protocol": "brief", "protocol.rounds": 2},
    "sweeps": {
        "one": {"strategy": ["reference", "pinned"], "dataset": "small"},
        "two": {"strategy": "streams", "dataset": "small"},
    },
}


class Place:
    """A folder with results of two sweeps and a script that publishes there; it makes no tables."""

    def __init__(self, folder):
        script = runpy.run_path(str(ROOT / "scripts/publish"))
        self.main, self.globals = script["main"], script["publish"].__globals__
        self.results, self.published = folder / "results", folder / "published"
        self.of_device = self.published / GPU.slug
        self.globals.update(PUBLISHED=self.published, CONFIG=folder, retabulate=self.tabulate)
        (folder / "grid.yaml").write_text(yaml.safe_dump(GRID))
        self.grid = sweeps.read(folder / "grid.yaml", GPU)
        self.measure()

    def measure(self, rounds=None, **provenance):
        for cell in sweeps.all_cells(self.grid).values():
            for number in rounds or cell.rounds:
                path = self.results.parent / naming.record_path(cell.name, number)
                store.write(path, record(cell, [1.0, 1.1], number=number, **provenance))

    def tabulate(self, folder, output):
        for name in ("tables", "figures"):
            (output / name).mkdir()

    def publish(self, *arguments):
        return self.main([str(self.results), *arguments])

    def files(self):
        return {path: path.read_bytes() for path in self.published.rglob("*") if path.is_file()}

    def refuses(self, capsys, *arguments):
        """What is said of a refusal, which changes nothing that is published."""
        before = self.files()
        assert self.publish(*arguments) == 2
        assert self.files() == before
        return capsys.readouterr().err


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_set_is_published_again_and_its_device_lists_it(place):
    """Whatever its own README.md says."""
    assert place.publish("--as", "a") == place.publish("--as", "a") == 0
    (place.of_device / "a/README.md").write_text("Mine.\n")
    assert place.publish("--as", "b") == 0
    lines = (place.of_device / "README.md").read_text().splitlines()
    assert lines[0] == "# NVIDIA H200"
    assert [line for line in lines if "one (" in line] == [
        f"| [{name}]({name}) | one (2), two (2) | c0ffee | 2026-02-11 | 1 |" for name in "ab"
    ]
    assert {path.name for path in place.of_device.iterdir()} == {"README.md", "a", "b"}


def test_sweeps_of_another_grid_are_published(place):
    grid = place.results.parent / "other.yaml"
    grid.write_text(yaml.safe_dump(GRID | {"sweeps": {"three": GRID["sweeps"]["two"]}}))
    assert place.publish("--as", "a", "--grid", str(grid)) == 0
    assert "| three (2) |" in (place.of_device / "README.md").read_text()


@pytest.mark.parametrize(
    ("error", "status"), [(OSError(28, "No space left", "f"), 2), (KeyboardInterrupt(), None)]
)
def test_a_set_stays_where_another_cannot_be_made(place, error, status):
    assert place.publish() == 0
    before = place.files()

    def fails(*_):
        raise error

    place.globals["retabulate"] = fails
    with nullcontext() if status else pytest.raises(KeyboardInterrupt):
        assert place.publish() == status
    assert place.files() == before


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt(), None])
def test_a_folder_that_cannot_be_put_in_place_is_not_missed(tmp_path, monkeypatch, error):
    """The old one was moved aside already: an error, or another program that put one in its place."""
    target, rename = tmp_path / "set", Path.rename
    target.mkdir()
    (target / "a").write_text("old")

    def renamed(path, to):
        if path.name == "new" and error:
            raise error
        rename(path, to)
        if path == target and not error:
            target.mkdir()
            (target / "a").write_text("second")

    monkeypatch.setattr(Path, "rename", renamed)
    with pytest.raises((OutputError, KeyboardInterrupt)), outputs.replaced_folder(target, ("a",)) as folder:
        (folder / "a").write_text("first")
    assert (target / "a").read_text() == ("old" if error else "second")
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_two_do_not_publish_at_once(place, capsys):
    place.published.mkdir()
    with (place.published.parent / ".publish.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "another scripts/publish is at work" in place.refuses(capsys)
    assert place.publish() == 0


def test_what_is_there_and_no_set_is_kept(place, capsys):
    place.of_device.mkdir(parents=True)
    (place.of_device / "file").write_text("mine")
    assert f"{place.of_device}/file: cannot be written: it is not a folder" in place.refuses(
        capsys, "--as=file"
    )
    (place.of_device / "thesis").mkdir()
    (place.of_device / "thesis/thesis.txt").write_text("mine")
    assert "it holds thesis.txt, which is not one of records" in place.refuses(capsys, "--as=thesis")


def test_what_cannot_be_the_name_of_a_set_is_refused_first(place, capsys):
    shutil.rmtree(place.results)
    names = f". .. a/b ../x .hidden -x -- A index x.md tables {'x' * 65}".split()
    for name in (*names, "", "a\n"):
        assert "the name of the set is" in place.refuses(capsys, f"--as={name}"), name


def test_a_commit_is_told_as_git_shows_it_and_a_dirty_tree_is_in_the_list(place, capsys):
    for told in ("", "main", "--", "C0FFEE0"):
        assert "must be 7 to 40 hexadecimal digits" in place.refuses(capsys, f"--commit={told}")
    place.measure(git={"commit": None, "dirty": None})
    assert place.publish("--commit=c0ffee0") == 0
    assert "| commit | c0ffee0 (as told, not recorded) |" in (place.of_device / "all/README.md").read_text()
    assert "| not recorded |" in (place.of_device / "README.md").read_text()
    place.measure(git={"commit": "c0ffee0123", "dirty": True})
    assert place.publish() == 0
    assert "| c0ffee0 (dirty working tree) |" in (place.of_device / "README.md").read_text()


def test_what_records_say_is_no_markdown(place):
    """Nor does it begin another line, or hide what follows."""
    place.measure(driver="5|8 <img src=x> [a](b) http://c `d` _e_ \u202e*f*")
    assert place.publish() == 0
    assert (
        r"| driver | 5\|8 \<img src=x\> \[a\](b) http:\//c \`d\` \_e\_ \\u202e\*f\* |"
        in (place.of_device / "all/README.md").read_text().splitlines()
    )


def test_the_times_of_a_set_are_those_of_its_cpu_rows_too(place):
    of_gpu, of_cpu = list(sweeps.all_cells(place.grid).values())[:2]
    records = [
        record(of_gpu, [1.0], started="2026-01-02T00:00:00+00:00"),
        record(of_cpu, [1.0], started="2026-01-03T00:00:00+00:00", backend="cpu", device="A CPU"),
    ]
    said = published_set.readme(records)
    assert "| first cell | 2026-01-02T00:00:00+00:00 |" in said and "| device | NVIDIA H200 |" in said
    assert "| last cell | 2026-01-03T00:00:00+00:00 |" in said


def test_a_set_in_the_folder_of_the_device_is_not_overwritten(place, capsys):
    assert place.publish() == 0
    for path in (place.of_device / "all").iterdir():
        path.replace(place.of_device / path.name)
    (place.of_device / "all").rmdir()
    assert f"{place.of_device} is a set itself" in place.refuses(capsys, "--as", "other")


def test_records_that_would_be_lost_are_named_and_dropped_if_that_is_asked_for(place, capsys):
    store.write(place.results / f"limits/{GPU.slug}.json", limits_of())
    assert place.publish() == 0
    (place.results / f"limits/{GPU.slug}.json").unlink()
    (second,) = {cell.name for cell in place.grid["two"].cells}
    (place.results.parent / naming.record_path(second, 2)).unlink()
    said = place.refuses(capsys)
    assert "gives: 1 limits, 2 records of two would be removed: publish under another name" in said
    assert "1 limits, 1 records of two would be removed" in place.refuses(capsys, "--fewer-rounds")
    assert place.publish("--drop") == 0
    assert set(archive.read_sweeps(place.of_device / "all")) == {"one"}


def test_another_set_that_is_damaged_is_named_and_nothing_is_published(place, capsys):
    other = place.of_device / "other"
    for damaged in ("records.jsonl.gz", "sweeps.json"):
        assert place.publish("--as", "other") == 0
        whole = (other / damaged).read_bytes()
        (other / damaged).write_bytes(b"{")
        assert str(other / damaged) in place.refuses(capsys)
        (other / damaged).write_bytes(whole)
    (other / "README.md").unlink()
    assert f"{other} holds figures, but no README.md" in place.refuses(capsys)


def test_a_record_is_of_the_device_that_it_names_not_of_its_folder(place, capsys):
    (place.results / "cells" / GPU.slug).rename(place.results / "cells/tesla-t4")
    assert place.publish() == 0
    assert [path.name for path in place.published.iterdir()] == [GPU.slug]
    (place.results / "cells/tesla-t4").rename(place.results / "cells/mine")
    for cell in sweeps.read(place.results.parent / "grid.yaml", Device("cuda", "Tesla T4"))["two"].cells:
        other = record(cell, [1.0, 1.1], device="Tesla T4", device_uuid="GPU-2")
        store.write(place.results / "cells/mine/other.json", other)
    assert "has records of 2 devices, nvidia-h200, tesla-t4, but" in place.refuses(capsys)


def test_what_are_no_results_is_said(place, capsys):
    shutil.rmtree(place.results)
    said = f"{place.results} is not a folder of results: it has neither cells nor microbenchmarks"
    assert said in place.refuses(capsys)
    assert place.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: publish")


@pytest.mark.parametrize(
    "script", ["publish", "redraw", "cnn_page.py", "claim_pages.py", "published_numbers.py"]
)
def test_what_interrupts_a_script_is_one_line(script, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.syspath_prepend(ROOT / "scripts")
    monkeypatch.setattr("snn.arguments.run_line", interrupted)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "scripts" / script), run_name="__main__")
    assert ended.value.code == 130 and capsys.readouterr().err == "snn: interrupted before its end\n"


@pytest.mark.parametrize("device", sorted({folder.parent.name for folder in published_sets.checked()}))
def test_the_published_lists_are_what_the_records_say(device, monkeypatch):
    """Which test_published_figures.py checks one by one."""
    monkeypatch.setattr(archive, "entries", lambda folder: dict(enumerate(entries_of(name_of(folder)))))
    folders = published_sets.sets(device=device)
    made = published_set.list_of({folder.name: folder for folder in folders})
    assert (published_sets.PUBLISHED / device / "README.md").read_text() == made


def test_a_set_that_lost_its_records_is_named(tmp_path):
    said = f"^{re.escape(str(tmp_path))}: no records found: publish it again"
    with pytest.raises(RecordError, match=said):
        published_set.list_of({"all": tmp_path})


# ---- scripts/redraw

redraw = runpy.run_path(str(ROOT / "scripts/redraw"))["main"]


def test_what_is_no_set_is_not_drawn(tmp_path, capsys):
    for path in (ROOT / "pyproject.toml", tmp_path, tmp_path / "none"):
        assert redraw([str(path)]) == 2
        assert f"{path} is not a published set: it must be a folder" in capsys.readouterr().err


def test_tables_are_replaced_only_if_that_is_said(tmp_path, capsys, monkeypatch):
    """And none is lost: a set has at least what its records give."""

    def save(drawn, to, name):
        for end in ("svg", "png"):
            (to / f"figures/{name}.{end}").write_text("drawn")

    monkeypatch.setattr("snn.retabulate._save", save)
    copy = shutil.copytree(ROOT / "results/published/nvidia-h200/networks", tmp_path / "networks")
    table, whole = copy / "tables/networks.csv", (copy / "tables/networks.csv").read_bytes()
    table.write_bytes(whole[:-1])
    assert redraw([str(copy)]) == 2 and table.read_bytes() == whole[:-1]
    assert "is not what the records give now: use --tables" in capsys.readouterr().err
    assert redraw([str(copy), "--tables"]) == 0 and table.read_bytes() == whole
    assert (copy / "figures/networks.svg").read_text() == "drawn"
    (copy / "tables/further.csv").write_text("a")
    assert redraw([str(copy), "--tables"]) == 2
    assert "no longer give tables/further.csv" in capsys.readouterr().err
