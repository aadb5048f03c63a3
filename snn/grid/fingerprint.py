"""Which files a cell's measurement depends on, found from the imports, and their hash."""

import ast
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from snn.backends import kernel_source
from snn.config.groups import ROOT

_KERNELS = {
    "snn/strategies/common/device_driven.py": ["kernels/elementwise.cu"],
    "snn/strategies/common/single_launch.py": [
        "kernels/persistent/cluster.cu",
        "kernels/persistent/two_layers.cu",
        "kernels/persistent/three_layers.cu",
        "kernels/persistent/grid.cu",
    ],
}
"""What strategies launch that depend on a module, beside the kernel of their choice."""


_OF_LIMITS = ("kernels/limits/rates.cu", "kernels/limits/waits.cu")


def of_cell(cell: Mapping[str, Any]) -> list[str]:
    """The source files, relative to the checkout, that decide what a cell measures.

    The measurement and what it imports, the cell's strategy and data set, its backend, and on CUDA
    its kernel: an edit of one of these makes the cell's record out of date, an edit elsewhere does not.
    """
    modules = [
        "snn.measurement.runs",
        "snn.profiling.profile",
        f"snn.backends.{cell['device']['backend']}.backend",
        cell["strategy"]["_target_"].rpartition(".")[0],
        *of_dataset_modules(cell["dataset"]),
    ]
    files = closure(modules)
    if cell["device"]["backend"] == "cuda":
        kernels = {cell["kernel"]["source"]} - {None}
        for module, launched in _KERNELS.items():
            kernels |= set(launched) if module in files else set()
        files |= {file for kernel in kernels for file in _of_kernel(kernel)}
    return sorted(files)


def of_limits(backend: str) -> list[str]:
    """The source files, relative to the checkout, that decide what the limits of a device are measured as."""
    files = closure([f"snn.backends.{backend}.limits"])
    if backend == "cuda":
        files |= {file for kernel in _OF_LIMITS for file in _of_kernel(kernel)}
    return sorted(files)


def of_dataset_modules(dataset: Mapping[str, Any]) -> list[str]:
    """The modules that make a data set."""
    return ["snn.datasets", dataset["_target_"].rpartition(".")[0]]


def closure(modules: Iterable[str]) -> set[str]:
    """The files of these modules and of every ``snn`` module that they import, at any depth."""
    files: set[str] = set()
    waiting = list(modules)
    while waiting:
        file = _file_of(waiting.pop())
        if file is not None and file not in files:
            files.add(file)
            waiting += _imports(file)
    return files


def assets(files: Iterable[str]) -> set[str]:
    """The style sheets and scripts in the folders of these files: what a page that they write is made of."""
    folders = {Path(file).parent for file in files}
    found = (path for folder in folders for path in (ROOT / folder).iterdir())
    return {path.relative_to(ROOT).as_posix() for path in found if path.suffix in (".css", ".js")}


@cache
def _of_kernel(source: str) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in kernel_source.files(ROOT / source)]


@cache
def digest(files: tuple[str, ...]) -> str:
    """SHA-256, shortened to 16 digits, of the names and contents of these files."""
    total = hashlib.sha256()
    for file in files:
        total.update(file.encode() + b"\0" + _content_digest(file))
    return total.hexdigest()[:16]


@cache
def _content_digest(file: str) -> bytes:
    return hashlib.sha256((ROOT / file).read_bytes()).digest()


@cache
def _file_of(module: str) -> str | None:
    base = Path(*module.split("."))
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if (ROOT / candidate).is_file():
            return candidate.as_posix()
    return None


@cache
def _imports(file: str) -> list[str]:
    """The ``snn`` modules that a file imports at its top level; those inside functions are choices."""
    found = []
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8"), file).body:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.append(node.module)
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in found if name == "snn" or name.startswith("snn.")]
