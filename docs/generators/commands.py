"""The help of every command, as it prints it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

from generators.links import ROOT
from generators.markdown import code, paragraphs

Command = tuple[str, ...]
"""The arguments of Python's -m."""

PROGRAM = "snn.cli"
"""The entry point of the program ``snn``."""


def pages() -> dict[str, str]:
    return {"commands.md": page()}


def page() -> str:
    """A section for each command, and the targets of make."""
    found = commands()
    with ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(help_of, found.values()))
    sections = [f"## {name}\n\n{code(text)}" for name, text in zip(found, printed, strict=True)]
    make = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return paragraphs("# Commands", *sections, "## make", code(make))


def commands() -> dict[str, Command]:
    """By what one types: those of the program ``snn``, then modules that are command lines of their own."""
    own = sorted(path for path in (ROOT / "snn").glob("*.py") if _is_command(path))
    modules = ["snn", *(f"snn.{path.stem}" for path in own if path.stem != "__main__")]
    program: dict[str, Command] = {}
    if PROGRAM in modules:
        cli = import_module(PROGRAM)
        program = {"snn": (PROGRAM,)} | {f"snn {name}": (PROGRAM, name) for name in cli.known()}
        known = {PROGRAM, *(command.module for command in cli.known().values())}
        modules = [module for module in modules if module not in known]
    return program | {f"python -m {module}": (module,) for module in modules}


def _is_command(path: Path) -> bool:
    return 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")


def help_of(command: Command) -> str:
    """What a command prints when it is asked for its help."""
    done = subprocess.run(
        [sys.executable, "-m", *command, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        raise RuntimeError(f"python -m {' '.join(command)} --help: {done.stderr}")
    return done.stdout.replace("``", "")
