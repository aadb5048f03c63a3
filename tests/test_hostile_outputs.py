"""What a command writes: outputs are checked before measuring."""

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from conftest import as_command
from real_records import reference
from test_config import refused
from test_grid import one_cell
from test_microbenchmarks import SMALL

from snn import __main__ as snn
from snn import cli, measure_device, perfetto, prepare
from snn.analysis import cell_line, machine_state
from snn.files.outputs import replaced
from snn.grid import naming
from snn.grid import sweeps as grid
from snn.measurement import cell

MEMORY_CALLS = ("memory_calls", json.dumps(SMALL["memory_calls"]))


@pytest.fixture
def never_measured(monkeypatch):
    """Measuring is an error: whatever is wrong with the output is found before."""

    def fail(*arguments):
        raise AssertionError("it measured before it looked where to write")

    monkeypatch.setattr(cell, "record_and_network", fail)
    monkeypatch.setattr(measure_device, "limits_record", fail)
    monkeypatch.setattr(measure_device, "microbenchmark_record", fail)
    monkeypatch.setattr(prepare.datasets, "make", fail)
    monkeypatch.setattr(perfetto, "of_record", fail)


def test_what_is_there_stays_where_an_output_is_refused(capsys, tmp_path, never_measured):
    """By every command; tests/faults/command_lines.py has more that is no output."""
    (tmp_path / "file").write_text("kept")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing" / "there")
    for link, target in (("to_stdout", "/dev/stdout"), ("to_pipe", tmp_path / "pipe")):
        (tmp_path / link).symlink_to(target)
    for output, said in {
        f"{tmp_path}/pipe": "is not a regular file",
        f"{tmp_path}/to_pipe": "is not a regular file",
        f"{tmp_path}/file/below": "no file can be written there",
        f"{tmp_path}/to_stdout": "in a system folder",
        "/dev/null": "in a system folder",
    }.items():
        for main, arguments in writers(output):
            assert said in refused(capsys, main, arguments), output
        assert said in refused(capsys, as_command("perfetto"), [str(tmp_path / "file"), output]), output
    assert (tmp_path / "file").read_text() == "kept" and (tmp_path / "dangling").is_symlink()
    assert Path("/dev/null").is_char_device() and Path("/dev/stdout").is_symlink()


def writers(output):
    """The commands that measure or make something, with the arguments for an output."""
    return (
        (snn.main, ["device=cpu", f"output='{output}'"]),
        (as_command("prepare"), [f"output='{output}'"]),
        (as_command("measure-limits"), ["cpu", str(output)]),
        (as_command("microbenchmark"), [*MEMORY_CALLS, "cpu", str(output)]),
    )


def test_a_disk_that_is_read_only_is_found_before_measuring(capsys, tmp_path, monkeypatch, never_measured):
    def read_only(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", read_only)
    for main, arguments in writers(tmp_path / "it"):
        said = refused(capsys, main, arguments)
        assert "no file can be written there: Read-only file system" in said


def test_an_input_is_no_output(capsys, tmp_path, never_measured):
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,2\n")
    csv = ["dataset=csv", f"dataset.path={table}", "dataset.target=y", f"output={table}"]
    assert "is an input" in refused(capsys, snn.main, csv)
    assert "is an input" in refused(capsys, as_command("prepare"), csv)
    assert "is an input" in refused(capsys, snn.main, [f"data={table}", f"output={table}"])
    assert "is an input" in refused(capsys, as_command("perfetto"), [str(table), str(table)])


@pytest.mark.parametrize("keys", [("output", "weights"), ("data", "weights"), ("output", "data")])
def test_a_new_file_has_one_purpose(capsys, tmp_path, never_measured, keys):
    (tmp_path / "link").symlink_to("new")
    given = [f"{key}={tmp_path / name}" for key, name in zip(keys, ("new", "link"), strict=True)]
    message = refused(capsys, snn.main, given)
    assert any(f"{key} is" in message for key in keys)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", ["# My project", '{"name": "mine"}', "[1]", "{"])
def test_a_file_that_is_no_record_is_not_replaced_by_one(capsys, tmp_path, never_measured, content):
    (tmp_path / "README.md").write_text(content)
    said = refused(capsys, snn.main, ["device=cpu", f"output={tmp_path}/README.md"])
    assert "README.md': this file is not a record, and would be lost: name another" in said
    assert (tmp_path / "README.md").read_text() == content


def test_a_record_and_an_empty_file_are_replaced(tmp_path):
    output = tmp_path / "cell.json"
    output.touch()
    given = ["device=cpu", "training.epochs=1", "protocol=glance", f"output={output}"]
    assert snn.main(given) == 0
    first = output.read_text()
    assert snn.main(given) == 0 and output.read_text() != first


def test_a_link_to_a_file_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "real.npy").write_text("old")
    (tmp_path / "link.npy").symlink_to("real.npy")
    assert cli.main(["prepare", f"output={tmp_path}/link.npy"]) == 0
    assert (tmp_path / "link.npy").is_symlink()
    assert (tmp_path / "real.npy").read_bytes().startswith(b"\x93NUMPY")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.npy", "real.npy"]


def test_a_temporary_file_is_new_whatever_is_in_its_place(tmp_path):
    """Also a link that somebody has put there, to write over a file of ours."""
    (tmp_path / "mine").write_text("mine")
    output = tmp_path / "folder" / "cell.json"
    usual = output.with_name(f".cell.json.{os.getpid()}")
    for make in (lambda: usual.symlink_to(tmp_path / "mine"), usual.touch, usual.mkdir):
        output.parent.mkdir()
        make()
        before = usual.lstat()
        with replaced(output) as file:
            file.write(b"new")
        assert output.read_bytes() == b"new"
        assert (tmp_path / "mine").read_text() == "mine"
        assert sorted(path.name for path in output.parent.iterdir()) == [usual.name, output.name]
        assert usual.lstat() == before
        shutil.rmtree(output.parent)


def test_a_new_file_is_as_readable_as_others(tmp_path):
    with replaced(tmp_path / "cell.json") as file:
        file.write(b"new")
    (tmp_path / "other").touch()
    assert (tmp_path / "cell.json").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("reason", ["No space left on device", "Read-only file system"])
def test_a_record_that_cannot_be_written_is_said_to_be_lost(capsys, tmp_path, monkeypatch, reason):
    def full(*arguments, **options):
        raise OSError(28, reason)

    monkeypatch.setattr(cell, "record_and_network", lambda settings: ({"status": "ok"}, None))
    monkeypatch.setattr(machine_state, "watched", lambda *of: {})
    monkeypatch.setattr(cell_line, "line", lambda *of: "the line of the cell")
    monkeypatch.setattr(measure_device, "limits_record", lambda device: {})
    monkeypatch.setattr(measure_device, "microbenchmark_record", lambda *of: {})
    monkeypatch.setattr(Path, "replace", full)
    output = tmp_path / "cell.json"
    for main, arguments in writers(output):
        said = refused(capsys, main, arguments)
        assert f"{output}: cannot be written: {reason}" in said
        assert "is lost" in said
    assert not list(tmp_path.iterdir())


def test_the_cell_that_runs_is_the_one_that_was_planned(capsys, tmp_path, never_measured):
    planned = one_cell(tmp_path, {"training.epochs": 3})
    first, second, *_ = (f"{tmp_path}/{path}" for path in naming.record_paths(planned))
    given = grid.overrides(planned)
    with pytest.raises(AssertionError, match="it measured"):
        snn.main([*given, "round=1", f"output={first}"])
    for arguments in ([*given, "round=1", f"output={second}"], [*given, f"output={first}"]):
        assert "but this cell and round belong to" in refused(capsys, snn.main, arguments)
    other = [one.replace("epochs=3", "epochs=4") for one in given]
    said = refused(capsys, snn.main, [*other, "round=1", f"output={first}"])
    assert "but this cell and round belong to" in said


def test_a_record_is_still_printed(capsys, monkeypatch):
    record = reference()
    monkeypatch.setattr(cell, "record_and_network", lambda settings: (record, None))
    assert snn.main(["device=cpu"]) == 0
    assert json.loads(capsys.readouterr().out) == record


@pytest.mark.parametrize("place", ["/dev/none", "file/t.npy", "/proc/none", "none/"])
def test_a_data_set_that_is_to_be_made_is_checked_as_an_output(capsys, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert f"data is '{place}'" in refused(capsys, snn.main, ["device=cpu", f"data={place}"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
