"""Finds the files that a cell's measurement depends on, from the imports, and hashes them."""

import ast
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from snn.backends import kernel_source
from snn.backends.ops import OPS
from snn.config import groups
from snn.config.cell import Cell
from snn.files.project import ROOT, locate, path_in_clone
from snn.models import optimizers
from snn.models.network import MLP_DEFAULTS

_ASSETS = (".css", ".html", ".js", ".yaml", ".mplstyle")
_NEIGHBOUR = "snn.measurement.busy_neighbour"


class Sources(tuple[str, ...]):
    """Source files, relative to the checkout, sorted."""

    @property
    def digest(self) -> str:
        """SHA-256, shortened to 16 digits, of the names and contents of these files."""
        return _digest(self)


def cell_sources(cell: Cell) -> Sources:
    """The files that decide what a cell measures.

    They run between the first setting of the process and the last reading: threads, passes, strategy, data
    set and backend, and on CUDA the kernel and other kernels that the strategy launches. Code that composes
    the cell, takes locks, and writes provenance, progress and the record only describes the measurement.
    """
    backend, neighbour = cell.device.backend, cell.strategy_beside
    modules = (
        "snn.hardware.threads",
        "snn.measurement.passes",
        "snn.backends",
        f"snn.backends.{backend}.backend",
        _module_of(cell["strategy"]),
        *((_NEIGHBOUR, _module_of(groups.load("strategy", neighbour))) if neighbour else ()),
        *("snn.datasets", _module_of(cell["dataset"])),
    )
    if backend == "cpu":
        return module_sources(*modules)
    kernel = cell["kernel"]["source"]
    files = {*_with_kernels(modules, kernel)}
    if "kernels/elementwise.cu" not in files:
        return Sources(sorted(files))
    if cell["kernel"]["fused"]:
        files.update(_of_kernel(kernel_source.SPLIT_K))
    is_other = (
        cell["network"].keys() & {"layers", *MLP_DEFAULTS}
        or optimizers.of(cell["training"]) != optimizers.PLAIN
    )
    if is_other:  # also launched for other networks
        convolution = kernel_source.convolution(kernel, ROOT)
        files.update(operation.source for operation in OPS.values())
        files.update(_of_kernel(convolution) if convolution else ())
    return Sources(sorted(files))


def limits_sources(backend: str) -> Sources:
    """The files that decide how the limits of a device are measured."""
    return _backend_sources(backend, f"snn.backends.{backend}.limits")


def microbenchmark_sources(name: str, backend: str) -> Sources:
    """The files that decide what a microbenchmark measures."""
    from snn.grid.catalogue import MICROBENCHMARKS  # at the top it would be a source of every table

    measuring = f"snn.backends.{backend}.{MICROBENCHMARKS[name].module}"
    return _backend_sources(backend, f"snn.microbenchmarks.{name}", measuring)


def _backend_sources(backend: str, *modules: str) -> Sources:
    modules = ("snn.hardware.threads", *modules)
    return Sources(_with_kernels(modules, None)) if backend == "cuda" else module_sources(*modules)


def script_sources(script: str, *modules: str) -> Sources:
    """A script of the workflow, the modules that it imports, these ``modules``, and their templates."""
    files = closure([*_parsed(script).imports, *modules])
    return Sources(sorted({script} | files | assets(files)))


def module_sources(*modules: str) -> Sources:
    """The files of these modules and of what they import."""
    return Sources(_sorted(modules))


def dataset_digest(dataset: Mapping[str, Any]) -> str:
    """The digest of the code that makes a data set."""
    return module_sources("snn.datasets", _module_of(dataset)).digest


def closure(modules: Iterable[str]) -> set[str]:
    """The files of these modules and of every ``snn`` module that they import, at any depth."""
    files: set[str] = set()
    waiting = list(modules)
    while waiting:
        file = groups.module_file(waiting.pop())
        if file is not None and file not in files:
            files.add(file)
            waiting += _parsed(file).imports
    return files


def assets(files: Iterable[str]) -> set[str]:
    """The templates, style sheets, scripts and texts of pages in the folders of these files."""
    folders = {Path(file).parent for file in files}
    found = (path for folder in folders for path in locate(f"{folder}/").iterdir())
    return {path_in_clone(path) for path in found if path.suffix in _ASSETS}


def _module_of(choice: Mapping[str, Any]) -> str:
    return choice["_target_"].rpartition(".")[0]


@cache
def _sorted(modules: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(closure(modules)))


@cache
def _with_kernels(modules: tuple[str, ...], kernel: str | None) -> tuple[str, ...]:
    """The closure of these modules, their kernels and the chosen one, and the headers of all kernels."""
    files = _sorted(modules)
    sources = {kernel} - {None} | {source for file in files for source in _parsed(file).kernels}
    return tuple(sorted({*files, *(file for source in sources for file in _of_kernel(source))}))


@cache
def _of_kernel(source: str) -> list[str]:
    return [path_in_clone(path) for path in kernel_source.files(ROOT / source)]


@cache
def _digest(files: Sources) -> str:
    sha = hashlib.sha256()
    for file in files:
        sha.update(file.encode() + b"\0" + _content_digest(file))
    return sha.hexdigest()[:16]


@cache
def _content_digest(file: str) -> bytes:
    return hashlib.sha256(locate(file).read_bytes()).digest()


@dataclass(frozen=True)
class _Source:
    """The ``snn`` modules that a file imports at its top level, and its KERNELS.

    The names of the modules may include names of objects in them. Imports inside functions are choices.
    KERNELS lists the kernels that run in addition to the cell's chosen kernel.
    """

    imports: tuple[str, ...]
    kernels: tuple[str, ...]


# Patterns, since ``ast`` would parse every file whenever snakemake starts.
_COMMENT_OR_CONTINUATION = re.compile(r"#.*|\\\n")
_IMPORT = re.compile(r"^from (snn[\w.]*) import (\([^)]*\)|.*)|^import (snn[\w., ]*)", re.MULTILINE)
_KERNELS = re.compile(r"^KERNELS = (\([^)]*\))", re.MULTILINE)


@cache
def _parsed(file: str) -> _Source:
    text = _COMMENT_OR_CONTINUATION.sub("", locate(file).read_text(encoding="utf-8"))
    imports: list[str] = []
    for package, names, modules in _IMPORT.findall(text):
        if package:
            imports += [package, *(f"{package}.{name}" for name in re.findall(r"\w+", names))]
        else:
            imports += re.findall(r"snn[\w.]*", modules)
    kernels = [source for text in _KERNELS.findall(text) for source in ast.literal_eval(text)]
    return _Source(tuple(imports), tuple(kernels))
