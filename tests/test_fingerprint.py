"""How sources are found and digested: imports as Python sees them, styles beside modules, names, contents."""

import ast
import hashlib
import re

from conftest import ROOT

from snn.config import groups
from snn.grid import fingerprint


def test_imports_are_those_that_python_sees():
    """At the top level of every file; a name in a package may be a module."""

    def files(names):
        return {groups.module_file(name) for name in names if name.partition(".")[0] == "snn"} - {None}

    for folder in ("snn", "workflow/scripts", "scripts"):
        for path in (ROOT / folder).rglob("*.py"):
            seen = set()
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.Import):
                    seen |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    seen |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            found = fingerprint._parsed(path.relative_to(ROOT).as_posix())
            assert files(found.imports) == files(seen), path
            assert bool(found.kernels) == bool(re.search(r"^KERNELS\b", path.read_text(), re.MULTILINE))


def test_imports_are_seen_however_they_are_wrapped(tmp_path, monkeypatch):
    wrapped = "from snn.a import (  # (two)\n    b,  # and (c)\n    d as e,\n)\n"
    text = wrapped + "from snn.f import \\\n    g\nimport snn.h\n"
    (tmp_path / "one.py").write_text(text)
    monkeypatch.setattr(fingerprint, "locate", tmp_path.joinpath)
    fingerprint._parsed.cache_clear()
    found = set(fingerprint._parsed("one.py").imports)
    fingerprint._parsed.cache_clear()
    assert {"snn.a", "snn.a.b", "snn.a.d", "snn.f", "snn.f.g", "snn.h"} <= found
    assert not {"snn.a.two", "snn.a.c"} & found


def test_the_hash_follows_content_and_name(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "locate", tmp_path.joinpath)
    found = []
    for name, text in (("a.py", "1"), ("a.py", "2"), ("b.py", "2"), ("a.py", "1")):
        (tmp_path / name).write_text(text)
        for cached in (fingerprint._content_digest, fingerprint._digest):
            cached.cache_clear()
        found.append(fingerprint.Sources((name,)).digest)
    for cached in (fingerprint._content_digest, fingerprint._digest):
        cached.cache_clear()
    assert len(set(found)) == 3
    assert found[0] == found[3]


def test_pages_depend_on_the_styles_and_scripts_beside_their_modules():
    assert fingerprint.assets({"snn/report/write.py"}) == {
        "snn/report/opening.html",
        "snn/report/page.css",
        "snn/report/page.js",
        "snn/report/table.html",
        "snn/report/word.css",
        "snn/report/words.yaml",
    }
    assert fingerprint.assets({"snn/tables/columns.py"}) == {"snn/tables/columns.yaml"}
    assert fingerprint.assets({"snn/figures/style.py"}) == {"snn/figures/figures.mplstyle"}


def test_what_limits_and_scripts_are_made_of():
    on_cpu, on_gpu = (fingerprint.limits_sources(backend) for backend in ("cpu", "cuda"))
    assert "snn/backends/cpu/limits.py" in on_cpu and "snn/backends/cuda/limits.py" in on_gpu
    assert not any(file.startswith("kernels/") for file in on_cpu)
    assert any(file.startswith("kernels/") for file in on_gpu)
    assert [*on_cpu] == sorted(on_cpu) and [*on_gpu] == sorted(on_gpu)
    script = "workflow/scripts/build_table.py"
    plain, told = fingerprint.script_sources(script), fingerprint.script_sources(script, "snn.tables.paper")
    assert script in plain and [*plain] == sorted(plain)
    assert "snn/tables/paper.py" in told and "snn/tables/paper.py" not in plain
    assert "snn/report/page.css" in plain
    assert "snn/grid/catalogue.py" not in plain  # a new table is no reason to make the others again


def test_a_digest_of_files_is_of_names_and_contents():
    files = fingerprint.Sources(["LICENSE", "Makefile"])
    sha = hashlib.sha256()
    for file in files:
        sha.update(file.encode() + b"\0" + hashlib.sha256((ROOT / file).read_bytes()).digest())
    assert files.digest == sha.hexdigest()[:16]
    made_by = fingerprint.module_sources("snn.datasets", "snn.datasets.quadratic")
    assert {"snn/datasets/__init__.py", "snn/datasets/quadratic.py", "snn/errors.py"} <= {*made_by}
    assert fingerprint.dataset_digest(groups.load("dataset", "small")) == made_by.digest


def test_what_is_no_module_of_ours_has_no_file():
    assert fingerprint.closure(["numpy", "snn.nothing", "json"]) == set()
    assert groups.module_file("snn.grid") == "snn/grid/__init__.py"
    assert groups.module_file("snn.grid.naming") == "snn/grid/naming.py"
