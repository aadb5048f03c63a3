"""An archive of records: equal records are equal bytes, whenever they are written."""

import gzip
import re
import time
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from real_records import at, edited, leaves, reference

from snn import compare, merge, retabulate
from snn.errors import RecordError
from snn.records import archive, store


def test_an_archive_does_not_depend_on_when_it_is_written(tmp_path, monkeypatch):
    found = []
    for now in (1e9, 2e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        archive.write([reference()], tmp_path)
        found.append((tmp_path / archive.RECORDS).read_bytes())
    assert found[0] == found[1]
    assert list(archive.read_all(tmp_path).values()) == [reference()]


@given(data=st.data())
def test_an_edited_record_is_refused_by_its_line(tmp_path_factory, data):
    """Under its old digest."""
    folder = tmp_path_factory.mktemp("archive")
    way = data.draw(st.sampled_from([way for way in leaves(reference()) if way != ("schema_version",)]))
    new = data.draw(st.integers(2, 9).map(lambda n: n / 16) | st.just("edited"))
    assume(at(reference(), way) != new)
    archive.write([reference(), edited(reference(), way, new)], folder)
    with pytest.raises(
        RecordError,
        match=f"^{re.escape(str(folder / archive.RECORDS))}, line 2: it was changed after it was w",
    ):
        archive.read_all(folder)


def test_a_line_that_is_no_record_is_named_as_an_editor_counts(tmp_path):
    archive.write([reference()], tmp_path)
    path = tmp_path / archive.RECORDS
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + b"[}\n"))
    with pytest.raises(RecordError, match="line 2"):
        archive.read_all(tmp_path)


def test_records_of_a_folder_are_in_the_order_of_their_paths(tmp_path, monkeypatch):
    """Which no file system promises; in that order they are published."""
    for name in "cab":
        (tmp_path / "cells" / name).mkdir(parents=True)
        store.write(tmp_path / "cells" / name / "1.json", reference())
    listed = Path.rglob
    for way in (False, True):
        monkeypatch.setattr(Path, "rglob", lambda *of, way=way: sorted(listed(*of), reverse=way))
        assert list(archive.unchecked(tmp_path)) == [str(tmp_path / f"cells/{name}/1.json") for name in "abc"]


def test_a_folder_of_cells_an_archive_and_what_is_not_there_are_asked_for_records(tmp_path):
    """What is not there is refused by what reads it; a folder of microbenchmarks alone has none."""
    assert not archive.has_cells(tmp_path)
    assert archive.has_cells(tmp_path / "none")
    (tmp_path / "results/cells").mkdir(parents=True)
    assert archive.has_cells(tmp_path / "results")
    archive.write([reference()], tmp_path)
    assert archive.has_cells(tmp_path)


@pytest.mark.parametrize(
    ("command", "given"),
    [(retabulate, ["{}", "out"]), (compare, ["{}", "{}", "out"]), (merge, ["{}", "output=out"])],
)
def test_an_archive_that_cannot_be_opened_is_named_and_not_the_output(
    tmp_path, monkeypatch, capsys, command, given
):
    """Such as one whose name no file can have."""
    monkeypatch.chdir(tmp_path)
    name = "x" * 300
    assert command.main([one.format(name) for one in given]) == 2
    assert f"{name}: cannot be read: [Errno " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "given"),
    [(retabulate, ["{}", "out"]), (compare, ["{}", "{}", "out"]), (merge, ["{}", "output=out"])],
)
def test_of_a_folder_of_folders_of_results_those_are_named(tmp_path, monkeypatch, capsys, command, given):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all/laptop/cells").mkdir(parents=True)
    (tmp_path / "all/gpu/calls/microbenchmarks").mkdir(parents=True)
    (tmp_path / "all/gpu/.calls.1234/cells").mkdir(parents=True)
    for name in ("h100", "notes"):
        (tmp_path / "all" / name).mkdir()
    archive.write([reference()], tmp_path / "all/h100")
    assert command.main([one.format("all") for one in given]) == 2
    assert capsys.readouterr().err == (
        "snn: all: there are no records in it: it has neither cells nor records.jsonl.gz; "
        "it holds folders of results: all/gpu/calls, all/h100, all/laptop: name those\n"
    )
