#!/usr/bin/env python3
"""Runs a command in a copy of this clone as a stranger has it: another CPU, folder, language, user, ...

Usage: strangers.py                                 list the settings
       strangers.py --quick                         the quick part, which CI runs
       strangers.py NAME[,NAME...] COMMAND ...      run a command as these together

The copy has what is not ignored here, changed files too. Its .venv borrows the packages of this one, unless
the command is make, which builds its own. Examples:

    tests/strangers.py brackets python -m pytest -n 0 tests/test_workflow.py
    tests/strangers.py user,folder make speedup
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pip._vendor.distlib.scripts import ScriptMaker, enquote_executable

ROOT = Path(__file__).resolve().parent.parent

CPUS = {
    "brackets": "Intel(R) Xeon(R) Processor",
    "slashes": "Vendor [R] w/ {0} AVX-512, 50% 2.0GHz @ $HOME \\ 'x=1' <b>&amp; \"y\" |",
    "letters": "龙芯 Loongson-3A6000 Ядро ß İ",
    "nameless": "",  # as on many an ARM
}
"""CPU names by setting; ``nameless``: /proc/cpuinfo has none."""

GPUS = (
    "NVIDIA RTX 4000 (Ada) [20 GB] / {0}, x=1",
    "NVIDIA 'Titan' \"V\" 50% \\ $HOME <b>&amp; |",
    "Карта № 5 ü",
)
"""Names of GPUs for tests that fake one."""

SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"cpu": cpu} for name, cpu in CPUS.items()},
    "folder": {"folder": "a {b} ü"},
    "glob": {"folder": "x [y] (z) *?"},
    "user": {"user": "nobody"},
    "uid": {"user": 54321},  # without an account, as in a container
    "ascii": {"environment": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}},
    "c": {"environment": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": None}},
    "german": {"locale": ("de_DE", "UTF-8")},
    "latin": {"locale": ("de_DE", "ISO-8859-1")},
    "turkish": {"locale": ("tr_TR", "UTF-8")},
    "kiritimati": {"environment": {"TZ": "Pacific/Kiritimati"}},
    "kathmandu": {"environment": {"TZ": "Asia/Kathmandu"}},
    "home": {"environment": {"HOME": "SCRATCH/h o {m} e"}},
    "no_home": {"environment": {"HOME": None}},
    "fixed_home": {"environment": {"HOME": "/proc/home"}},  # not even root can make it
    "tmpdir": {"environment": {"TMPDIR": "SCRATCH/t m (p)+ [ü] {q}"}},
    "private": {"umask": 0o077},
    "shared": {"umask": 0o002},
    "one": {"cores": 1},
    "many": {"cores": 96},
    "variables": {
        "environment": {
            "MPLBACKEND": "TkAgg",
            "PYTHONPATH": "SCRATCH/no such folder",
            "SNAKEMAKE_PROFILE": "SCRATCH/no such profile",
            "COLUMNS": "20",
            "NO_COLOR": "1",
        }
    },
}

QUICK: list[tuple[str, list[str]]] = []

_PYTEST = ["python", "-m", "pytest", "-p", "no:cacheprovider"]

_START = """# Imported by every Python of this .venv: what the machine says of itself.
import builtins, io, os
_open, _cpuinfo, _cores = io.open, {cpuinfo!r}, {cores!r}

def open(file, *given, **named):
    is_cpuinfo = not isinstance(file, int) and os.fspath(file) == "/proc/cpuinfo"
    return _open(_cpuinfo if is_cpuinfo else file, *given, **named)

if _cpuinfo:
    io.open = builtins.open = open
if _cores:
    os.cpu_count = lambda: _cores
    os.sched_getaffinity = lambda process: set(range(_cores))
"""


class NotHere(Exception):
    """This machine cannot play a setting."""


def together(names: Sequence[str]) -> dict[str, Any]:
    """Several settings as one."""
    found: dict[str, Any] = {}
    for name in names:
        environment = {**found.get("environment", {}), **SETTINGS[name].get("environment", {})}
        found |= {**SETTINGS[name], "environment": environment}
    return found


def run(setting: Mapping[str, Any], command: Sequence[str]) -> int:
    """The exit status of a command as a stranger. Raises NotHere."""
    if setting.get("user") is not None and os.geteuid():
        raise NotHere("only root can become another user")
    with tempfile.TemporaryDirectory(prefix="stranger-") as made:
        scratch = Path(made)
        (scratch / "home").mkdir()
        clone = scratch / setting.get("folder", "clone")
        _copy(clone)
        environment = _environment(setting, scratch)
        user = setting.get("user")
        identity = {} if user is None else {"user": user, "group": "nogroup", "extra_groups": []}
        as_stranger = {
            "cwd": clone,
            "env": environment,
            "umask": setting.get("umask", -1),
            **identity,
        }
        _give(scratch, user)
        python = clone / ".venv/bin/python"
        if command[0] == "make":
            subprocess.run(["make", "dev"], check=True, **as_stranger)
        else:
            _borrow(clone, as_stranger)
        _pretend(setting, scratch, Path(_purelib(python, as_stranger)))
        _give(scratch, user)
        if setting.get("cores") == 1:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        environment["PATH"] = f"{python.parent}:{environment['PATH']}"
        return subprocess.run(command, **as_stranger).returncode


def _copy(clone: Path) -> None:
    """A clone with the files of this working tree."""
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), clone], check=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout.decode()
    here = {name for name in names.split("\0") if name and (ROOT / name).is_file()}
    for name in here:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)
    for path in clone.rglob("*"):
        name = path.relative_to(clone)
        if path.is_file() and name.parts[0] != ".git" and str(name) not in here:
            path.unlink()


def _environment(setting: Mapping[str, Any], scratch: Path) -> dict[str, str]:
    found = dict(os.environ)
    if setting.get("user") is not None:
        found |= {"HOME": "SCRATCH/home", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    if "locale" in setting:
        language, charset = setting["locale"]
        made = scratch / "locales" / f"{language}.{charset}"
        made.parent.mkdir()
        command = ["localedef", "-i", language, "-f", charset, made]
        if not shutil.which("localedef") or subprocess.run(command, capture_output=True).returncode:
            raise NotHere(f"localedef cannot make {made.name}")
        found |= {"LOCPATH": str(made.parent), "LC_ALL": made.name, "LANG": made.name}
    for key, value in setting["environment"].items():
        found.pop(key, None)
        if value is not None:
            found[key] = value
    found = {key: value.replace("SCRATCH", str(scratch)) for key, value in found.items()}
    for key in ("HOME", "TMPDIR"):
        if found.get(key, "").startswith(str(scratch)):
            Path(found[key]).mkdir(exist_ok=True)
    return found


def _borrow(clone: Path, as_stranger: Mapping[str, Any]) -> None:
    """A .venv with the packages of the one that runs this."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    pythons = [sys._base_executable, *(f"{folder}/{version}" for folder in ("/usr/local/bin", "/usr/bin"))]
    for python in pythons:
        try:
            made = subprocess.run([python, "-m", "venv", "--without-pip", ".venv"], **as_stranger)
        except OSError:
            continue
        if made.returncode == 0:
            break
    else:
        raise NotHere(f"the stranger can run none of {', '.join(pythons)}")
    bin = clone / ".venv/bin"
    packages = Path(_purelib(bin / "python", as_stranger))
    (packages / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n{clone}\n", encoding="utf-8")
    scripts = ScriptMaker(None, str(bin))
    scripts.executable, scripts.variants = enquote_executable(str(bin / "python")), {""}
    scripts.make_multiple(["snn = snn.cli:entry", "snakemake = snakemake.cli:main"])


def _purelib(python: Path, as_stranger: Mapping[str, Any]) -> str:
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return os.fsdecode(subprocess.run(command, check=True, capture_output=True, **as_stranger).stdout).strip()


def _pretend(setting: Mapping[str, Any], scratch: Path, packages: Path) -> None:
    """Have every Python of a .venv see another CPU, or more cores."""
    cpuinfo = ""
    if "cpu" in setting:
        real = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        lines = [line for line in real if not line.startswith("model name")]
        named = [f"model name\t: {setting['cpu']}"] if setting["cpu"] else []
        cpuinfo = str(scratch / "cpuinfo")
        Path(cpuinfo).write_text("\n".join([*named, *lines]) + "\n", encoding="utf-8")
    cores = setting.get("cores", 0)
    start = _START.format(cpuinfo=cpuinfo, cores=cores if cores > 1 else 0)
    (packages / "stranger.py").write_text(start, encoding="utf-8")
    (packages / "stranger.pth").write_text("import stranger\n", encoding="utf-8")


def _give(folder: Path, user: str | int | None) -> None:
    if user is not None:
        subprocess.run(["chown", "-R", f"{user}:nogroup", folder], check=True)


def main(arguments: Sequence[str]) -> int:
    if arguments == ["--quick"]:
        runs = [
            (names.split(","), ["python", "-m", "pytest", "-p", "no:cacheprovider", *tests])
            for names, tests in QUICK
        ]
    elif len(arguments) > 1:
        runs = [(arguments[0].split(","), arguments[1:])]
    else:
        for name, setting in SETTINGS.items():
            print(f"{name:12} {setting}")
        return 0
    for names, command in runs:
        print(f"as {', '.join(names)}: {' '.join(command)}", flush=True)
        try:
            status = run(together(names), command)
        except NotHere as error:
            print(f"left out: {error}")
            continue
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
