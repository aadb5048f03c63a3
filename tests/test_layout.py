"""The packages of ``snn`` are layers: each imports only those below it, and no modules import each other."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest
from conftest import ROOT

LAYERS = (
    *("errors", "files", "models", "datasets", "hardware", "records", "config", "backends", "strategies"),
    *("profiling", "microbenchmarks", "grid", "measurement", "training", "planning", "workflow", "analysis"),
    *("tables", "figures", "report", "recommending", "command lines"),
)
"""From the ground up. The modules beside the packages, but ``errors``, are the command lines."""

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "snn").rglob("*.py")
}


@cache
def tree(module):
    return ast.parse(FILES[module].read_text())


def imports(module, nodes):
    """The modules of ``snn`` that these nodes of a module's syntax tree import."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relative to itself"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found if name in FILES and name not in ("snn", module)}


def layer(module):
    """The number of the layer that a module stands in."""
    package, _, rest = module.removeprefix("snn.").partition(".")
    is_package = rest or (ROOT / "snn" / package / "__init__.py").exists()
    return LAYERS.index(package if is_package or package == "errors" else "command lines")


def test_every_package_is_a_layer():
    packages = {path.parent.name for path in (ROOT / "snn").glob("*/__init__.py")}
    assert packages == set(LAYERS) - {"errors", "command lines"}


def test_no_import_runs_up():
    """Those inside functions and of types alone as well."""
    upwards = [
        f"{module} imports {other}"
        for module in FILES
        if module != "snn"
        for other in imports(module, ast.walk(tree(module)))
        if layer(other) > layer(module)
    ]
    assert not upwards


def test_no_modules_import_each_other():
    """At their top levels; a function may import what chooses among the modules that import its own."""
    graph = {module: imports(module, tree(module).body) for module in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
