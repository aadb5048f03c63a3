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
def mutants(monkeypatch, tmp_path):
    pytest.importorskip("cosmic_ray")
    monkeypatch.syspath_prepend(str(MUTATION))
    monkeypatch.chdir(tmp_path)
    import mutants

    yield mutants
    for name in ("mutants", "trials"):
        sys.modules.pop(name, None)


def test_faults_are_planted_where_something_is_computed(mutants, tmp_path):
    (tmp_path / "some.py").write_text(CODE)
    found = [(one.line, *one.edit(tmp_path)) for one in mutants.mutants_in(tmp_path, "some.py")]
    assert {
        (line, before, after.replace("( ", "(").replace(",  ", ", ")) for line, before, after in found
    } == {
        (9, "a.close()", "pass"),
        (10, "except KeyError:", "except GeneratorExit:"),
        (11, "return max(a, 1)", "return min(a, 1)"),
        (11, "return max(a, 1)", "return max(a, 2)"),
        (11, "return max(a, 1)", "return max(a, 0)"),
        (12, "return g(a, key=b, strict=True)", "return g(a, **{}, strict=True)"),
    }


def test_what_runs_once_is_a_matter_of_all_tests_of_its_file(mutants, tmp_path):
    """A constant, or a function whose result is kept: only the first test that asks for it runs its lines."""
    kept = "@cache\ndef f():\n    return 1\n\n\n"
    (tmp_path / "some.py").write_text(kept + "def g():\n    return 2\n\n\nA = 3\n")
    found = mutants.mutants_in(tmp_path, "some.py")
    assert {(one.edit(tmp_path)[0], one.at_import(tmp_path)) for one in found} == {
        *(("return 1", True), ("return 2", False), ("A = 3", True))
    }


def test_a_mutant_is_killed_by_a_test_that_fails_and_taken_away_again(mutants, tmp_path):
    pytest.importorskip("coverage")
    import trials

    code = "def f():\n    return 2\n"
    (tmp_path / "some.py").write_text(code)
    found = [*mutants.mutants_in(tmp_path, "some.py")]
    killed = [
        trials.kills(one, [f"import some; assert some.f() != {wrong}"], 1.0, ("-c",))
        for one, wrong in zip(found, (3, 3), strict=True)
    ]
    assert [one.edit(tmp_path)[1].split()[-1] for one in found] == ["3", "1"] and killed == [True, False]
    assert (tmp_path / "some.py").read_text() == code


def test_every_survivor_in_the_list_has_a_reason():
    listed = yaml.safe_load((MUTATION / "survivors.yaml").read_text())
    for one in listed["left_out"]:
        assert list(ROOT.glob(one["files"])) and one["reason"]
    for one in listed["survivors"]:
        assert one.keys() == {"file", "before", "after", "reason"}
        assert one["before"] != one["after"] and one["reason"]
