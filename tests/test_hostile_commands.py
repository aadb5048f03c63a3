"""Command lines that are wrong, hostile or cut short: refused in one line before any work, with status 2."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from snn import __main__ as snn
from snn import command, compare, measure_limits, more_rounds, perfetto, prepare, retabulate
from snn.config import compose, groups, overrides, sizes
from snn.errors import ConfigError
from snn.grid import naming
from snn.grid import sweeps as grid
from snn.hardware.devices import Device
from snn.measurement import cell
from snn.report.write import writing

CPU = Device("cpu", "AMD EPYC")
PATHS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=40).filter(
    lambda text: "${" not in text and text != "???"
)
ODD = st.text("\\'\"$%{}[]()=,:;#&|<>*?!~@+- \u00e9", min_size=1, max_size=12).filter(
    lambda text: "${" not in text and text != "???"
)


def refused(capsys, main, arguments):
    """The one line that a command line is refused with."""
    assert main(arguments) == 2
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1, printed
    return printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["kernel.name=tiled"],
            "kernel.name cannot be set, for it is part of kernel=naive: choose with kernel=",
        ),
        (["kernel.source=kernels/tiled.cu"], "choose with kernel=..., one of cublas, fused"),
        (["kernel=tiled", "kernel.fused=true"], "kernel.fused cannot be set, for it is part of kernel=tiled"),
        (["kernel.pretransposed=true"], "kernel.pretransposed cannot be set"),
        (["kernel.precisions=[bf16]"], "kernel.precisions cannot be set"),
        (["kernel.name=naive"], "kernel.name cannot be set"),
        (["dataset.name=large"], "dataset.name cannot be set, for it is part of dataset=small"),
        (["strategy.name=combined"], "strategy.name cannot be set, for it is part of strategy=reference"),
        (["strategy._target_=os.system"], "strategy._target_ cannot be set"),
        (["dataset._target_=os.system"], "dataset._target_ cannot be set"),
        (["precision.name=bf16"], "precision.name cannot be set, for it is part of precision=fp32"),
        (["device=cpu", "device.backend=cuda"], "device.backend cannot be set, for it is part of device=cpu"),
        (["protocol.name=x"], "protocol.name cannot be set"),
        (["+colour=1"], "'+colour=1' is no argument: it must be KEY=VALUE"),
        (["++training.epochs=1"], "is no argument"),
        (["~strategy"], "is no argument"),
        (["dataset@training=small"], "is no argument"),
        (["hydra.run.dir=/tmp"], "is no argument"),
        (["hydra.verbose=true"], "hydra.verbose: there is no such key; the keys are dataset"),
        (["training={epochs:3}"], "training: there is no such key; the keys are"),
        (["round.x=1"], "round.x: there is no such key"),
        (["training.epochs=${oc.env:HOME}"], "there is no interpolation"),
        (["output=${oc.env:HOME}/x.json"], "there is no interpolation"),
        (
            ["training.epochs=1", "training.epochs=2"],
            "training.epochs is given twice, training.epochs=1 before",
        ),
        (["dataset=small", "dataset=large"], "dataset is given twice"),
        (["training.epochs"], "'training.epochs' is no argument: it must be KEY=VALUE"),
        ([""], "'' is no argument"),
        (["=1"], "'=1' is no argument"),
        (["training.epochs="], "could not be converted to Integer"),
        (["--epochs=3"], "is no argument"),
        (["network.hidden=" + "[" * 400], "a value may be a list"),
        (["network.hidden=" + "(" * 400], "a value may be a list"),
        (["network.hidden=" + "{a:" * 400], "a value may be a list"),
        (["network.hidden=[" + "1," * 10_000 + "1]"], "at most 16384 characters"),
        (["network.hidden=[" + "1," * 1000 + "1]"], "of fewer layers"),
        (["training.epochs=" + "9" * 4000], "training.epochs is 9999"),
        (["dataset.seed=" + "9" * 4000], "dataset.seed is 9999"),
        (["dataset.seed=" + "9" * 20_000], "at most 16384 characters"),
        (["output=a\nb"], "control characters"),
        (["output=a\x00b"], "control characters"),
        (["output=\udcff"], "bytes that are not UTF-8"),
        (["training.epochs=1,2"], "training.epochs"),
        (["training.epochs=choice(1,2)"], "training.epochs"),
        (["dataset.rows={a:1}"], "dataset.rows is {'a': 1}: it must be a whole number"),
        (["dataset.rows=null"], "dataset.rows is None"),
        (["dataset.rows=true"], "dataset.rows is True: it must be a whole number"),
        (["network.seed=true"], "network.seed is True"),
        (["training.epochs=true"], "training.epochs"),
        (["dataset.noise=-0.0"], "dataset.noise is -0.0"),
        (["kernel.block=[16]"], "kernel.block is [16]: it must be the block size"),
        (
            ["dataset=csv", "dataset.path=[a]", "dataset.target=0"],
            "dataset.path is ['a']: it must be the path",
        ),
        (
            ["dataset=csv", "dataset.path=a", "dataset.target=true"],
            "dataset.target is True: it must be the target column",
        ),
        (
            ["dataset=csv", "dataset.path=a", "dataset.target=0", "dataset.delimiter=ab"],
            "dataset.delimiter is 'ab'",
        ),
        (["dataset=csv", "dataset.path=a", "dataset.target=0", "dataset.sha256=12"], "dataset.sha256 is 12"),
    ],
)
def test_refused_in_one_line(capsys, arguments, said):
    assert said in refused(capsys, snn.main, arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dataset.rows=1000000001"], "a whole number from 1 to 1000000000: more rows"),
        (["dataset.rows=1" + "0" * 30], "dataset.rows is 1000000000000000000000000000000"),
        (["dataset.features=1000001"], "a whole number from 1 to 1000000: a sample"),
        (["dataset.seed=4294967296"], "to 4294967295: a seed of NumPy's"),
        (["network.hidden=[1000000000000]"], "network.hidden is [1000000000000]"),
        (["network.seed=2147483648"], "to 2147483647: the C library's rand()"),
        (["strategy=ensemble", "strategy.seeds=[4294967296]"], "each from 1 to 2147483647"),
        (
            [
                "strategy=ensemble",
                "strategy.starts=1000",
                "strategy.seeds=[1,2]",
                "strategy.learning_rates=[1,2]",
            ],
            None,
        ),
        (
            [
                "strategy=ensemble",
                "strategy.starts=30000",
                "strategy.seeds=[1,2]",
                "strategy.learning_rates=[1,2]",
            ],
            "30000 starts of each combination of seeds, initialisers, learning_rates are 120000 networks",
        ),
        (["training.epochs=1" + "0" * 30], "a whole number from 1 to 1000000: a run of more"),
        (["training.learning_rate=1e308"], "in float32"),
        (["training.learning_rate=1e-320"], "in float32"),
        (["training.learning_rate=inf"], "training.learning_rate is inf"),
        (["network.clip_norm=1e39"], "in float32"),
        (["protocol.runs=1000000000000"], "from 1 to 100000"),
        (["protocol.rounds=1000000000000"], "from 1 to 1000: each round is a job"),
        (["protocol.max_seconds=1e-300"], "a number from 0.001 to 86400"),
        (["protocol.warmup_seconds=1e9"], "a number from 0 to 86400"),
        (["protocol.relative_error=2"], "a number from 1e-06 to 1"),
        (["strategy=combined", "strategy.streams=100000"], "from 1 to 1024: a device"),
        (["strategy=combined", "strategy.tile_rows=100000000000"], "from 1 to 16777216: kernels"),
        (["strategy=blas", "strategy.threads=100000000"], "from 1 to 65536: no host"),
        (["strategy=pipelined", "strategy.buffers=100000000"], "from 1 to 4096: more batches"),
        (["kernel.block=[1,2000]"], "at most 1024 threads"),
        (["kernel=tiled_fused", "kernel.work=[1,1000]"], "kernel.work is [1, 1000]"),
        (["network=layers", "network.layers=[linear 99999999999, linear 1]"], "is not right"),
    ],
)
def test_numbers_have_limits_with_a_reason(arguments, said):
    if said is None:
        assert compose.composed(arguments)
        return
    with pytest.raises(ConfigError) as caught:
        compose.composed(arguments)
    assert said in str(caught.value)


def test_a_cell_larger_than_the_machine_is_refused_before_any_work(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sizes, "usable_bytes", lambda: 10**8)
    large = ["dataset.rows=1000000", "dataset.features=32"]
    said = refused(capsys, snn.main, large)
    assert "at least 0.265 GB of memory (0.264 GB for dataset=small of 1000000 rows and 33 columns" in said
    assert "but this machine has 0.1 GB" in said
    said = refused(capsys, prepare.main, [*large, f"output={tmp_path}/x.npy"])
    assert "of memory" in said
    assert "GB for network 8192-8192" in refused(capsys, snn.main, ["network.hidden=[8192,8192]"])


def test_a_table_larger_than_the_machine_is_refused_once_it_is_read(monkeypatch):
    config = compose.composed(["device=cpu"])
    config["dataset"] = {"name": "csv", "_target_": "snn.datasets.csv_table.make", "path": "x", "target": 0}
    monkeypatch.setattr(sizes, "usable_bytes", lambda: 10**6)
    table = np.zeros((10**4, 33), np.float32)
    monkeypatch.setattr(cell.datasets, "make", lambda choice: table)
    with pytest.raises(ConfigError, match="10000 rows and 33 columns"):
        cell.run(config)


def test_a_matrix_beyond_32_bits_is_refused(monkeypatch):
    monkeypatch.setattr(sizes, "usable_bytes", lambda: 10**15)
    with pytest.raises(ConfigError, match="kernels count in 32 bits"):
        compose.composed(["network.hidden=[65536,65536]"])


@pytest.mark.parametrize("group", groups.GROUPS)
def test_what_a_choice_lets_one_set_is_what_is_no_part_of_it(group):
    for name in groups.names(group):
        options = groups.options(group, name)
        for key in groups.load(group, name):
            if key in options:
                groups.check_key(f"{group}.{key}", name)
            else:
                with pytest.raises(ConfigError, match="cannot be set"):
                    groups.check_key(f"{group}.{key}", name)


@pytest.mark.parametrize("key", ["kernel.source", "kernel.fused", "strategy._target_", "dataset._target_"])
def test_a_cell_that_is_not_what_its_choice_says_is_refused(key):
    """Wherever it comes from: its values are compared with the choice's file."""
    config = compose.composed([])
    section, _, leaf = key.partition(".")
    config[section][leaf] = "other"
    with pytest.raises(ConfigError, match=f"{key} cannot be set"):
        compose.check_cell(config)


def cells_of(folder, sweep):
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": {"x": sweep}}, allow_unicode=True), encoding="utf-8")
    return grid.read(path, CPU)["x"].cells


@settings(max_examples=60, deadline=None)
@given(path=PATHS | ODD, target=PATHS | ODD | st.integers(-9, 9))
def test_any_text_goes_from_grid_to_shell_to_hydra_unchanged(tmp_path_factory, path, target):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "file_digest", lambda file: "0" * 64)
        (planned,) = cells_of(
            tmp_path_factory.mktemp("g"),
            {"dataset": "csv", "dataset.path": path, "dataset.target": target},
        )
    assert (planned["dataset"]["path"], planned["dataset"]["target"]) == (path, target)
    words = shlex.split(shlex.join(grid.overrides(planned)))
    composed = compose.composed(words)
    assert {section: composed[section] for section in grid.SECTIONS} == planned


@pytest.mark.parametrize("mark", [",", ";", "\t", "|", " ", ":"])
def test_delimiters_go_to_hydra_unchanged(tmp_path, mark, monkeypatch):
    monkeypatch.setattr(grid, "file_digest", lambda file: "0" * 64)
    csv = {"dataset": "csv", "dataset.path": "t", "dataset.target": "y", "dataset.delimiter": mark}
    (planned,) = cells_of(tmp_path, csv)
    assert compose.composed(grid.overrides(planned))["dataset"] == planned["dataset"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=3))
def test_any_arguments_are_checked_without_another_error(arguments):
    try:
        overrides.check(arguments)
    except ConfigError as error:
        assert len(str(error).splitlines()) <= 1 + sum("\n" in argument for argument in arguments)


# ---- the output


@pytest.fixture
def never_measured(monkeypatch):
    """Measuring is an error: whatever is wrong with the output is found before."""

    def fail(*arguments):
        raise AssertionError("it measured before it looked where to write")

    monkeypatch.setattr(cell, "run", fail)
    monkeypatch.setattr(measure_limits, "record", fail)
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
        assert said in refused(capsys, perfetto.main, [str(tmp_path / "file"), output]), output
    assert (tmp_path / "file").read_text() == "kept"
    assert Path("/dev/null").is_char_device()
    assert Path("/dev/stdout").is_symlink()


def test_an_input_is_no_output(capsys, tmp_path, never_measured):
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,2\n")
    csv = ["dataset=csv", f"dataset.path={table}", "dataset.target=y", f"output={table}"]
    assert "is an input" in refused(capsys, snn.main, csv)
    assert "is an input" in refused(capsys, prepare.main, csv)
    assert "is an input" in refused(capsys, snn.main, [f"data={table}", f"output={table}"])
    assert "is an input" in refused(capsys, perfetto.main, [str(table), str(table)])


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
    monkeypatch.setattr(Path, "replace", full)
    output = tmp_path / "cell.json"
    for main, arguments in (
        (snn.main, ["device=cpu", f"output={output}"]),
        (measure_limits.main, ["cpu", str(output)]),
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
    for module in (snn, compare, measure_limits, more_rounds, perfetto, prepare, retabulate):
        source = Path(module.__file__).read_text(encoding="utf-8")
        assert source.endswith('if __name__ == "__main__":\n    sys.exit(command.run(main))\n'), (
            module.__name__
        )


def test_a_record_is_still_printed(capsys, monkeypatch):
    monkeypatch.setattr(cell, "run", lambda settings: {"status": "ok"})
    assert snn.main(["device=cpu"]) == 0
    assert json.loads(capsys.readouterr().out) == {"status": "ok"}


@pytest.mark.parametrize("place", ["/dev/none", "file/t.npy", "/proc/none", "none/"])
def test_a_data_set_that_is_to_be_made_is_checked_as_an_output(capsys, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert f"data is '{place}'" in refused(capsys, snn.main, ["device=cpu", f"data={place}"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
