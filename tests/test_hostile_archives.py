"""Folders in place of archives that no program of ours wrote: each is refused by name, before any work."""

import gzip
import json
import os

import pytest
from real_records import reference

from snn import compare, retabulate
from snn.errors import RecordError
from snn.grid import naming
from snn.records import archive, untrusted


def archived(folder, **files):
    """An archive of one record, with sweeps of it or other files beside it."""
    folder.mkdir()
    archive.write([reference()], folder)
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text if isinstance(text, str) else json.dumps(text))
    return folder


NAME = f"x/y-{naming.digest(reference()['cell'])}"


SWEEPS = {
    "elsewhere": ({"../../../X": {"axes": [], "cells": [NAME]}}, "'../../../X' is not the name of a sweep"),
    "absolute": ({"/tmp/X": {"axes": [], "cells": [NAME]}}, "is not the name of a sweep"),
    "two lines": ({"x\n": {"axes": [], "cells": [NAME]}}, "is not the name of a sweep"),
    "reserved": ({"overview": {"axes": [], "cells": [NAME]}}, "the name is taken"),
    "unknown axis": ({"mine": {"axes": ["verdict"], "cells": [NAME]}}, "'verdict' is no setting"),
    "axis of text": ({"mine": {"axes": "strategy", "cells": [NAME]}}, "mine.axes is 'strategy'"),
    "cells of numbers": ({"mine": {"axes": [], "cells": [1]}}, r"mine.cells[0] is 1"),
    "no cells": ({"mine": {"axes": [], "cells": []}}, "mine.cells has 0 values"),
    "no digest": ({"mine": {"axes": [], "cells": ["x-"]}}, "mine.cells[0] is 'x-'"),
    "no sweeps": ({}, "is empty"),
    "a list": ([], "it is []"),
    "no JSON": ("{", "not a record"),
}


@pytest.mark.parametrize(("published", "said"), SWEEPS.values(), ids=list(SWEEPS))
def test_sweeps_of_an_archive_are_checked_as_those_of_a_grid(tmp_path, capsys, published, said):
    folder = archived(tmp_path / "a", sweeps=published)
    assert retabulate.main([str(folder), str(tmp_path / "b/c/d/out")]) == 2
    error = capsys.readouterr().err
    assert "sweeps.json: " in error and said in error
    assert not list(tmp_path.rglob("*.csv"))


def test_a_published_cell_that_is_not_there_is_said(tmp_path, capsys):
    folder = archived(tmp_path / "a", sweeps={"mine": {"axes": [], "cells": ["x/y-00000000"]}})
    assert retabulate.main([str(folder), str(tmp_path / "out")]) == 0
    assert "mine is left out: 1 of its 1 cells are missing" in capsys.readouterr().out


def test_an_earlier_shorter_digest_names_the_same_cell(tmp_path, monkeypatch):
    monkeypatch.setattr(retabulate, "_save", lambda figure, *where: None)
    names = [f"x/y-{naming.digest(reference()['cell'])[:8]}"]
    folder = archived(tmp_path / "a", sweeps={"mine": {"axes": [], "cells": names}})
    assert retabulate.main([str(folder), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out/tables/mine.csv").is_file()


@pytest.mark.parametrize(
    "given_limits", ["{", [], {"limits_version": 1}, {"limits_version": 2}, {"limits_version": 9}]
)
def test_limits_of_an_archive_are_checked(tmp_path, capsys, given_limits):
    folder = archived(tmp_path / "a", limits=given_limits)
    assert retabulate.main([str(folder), str(tmp_path / "out")]) == 2
    assert "limits.json: " in capsys.readouterr().err


@pytest.mark.parametrize("command", [retabulate.main, lambda paths: compare.main([paths[0], *paths])])
@pytest.mark.parametrize(
    "make",
    [
        lambda folder: (folder / "records.jsonl.gz").mkdir(),
        lambda folder: os.mkfifo(folder / "records.jsonl.gz"),
        lambda folder: (folder / "records.jsonl.gz").write_bytes(b"no gzip"),
        lambda folder: (folder / "records.jsonl.gz").write_bytes(gzip.compress(b"\xff\n")),
        lambda folder: (folder / "records.jsonl.gz").write_bytes(gzip.compress(b"{}\n")[:-4]),
        lambda folder: (folder / "records.jsonl.gz").write_bytes(gzip.compress(b"\n")),
        lambda folder: (folder / "cells/x.json").mkdir(parents=True),
        lambda folder: (folder / "cells").mkdir(),
    ],
)
def test_garbage_in_place_of_an_archive_is_refused(tmp_path, capsys, make, command):
    folder = tmp_path / "a"
    folder.mkdir()
    make(folder)
    assert command([str(folder), str(tmp_path / "out")]) == 2
    assert str(folder) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_archive_that_decompresses_to_too_much_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "MOST_BYTES", 1 << 20)
    (tmp_path / "records.jsonl.gz").write_bytes(gzip.compress(bytes(4 << 20)))
    with pytest.raises(RecordError, match="line 1: decompresses to more than 1 MiB"):
        archive.read_all(tmp_path)
    monkeypatch.setattr(untrusted, "MOST_ARCHIVE_BYTES", 1000)
    archive.write([reference()], tmp_path)
    with pytest.raises(RecordError, match="decompresses to more than"):
        archive.read_all(tmp_path)


@pytest.mark.parametrize("command", [retabulate.main, lambda paths: compare.main([paths[0], *paths])])
def test_an_output_that_is_no_folder_is_refused_before_any_work(tmp_path, capsys, command):
    folder = archived(tmp_path / "a")
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file/further", tmp_path / ("x" * 300)):
        assert command([str(folder), str(output)]) == 2
        assert f"{output}: cannot be written: " in capsys.readouterr().err


def test_a_full_disk_is_named_by_the_output(tmp_path, capsys, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    folder = archived(tmp_path / "a", sweeps={"mine": {"axes": [], "cells": [NAME]}})
    monkeypatch.setattr(retabulate, "write", full)
    assert retabulate.main([str(folder), str(tmp_path / "out")]) == 2
    assert "out: cannot be written: No space left" in capsys.readouterr().err
