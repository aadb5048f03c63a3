"""What a command writes, and how it ends: outputs checked before measuring, and no traceback."""

import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import ROOT
from real_records import reference
from test_hostile_commands import cells_of, refused
from test_microbenchmarks import SMALL

from snn import __main__ as snn
from snn import (
    command,
    measure_limits,
    microbenchmark,
    perfetto,
    prepare,
)
from snn.grid import naming
from snn.grid import sweeps as grid
from snn.measurement import cell
from snn.report.write import writing

MEMORY_CALLS = ("memory_calls", json.dumps(SMALL["memory_calls"]))


@pytest.fixture
def never_measured(monkeypatch):
    """Measuring is an error: whatever is wrong with the output is found before."""

    def fail(*arguments):
        raise AssertionError("it measured before it looked where to write")

    monkeypatch.setattr(cell, "run", fail)
    monkeypatch.setattr(measure_limits, "record", fail)
    monkeypatch.setattr(microbenchmark, "record", fail)
    monkeypatch.setattr(prepare.datasets, "make", fail)
    monkeypatch.setattr(perfetto, "of_record", fail)


def places(folder):
    """Paths that are no place for a file, and what is said of them."""
    (folder / "folder").mkdir()
    (folder / "file").write_text("kept")
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to(folder / "nothing" / "there")
    (folder / "to_stdout").symlink_to("/dev/stdout")
    (folder / "to_pipe").symlink_to(folder / "pipe")
    return {
        "": "it must name a file",
        ".": "it must name a file",
        f"{folder}/new/": "it must name a file",
        f"{folder}/folder": "is no regular file",
        f"{folder}/pipe": "is no regular file",
        f"{folder}/to_pipe": "is no regular file",
        f"{folder}/file/below": "no file can be written there",
        "/dev/stdout": "a folder of the system",
        f"{folder}/to_stdout": "a folder of the system",
        "/dev/null": "a folder of the system",
        "/dev/new": "a folder of the system",
        "/proc/new": "a folder of the system",
        "/proc/self/fd/1": "a folder of the system",
        "/sys/new/x": "a folder of the system",
        f"{folder}/{'x' * 300}": "no file can be written there",
    }


def test_an_output_that_is_no_file_is_refused_before_measuring(capsys, tmp_path, never_measured):
    for output, said in places(tmp_path).items():
        assert said in refused(capsys, snn.main, ["device=cpu", f"output='{output}'"]), output
        assert said in refused(capsys, prepare.main, [f"output='{output}'"]), output
        assert said in refused(capsys, measure_limits.main, ["cpu", output]), output
        assert said in refused(capsys, microbenchmark.main, [*MEMORY_CALLS, "cpu", output]), output
        assert said in refused(capsys, perfetto.main, [str(tmp_path / "file"), output]), output
    assert (tmp_path / "file").read_text() == "kept"
    assert Path("/dev/null").is_char_device()
    assert Path("/dev/stdout").is_symlink()


def test_a_disk_that_is_read_only_is_found_before_measuring(capsys, tmp_path, monkeypatch, never_measured):
    def read_only(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", read_only)
    output = f"{tmp_path}/it"
    said = "no file can be written there: Read-only file system"
    assert said in refused(capsys, snn.main, ["device=cpu", f"output={output}"])
    assert said in refused(capsys, prepare.main, [f"output={output}"])
    assert said in refused(capsys, measure_limits.main, ["cpu", output])
    assert said in refused(capsys, microbenchmark.main, [*MEMORY_CALLS, "cpu", output])


def test_an_input_is_no_output(capsys, tmp_path, never_measured):
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,2\n")
    csv = ["dataset=csv", f"dataset.path={table}", "dataset.target=y", f"output={table}"]
    assert "is an input" in refused(capsys, snn.main, csv)
    assert "is an input" in refused(capsys, prepare.main, csv)
    assert "is an input" in refused(capsys, snn.main, [f"data={table}", f"output={table}"])
    assert "is an input" in refused(capsys, perfetto.main, [str(table), str(table)])


@pytest.mark.parametrize("content", ["# My project", '{"name": "mine"}', "[1]", "{"])
def test_a_file_that_is_no_record_is_not_replaced_by_one(capsys, tmp_path, never_measured, content):
    (tmp_path / "README.md").write_text(content)
    said = refused(capsys, snn.main, ["device=cpu", f"output={tmp_path}/README.md"])
    assert "README.md': this file is no record, and would be lost: name another, or remove it" in said
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
    assert prepare.main([f"output={tmp_path}/link.npy"]) == 0
    assert (tmp_path / "link.npy").is_symlink()
    assert (tmp_path / "real.npy").read_bytes().startswith(b"\x93NUMPY")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.npy", "real.npy"]


@pytest.mark.parametrize("reason", ["No space left on device", "Read-only file system"])
def test_a_record_that_cannot_be_written_is_said_to_be_lost(capsys, tmp_path, monkeypatch, reason):
    def full(*arguments, **options):
        raise OSError(28, reason)

    monkeypatch.setattr(cell, "run", lambda settings: {"status": "ok"})
    monkeypatch.setattr(measure_limits, "record", lambda device: {})
    monkeypatch.setattr(microbenchmark, "record", lambda *of: {})
    monkeypatch.setattr(Path, "replace", full)
    output = tmp_path / "cell.json"
    for main, arguments in (
        (snn.main, ["device=cpu", f"output={output}"]),
        (measure_limits.main, ["cpu", str(output)]),
        (microbenchmark.main, [*MEMORY_CALLS, "cpu", str(output)]),
        (prepare.main, [f"output={output}"]),
    ):
        said = refused(capsys, main, arguments)
        assert f"{output}: cannot be written: {reason}" in said
        assert "is lost" in said
    assert not list(tmp_path.iterdir())


def test_the_cell_that_runs_is_the_one_that_was_planned(capsys, tmp_path, never_measured):
    (planned,) = cells_of(tmp_path, {"training.epochs": 3})
    first, second, *_ = (f"{tmp_path}/{path}" for path in naming.record_paths(planned))
    given = grid.overrides(planned)
    with pytest.raises(AssertionError, match="it measured"):
        snn.main([*given, "round=1", f"output={first}"])
    for arguments in ([*given, "round=1", f"output={second}"], [*given, f"output={first}"]):
        assert "but this cell and round belong to" in refused(capsys, snn.main, arguments)
    other = [one.replace("epochs=3", "epochs=4") for one in given]
    assert "but this cell and round belong to" in refused(
        capsys, snn.main, [*other, "round=1", f"output={first}"]
    )


# ---- readers that go away, in processes of their own


def shell(command):
    return subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "P": sys.executable},
    )


@pytest.mark.parametrize(
    "command",
    [
        "(sleep 0.1; $P -m snn --help; echo $? >&2) | true",
        "(sleep 0.1; $P -m snn.prepare --help; echo $? >&2) | true",
        "(sleep 0.1; $P -m snn device=cpu training.epochs=1 network.hidden=[4] protocol.runs=1 "
        "protocol.warmup_seconds=0 protocol.max_warmup_seconds=0; echo $? >&2) | true",
    ],
)
def test_a_reader_that_goes_away_is_no_traceback(command):
    said = shell(command).stderr
    assert said.endswith("141\n")
    assert "Error" not in said


def test_a_full_disk_behind_a_redirection_is_said():
    done = shell("$P -m snn --help > /dev/full")
    assert done.returncode == 2
    assert done.stderr == "snn: the output cannot be written: No space left on device\n"


def test_a_record_is_not_lost_to_a_closed_output():
    done = shell("$P -m snn device=cpu >&-")
    assert done.returncode == 2
    assert done.stderr == "snn: output is null, but the standard output is closed: it must name a file\n"


def test_an_output_that_stdout_is_redirected_to(tmp_path):
    done = shell(f"$P -m snn device=cpu output=/dev/stdout > {tmp_path}/record.json")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def interrupted(arguments):
    raise KeyboardInterrupt


def interrupted_in_a_class(arguments):
    class Interrupted:
        def __set_name__(self, owner, name):
            raise KeyboardInterrupt

    type("Some", (), {"key": Interrupted()})


@pytest.mark.parametrize("main", [interrupted, interrupted_in_a_class])
def test_an_interrupt_is_no_traceback(capsys, main):
    assert command.run(main) == 130
    assert capsys.readouterr().err == "snn: interrupted before its end\n"


def test_a_fault_of_our_own_is_not_hidden():
    def wrong(arguments):
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        command.run(wrong)


def test_a_folder_that_is_gone_is_said(capsys, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert command.run(lambda arguments: 0) == 2
    assert capsys.readouterr().err.startswith("snn: the current folder cannot be used: No such file")


def test_a_reader_that_goes_away_while_tables_are_made_is_none_of_their_faults(tmp_path):
    with pytest.raises(BrokenPipeError), writing(tmp_path):
        raise BrokenPipeError


def test_every_command_line_ends_alike():
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "snn").glob("*.py")}
    lines = {name for name, source in sources.items() if "__name__ ==" in source}
    assert {"__main__", "plan", "neighbours"} < lines and len(lines) >= 11
    for name in lines:
        ends = 'if __name__ == "__main__":\n    sys.exit(command.run(main))\n'
        assert sources[name].endswith(ends), name


def test_a_record_is_still_printed(capsys, monkeypatch):
    record = reference()
    monkeypatch.setattr(cell, "run", lambda settings: record)
    assert snn.main(["device=cpu"]) == 0
    assert json.loads(capsys.readouterr().out) == record


@pytest.mark.parametrize("place", ["/dev/none", "file/t.npy", "/proc/none", "none/"])
def test_a_data_set_that_is_to_be_made_is_checked_as_an_output(capsys, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert f"data is '{place}'" in refused(capsys, snn.main, ["device=cpu", f"data={place}"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
