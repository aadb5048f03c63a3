"""The help of every command, as it prints it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from generators.links import ROOT
from generators.markdown import code, paragraphs


def pages() -> dict[str, str]:
    return {"commands.md": page()}


def page() -> str:
    """A section for each command, and the targets of make."""
    commands = modules()
    with ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(help_of, commands))
    sections = [
        f"## {' '.join(['python', '-m', name])}\n\n{code(text)}"
        for name, text in zip(commands, printed, strict=True)
    ]
    make = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return paragraphs("# Commands", *sections, "## make", code(make))


def modules() -> list[str]:
    """The modules that are command lines, the package itself first."""
    own = sorted(path for path in (ROOT / "snn").glob("*.py") if _is_command(path))
    return ["snn", *(f"snn.{path.stem}" for path in own if path.stem != "__main__")]


def _is_command(path: Path) -> bool:
    return 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")


def help_of(module: str) -> str:
    """What a command prints when it is asked for its help."""
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    return (done.stdout or done.stderr).replace("``", "")
