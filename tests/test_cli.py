"""The command ``snn``: its commands and their help, what starts without NumPy, completion, and its end."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from conftest import ROOT
from test_strategies import ON_CPU

from snn import __main__ as program
from snn import cli, command, listing
from snn.config import groups
from snn.files import revision
from snn.hardware.devices import Device
from snn.report.write import writing


def started(*arguments, module="snn.cli", **environment):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def refused(capsys, *arguments):
    assert cli.main([*arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("snn: ") and said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize("name", cli.snn.commands)
def test_every_command_explains_itself(capsys, name):
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.lower().startswith(f"usage: snn {name}")
    assert f"\n  snn {name} " in shown.partition("Options:")[0]  # an example
    assert "exit codes:" in shown.lower() and "  2  " in shown and "130  interrupted" in shown
    assert cli.main([name, "-h"]) == 0
    assert capsys.readouterr().out == shown


def test_help_lists_the_commands(capsys):
    assert cli.main([]) == cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, one in cli.snn.commands.items():
        assert (f"\n  {name} " in shown) != one.hidden
        assert one.hidden or one.get_short_help_str(200) in shown


@pytest.mark.parametrize("arguments", [["training.epochs=x"], ["run", "training.epochs=x"]])
def test_python_m_snn_is_snn_run_and_takes_a_command(capsys, arguments):
    for main in (program.main, cli.main):
        if main is program.main or arguments[0] == "run":
            assert main(arguments) == 2
            assert capsys.readouterr().err.startswith("snn: training.epochs is 'x'")
    assert program.main(["--help"]) == 0
    assert "snn run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("pln", ["'pln'", "did you mean plan?"]),
        ("retabluate a b", ["'retabluate'", "did you mean retabulate?"]),
        ("more_rounds", ["did you mean more-rounds?"]),
        ("dataset=small", ["snn run dataset=small"]),
        ("--colour", ["'--colour'"]),
        ("--verion", ["'--verion'", "did you mean --version?"]),
        ("run --strit", ["'--strit'", "did you mean --strict?"]),
        ("run --strict --strict", ["--strict", "2 times"]),
        ("run list strategies", ["list"]),
        ("list", ["snn list", "strategies|kernels|"]),
        ("list strategy", ["'strategy'", "did you mean strategies?"]),
        ("list kernls", ["'kernls'", "did you mean kernels?"]),
        ("completion", ["snn completion", "bash|zsh|fish"]),
        ("completion bsh", ["'bsh'", "did you mean bash?"]),
        ("claims papr", ["'papr'", "did you mean paper?"]),
        ("compare a", ["'B'", "A B OUTPUT"]),
        ("compare a b c d", ["(d)", "A B OUTPUT"]),
        ("retabulate", ["'ARCHIVE'", "ARCHIVE OUTPUT [GRID]"]),
        ("perfetto a", ["RECORD... OUTPUT"]),
        ("merge", ["FOLDER... [output=devices]"]),
        ("more-rounds", ["'TABLE'"]),
        ("plan --devic T4", ["snn plan", "'--devic'", "did you mean --device?"]),
        ("plan --device", ["'--device'"]),
        ("plan --device=a --device b", ["--device", "2 times"]),
        ("plan --device T5", ["'T5'"]),
        ("plan --free 1GiB strateg=graph", ["strateg", "did you mean strategy?"]),
    ],
)
def test_a_wrong_command_line_is_one_line_that_names_what_is_wrong(capsys, line, named):
    said = refused(capsys, *line.split())
    assert all(one in said for one in named)


def test_options_and_settings_of_a_plan_stand_in_any_order(capsys):
    for arguments in (
        ["dataset=small", "--device", "Tesla T4", "strategy=graph"],
        ["--device", "Tesla T4", "dataset=small", "strategy=graph"],
    ):
        assert cli.main(["plan", *arguments]) == 0
        assert "on Tesla T4" in capsys.readouterr().out


def test_version_and_commit(monkeypatch, capsys):
    monkeypatch.setattr(revision, "git", lambda: {"commit": "c0ffee", "dirty": True})
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"snn {revision.version()}, commit c0ffee, dirty working tree\n"
    monkeypatch.setattr(revision, "git", lambda: {"commit": None, "dirty": None})
    assert revision.said() == f"snn {revision.version()}, commit unknown"
    shown = started("--version", module="snn")
    assert shown.returncode == 0 and shown.stdout.startswith(f"snn {revision.version()}, commit ")


# ---- lists


@pytest.mark.parametrize(("topic", "group"), cli.LISTS.items())
def test_a_list_has_a_line_for_each_choice(capsys, topic, group):
    assert cli.main(["list", topic]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == groups.names(group)
    assert all(text.endswith(".") and len(text) > 20 for _, text in lines)


def test_the_list_says_what_needs_a_gpu_or_packages(capsys):
    described = {name: listing.describe("strategy", name) for name in groups.names("strategy")}
    on_gpu = {name for name, text in described.items() if "Needs a GPU" in text}
    assert on_gpu == {*ON_CPU, "torch_graph"}
    peers = {name for name, text in described.items() if "requirements-peers" in text}
    assert peers == {name for name in described if name.startswith(("torch_", "jax_"))}
    assert listing.describe("kernel", "tensor_core").endswith("Precisions: tf32, bf16.")


# ---- completion


def words_for(given):
    """What may replace the last word of a line; nothing if files complete it."""
    found = ShellComplete(cli.snn, {}, "snn", cli.COMPLETE).get_completions(given[:-1], given[-1])
    return [one.value for one in found if one.type == "plain"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["re"], {"recommend", "retabulate"}),
        (["recommend", "--d"], {"--dataset", "--device", "--drop"}),
        (["recommend", "--dataset", "pa"], {"patterns"}),
        (["recommend", "--device", "c"], {"cpu", "cuda"}),
        (["recommend", "--device", "Tesla T"], {"Tesla T4"}),
        (["recommend", "training.ba"], {"training.batch_size="}),
        (["recommend", "--csv", ""], set()),
        (["li"], {"list"}),
        (["list", "k"], {"kernels"}),
        (["list", "p"], {"protocols", "precisions"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
        (["claims", "pap"], {"paper"}),
        (["claims", "paper", ""], set()),
        (["claims", "paper", "--j"], {"--json"}),
        (["run", "strategy=str"], {"strategy=streams"}),
        (["run", "dataset=csv", "dataset.tar"], {"dataset.target="}),
        (["run", "network=layers", "network.la"], {"network.layers="}),
        (["run", "training.ba"], {"training.batch_size="}),
        (["run", "training.batch_size=3", "training.ba"], set()),
        (["plan", "prec"], {"precision="}),
        (["run", "output=a"], set()),
        (["compare", "a"], set()),
        (["plan", "--device", "NVIDIA H2"], {"NVIDIA H200"}),
        (["plan", "--device", "cp"], set()),
        (["plan", "sw"], {"sweep="}),
        (["plan", "sweep=strategi"], {"sweep=strategies"}),
        (["plan", "grid=none.yaml", "sweep="], set()),
        (["plan", "--fr"], {"--free", "--fraction"}),
        (["run", "--"], {"--help", "--strict"}),
        (["run", "training.reduction=s"], {"training.reduction=sum"}),
    ],
)
def test_words_that_complete_a_line(given, found):
    assert set(words_for(given)) == found


def test_sweeps_of_the_grid_that_is_named_complete(tmp_path):
    file = tmp_path / "own.yaml"
    for text, found in (("sweeps: {mine: {}, yours: {}}", ["sweep=mine"]), ("[", []), ("sweeps: 3", [])):
        file.write_text(text)
        assert words_for(["plan", f"grid={file}", "sweep=m"]) == found


def test_every_gpu_with_published_results_completes():
    published = {path.parent.parent.name for path in ROOT.glob("results/published/nvidia-*/*/README.md")}
    words = words_for(["plan", "--device", "NVIDIA"])
    assert published and published <= {Device("cuda", word).slug for word in words}


def completed(shell, script, tmp_path, *words):
    """What a shell prints, to which `snn` is the program of this checkout, for the words of a line."""
    executable = tmp_path / "snn"
    executable.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m snn.cli "$@"\n')
    executable.chmod(0o755)
    done = subprocess.run(
        [*shell.split(), "-c", f'eval "$(snn completion $0)"; {script}', shell.split()[0], *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["snn", "retab"], ["retabulate"]),
        (["snn", "list", "k"], ["kernels"]),
        (["snn", "run", "strategy", "=", "str"], ["streams"]),  # bash splits words at "="
        (["snn", "run", "dataset", "=", "csv", "dataset.pa"], ["compopt nospace", "dataset.path="]),
        (["snn", "plan", "--device", "Tesla\\ T"], ["Tesla\\ T4"]),
        (["snn", "compare", "resu"], ["compopt default"]),
    ],
)
def test_bash_completes(tmp_path, words, found):
    script = (
        'compopt() { echo "compopt ${@: -1}"; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); '
        '_snn_completion snn; printf "%s\\n" ${COMPREPLY[0]+"${COMPREPLY[@]}"}'
    )
    assert list(filter(None, completed("bash", script, tmp_path, *words))) == found


@pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh here")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["snn", "retab"], ["retabulate:Make tables and figures from published records."]),
        (["snn", "list", "k"], ["kernels"]),
        (["snn", "run", "strategy=str"], ["strategy=streams"]),
        (["snn", "run", "dataset=csv", "dataset.pa"], ["dataset.path="]),
        (["snn", "compare", "a"], ["files"]),
    ],
)
def test_zsh_completes(tmp_path, words, found):
    script = (
        "compdef() { : }; _path_files() { print files }; _describe() { print -rl -- ${(P)3} }; "
        'compadd() { print -rl -- ${(P)argv[-1]} }; words=("$@"); CURRENT=$#words; _snn_completion'
    )
    assert completed("zsh -f", script, tmp_path, *words) == found


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
        "(sleep 0.1; python -m snn prepare --help; echo $? >&2) | true",
        "(sleep 0.1; python -m snn device=cpu training.epochs=1 network.hidden=[4] protocol.runs=1 "
        "protocol.warmup_seconds=0 protocol.max_warmup_seconds=0; echo $? >&2) | true",
    ],
)
def test_a_reader_that_goes_away_is_no_traceback(command):
    said = shell(command).stderr
    assert said.endswith("141\n")
    assert "Error" not in said


@pytest.mark.parametrize("where", ["", " 2>/dev/full"])
def test_a_full_disk_behind_a_redirection_is_said(where):
    done = shell(f"python -m snn --help >/dev/full{where}")
    assert done.returncode == 2
    assert done.stderr == ("" if where else "snn: the output cannot be written: No space left on device\n")


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


def test_an_output_that_stdout_is_redirected_to(tmp_path):
    done = shell(
        f"python -m snn device=cpu output=/dev/stdout > {shlex.quote(str(tmp_path / 'record.json'))}"
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


class Interrupted:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("work", "status", "said"),
    [
        (KeyboardInterrupt, 130, "snn: interrupted before its end\n"),
        (lambda: type("Some", (), {"key": Interrupted()}), 130, "snn: interrupted before its end\n"),
        (
            lambda: OSError(28, "No space left on device"),
            2,
            "snn: the output cannot be written: No space left",
        ),
        (BrokenPipeError, 141, ""),
        (RuntimeError, None, ""),
        (lambda: OSError(28, "No space left on device", "f"), None, ""),
    ],
)
@pytest.mark.parametrize("is_closed", [False, True])
def test_how_a_command_ends(capsys, monkeypatch, work, status, said, is_closed):
    """Also where there is no standard output; a fault of our own is not hidden."""

    def main(arguments):
        raise work()

    if is_closed:
        monkeypatch.setattr(sys, "stdout", None)
    if status is None:
        with pytest.raises((RuntimeError, OSError)):
            command.run(main)
    else:
        assert command.run(main) == status
    assert capsys.readouterr().err.startswith(said)


def test_a_folder_that_is_gone_is_said(capsys, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert command.run(lambda arguments: 0) == 2
    assert capsys.readouterr().err.startswith("snn: the current folder cannot be used: No such file")


def test_a_reader_that_goes_away_while_tables_are_made_is_none_of_their_faults(tmp_path):
    with pytest.raises(BrokenPipeError), writing(tmp_path):
        raise BrokenPipeError


LARGE = ("numpy", "cupy", "pandas", "hydra", "omegaconf", "matplotlib", "jsonschema", "argparse")
OF_TABLES = ("pandas", "matplotlib")


@pytest.mark.parametrize(
    ("line", "packages"),
    [
        ("--version", LARGE),
        ("--help", LARGE),
        ("list strategies", LARGE),
        ("completion fish", LARGE),
        (
            "run device=cpu training.epochs=1 protocol=glance protocol.warmup_seconds=0 "
            "protocol.max_warmup_seconds=0 output={}/record.json",
            OF_TABLES,
        ),
        ("prepare dataset=small output={}/small.npy", OF_TABLES),
        ("plan dataset=small --device NVIDIA-H200", OF_TABLES),
    ],
)
def test_a_command_does_not_wait_for_packages_that_it_does_not_need(tmp_path, line, packages):
    """A workflow starts a process for each round of each cell."""
    words = [word.format(tmp_path).replace("NVIDIA-", "NVIDIA ") for word in line.split()]
    code = (
        "import sys; from snn import cli; status = cli.main(sys.argv[1:]); "
        f"print(status, [name for name in {packages} if name in sys.modules], file=sys.stderr)"
    )
    run = [sys.executable, "-c", code, *words]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "0 []"
