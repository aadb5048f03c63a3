"""Files and archives of records: whole or absent; what no program of ours wrote is refused by name."""

import gzip
import hashlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import ROOT
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from real_records import at, edited, leaves, old, reference, refusal, without
from records_of import limits_of, write_all
from whole_grid import sweeps_of

from snn import cli, retabulate
from snn.analysis import frame
from snn.errors import OutputError, RecordError
from snn.grid import naming
from snn.hardware.limits import VERSION
from snn.records import archive, microbenchmarks, store, untrusted

FULL_DISK = Mock(side_effect=OSError(28, "No space left on device"))

# ---- what is written


def test_what_is_written_is_read_once_until_the_file_changes(tmp_path, monkeypatch):
    path, parsed = tmp_path / "a" / "r.json", []
    store.write(path, reference())
    monkeypatch.setattr(store, "_known", {})
    parse = untrusted.parse
    monkeypatch.setattr(untrusted, "parse", lambda *of: (parsed.append(of), parse(*of))[1])
    assert store.read(path) == store.read(path) == reference() and len(parsed) == 1
    store.write(path, old(reference()))
    assert store.read(path) == old(reference()) and len(parsed) == 2
    path.write_text("x")
    assert "not a record" in refusal(store.read, path)


def test_what_cannot_be_written_leaves_the_old_record(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    store.write(path, reference())
    with pytest.raises(ValueError, match="JSON"):
        store.write(path, {"x": math.inf})

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", FULL_DISK)
        with pytest.raises(OutputError, match=f"{re.escape(str(path))}: cannot be written: No space left"):
            store.write(path, reference())
    assert store.read(path) == reference()
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, pathlib, signal, sys
from snn.files.outputs import replaced
with replaced(pathlib.Path(sys.argv[1])) as file:
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_while_a_record_is_written_leaves_the_old_one_and_a_hidden_file_that_nothing_reads(tmp_path):
    path = tmp_path / "cells" / "r.json"
    store.write(path, reference())
    before = path.read_bytes()
    killed = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], cwd=ROOT)
    assert killed.wait() == -signal.SIGKILL
    assert {each.name for each in path.parent.iterdir()} == {"r.json", f".r.json.{killed.pid}"}
    assert path.read_bytes() == before
    assert list(archive.read_all(tmp_path)) == [str(path)]


# ---- JSON


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "b": 2, "b": 3}', "the key 'b' occurs twice in one object"),
        ("[NaN]", "NaN is not a number of JSON"),
        ("[-Infinity]", "-Infinity is not a number of JSON"),
        ("[1e999]", "1e999 is not a number of JSON, or too large"),
        ("[-1e999]", "-1e999 is not a number of JSON, or too large"),
        (f"[{2**63}]", f"{2**63} has more than 64 bits"),
        (f"[{-(2**63)}]", f"{-(2**63)} has more than 64 bits"),
        (f"[{'9' * 10_000}]", "limit"),
        ('["\\ud800"]', "surrogates not allowed"),
        ('["\\uDfFf"]', "surrogates not allowed"),
        ("[" * 200_000, "it is nested too deeply"),
        ("[1", "Expecting ',' delimiter"),
    ],
)
def test_what_is_not_strict_json_is_refused(text, said):
    found = refusal(untrusted.parse, text, "it")
    assert found.startswith("it: not a record: ") and said in found


def test_strict_json_is_read():
    text = '{"a": [1, 1.5, null, true, "\\ud83d\\ude00 \\u00e9"], "b": {"a": {}}}'
    assert untrusted.parse(text, "it") == {"a": [1, 1.5, None, True, "😀 é"], "b": {"a": {}}}
    assert untrusted.parse(f"[{2**63 - 1}, 1e300]", "it") == [2**63 - 1, 1e300]


def test_a_key_that_occurs_twice_is_found_among_very_many():
    """In one pass: to count each of them would take minutes."""
    members = ",".join(f'"{number}": 0' for number in [*range(100_000), 99_999])
    assert "the key '99999' occurs twice" in refusal(untrusted.parse, f"{{{members}}}", "it")


FILES = {
    "nothing": b"",
    "text": b"no record",
    "a list": b"[]",
    "half": b'{"schema_version": 4, "runs"',
    "not UTF-8": json.dumps({"schema_version": 4}).encode("utf-16"),
    "another version": b'{"schema_version": 6}',
    "a float": b'{"schema_version": 5.0}',
    "no digest": b'{"schema_version": 5}',
    "no version": b'{"schema_version": [4]}',
    "version 2 of nothing": b'{"schema_version": 2, "runs": [1], "summary": 3}',
    "version 3 of nothing": b'{"schema_version": 3, "cell": 1}',
}


@pytest.mark.parametrize("content", FILES.values(), ids=list(FILES))
def test_what_is_no_record_is_refused_by_name(tmp_path, content):
    path = tmp_path / "r.json"
    path.write_bytes(content)
    assert refusal(store.read, path).startswith(f"{path}: ")


def test_only_a_regular_file_is_read(tmp_path):
    """A pipe would be waited for, /dev/zero read for ever."""
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "dangling.json").symlink_to("nowhere")
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    for path in (*tmp_path.iterdir(), tmp_path / "none.json", tmp_path / ("x" * 300)):
        assert refusal(store.read, path).startswith(f"{path}: ")


def test_a_file_is_read_up_to_64_mib_and_an_archive_to_256(tmp_path, monkeypatch):
    assert (untrusted.MOST_BYTES, untrusted.MOST_ARCHIVE_BYTES) == (64 << 20, 256 << 20)
    assert "larger than 64 MiB" in (ROOT / "docs/reference/records.md").read_text()
    monkeypatch.setattr(untrusted, "MOST_BYTES", 6)
    (tmp_path / "a.json").write_text('["ab"]')
    assert untrusted.read_json(tmp_path / "a.json") == ["ab"]
    (tmp_path / "a.json").write_text('["ab"] ')
    assert "it has more than 6 bytes" in refusal(untrusted.read_json, tmp_path / "a.json")


# ---- digests


def test_a_digest_is_of_the_canonical_json():
    record = {"b": [1, 2.5, None], "a": "é"}
    text = rb'{"a":"\u00e9","b":[1,2.5,null]}'
    assert store.digest(record) == store.digest(record | {"digest": "x"}) == hashlib.sha256(text).hexdigest()
    assert store.sealed(dict(reversed(record.items()))) == record | {"digest": store.digest(record)}
    store.check_digest(store.sealed(record), "it")
    with pytest.raises(ValueError, match="JSON"):
        store.sealed({"a": float("inf")})


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"a": float("inf"), "digest": "x"}, "not a record: "),
        ({"a": 1}, "it has no digest: it was changed after it was written"),
        ({"a": 1, "digest": "0123456789abcdef0123"}, "its digest is 0123456789abcdef"),
        ({"a": 1, "digest": None}, "changed after it was written: its digest is None"),
        ({"a": 1, "digest": store.digest({"a": 1})[:16]}, "it was changed after it was written"),
    ],
)
def test_a_record_that_its_digest_is_not_of_is_refused(record, said):
    assert said in refusal(store.check_digest, record, "it")


def test_a_workflows_record_is_refused_with_the_command_that_measures_it_again(tmp_path):
    path = tmp_path / naming.record_path("some/cell", 1)
    store.write(path, reference() | {"round": 2})
    said = refusal(store.read, path)
    assert "changed after it was written" in said and f"snakemake --cores 1 --force {path}" in said
    assert cli.main(["perfetto", str(path), str(tmp_path / "trace.json")]) == 2
    assert store.again("/a/results/limits/x.json").endswith("--force /a/results/limits/x.json")
    assert store.again("results/published/x.json") == ""


def test_a_table_refuses_a_workflows_record_without_a_digest(tmp_path):
    """Else an edit would pass under the version of a time when there was none."""
    expected = write_all(tmp_path, [next(iter(sweeps_of().values())).cells[0]], [[1.0, 2.0]])
    path = next(iter(expected))
    store.write(Path(path), old(store.read(Path(path))))
    assert "without a digest: measure it again: " in refusal(frame.checked, expected)


# ---- versions


def test_the_versions_that_are_read_are_said():
    for version in (1, store.SCHEMA_VERSION + 1, None, "4", [4]):
        said = refusal(store.checked, {"schema_version": version}, "it")
        assert f"the schema version is {version!r}" in said and f"2 to {store.SCHEMA_VERSION}" in said
    for version in range(2, store.SCHEMA_VERSION + 1):
        said = refusal(store.checked, {"schema_version": version}, "it")
        assert "the schema version is" not in said
        assert ("it has no digest" in said) == (version > 3)


CHOICES = {"reduction": "mean", "gradient": "exact", "drop_last": False, "accumulate": 1}
LOST = {"final_mse": None, "final_loss": None}
OF_3 = {"schema_version": 3, "runs": [{"final_mse": 1.0}]}
LIFTED = {
    "version 2, whose loss was the mean squared error": (
        {"schema_version": 2, "runs": [{"final_mse": None}], "summary": {"mean_final_mse": 3.0}},
        {"schema_version": 3, "runs": [LOST], "summary": {"mean_final_mse": 3.0, "mean_final_loss": 3.0}},
    ),
    "the same of version 3": (OF_3, OF_3),
    "precision": (
        {"cell": {"protocol": {"runs": 3, "precision": 0.1}, "network": 1}, "stopped": "precision"},
        {"cell": {"protocol": {"runs": 3, "relative_error": 0.1}, "network": 1}, "stopped": "relative_error"},
    ),
    **{
        f"{threads!r} of BLAS": (
            {"provenance": {"versions": {"numpy": "2", "blas_threads": threads}}},
            {"provenance": {"versions": {"numpy": "2"}, "blas_threads": number}},
        )
        for threads, number in (("8", 8), (None, None), ("", ""))
    },
    "before there was a choice": (
        {"cell": {"training": {"epochs": 3}, "network": {"seed": 1}}},
        {"cell": {"training": {"epochs": 3} | CHOICES, "network": {"seed": 1, "recompute": []}}},
    ),
    "a choice": (
        {"cell": {"training": {"reduction": "sum", "drop_last": True}, "network": {"recompute": [2]}}},
        {
            "cell": {
                "training": CHOICES | {"reduction": "sum", "drop_last": True},
                "network": {"recompute": [2]},
            }
        },
    ),
}


@pytest.mark.parametrize(("earlier", "today"), LIFTED.values(), ids=list(LIFTED))
def test_earlier_names_are_lifted_to_todays(earlier, today):
    before = json.dumps(earlier)
    assert store.lift(earlier) == today
    assert store.lift(today) == today
    assert json.dumps(earlier) == before
    assert store.lift(reference()) == reference()


# ---- limits of devices


@pytest.mark.parametrize(
    ("record", "said"),
    [
        *(({"limits_version": version}, f"limits version {version}") for version in (VERSION + 1, 0, 2.0)),
        ([], "limits version None"),
        (limits_of() | {"digest": "0" * 64}, "it was changed after it was written"),
        (without(limits_of(), ("digest",)), "it has no digest"),
        (store.sealed(limits_of() | {"limits": 3}), "limits is 3: it must be array"),
        (store.sealed(edited(limits_of(), ("limits", 0, "samples"), [-1.0])), "samples[0] is -1.0"),
    ],
)
def test_an_edited_record_of_limits_is_refused(tmp_path, record, said):
    path = tmp_path / "results/limits/x.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))
    found = refusal(microbenchmarks.read_limits, path)
    assert said in found and found.endswith(store.again(path))


def test_limits_of_today_and_of_version_1_are_read(tmp_path):
    path, record = tmp_path / "limits.json", limits_of()
    store.write(path, record)
    assert microbenchmarks.read_limits(path) == record
    store.write(path, without(record, ("digest",)) | {"limits_version": 1})
    assert microbenchmarks.read_limits(path)["limits"] == record["limits"]


# ---- archives: equal records are equal bytes; folders that no program of ours wrote are named


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
    assert "to more than 1 MiB in a line, or 3 MiB in all: it is not an archive of records" in said


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


MAKE = {
    "a folder": lambda folder: (folder / archive.RECORDS).mkdir(),
    "a pipe": lambda folder: os.mkfifo(folder / archive.RECORDS),
    "a folder of a record": lambda folder: (folder / "cells/x.json").mkdir(parents=True),
    "no cells": lambda folder: (folder / "cells").mkdir(),
}


@pytest.mark.parametrize("garbage", [*MAKE, *CONTENTS])
def test_garbage_in_place_of_an_archive_is_refused(tmp_path, garbage):
    if garbage in MAKE:
        MAKE[garbage](tmp_path)
    else:
        (tmp_path / archive.RECORDS).write_bytes(CONTENTS[garbage])
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
    assert "no records found" in said and "all/gpu/calls, all/h100, all/laptop: name those" in said


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
    "unknown axis": ({"mine": {"axes": ["verdict"], "cells": [NAME]}}, "'verdict' is not a setting"),
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


@pytest.mark.parametrize("command", [["retabulate", "a"], ["compare", "a", "a"]])
def test_an_output_that_is_no_folder_is_refused_before_any_work(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    archived(tmp_path / "a")
    (tmp_path / "file").write_text("")
    for output in ("file", "file/further", "x" * 300):
        assert cli.main([*command, output]) == 2
        assert f"{output}: cannot be written: " in capsys.readouterr().err


def test_a_full_disk_is_named_by_the_output(tmp_path, capsys, monkeypatch):
    folder = archived(tmp_path / "a", sweeps={"mine": {"axes": [], "cells": [NAME]}})
    monkeypatch.setattr(retabulate, "write", FULL_DISK)
    assert cli.main(["retabulate", str(folder), str(tmp_path / "out")]) == 2
    assert "out: cannot be written: No space left" in capsys.readouterr().err
