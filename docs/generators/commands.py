"""The help of every command, as it prints it."""

import subprocess
from contextlib import redirect_stdout
from io import StringIO

from generators.links import ROOT
from generators.markdown import code, paragraphs
from snn import cli


def pages() -> dict[str, str]:
    return {"commands.md": page()}


def page() -> str:
    """A section for each command, and the targets of make."""
    names = ["", *cli.snn.commands]
    sections = [f"## snn {name}".rstrip() + f"\n\n{code(help_of(name))}" for name in names]
    make = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return paragraphs("# Commands", *sections, "## make", code(make))


def help_of(name: str) -> str:
    """Help text of a command or, without a name, of the program."""
    with redirect_stdout(StringIO()) as printed:
        cli.main([name, "--help"] if name else ["--help"])
    return printed.getvalue()
