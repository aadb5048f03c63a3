"""The package: what pip and `make env` install, with the versions that envs/ pins."""

import importlib.util
import subprocess
import sys
import tomllib
from importlib import import_module, metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.version import Version

from snn.hardware import driver

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINNED = Version((ROOT / "envs/requirements-build.txt").read_text(encoding="utf-8").split("==")[1].split()[0])


@pytest.fixture
def make_env():
    loader = SourceFileLoader("make_env", str(ROOT / "scripts/make_env"))
    spec = importlib.util.spec_from_loader("make_env", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_command_is_a_function_of_ours():
    module, _, name = PROJECT["project"]["scripts"]["snn"].partition(":")
    assert callable(getattr(import_module(module), name))


def test_what_is_pinned_can_build_it():
    (required,) = map(Requirement, PROJECT["build-system"]["requires"])
    assert required.name == "setuptools" and PINNED in required.specifier


def test_dependencies_are_those_that_are_pinned():
    dynamic = PROJECT["tool"]["setuptools"]["dynamic"]
    files = [one["file"] for one in (dynamic["dependencies"], *dynamic["optional-dependencies"].values())]
    for (file,) in files:
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        pins = [line.partition("#")[0] for line in lines]
        requirements = [Requirement(pin) for pin in pins if pin.strip()]
        assert requirements
        assert all(str(one.specifier).startswith("==") for one in requirements)
    assert files[0] == ["envs/requirements.txt"]


def test_an_editable_installation_is_a_path_and_a_program(make_env, tmp_path):
    """As setuptools builds it; a path costs a start of Python nothing, a finder of modules does."""
    built(make_env, tmp_path, "editable")
    (path,) = (tmp_path / "made").glob("*.pth")
    assert path.read_text().strip() == str(tmp_path / "clone")
    (points,) = (tmp_path / "made").glob("*.dist-info/entry_points.txt")
    assert "snn = snn.cli:entry" in points.read_text()


def test_a_wheel_is_whole_and_works_without_the_clone(make_env, tmp_path):
    made = built(make_env, tmp_path, "wheel")
    found = {path.relative_to(made / "snn").as_posix() for path in (made / "snn").rglob("*")}
    of_package = {path.relative_to(ROOT / "snn").as_posix() for path in (ROOT / "snn").rglob("*")}
    shared = {
        f"_share/{path.relative_to(ROOT).as_posix()}"
        for name in ("config", "examples", "kernels", "profiles", "workflow")
        for path in (ROOT / name).rglob("*")
    }
    shared |= {f"_share/{path.relative_to(ROOT)}" for path in (ROOT / "docs").rglob("*.md")}
    wanted = {name for name in of_package | shared if "__pycache__" not in name}
    assert not wanted - found
    archived = {path.parent.name for path in made.glob("snn/_share/results/published/*/*/tables")}
    assert archived == {path.parent.name for path in (ROOT / "results/published").glob("*/*/README.md")}

    ours = make_env.environment() | {"PYTHONPATH": str(made)}
    lay_out = "from snn import cli, init; init.lay_out('mine'); print(init.locate('config')); "
    lay_out += "cli.main(['--version']); from snn.recommending.counterparts import counterpart; "
    lay_out += "assert init.Path(counterpart('graph').split(' (', 1)[1].rsplit('#', 1)[0]).exists()"
    for command, folder, said in (
        (["-c", lay_out], tmp_path, str(made / "snn/_share/config")),
        (["-m", "snakemake", "--dry-run", "results/tables/speedup.csv"], tmp_path / "mine", "build_speedup"),
    ):
        done = subprocess.run(
            [sys.executable, *command], cwd=folder, env=ours, capture_output=True, text=True
        )
        assert done.returncode == 0 and said in done.stdout + done.stderr, done.stderr


def built(make_env, folder, kind):
    """The folder with the content of what setuptools builds from a clone."""
    here = Version(metadata.version("setuptools"))  # to import it, nothing may have imported distutils
    if here < PINNED:
        pytest.skip(f"setuptools is {here} here, and {PINNED} in what make env builds")
    clone = folder / "clone"
    clone.mkdir()
    for path in ROOT.iterdir():
        if not path.name.startswith(".") and path.name not in ("build", "results"):
            (clone / path.name).symlink_to(path)
    (clone / "results").mkdir()
    (clone / "results/published").symlink_to(ROOT / "results/published")
    build = f"from setuptools import build_meta; print(build_meta.build_{kind}('.'))"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, env=make_env.environment())
    (wheel,) = clone.glob("*.whl")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, folder / "made"], check=True)
    return folder / "made"


# ---- scripts/make_env


def test_make_env_installs_the_clone_without_a_download(make_env, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(make_env, "VENV", tmp_path)
    monkeypatch.setattr(make_env, "STAMP", tmp_path / "installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").touch()
    monkeypatch.setattr(make_env, "pip", lambda arguments: calls.append(arguments) or 0)
    files = make_env.requirements(dev=False)
    assert ROOT / "envs/requirements-build.txt" in files
    path = tmp_path / "lib/python3.11/site-packages/__editable__.snn-1.pth"
    path.parent.mkdir(parents=True)
    path.write_text(str(ROOT))
    make_env.install(files)
    made = Path(path.read_text().strip())
    assert not made.is_absolute() and (path.parent / made).resolve() == ROOT
    assert calls[-1] == ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]
    assert {str(file) for file in files} <= {*calls[0]}


@pytest.mark.parametrize(
    ("driver", "installed", "cuda", "kept"),
    [
        (None, "13", "13", True),  # a login node, after a node with a GPU
        (None, None, None, True),
        (12, "13", "12", False),
        (13, "13", "13", True),
        (13, None, "13", True),
    ],
)
def test_cupy_is_that_of_the_driver_and_stays_where_there_is_none(
    make_env, monkeypatch, tmp_path, driver, installed, cuda, kept
):
    monkeypatch.setattr(make_env, "VENV", tmp_path)
    monkeypatch.setattr(make_env, "cuda_major", lambda: driver)
    if installed:
        (tmp_path / f"lib/python3.11/site-packages/cupy_cuda{installed}x-14.2.0.dist-info").mkdir(
            parents=True
        )
    files = make_env.requirements(dev=False)
    wanted = [file.name for file in files if "cuda" in file.name]
    assert wanted == ([f"requirements-cuda{cuda}.txt"] if cuda else [])
    assert make_env.conflicting(files) != kept


@pytest.mark.parametrize(
    ("found", "cuda", "said"),
    [
        (None, None, ""),
        ((12, []), None, ""),
        ((11, [(8, 0)]), None, "the driver supports only CUDA 11"),
        ((12, [(9, 0)]), 12, ""),
        ((13, [(7, 5)]), 13, ""),
        ((14, [(9, 0)]), 13, ""),
        ((13, [(7, 0)]), 12, ""),
        ((13, [(9, 0), (7, 0)]), 12, ""),
        ((13, [(8, 6), (6, 1)]), 13, ""),  # the older one is not used
        ((13, [(6, 1)]), None, "the GPU has compute capability 6.1, but 7.0 is needed"),
        (driver.DriverError("the error", 803), None, "the error"),
        (driver.DriverError("the error", driver.NO_DEVICE), None, ""),  # as on a cluster's login node
    ],
)
def test_cupy_is_for_a_cuda_that_supports_the_gpus(make_env, monkeypatch, capsys, found, cuda, said):
    def read():
        if isinstance(found, Exception):
            raise found
        return found and driver.Driver(*found)

    monkeypatch.setattr(driver, "read", read)
    assert make_env.cuda_major() == cuda
    printed = capsys.readouterr().out
    assert said in printed and (said or "the error" not in printed)


def test_the_driver_is_asked_for_every_gpu(monkeypatch):
    class Library:
        """libcuda with a V100 and a T4."""

        capabilities = ((7, 0), (7, 5))

        def cuInit(self, flags):
            return 0

        def cuDriverGetVersion(self, version):
            version._obj.value = 13020
            return 0

        def cuDeviceGetCount(self, count):
            count._obj.value = len(self.capabilities)
            return 0

        def cuDeviceGet(self, device, number):
            device._obj.value = number
            return 0

        def cuDeviceGetAttribute(self, value, attribute, device):
            value._obj.value = self.capabilities[device.value][attribute - 75]
            return 0

    monkeypatch.setattr(driver.ctypes, "CDLL", lambda name: Library())
    assert driver.read() == (13, [(7, 0), (7, 5)])


def test_make_env_installs_again_what_is_installed_otherwise(make_env, monkeypatch, tmp_path):
    """Another command, say; but not for a setting of another tool in the same file."""
    monkeypatch.setattr(make_env, "ROOT", tmp_path)

    def fingerprint(text):
        (tmp_path / "pyproject.toml").write_text(text)
        return make_env.fingerprint([])

    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert fingerprint(text) == fingerprint(text.replace("line-length = 110", "line-length = 99"))
    assert fingerprint(text) != fingerprint(text.replace('snn = "snn.cli:entry"', 'snn2 = "snn.cli:entry"'))


def test_in_a_clone_of_another_user_make_env_says_so(make_env, monkeypatch):
    monkeypatch.setattr(make_env, "STAMP", ROOT / "no such file")
    monkeypatch.setattr(make_env.os, "access", lambda path, mode: False)
    monkeypatch.setattr(make_env, "install", lambda files: pytest.fail("it was installed"))
    monkeypatch.setattr(sys, "argv", ["make_env"])
    with pytest.raises(SystemExit) as caught:
        make_env.main()
    assert str(ROOT) in caught.value.code and "clone" in caught.value.code


def test_pip_gets_neither_the_users_settings_of_python_nor_names_in_the_path(make_env, monkeypatch, tmp_path):
    """Setuptools takes names for variables of the environment, and fails if they do not exist."""
    monkeypatch.setattr(make_env, "VENV", tmp_path / "a {b1} $c2/.venv")
    for name, value in (("c2", "as it was"), ("PYTHONWARNINGS", "error"), ("PYTHONPATH", "/mine")):
        monkeypatch.setenv(name, value)
    given = make_env.environment()
    assert given["b1"] == "" and given["c2"] == "as it was" and given["LC_ALL"] == "C.UTF-8"
    assert not any(name.startswith("PYTHON") for name in given)


@pytest.mark.parametrize("name", ["a b", "$HOME", '"x"', "it's", "`x`", "ü"])
def test_programs_start_in_a_folder_whose_name_a_shell_would_change(make_env, tmp_path, name):
    """As pip writes them, if the path of Python has a blank or is long."""
    python = tmp_path / name / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    program = tmp_path / name / "program"
    start = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n"
    program.write_bytes(make_env.with_quoted_python(f"{start}import sys\nprint(sys.argv[1])\n".encode()))
    program.chmod(0o755)
    done = subprocess.run([program, "$given"], capture_output=True, text=True)
    assert done.stdout == "$given\n", done.stderr
    unchanged = b"#!/a/python\nprint()\n"
    assert make_env.with_quoted_python(unchanged) == unchanged


def test_an_environment_that_is_up_to_date_is_left_alone(make_env, monkeypatch, tmp_path):
    monkeypatch.setattr(make_env, "STAMP", tmp_path / "installed")
    monkeypatch.setattr(make_env, "install", lambda files: pytest.fail("it was installed"))
    monkeypatch.setattr(sys, "argv", ["make_env"])
    for dev in (False, True):  # one with the test tools is good for normal use as well
        make_env.STAMP.write_text(make_env.fingerprint(make_env.requirements(dev)))
        make_env.main()
