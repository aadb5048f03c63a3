"""A record on disk: whole or absent, and never NaN."""

import json
import math
import re
import signal
import subprocess
import sys

import pytest
from conftest import ROOT
from records_of import record
from whole_grid import sweeps_of

from snn.errors import RecordError
from snn.records import archive, store

GRID = sweeps_of()
CELL = GRID["dataset_size"].cells[0]
CELL = CELL | {"protocol": CELL["protocol"] | {"runs": 2, "rounds": 1, "min_runs": 1}}


def test_what_is_written_is_read(tmp_path):
    one = record(CELL, [1.0, 3.0])
    store.write(tmp_path / "a" / "r.json", one)
    assert store.read(tmp_path / "a" / "r.json") == one
    assert one["summary"]["mean_seconds"] == 2.0
    assert one["summary"]["std_seconds"] == pytest.approx(math.sqrt(2))


def test_not_a_number_becomes_null(tmp_path):
    store.write(tmp_path / "r.json", record(CELL, [1.0], mse=math.nan))
    assert "NaN" not in (tmp_path / "r.json").read_text()
    assert store.read(tmp_path / "r.json")["runs"][0]["final_mse"] is None
    assert store.read(tmp_path / "r.json")["summary"]["std_seconds"] is None


def test_a_failed_write_leaves_the_old_record_and_nothing_else(tmp_path):
    path = tmp_path / "r.json"
    store.write(path, record(CELL, [1.0]))
    with pytest.raises(ValueError, match="JSON"):
        store.write(path, {"x": math.inf})
    assert store.read(path)["runs"][0]["seconds"] == 1.0
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
    store.write(path, record(CELL, [1.0]))
    before = path.read_bytes()
    killed = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], cwd=ROOT)
    assert killed.wait() == -signal.SIGKILL
    assert {each.name for each in path.parent.iterdir()} == {"r.json", f".r.json.{killed.pid}"}
    assert path.read_bytes() == before
    assert list(archive.read_all(tmp_path)) == [str(path)]


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"schema_version": 0})])
def test_refuses_what_is_not_a_record(tmp_path, text):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=re.escape(str(path))):
        store.read(path)


def test_a_record_under_an_earlier_key_name_is_read_under_todays(tmp_path):
    today = record(CELL, [1.0])
    earlier = json.loads(json.dumps(today)) | {"schema_version": 3}
    del earlier["digest"]
    earlier["cell"]["protocol"]["precision"] = earlier["cell"]["protocol"].pop("relative_error")
    store.write(tmp_path / "r.json", earlier)
    read = store.read(tmp_path / "r.json")
    assert read | {"schema_version": store.SCHEMA_VERSION, "digest": today["digest"]} == today
    assert "precision" in earlier["cell"]["protocol"]
    assert store.lift({**earlier, "stopped": "precision"})["stopped"] == "relative_error"
    assert store.lift(today) == today
