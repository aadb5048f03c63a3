"""The file that a CSV table is in: what is no regular file, too large, or changed, is refused; its digest."""

import hashlib
import os
import re
from pathlib import Path

import pytest
import yaml
from csv_tables import written

from snn.config import compose
from snn.datasets import csv_table
from snn.errors import DataError
from snn.files import regular
from snn.grid import sweeps
from snn.hardware.devices import Device


def digest(path):
    return csv_table.digest({"path": str(path)})


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling.csv").symlink_to(tmp_path / "none.csv")
    names = ("none.csv", "", "fifo", "dangling.csv", "a\0b", "n" * 300)
    for path in (Path("/dev/zero"), *(tmp_path / name for name in names)):
        for use in (lambda path: csv_table.make(str(path), target="y"), digest):
            with pytest.raises(DataError, match=re.escape(f"{path}: cannot be read: ")):
                use(path)


def test_planning_refuses_a_pipe_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    sweep = {"dataset": "csv", "dataset.path": str(tmp_path / "fifo"), "dataset.target": "y"}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump({"sweeps": {"mine": sweep}}))
    with pytest.raises(DataError, match=r"sweeps\.mine: .*fifo: cannot be read: it is a pipe"):
        sweeps.read(tmp_path / "grid.yaml", Device("cpu", "Abacus"))


def test_a_file_that_has_more_in_it_than_its_size_is_refused():
    path = Path("/proc/self/status")
    if not path.exists():
        pytest.skip("there is no /proc")
    with pytest.raises(DataError, match="does it change"):
        csv_table.make(str(path), target="y")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = Path(written(tmp_path, "x,y\n1,2\n"))
    monkeypatch.setattr(regular, "_free_memory", lambda: 10)
    for use in (lambda path: csv_table.make(str(path), target="y"), digest):
        with pytest.raises(DataError, match=r"about 8 times as much memory, but 10 bytes are free"):
            use(path)
    os.truncate(path, csv_table.LARGEST_FILE + 1)  # sparse: it takes no space on the disk
    with pytest.raises(DataError, match=r"it has 2147483649 bytes, more than the 2147483648"):
        csv_table.make(str(path), target="y")


def test_the_digest_follows_the_content(tmp_path):
    path = Path(written(tmp_path, "x,y\n1,2\n"))
    first = digest(path)
    assert digest(path) == first == hashlib.sha256(path.read_bytes()).hexdigest()
    written(tmp_path, "x,y\n1,2\n3,4\n")
    assert digest(path) == hashlib.sha256(path.read_bytes()).hexdigest() != first


def test_refuses_a_file_that_changed(tmp_path):
    path = written(tmp_path, "x,y\n1,2\n")
    known = digest(path)
    assert len(csv_table.make(path, target="y", sha256=known).values) == 1
    written(tmp_path, "x,y\n1,3\n")
    with pytest.raises(DataError, match="has changed"):
        csv_table.make(path, target="y", sha256=known)


def test_the_home_folder_may_be_written_as_a_tilde(tmp_path, monkeypatch):
    written(tmp_path, "x,y\n1,2\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert csv_table.make("~/t.csv", "y").values.tolist() == [[1, 2]]
    assert csv_table.inputs({"path": "~/t.csv"}) == [tmp_path / "t.csv"]
    assert csv_table.digest({"path": "~/t.csv"}) == digest(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"~nobody-of-this-name/t\.csv: cannot be read"):
        csv_table.make("~nobody-of-this-name/t.csv", "y")


def test_a_tilde_needs_no_quotes(monkeypatch):
    monkeypatch.setenv("HOME", "/my home")
    given = ["dataset=csv", "dataset.path=~/t.csv", "dataset.target=y", "output=~/r.json", "data=~/d.npy"]
    cell = compose.composed(given)
    assert cell["dataset"]["path"] == "~/t.csv"  # as in the record, whoever reads it
    assert (cell["output"], cell["data"]) == ("/my home/r.json", "/my home/d.npy")
