"""``snn init``: lay out a workflow to edit."""

import shlex
from pathlib import Path

from snn.errors import ConfigError, shown
from snn.files.outputs import replaced_folder
from snn.files.project import locate

_COPIES = {"examples/workflow": ".", "examples/wine.csv": "wine.csv", "profiles": "profiles"}
"""Folders and files of the project, and their places in the new folder."""

_TABLE = "results/tables/speedup.csv"


def lay_out(name: str) -> None:
    """Write a workflow into a new or empty folder: whole or not at all. Raises ConfigError for any other, and
    for the current folder, which is about to be replaced."""
    folder = Path(name)
    is_new = name and not folder.exists() and not folder.is_symlink()
    if not is_new and not (_is_empty_folder(folder) and folder.resolve() != Path.cwd()):
        raise ConfigError(
            f"FOLDER is {shown(name)}: it must be a new or empty folder, and not the current one"
        )
    with replaced_folder(folder, ()) as made:
        for source, target in _files().items():
            (made / target).parent.mkdir(parents=True, exist_ok=True)
            (made / target).write_bytes(source.read_bytes())
    there = shlex.quote(str(folder))
    print(f"{folder}: edit config/grid.yaml, then run: cd {there} && snakemake --cores 1 {_TABLE}")


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _files() -> dict[Path, Path]:
    found = {}
    for name, target in _COPIES.items():
        source = locate(name)
        for file in [source] if source.is_file() else source.rglob("*"):
            if file.is_file():
                found[file] = Path(target, file.relative_to(source))
    return found
