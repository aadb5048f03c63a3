"""How a command ends where its outputs are gone, full or closed, or where it is interrupted: no traceback."""

import json
import os
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT

from snn import command
from snn.report.write import writing


def shell(command):
    return subprocess.run(
        ["bash", "-c", f'python() {{ "$PYTHON" "$@"; }}; {command}'],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHON": sys.executable},
    )


@pytest.mark.parametrize(
    "command",
    [
        "(sleep 0.1; python -m snn --help; echo $? >&2) | true",
        "(sleep 0.1; python -m snn.prepare --help; echo $? >&2) | true",
        "(sleep 0.1; python -m snn device=cpu training.epochs=1 network.hidden=[4] protocol.runs=1 "
        "protocol.warmup_seconds=0 protocol.max_warmup_seconds=0; echo $? >&2) | true",
    ],
)
def test_a_reader_that_goes_away_is_no_traceback(command):
    said = shell(command).stderr
    assert said.endswith("141\n")
    assert "Error" not in said


def test_a_full_disk_behind_a_redirection_is_said():
    done = shell("python -m snn --help > /dev/full")
    assert done.returncode == 2
    assert done.stderr == "snn: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252:strict"])
def test_a_letter_that_the_output_lacks_is_replaced(tmp_path, encoding):
    """And a byte of a file's name that is no letter at all."""
    code = "from snn import command; command.run(lambda _: print('Ω 显卡', '\\udcff') or 3)"
    (tmp_path / "t.csv").write_text("GPU,a\n显卡,1\n", encoding="utf-8")
    table = shlex.quote(f"{tmp_path}/t.csv")
    done = shell(f'export PYTHONIOENCODING={encoding}; python -c "{code}"; python scripts/show_table {table}')
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.split() == ["?", "??", "?", "GPU", "a", "??", "1"]


def test_a_record_is_not_lost_to_a_closed_output():
    done = shell("python -m snn device=cpu >&-")
    assert done.returncode == 2
    assert done.stderr == "snn: output is null, but the standard output is closed: it must name a file\n"


@pytest.mark.parametrize("where", [">/dev/full 2>/dev/full", ">&- 2>&-", "> >(true) 2> >(true)"])
def test_a_record_is_kept_though_nothing_can_be_said_of_it(tmp_path, where):
    """Else a workflow would remove it, as of a job that failed. There is a note before, and progress."""
    (tmp_path / "t.csv").write_text("id,y\n" + "".join(f"{i},{i % 7}\n" for i in range(40)))
    output = tmp_path / "record.json"
    data, record = (shlex.quote(one) for one in (f"dataset.path={tmp_path}/t.csv", f"output={output}"))
    done = shell(
        f"python -m snn device=cpu dataset=csv {data} dataset.target=y training.epochs=1 "
        "training.batch_size=8 network.hidden=[4] protocol=brief protocol.rounds=1 protocol.runs=2 "
        f"protocol.min_runs=1 protocol.warmup_seconds=0 protocol.max_warmup_seconds=0 {record} {where}"
    )
    assert done.returncode == 0
    assert json.loads(output.read_text())["status"] == "ok"


def test_a_full_disk_behind_both_outputs_has_the_same_status():
    assert shell("python -m snn --help >/dev/full 2>/dev/full").returncode == 2


def test_a_reader_of_errors_that_goes_away_is_no_traceback(capsys, monkeypatch):
    """Also where there is no standard output: it was closed."""

    def gone(arguments):
        raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", None)
    assert command.run(gone) == 141


def test_an_output_that_stdout_is_redirected_to(tmp_path):
    done = shell(
        f"python -m snn device=cpu output=/dev/stdout > {shlex.quote(str(tmp_path / 'record.json'))}"
    )
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
