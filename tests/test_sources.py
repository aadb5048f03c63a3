"""Which files a cell depends on: an edit re-runs the cells that it concerns and no others."""

from importlib import import_module

import pytest
from conftest import PEERS, STRATEGIES

from snn import choices, sources, strategies
from snn.config import composed

ALL = [*STRATEGIES, *PEERS]


def files(strategy, device="cuda", kernel="naive"):
    return set(sources.of_cell(composed([f"strategy={strategy}", f"device={device}", f"kernel={kernel}"])))


@pytest.mark.parametrize("name", ALL)
def test_a_strategy_depends_on_its_own_file_and_on_no_other_strategy(name):
    found = files(name)
    assert f"snn/strategies/{name}.py" in found
    module = import_module(strategies.class_of(choices.load("strategy", name)).__module__)
    imported = [one for one in vars(module).values() if isinstance(one, type)]
    named = {base.__module__ for one in imported for base in one.__mro__}
    others = {other for other in STRATEGIES if f"snn.strategies.{other}" not in named}
    assert not {f"snn/strategies/{other}.py" for other in others} & found
    assert {
        "snn/measure.py",
        "snn/strategies/base.py",
        "snn/network.py",
        "snn/datasets/quadratic.py",
    } <= found


def test_kernels_concern_the_gpu_only():
    assert "kernels/naive.cu" in files("reference")
    assert "snn/backends/cuda.py" in files("reference")
    assert "kernels/elementwise.cu" not in files("reference")
    assert {"kernels/naive.cu", "kernels/elementwise.cu"} <= files("resident")
    assert "kernels/entry_points.cuh" in files("resident", kernel="tiled_fused")
    assert "kernels/entry_points.cuh" not in files("resident")
    on_cpu = files("reference", "cpu")
    assert "snn/backends/cpu.py" in on_cpu
    assert not any(file.startswith("kernels/") or file.endswith("cuda.py") for file in on_cpu)


def test_what_only_shows_or_stores_results_is_no_source():
    for name in ALL:
        shown = ("snn/records", "snn/tables", "snn/figures", "snn/progress", "snn/provenance", "snn/config")
        assert not any(file.startswith(shown) for file in files(name))


def test_the_hash_follows_content_and_name(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    sources.digest.cache_clear()
    found = []
    for name, text in (("a.py", "1"), ("a.py", "2"), ("b.py", "2"), ("a.py", "1")):
        sources._content_digest.cache_clear()
        sources.digest.cache_clear()
        (tmp_path / name).write_text(text)
        found.append(sources.digest((name,)))
    sources._content_digest.cache_clear()
    sources.digest.cache_clear()
    assert len(set(found)) == 3
    assert found[0] == found[3]


def test_pages_depend_on_the_styles_and_scripts_beside_their_modules():
    assert sources.assets({"snn/tables/page.py"}) == {
        "snn/tables/page.css",
        "snn/tables/page.js",
        "snn/tables/word.css",
    }
    assert sources.assets({"snn/figures/style.py"}) == set()
