"""An archive of records: equal records are equal bytes; folders that no program of ours wrote are named."""

import gzip
import json
import os
import re
import time
from pathlib import Path

import pytest
from conftest import as_command
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from real_records import at, edited, leaves, reference, refusal

from snn import cli, retabulate
from snn.errors import RecordError
from snn.grid import naming
from snn.records import archive, store, untrusted

NAME = f"x/y-{naming.digest(reference()['cell'])}"
COMMANDS = ["retabulate {0} out", "compare {0} {0} out", "merge {0} output=out"]


def archived(folder, **files):
    """An archive of one record, with sweeps of it or other files beside it."""
    folder.mkdir()
    archive.write([reference()], folder)
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text if isinstance(text, str) else json.dumps(text))
    return folder


# ---- bytes and lines


def test_an_archives_bytes_are_of_compact_sorted_json_whenever_it_is_written(tmp_path, monkeypatch):
    found = []
    for now in (1e9, 2e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        archive.write([{"b": 1, "a": "é"}, {}], tmp_path)
        found.append((tmp_path / archive.RECORDS).read_bytes())
    assert found[0] == found[1]
    assert gzip.decompress(found[0]) == b'{"a":"\\u00e9","b":1}\n{}\n'
    archive.write([reference()], tmp_path)
    assert list(archive.read_all(tmp_path).values()) == [reference()]


@settings(max_examples=30)
@given(data=st.data())
def test_an_edited_record_is_refused_by_its_line(tmp_path_factory, data):
    """Under its old digest."""
    folder = tmp_path_factory.mktemp("archive")
    way = data.draw(st.sampled_from([way for way in leaves(reference()) if way != ("schema_version",)]))
    new = data.draw(st.integers(2, 9).map(lambda n: n / 16) | st.just("edited"))
    assume(at(reference(), way) != new)
    archive.write([reference(), edited(reference(), way, new)], folder)
    place = re.escape(str(folder / archive.RECORDS))
    with pytest.raises(RecordError, match=f"^{place}, line 2: it was changed after it was w"):
        archive.read_all(folder)


def test_records_of_a_folder_are_in_the_order_of_their_paths(tmp_path, monkeypatch):
    """Which no file system promises; in that order they are published."""
    for name in "cab":
        (tmp_path / "cells" / name).mkdir(parents=True)
        store.write(tmp_path / "cells" / name / "1.json", reference())
    listed = Path.rglob
    for way in (False, True):
        monkeypatch.setattr(Path, "rglob", lambda *of, way=way: sorted(listed(*of), reverse=way))
        assert list(archive.unchecked(tmp_path)) == [str(tmp_path / f"cells/{name}/1.json") for name in "abc"]


def test_lines_are_read_up_to_a_size_and_an_archive_up_to_another(tmp_path, monkeypatch):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"abc\ndef\nghi\n"))
    for line, whole, at_line in ((4, 12, None), (3, 12, 1), (4, 11, 3)):
        monkeypatch.setattr(untrusted, "MOST_BYTES", line)
        monkeypatch.setattr(untrusted, "MOST_ARCHIVE_BYTES", whole)
        if at_line is None:
            texts = [(f"{path}, line {n}", f"{text}\n") for n, text in enumerate(("abc", "def", "ghi"), 1)]
            assert list(untrusted.lines(path)) == texts
        else:
            assert f"line {at_line}: decompresses to more than 0 MiB" in refusal(list, untrusted.lines(path))
    monkeypatch.setattr(untrusted, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(untrusted, "MOST_ARCHIVE_BYTES", 3 << 20)
    path.write_bytes(gzip.compress(bytes(2 << 20)))
    said = refusal(list, untrusted.lines(path))
    assert "to more than 1 MiB in a line, or 3 MiB in all: this is no archive of records" in said


# ---- what is no archive


WHOLE = gzip.compress(b"{}\n", mtime=0)
CONTENTS = {
    "other": b"no gzip",
    "no UTF-8": gzip.compress(b"\xff\n"),
    "cut off": WHOLE[:-4],
    "no block": WHOLE[:10] + b"no block",
    "an empty line": gzip.compress(b"\n"),
    "half a line": gzip.compress(b"[}\n"),
    "nothing": b"",
}


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: (folder / archive.RECORDS).mkdir(),
        lambda folder: os.mkfifo(folder / archive.RECORDS),
        lambda folder: (folder / "cells/x.json").mkdir(parents=True),
        lambda folder: (folder / "cells").mkdir(),
        *(
            lambda folder, content=content: (folder / archive.RECORDS).write_bytes(content)
            for content in CONTENTS.values()
        ),
    ],
    ids=["a folder", "a pipe", "a folder of a record", "no cells", *CONTENTS],
)
def test_garbage_in_place_of_an_archive_is_refused(tmp_path, make):
    make(tmp_path)
    assert str(tmp_path) in refusal(archive.entries, tmp_path)


def test_a_file_in_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    assert "file: it is neither a folder of results nor" in refusal(archive.entries, tmp_path / "file")
    (tmp_path / "file.gz").write_text("x")
    assert "file.gz: cannot be read: " in refusal(archive.entries, tmp_path / "file.gz")


@pytest.mark.parametrize("line", COMMANDS)
def test_an_archive_that_cannot_be_opened_is_named_and_not_the_output(tmp_path, monkeypatch, capsys, line):
    """Such as one whose name no file can have; a folder of folders of results names those."""
    monkeypatch.chdir(tmp_path)
    name = "x" * 300
    assert cli.main(line.format(name).split()) == 2
    assert f"{name}: cannot be read: [Errno " in capsys.readouterr().err
    for path in ("all/laptop/cells", "all/gpu/calls/microbenchmarks", "all/gpu/.calls.1/cells", "all/notes"):
        (tmp_path / path).mkdir(parents=True)
    archived(tmp_path / "all/h100")
    assert cli.main(line.format("all").split()) == 2
    said = capsys.readouterr().err
    assert "there are no records in it" in said and "all/gpu/calls, all/h100, all/laptop: name those" in said


def test_a_folder_of_cells_an_archive_and_what_is_not_there_are_asked_for_records(tmp_path):
    """What is not there is refused by what reads it; a folder of microbenchmarks alone has none."""
    (tmp_path / "results/cells").mkdir(parents=True)
    archived(tmp_path / "a")
    found = {name: archive.has_cells(tmp_path / name) for name in (".", "none", "results", "a")}
    assert found == {".": False, "none": True, "results": True, "a": True}


# ---- what lies beside it


SWEEPS = {
    "elsewhere": ({"../../../X": {"axes": [], "cells": [NAME]}}, "'../../../X' is not the name of a sweep"),
    "two lines": ({"x\n": {"axes": [], "cells": [NAME]}}, "is not the name of a sweep"),
    "reserved": ({"overview": {"axes": [], "cells": [NAME]}}, "the name is taken"),
    "unknown axis": ({"mine": {"axes": ["verdict"], "cells": [NAME]}}, "'verdict' is no setting"),
    "axis of text": ({"mine": {"axes": "strategy", "cells": [NAME]}}, "mine.axes is 'strategy'"),
    "cells of numbers": ({"mine": {"axes": [], "cells": [1]}}, "mine.cells[0] is 1"),
    "no cells": ({"mine": {"axes": [], "cells": []}}, "mine.cells is []"),
    "no digest": ({"mine": {"axes": [], "cells": ["x-"]}}, "mine.cells[0] is 'x-'"),
    "no sweeps": ({}, "it is {}"),
    "a list": ([], "it is []"),
    "no JSON": ("{", "not a record"),
}


@pytest.mark.parametrize(("published", "said"), SWEEPS.values(), ids=list(SWEEPS))
def test_sweeps_of_an_archive_are_checked_as_those_of_a_grid(tmp_path, capsys, published, said):
    folder = archived(tmp_path / "a", sweeps=published)
    assert cli.main(["retabulate", str(folder), str(tmp_path / "b/c/d/out")]) == 2
    error = capsys.readouterr().err
    assert "sweeps.json: " in error and said in error
    assert not list(tmp_path.rglob("*.csv"))


def test_cells_that_are_not_there_leave_their_sweep_out_and_a_shorter_digest_names_the_same(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(retabulate, "_save", lambda figure, *where: None)
    cells = {"other": ["x/y-00000000"], "mine": [f"x/y-{naming.digest(reference()['cell'])[:8]}"]}
    sweeps = {name: {"axes": [], "cells": of} for name, of in cells.items()}
    folder = archived(tmp_path / "a", sweeps=sweeps)
    assert archive.read_sweeps(folder) == sweeps
    assert cli.main(["retabulate", str(folder), str(tmp_path / "out")]) == 0
    assert "other is left out: 1 of its 1 cells are missing" in capsys.readouterr().out
    assert (tmp_path / "out/tables/mine.csv").is_file()
    (folder / archive.SWEEPS).unlink()
    assert archive.read_sweeps(folder) is None


def test_limits_of_an_archive_are_checked(tmp_path, capsys):
    folder = archived(tmp_path / "a", limits="{")
    assert cli.main(["retabulate", str(folder), str(tmp_path / "out")]) == 2
    assert "limits.json: " in capsys.readouterr().err


# ---- the output


@pytest.mark.parametrize(
    "command",
    [as_command("retabulate"), lambda paths: cli.main(["compare", paths[0], *paths])],
)
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
    assert cli.main(["retabulate", str(folder), str(tmp_path / "out")]) == 2
    assert "out: cannot be written: No space left" in capsys.readouterr().err
