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
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pip._vendor.distlib.scripts import ScriptMaker

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
    "quotes": {"folder": "a 'b' \"c\" $HOME 50%"},
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

QUICK = (
    (
        "user,folder,slashes,german,kathmandu,tmpdir,private,variables",
        "test_workflow.py test_notebook.py test_package.py test_refusals.py "
        "test_recommend.py::test_the_printed_ranking_is_that_of_the_workflow",
    ),
    (
        "glob,letters,c,kiritimati,no_home,many,shared",
        "test_config.py test_grid.py test_devices.py test_publish.py test_merge.py test_lock.py",
    ),
)
"""What CI runs: settings, and tests. Those of the first plan, train, tabulate, publish and recommend."""

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


def together(names: Sequence[str]) -> dict[str, Any]:
    """Several settings as one, without another user if this process cannot become one, which is printed."""
    found: dict[str, Any] = {}
    for name in names:
        environment = {**found.get("environment", {}), **SETTINGS[name].get("environment", {})}
        found |= {**SETTINGS[name], "environment": environment}
    if "user" in found:
        try:
            _python_of(found["user"])
        except LookupError as error:
            print(f"not as another user: {error}", flush=True)
            del found["user"]
    return found


def run(setting: Mapping[str, Any], command: Sequence[str]) -> int:
    """The exit status of a command as a stranger."""
    with tempfile.TemporaryDirectory(prefix="stranger-") as made:
        scratch = Path(made)
        (scratch / "home").mkdir()
        clone = scratch / setting.get("folder", "clone")
        _copy(clone)
        environment = _environment(setting, scratch)
        stranger = {"cwd": clone, "env": environment, "umask": setting.get("umask", -1)}
        if "user" in setting:
            user, group = _ids(setting["user"])
            stranger |= {"user": user, "group": group, "extra_groups": []}
            subprocess.run(["chown", "-R", f"{user}:{group}", scratch], check=True)
        if command[0] == "make":
            subprocess.run(["make", "dev"], check=True, **stranger)
        else:
            _borrow(clone, _python_of(setting.get("user")), stranger)
        _pretend(setting, scratch, _packages(clone))
        if setting.get("cores") == 1:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        environment["PATH"] = f"{clone / '.venv/bin'}:{environment['PATH']}"
        return subprocess.run(command, **stranger).returncode


def _ids(user: str | int) -> tuple[int, int]:
    """The numbers of a user and its group."""
    if isinstance(user, int):
        return user, user
    account = pwd.getpwnam(user)
    return account.pw_uid, account.pw_gid


def _python_of(user: str | int | None) -> str:
    """A Python of this version that a user can run. Raises LookupError if this process finds none."""
    own = sys._base_executable
    if user is None:
        return own
    if os.geteuid():
        raise LookupError("only root can become one")
    number, group = _ids(user)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (own, f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
        with suppress(OSError):
            subprocess.run([python, "-c", ""], cwd="/", user=number, group=group, extra_groups=[], check=True)
            return python
    raise LookupError("it can run no Python of this version")


def _copy(clone: Path) -> None:
    """A clone with the files of this working tree."""
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), clone], check=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = os.fsdecode(subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout).split("\0")
    for path in clone.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in names:
        if name and (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name)


def _environment(setting: Mapping[str, Any], scratch: Path) -> dict[str, str]:
    found = dict(os.environ)
    if "user" in setting:
        found |= {"HOME": "SCRATCH/home", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    if "locale" in setting:
        found |= _language(*setting["locale"], scratch / "locales")
    for key, value in setting["environment"].items():
        found.pop(key, None)
        if value is not None:
            found[key] = value
    found = {key: value.replace("SCRATCH", str(scratch)) for key, value in found.items()}
    for key in ("HOME", "TMPDIR"):
        if found.get(key, "").startswith(str(scratch)):
            Path(found[key]).mkdir(exist_ok=True)
    return found


def _language(language: str, charset: str, folder: Path) -> dict[str, str]:
    """The variables for a locale, which is made in a folder; empty, with a message, if it cannot be made."""
    folder.mkdir()
    made = folder / f"{language}.{charset}"
    with suppress(FileNotFoundError):
        subprocess.run(["localedef", "-i", language, "-f", charset, made])
    if made.is_dir():
        return {"LOCPATH": str(folder), "LC_ALL": made.name, "LANG": made.name}
    print(f"not in another language: localedef is missing, or cannot make {made.name}", flush=True)
    return {}


def _borrow(clone: Path, python: str, stranger: Mapping[str, Any]) -> None:
    """A .venv with the packages of the one that runs this, and its programs."""
    subprocess.run([python, "-m", "venv", "--without-pip", ".venv"], check=True, **stranger)
    borrowed = f"{sysconfig.get_path('purelib')}\n{os.path.relpath(clone, _packages(clone))}\n"
    (_packages(clone) / "borrowed.pth").write_text(borrowed, encoding="utf-8")
    scripts = ScriptMaker(None, str(clone / ".venv/bin"))
    scripts.executable = shlex.quote(str(clone / ".venv/bin/python"))
    scripts.variants = {""}
    scripts.make_multiple(["snn = snn.cli:entry", "snakemake = snakemake.cli:main"])


def _packages(clone: Path) -> Path:
    (packages,) = clone.joinpath(".venv").glob("lib/python3*/site-packages")
    return packages


def _pretend(setting: Mapping[str, Any], scratch: Path, packages: Path) -> None:
    """Have every Python of a .venv see another CPU, or more cores."""
    cpuinfo = ""
    if "cpu" in setting:
        real = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        named = [f"model name\t: {setting['cpu']}"] if setting["cpu"] else []
        lines = [*named, *(line for line in real if not line.startswith("model name"))]
        cpuinfo = str(scratch / "cpuinfo")
        Path(cpuinfo).write_text("\n".join(lines) + "\n", encoding="utf-8")
    cores = setting.get("cores", 0)
    start = _START.format(cpuinfo=cpuinfo, cores=cores if cores > 1 else 0)
    (packages / "stranger.py").write_text(start, encoding="utf-8")
    (packages / "stranger.pth").write_text("import stranger\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for; its exit status, or 2 for an unknown setting or a lack of arguments."""
    if not arguments:
        for name, setting in SETTINGS.items():
            print(f"{name:12} {setting}")
        return 0
    if arguments == ["--quick"]:
        runs = [(names, [*_PYTEST, *(f"tests/{test}" for test in tests.split())]) for names, tests in QUICK]
    elif len(arguments) > 1:
        runs = [(arguments[0], arguments[1:])]
    else:
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the copy is removed, and the command ended
    os.umask(0o022)  # another user reads what this one makes
    for names, command in runs:
        if unknown := set(names.split(",")) - SETTINGS.keys():
            print(f"strangers: {', '.join(unknown)}: not a setting: {', '.join(SETTINGS)}", file=sys.stderr)
            return 2
        print(f"as {names}: {' '.join(command)}", flush=True)
        try:
            status = run(together(names.split(",")), command)
        except KeyboardInterrupt:
            print("strangers: interrupted", file=sys.stderr)
            status = 130
        except FileNotFoundError as error:
            print(f"strangers: {error.filename}: {error.strerror}", file=sys.stderr)
            status = 127
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
