"""What the how-to guides show does what they say: their code is run as it stands on the page."""

import re
import shlex
import shutil
import sys
import types
from pathlib import Path

import cuda_on_cpu
import howto_code
import numpy as np
import pytest
import yaml
from conftest import ROOT

from snn import cli
from snn.backends.base import Backend
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups, settings
from snn.errors import ConfigError, LeakError
from snn.profiling.calls import METHODS, EveryCall, NullBackend
from snn.profiling.ledger import Ledger
from snn.profiling.observed import ObservedBackend
from snn.profiling.profile import TimingBackend

TUTORIAL = (ROOT / "docs/tutorials/own_data.md").read_text(encoding="utf-8")


def module(name, text):
    made = types.ModuleType(name)
    exec(compile(text, name, "exec"), vars(made))
    return made


def test_the_line_that_gives_a_setting_its_range_is_one_of_the_settings():
    text = (ROOT / "docs/howto/add_strategy.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r'^```python\n("strategy\..*?)^```$', text, re.MULTILINE | re.DOTALL)
    ((key, kind),) = eval(f"{{{shown}}}", vars(settings)).items()
    assert settings.KINDS[key] == kind
    with pytest.raises(ConfigError, match=kind.reason):
        settings.find_kind(key, kind.least).check(key, kind.most + 1)


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no C++ compiler")
@pytest.mark.parametrize("name", ["matmul", "matmul_tn", "matmul_nt"])
def test_the_kernel_multiplies(name, tmp_path):
    page = howto_code.files("add_kernel")
    given = yaml.safe_load(page["config/kernel/unrolled.yaml"])
    assert given.keys() == groups.load("kernel", "naive").keys()
    source = tmp_path / "unrolled.cu"
    shutil.copy(ROOT / "kernels/tile_place.cuh", tmp_path)
    source.write_text(page[given["source"]])
    random = np.random.default_rng(1)
    A, B = random.normal(size=(5, 7)).astype("f4"), random.normal(size=(7, 3)).astype("f4")
    C = np.zeros((5, 3), dtype="f4")
    operands = {"matmul": (A, B), "matmul_tn": (A.T.copy(), B), "matmul_nt": (A, B.T.copy())}[name]
    cuda_on_cpu.load(source)[name]((1, 1), (16, 16), (*operands, C, 5, 7, 3))
    np.testing.assert_allclose(C, A @ B, rtol=1e-5, atol=1e-5)


def test_the_oracle_of_the_layer_has_its_slope():
    text = (ROOT / "docs/howto/add_layer.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(class Softplus:.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
    layer = module("layer_oracle_of_page", f"import numpy as np\n\n{code}").Softplus()
    x, dy = np.random.default_rng(1).normal(size=(2, 3, 4))
    above, below, _ = layer.forward(x + 1e-6), layer.forward(x - 1e-6), layer.forward(x)
    np.testing.assert_allclose(layer.backward(dy), dy * (above - below) / 2e-6, rtol=1e-6, atol=1e-8)


def test_the_backend_call_is_made_checked_timed_counted_and_left_out(monkeypatch):
    text = (ROOT / "docs/howto/add_backend_call.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^In `(\w+)` of `snn/([\w/]+)\.py`.*?```python\n(.*?)^```$", text, re.M | re.S)
    assert [name for name, *_ in blocks] == ["Backend", "CpuBackend", "CudaBackend", "EveryCall"]
    monkeypatch.setitem(METHODS, "zero", None)  # removed afterwards
    for cls in (Backend, CpuBackend, EveryCall):
        (code,) = [code for name, _, code in blocks if name == cls.__name__]
        names = dict(vars(sys.modules[cls.__module__]))
        exec("class Body:\n" + code, names)
        monkeypatch.setattr(cls, "zero", vars(names["Body"])["zero"], raising=False)
    assert Backend.zero.__isabstractmethod__
    timing = TimingBackend(CpuBackend())
    observed = ObservedBackend(timing, ledger := Ledger())
    buffer, array = observed.malloc(12), observed.host_alloc((3,))
    array[:] = 1, 2, 3
    observed.copy_in(buffer, array)
    observed.zero(buffer, 8)
    observed.copy_out(array, buffer)
    assert array.tolist() == [0, 0, 3]
    assert timing.calls == 5 and timing.seconds["launch"] > 0
    assert (ledger.zeroings, ledger.zeroed_bytes) == (1, 8)
    with pytest.raises(LeakError):
        observed.zero(buffer, 16)
    assert NullBackend(CpuBackend()).zero(buffer, 8) is None


def test_the_tests_that_a_page_names_exist():
    """Those that ``-k`` chooses; a name that is the reader's own chooses tests once its file is there."""
    chosen = []
    for page in (ROOT / "docs").glob("howto/*.md"):
        for command in re.findall(r"^    python -m pytest (.*)$", page.read_text(encoding="utf-8"), re.M):
            files, _, word = command.partition(" -k ")
            tests = [(ROOT / name).read_text() for name in files.split() if name != "tests"]
            if word not in {Path(path).stem for path in howto_code.files(page.stem)}:
                chosen.append(word)
                assert re.search(rf"def test_\w*{word}", "".join(tests)), f"{page.name}: {command}"
    assert "every_table" in chosen


@pytest.fixture
def houses(tmp_path, monkeypatch):
    """A folder with the table that docs/tutorials/own_data.md invents."""
    monkeypatch.chdir(tmp_path)
    module("houses", re.search(r"```python\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)[1])


@pytest.mark.usefixtures("houses")
def test_the_invented_table_is_the_one_that_the_tutorial_shows(tmp_path):
    lines = (tmp_path / "houses.csv").read_text().splitlines()
    assert len(lines) == 1601
    shown = re.search(r"    \$ head -4 houses.csv\n((?:    .*\n){4})", TUTORIAL)[1]
    assert [line.strip() for line in shown.splitlines()] == lines[:4]


def shown():
    """Commands of the documentation that are refused, or that only plan, with the output on the page."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        text = "" if {"_generated", "_build"} & set(page.parts) else page.read_text(encoding="utf-8")
        for command, output in re.findall(
            r"^    \$ (snn (?:.*\\\n)*.*)\n\n?((?:    (?!\$ ).*\n)+)", text, re.MULTILINE
        ):
            command = re.sub(r" *\\\n +", " ", command)
            if output.lstrip().startswith("snn: ") or command.startswith("snn plan "):
                yield pytest.param(command, output.partition("    ...\n")[0], id=f"{page.stem}: {command}")


@pytest.mark.usefixtures("houses")
@pytest.mark.parametrize(("command", "output"), list(shown()))
def test_a_command_prints_what_its_page_shows(command, output, capsys, tmp_path):
    cli.main(shlex.split(command)[1:])
    out, err = capsys.readouterr()
    printed = (out or err).replace(str(tmp_path), "/home/you/snn")
    assert " ".join(printed.split()).startswith(" ".join(output.split()))


@pytest.mark.usefixtures("houses")
@pytest.mark.parametrize(
    ("page", "made"), [("train_as_in_pytorch", "best.npz"), ("train_many", "members.json")]
)
def test_the_code_of_a_page_reads_what_its_command_writes(page, made, capsys):
    text = (ROOT / f"docs/howto/{page}.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    (?:\$ )?snn (run (?:.*\\\n)*.*)", text, re.MULTILINE)
    (command,) = (re.sub(r" *\\\n +", " ", one) for one in commands if made in one)
    brief = {"training.epochs": "1", "training.batch_size": "640", "device": "cpu"}
    brief |= {f"protocol.{key}": "0.01" for key in ("max_seconds", "warmup_seconds", "max_warmup_seconds")}
    brief |= {"protocol.runs": "1", "protocol.min_runs": "1", "protocol.rounds": "1"}
    given = [one for one in shlex.split(command) if one.partition("=")[0] not in brief]
    assert cli.main([*given, *(f"{key}={value}" for key, value in brief.items())]) == 0
    names = {"X": np.zeros((3, 5))}
    exec(re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1], names)
    if page == "train_many":
        assert len(names["members"]) == 40 and "0.003" in capsys.readouterr().out
    else:
        assert names["y"].shape == (3, 1)


@pytest.mark.usefixtures("houses")
def test_the_page_on_training_trains_predicts_and_goes_to_pytorch(capsys):
    text = (ROOT / "docs/howto/train_and_use.md").read_text(encoding="utf-8")
    for command in re.findall(r"^    snn ((?:.*\\\n)*.*)", text, re.MULTILINE):
        words = shlex.split(re.sub(r" *\\\n +", " ", command).partition(" > ")[0])
        brief = ["device=cpu", "training.epochs=2"] if words[0] == "train" else []
        assert cli.main([*(word for word in words if "epochs=" not in word), *brief]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 1600
    names = {}
    for code in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if "torch" in code:
            pytest.importorskip("torch")
        exec(code.replace("max_iter=50", "max_iter=3").replace("max_iter=20", "max_iter=1"), names)
        assert len(names.get("scores", range(6))) == 6
    assert names["outputs"].shape == (1600, 1)


def test_refused_commands_are_among_those_that_are_compared():
    assert any("recommend" in param.id for param in shown())
