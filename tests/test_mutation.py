"""The faults that ``make mutate`` plants, and the list of those that may survive."""

import sys

import pytest
import yaml
from conftest import ROOT

MUTATION = ROOT / "tests/mutation"
CODE = """\
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    X = 1 + 1


def f(a: int | None, *, b=None) -> int | None:
    try:
        a.close()
    except KeyError:
        return max(a, 1)
    return g(a, key=b, strict=True)
"""


@pytest.fixture
def mutants(monkeypatch):
    pytest.importorskip("cosmic_ray")
    monkeypatch.syspath_prepend(str(MUTATION))
    import mutants

    yield mutants
    for name in ("mutants", "trials"):
        sys.modules.pop(name, None)


def test_faults_are_planted_where_something_is_computed(mutants, tmp_path):
    (tmp_path / "some.py").write_text(CODE)
    found = [site.mutant(tmp_path) for site in mutants.sites_of(tmp_path, "some.py")]
    assert {(one.line, one.before, one.after.replace("( ", "(").replace(",  ", ", ")) for one in found} == {
        (9, "a.close()", "pass"),
        (10, "except KeyError:", "except GeneratorExit:"),
        (11, "return max(a, 1)", "return min(a, 1)"),
        (11, "return max(a, 1)", "return max(a, 2)"),
        (11, "return max(a, 1)", "return max(a, 0)"),
        (12, "return g(a, key=b, strict=True)", "return g(a, **{}, strict=True)"),
    }
    assert all(one.code != CODE for one in found)


def test_what_runs_once_is_a_matter_of_all_tests_of_its_file(mutants, tmp_path):
    """A constant, or a function whose result is kept: only the first test that asks for it runs its lines."""
    kept = "@cache\ndef f():\n    return 1\n\n\n"
    (tmp_path / "some.py").write_text(kept + "def g():\n    return 2\n\n\nA = 3\n")
    found = [site.mutant(tmp_path) for site in mutants.sites_of(tmp_path, "some.py")]
    assert {(one.before, one.at_import) for one in found} == {
        *(("return 1", True), ("return 2", False), ("A = 3", True))
    }


def test_a_mutant_is_not_taken_for_the_one_before_it(mutants, monkeypatch, tmp_path):
    """By what Python knows a compiled file: the size of its source, and the second of its last change."""
    pytest.importorskip("coverage")
    import trials

    path = tmp_path / "0/some.py"
    (tmp_path / "root").mkdir()
    (tmp_path / "root/some.py").write_text(CODE)
    copies = trials.Copies(tmp_path / "root", tmp_path, 1)
    found, known_by = [], lambda: (int(path.stat().st_mtime), path.stat().st_size)
    monkeypatch.setattr(copies, "_forked", lambda *given: found.append((known_by(), path.read_text())))
    before = known_by()
    codes = [CODE.replace("max(a, 1)", f"max({name}, 1)") for name in "abc"]
    of = [mutants.Mutant("some.py", 11, "", "", code, False) for code in codes]
    assert [killed for _, killed in copies.killed(of, trials.Covering())] == [True] * 3
    assert [code for _, code in found] == codes
    assert len({before, *(how for how, _ in found)}) == 4
    assert path.read_text() == CODE and known_by() == before


def test_every_survivor_in_the_list_has_a_reason():
    listed = yaml.safe_load((MUTATION / "survivors.yaml").read_text())
    for one in listed["left_out"]:
        assert list(ROOT.glob(one["files"]))
        assert one["reason"]
    for one in listed["survivors"]:
        assert one.keys() == {"file", "before", "after", "reason"}
        assert one["before"] != one["after"]
        assert one["reason"]
